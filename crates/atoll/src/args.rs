//! The command line as typed. Meaning and checks live in the commands.

use atoll_server::Settings;
use atoll_server::config::{SETTINGS, Setting};
use clap::{Arg, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;

/// A self-hosted code interpreter for AI agents
#[derive(Debug, Parser)]
#[command(name = "atoll", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run code once in a fresh sandbox
    Run(Box<RunArgs>),
    /// Build, list, show and remove templates
    Template(TemplateArgs),
    /// Check which isolation tiers this host supports; with --attack, test them with escape probes
    Doctor(DoctorArgs),
    /// Run the API server
    Serve(ServeArgs),
    /// Create, list and revoke API keys (works while a server is running)
    Keys(KeysArgs),
    /// List, show and terminate sandboxes on a server
    Sandbox(SandboxArgs),
    /// List and decide approval requests on a server
    Approvals(ApprovalsArgs),
    /// Read, verify, export and redact the audit log
    Audit(AuditArgs),
    /// Check, list and show code policies
    Policy(PolicyArgs),
}

impl Command {
    pub(crate) fn wants_json(&self) -> bool {
        match self {
            Self::Run(args) => args.json,
            Self::Doctor(args) => args.json,
            Self::Template(args) => match &args.command {
                TemplateCommand::Build { json, .. }
                | TemplateCommand::List { json }
                | TemplateCommand::Show { json, .. } => *json,
                TemplateCommand::Rm { .. } => false,
            },
            Self::Serve(_) => false,
            Self::Keys(args) => match &args.command {
                KeysCommand::Create(args) => args.json,
                KeysCommand::List { json } | KeysCommand::Revoke { json, .. } => *json,
            },
            Self::Approvals(args) => args.json,
            Self::Audit(args) => match &args.command {
                AuditCommand::Tail { json, .. } | AuditCommand::Show { json, .. } => *json,
                AuditCommand::Verify(args) => args.json,
                AuditCommand::Report(_)
                | AuditCommand::VerifyReport(_)
                | AuditCommand::Export(_)
                | AuditCommand::Redact { .. } => false,
            },
            Self::Policy(args) => match &args.command {
                PolicyCommand::Check(args) => args.json,
                PolicyCommand::List { json } | PolicyCommand::Show { json, .. } => *json,
            },
            Self::Sandbox(args) => match &args.command {
                SandboxCommand::Ls { json, .. }
                | SandboxCommand::Show { json, .. }
                | SandboxCommand::Kill { json, .. } => *json,
            },
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// File with the code to run; `-` reads standard input
    pub(crate) file: Option<PathBuf>,
    /// Code to run, instead of a file
    #[arg(
        short,
        long,
        value_name = "CODE",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    pub(crate) code: Option<String>,
    /// Language: python (py), bash (sh), javascript (js) or typescript (ts); the last two require Node.js [default: from the
    /// file extension, else python]
    #[arg(long)]
    pub(crate) lang: Option<String>,
    /// Isolation tier: wasm, jail, container, gvisor, microvm, or auto (the cheapest tier that can run the code and that the
    /// policy allows) [default: jail]
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// Limits profile: small (512 MiB memory, 1 CPU, 60 s) or data (4 GiB memory, 2 CPUs, 5 min)
    #[arg(long, default_value = "small")]
    pub(crate) profile: String,
    /// Memory limit of the sandbox, for example 1GiB [minimum: 64MiB]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) memory: Option<String>,
    /// CPU limit, for example 2 or 0.5 [minimum: 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) cpus: Option<String>,
    /// Wall-clock time limit of the execution, for example 500ms, 30s or 5m [maximum: 24h]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,
    /// CPU time limit of the execution, for example 30s or 2m [maximum: 24h]
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) cpu_time: Option<String>,
    /// Input file, mounted read-only at /data/input/NAME, or a directory, whose files appear below that name; can be repeated
    #[arg(long = "in", value_name = "PATH[=NAME]")]
    pub(crate) inputs: Vec<std::ffi::OsString>,
    /// Directory for output files and charts [default: ./atoll-out, created when needed; with --json, charts are saved only if
    /// --out is set]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Escape formulas in saved .csv and .tsv files so that spreadsheets treat them as text
    #[arg(long)]
    pub(crate) csv_safe: bool,
    /// Set an environment variable for the code; can be repeated
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// Set a secret environment variable for the code and redact its value in all output: NAME copies the value from atoll's own
    /// environment, NAME=@FILE reads it from a file; can be repeated
    #[arg(long, value_name = "NAME[=@FILE]")]
    pub(crate) secret: Vec<String>,
    /// Hosts the code may reach; only `none` is supported today
    #[arg(long, default_value = "none", value_name = "none|HOST[,HOST]")]
    pub(crate) net: String,
    /// Policy that checks the code before it runs: open, standard, guarded, strict, or a file [default: standard]
    #[arg(long)]
    pub(crate) policy: Option<String>,
    /// Run without saving anything: report the files the code would write, the hosts it tried to reach and the programs it started,
    /// then prompt on the terminal before saving
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Template to run in [default: python-data; with --server, the server's default]
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// Remove escape sequences and invisible characters from the code's output [default: escaped as \u{1b} on a terminal, unchanged
    /// in a pipe]
    #[arg(long, conflicts_with = "json")]
    pub(crate) strip: bool,
    /// Return results unsanitized: keep scripts, links, remote images and forms
    #[arg(long)]
    pub(crate) raw_results: bool,
    /// Print one JSON object instead of the code's output
    #[arg(long)]
    pub(crate) json: bool,
    /// Run on this server instead of locally; the API key is read from ATOLL_API_KEY, or from the first-key file of a server on this
    /// host
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
    /// With an https server: trust the CA certificates in this PEM file instead of the host's
    #[arg(long, value_name = "FILE", env = "ATOLL_CACERT")]
    pub(crate) cacert: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    pub(crate) command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// Build a template; does nothing if it is already built
    Build {
        /// Template name, as listed by `atoll template list`; with --from, the name of the new template [default: python-data]
        name: Option<String>,
        /// Build from a container image: `oci:PATH` (an OCI layout or a tar of one), `docker-archive:FILE` (from `docker save`) or
        /// `docker://NAME:TAG` (from a registry); code from the image runs only inside sandboxes. With --add, the name of the
        /// template to start from [default: python-data]
        #[arg(long, value_name = "IMAGE|TEMPLATE")]
        from: Option<String>,
        /// Build a new template with these packages added; a value may have a version, for example `nltk>=3.9`
        #[arg(long, value_name = "PACKAGE", num_args = 1.., conflicts_with_all = ["given", "force"])]
        add: Vec<String>,
        /// Name of the new template, with --from
        #[arg(long = "name", value_name = "NAME", requires = "from", conflicts_with = "name")]
        given: Option<String>,
        /// Rebuild even if the template is already built
        #[arg(long)]
        force: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List built-in and built templates
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one template
    Show {
        /// Template name, as listed by `atoll template list`
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a built template
    Rm {
        /// Template name, as listed by `atoll template list`
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Run the escape probes against sandboxes of this installation and report each result; exits with 0 if all were contained, 5 on
    /// a breach, 1 if a probe was inconclusive
    #[arg(long)]
    pub(crate) attack: bool,
    /// Tier to attack: jail, container, gvisor or microvm
    #[arg(long, requires = "attack", default_value = "jail")]
    pub(crate) tier: String,
    /// Template to attack [default: python-data]
    #[arg(long, requires = "attack")]
    pub(crate) template: Option<String>,
    /// Report file; JSON if the name ends in .json, else Markdown [default: atoll-attack-TIME.md]
    #[arg(long, requires = "attack", value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Configuration file [default: atoll.toml in the data directory, if present]
    #[arg(long, value_name = "FILE", env = "ATOLL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Print every setting with its value and source, then exit
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// One flag per server setting, generated from the list of settings.
#[derive(Debug)]
pub(crate) struct SettingFlags(pub(crate) Vec<(&'static str, String)>);

impl Args for SettingFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = command.next_help_heading(
            "Settings (also available as ATOLL_* environment variables and configuration file keys)",
        );
        let defaults = Settings::default();
        command.args(SETTINGS.iter().map(|setting| {
            let arg = Arg::new(setting.name)
                .long(setting.flag())
                .help(setting.help(&defaults))
                .value_name(setting.value_name());
            match setting.is_switch() {
                // A bare `--insecure-no-auth` is enough.
                true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                false => arg.allow_hyphen_values(true),
            }
        }))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SettingFlags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |setting: &Setting| Some((setting.name, matches.get_one::<String>(setting.name)?.clone()));
        Ok(Self(SETTINGS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[derive(Debug, Args)]
pub(crate) struct KeysArgs {
    #[command(subcommand)]
    pub(crate) command: KeysCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum KeysCommand {
    /// Create a key and print it (it is shown only once)
    Create(CreateKeyArgs),
    /// List keys, including revoked ones, without their secrets
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key permanently; running servers reject it within one second
    Revoke {
        /// Key id, as listed by `atoll keys list`
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateKeyArgs {
    /// Descriptive name of the key
    #[arg(long)]
    pub(crate) name: String,
    /// Tenant that owns everything created with the key
    #[arg(long, default_value = "default")]
    pub(crate) tenant: String,
    /// Scopes: run, read, approve, admin
    #[arg(long, default_value = "run,read", value_name = "SCOPE[,SCOPE]")]
    pub(crate) scope: String,
    /// Quota: live_sandboxes, creates_per_minute, cpu_seconds_per_day or bytes_per_day; can be repeated
    #[arg(long, value_name = "QUOTA=VALUE")]
    pub(crate) quota: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SandboxArgs {
    #[command(subcommand)]
    pub(crate) command: SandboxCommand,
    /// Act on another tenant; requires a key with scope admin
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Server URL; the API key is read from ATOLL_API_KEY, or from the first-key file of a server on this host
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ATOLL_SERVER",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
    /// With an https server: trust the CA certificates in this PEM file instead of the host's
    #[arg(long, global = true, value_name = "FILE", env = "ATOLL_CACERT")]
    pub(crate) cacert: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// List the tenant's sandboxes, newest first
    Ls {
        /// Include sandboxes that ended in the last 24 hours
        #[arg(long)]
        all: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one sandbox; for 24 hours after its end, with the reason
    Show {
        /// Sandbox id, as listed by `atoll sandbox ls`
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Terminate a sandbox immediately
    Kill {
        /// Sandbox id, as listed by `atoll sandbox ls`
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ApprovalsCommand>,
    /// Filter by status: pending, approved, denied, expired, cancelled, revoked or all [default: pending]
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Act on another tenant; requires a key with scope admin
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Server URL; the API key is read from ATOLL_API_KEY, or from the first-key file of a server on this host
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ATOLL_SERVER",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
    /// With an https server: trust the CA certificates in this PEM file instead of the host's
    #[arg(long, global = true, value_name = "FILE", env = "ATOLL_CACERT")]
    pub(crate) cacert: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List the tenant's approval requests, newest first
    List {
        /// Filter by status: pending, approved, denied, expired, cancelled, revoked or all [default: pending]
        #[arg(long)]
        status: Option<String>,
    },
    /// Show one approval request: requesting key, findings and code
    Show {
        /// Approval id, as listed by `atoll approvals`
        id: String,
    },
    /// Approve a request; requires a different key than the requesting one
    Approve {
        /// Approval id, as listed by `atoll approvals`
        id: String,
        /// Extent of the approval: once (this execution), session (the same rules in this sandbox) or digest (this exact code in
        /// this tenant)
        #[arg(long, default_value = "once", value_parser = ["once", "session", "digest"])]
        scope: String,
    },
    /// Deny a request; requires a different key than the requesting one
    Deny {
        /// Approval id, as listed by `atoll approvals`
        id: String,
        /// Reason shown to the requester
        #[arg(long)]
        reason: Option<String>,
    },
    /// Revoke an approval of scope session or digest
    Revoke {
        /// Approval id, as listed by `atoll approvals`
        id: String,
    },
    /// Download the files of an approved dry run
    Fetch {
        /// Approval id, as listed by `atoll approvals`
        id: String,
        /// Directory to save the files in
        #[arg(long, value_name = "DIR", default_value = "atoll-out")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
    /// Audit log directory [default: the configured one, else `audit` in the data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest entries
    Tail {
        /// Number of entries
        #[arg(short = 'n', long, default_value_t = 20)]
        count: usize,
        /// Keep printing new entries as they are written
        #[arg(short, long)]
        follow: bool,
        #[command(flatten)]
        filter: FilterArgs,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Show one entry, or all entries of a sandbox or an execution
    Show {
        /// Entry number, as shown by `atoll audit tail`, or the id of a sandbox (sbx…) or of an execution (exec_…)
        id: String,
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Verify that the log is intact; needs only the log files and the public key
    Verify(VerifyArgs),
    /// Report which code ran, who approved it, in which tier, and which data left, as text or as a verifiable HTML file
    Report(ReportArgs),
    /// Verify an HTML report; needs only the file and the public key
    VerifyReport(VerifyReportArgs),
    /// Export entries, one JSON object per line, or the executions of a sandbox as a notebook
    Export(ExportArgs),
    /// Erase the private fields of entries: code, names, addresses, commands, errors
    Redact {
        /// Entry numbers
        #[arg(required = true)]
        ids: Vec<u64>,
        /// Reason, recorded in the log
        #[arg(long)]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Public key [default: key.pub in the log directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// Record that the log must contain, as printed after `head` by an earlier `verify`
    #[arg(long, value_name = "SEQ:HASH")]
    pub(crate) expect: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Only entries of this sandbox
    #[arg(long, value_name = "ID")]
    pub(crate) sandbox: Option<String>,
    /// Only entries of the API key with this name or id
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key: Option<String>,
    /// Only entries at or after this time, for example 2026-01-31T12:00:00Z, or a time span before now, for example 1h
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only entries before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Write the report and its proof as one HTML file, signed with the key of the log
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct VerifyReportArgs {
    /// HTML file, as written by `atoll audit report --html`
    pub(crate) file: PathBuf,
    /// Public key: key.pub of the log directory, from a place that is trusted
    #[arg(long, value_name = "FILE")]
    pub(crate) key: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Output format: Atoll's own JSON Lines, OCSF 1.3 (API Activity), or a Jupyter notebook of the executions of a sandbox
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    /// Sandbox of the notebook; only with --format ipynb
    #[arg(long, value_name = "ID")]
    pub(crate) sandbox: Option<String>,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FilterArgs {
    /// Only entries at or after this time, for example 2026-01-31T12:00:00Z, or a time span before now, for example 1h
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Only entries before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Only entries of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Only entries with this outcome, for example denied
    #[arg(long, value_name = "NAME")]
    pub(crate) outcome: Option<String>,
    /// Only entries of the API key with this name or id
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Ocsf,
    Ipynb,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy file, or check code against it; exits with 2 if the policy is invalid, 3 if it denies the code or requires
    /// approval
    Check(CheckArgs),
    /// List the built-in policies
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a policy's verdict for each rule
    Show {
        /// Built-in policy name or policy file
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Policy file or built-in policy name
    pub(crate) policy: String,
    /// File with code to check; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) code: Option<PathBuf>,
    /// Language of the code [default: from the file extension, else python]
    #[arg(long)]
    pub(crate) lang: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
