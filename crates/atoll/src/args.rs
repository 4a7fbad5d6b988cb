//! The command line as typed. Meaning and checks live in the commands.

use atoll_server::config::{SETTINGS, Setting};
use clap::{Arg, ArgMatches, Args, FromArgMatches, Parser, Subcommand};
use std::path::PathBuf;

/// Runs model-written code behind real walls.
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
    /// Show what this machine can do, layer by layer; with --attack, whether the walls hold
    Doctor(DoctorArgs),
    /// Serve the API
    Serve(ServeArgs),
    /// Make, list and revoke keys; also while a server runs
    Keys(KeysArgs),
    /// List, show and end sandboxes of a server
    Sandbox(SandboxArgs),
    /// List and answer what policies ask about on a server
    Approvals(ApprovalsArgs),
    /// Read, check and export the audit log
    Audit(AuditArgs),
    /// Check, list and show policies: what code may say
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
                AuditCommand::Export(_) | AuditCommand::Redact { .. } => false,
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
    /// File with the code; `-` reads standard input
    pub(crate) file: Option<PathBuf>,
    /// The code itself
    #[arg(
        short,
        long,
        value_name = "CODE",
        conflicts_with = "file",
        allow_hyphen_values = true
    )]
    pub(crate) code: Option<String>,
    /// python, bash, or javascript and typescript where the machine has Node; also py, sh, js and ts [default: as the file's name ends,
    /// else python]
    #[arg(long)]
    pub(crate) lang: Option<String>,
    /// The wall: wasm, jail, container, gvisor, microvm, or auto for the cheapest that can run the code and that the policy allows
    /// [default: jail]
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// small (512 MiB, 1 processor, 60 s) or data (4 GiB, 2 processors, 5 min)
    #[arg(long, default_value = "small")]
    pub(crate) profile: String,
    /// Memory of the sandbox, like 1GiB; at least 64MiB
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) memory: Option<String>,
    /// Processors, like 2 or 0.5; at least 0.1
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) cpus: Option<String>,
    /// Wall-clock time of the execution, like 500ms, 30s or 5m; at most 24h
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) timeout: Option<String>,
    /// Processor time of the execution, like 30s or 2m; at most 24h
    #[arg(long, allow_negative_numbers = true)]
    pub(crate) cpu_time: Option<String>,
    /// Input file, shown read-only as /data/input/NAME; can be repeated
    #[arg(long = "in", value_name = "PATH[=NAME]")]
    pub(crate) inputs: Vec<std::ffi::OsString>,
    /// Where charts and files are saved [default: ./atoll-out if there are any; with --json the files only]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Save .csv and .tsv files so that a spreadsheet takes nothing in them for a formula
    #[arg(long)]
    pub(crate) csv_safe: bool,
    /// Environment variable for the code; can be repeated
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// Environment variable for the code that is redacted in all that comes back: NAME takes the value of this process's own variable,
    /// NAME=@FILE that of a file; can be repeated
    #[arg(long, value_name = "NAME[=@FILE]")]
    pub(crate) secret: Vec<String>,
    /// Hosts that the code may reach; `none` is the only value the jail knows today
    #[arg(long, default_value = "none", value_name = "none|HOST[,HOST]")]
    pub(crate) net: String,
    /// What the code is held against before it runs: open, standard, guarded, strict, or a file [default: standard]
    #[arg(long)]
    pub(crate) policy: Option<String>,
    /// Run it with its effects held: show which files it would write, which hosts it tried to reach and which programs it started, then
    /// ask on the terminal before anything is saved
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Template to run in [default: python-data; with --server the server's own]
    #[arg(long)]
    pub(crate) template: Option<String>,
    /// Take escape sequences and hidden characters out of the code's text [default: shown as \u{1b} on a terminal, kept in a pipe]
    #[arg(long, conflicts_with = "json")]
    pub(crate) strip: bool,
    /// Results as the code made them: with scripts, links, remote images and forms that are else left out
    #[arg(long)]
    pub(crate) raw_results: bool,
    /// Print one JSON object instead of the code's output
    #[arg(long)]
    pub(crate) json: bool,
    /// Run on a server instead of here; its key is ATOLL_API_KEY, or the first key of a server on this machine
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    pub(crate) command: TemplateCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TemplateCommand {
    /// Build a template, or do nothing if it is there
    Build {
        /// Its name, as `atoll template list` shows it; with --from, the name to give it [default: python-data]
        name: Option<String>,
        /// Make it of an image: `oci:PATH` (a layout or a tar of one), `docker-archive:FILE` (what `docker save` writes) or
        /// `docker://NAME:TAG` (from a registry); nothing of the image runs outside of a sandbox
        #[arg(long, value_name = "IMAGE")]
        from: Option<String>,
        /// The name to give it, with --from
        #[arg(long = "name", value_name = "NAME", requires = "from", conflicts_with = "name")]
        given: Option<String>,
        /// Build it again
        #[arg(long)]
        force: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// List shipped and built templates
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show one template
    Show {
        /// Its name, as `atoll template list` shows it
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a built template
    Rm {
        /// Its name, as `atoll template list` shows it
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Try to leave a sandbox of this very install, and tell what became of each try; exit code 0 if all stayed inside, 5 for a
    /// breach, 1 for what could not be shown
    #[arg(long)]
    pub(crate) attack: bool,
    /// The tier to attack: jail, container, gvisor or microvm
    #[arg(long, requires = "attack", default_value = "jail")]
    pub(crate) tier: String,
    /// The template to attack [default: python-data]
    #[arg(long, requires = "attack")]
    pub(crate) template: Option<String>,
    /// Where the report is written; JSON if the name ends in .json, else Markdown [default: atoll-attack-TIME.md]
    #[arg(long, requires = "attack", value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Settings file [default: atoll.toml in the data directory, if there is one]
    #[arg(long, value_name = "FILE", env = "ATOLL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// Show every setting with its value and where that came from, and serve nothing
    #[arg(long)]
    pub(crate) print_config: bool,
    #[command(flatten)]
    pub(crate) settings: SettingFlags,
}

/// One flag per setting of the server, from the one list of them.
#[derive(Debug)]
pub(crate) struct SettingFlags(pub(crate) Vec<(&'static str, String)>);

impl Args for SettingFlags {
    fn augment_args(command: clap::Command) -> clap::Command {
        let command = command.next_help_heading("Settings (also ATOLL_* variables and keys of the settings file)");
        command.args(SETTINGS.iter().map(|setting| {
            let arg = Arg::new(setting.name).long(setting.flag()).help(setting.about);
            match setting.is_switch() {
                // A bare `--insecure-no-auth` is enough.
                true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
                false => arg.value_name("VALUE").allow_hyphen_values(true),
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
    /// Make a key and show it, this once
    Create(CreateKeyArgs),
    /// List keys without their secrets, revoked ones included
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a key for good; a running server refuses it within a second
    Revoke {
        /// The key's id, as `atoll keys list` shows it
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CreateKeyArgs {
    /// What it is for, for people
    #[arg(long)]
    pub(crate) name: String,
    /// Who owns what the key makes
    #[arg(long, default_value = "default")]
    pub(crate) tenant: String,
    /// What it allows: run, read, approve, admin
    #[arg(long, default_value = "run,read", value_name = "SCOPE[,SCOPE]")]
    pub(crate) scope: String,
    /// What it may use: live_sandboxes, creates_per_minute, cpu_seconds_per_day, bytes_per_day; can be repeated
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
    /// Another tenant than the key's own; the key needs the scope admin
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// The server; its key is ATOLL_API_KEY, or the first key of a server on this machine
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ATOLL_SERVER",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SandboxCommand {
    /// List sandboxes of the key's tenant, newest first
    Ls {
        /// Those that ended in the last 24 hours, too
        #[arg(long)]
        all: bool,
        #[arg(long)]
        json: bool,
    },
    /// Show one sandbox; after its end with the reason, for 24 hours
    Show {
        id: String,
        #[arg(long)]
        json: bool,
    },
    /// End a sandbox now
    Kill {
        id: String,
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ApprovalsCommand>,
    /// Those of this status: pending, approved, denied, expired, cancelled, revoked or all [default: pending]
    #[arg(long)]
    pub(crate) status: Option<String>,
    /// Another tenant than the key's own; the key needs the scope admin
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// The server; its key is ATOLL_API_KEY, or the first key of a server on this machine
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "ATOLL_SERVER",
        default_value = "http://127.0.0.1:7070"
    )]
    pub(crate) server: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ApprovalsCommand {
    /// List approvals of the key's tenant, newest first
    List {
        /// Those of this status: pending, approved, denied, expired, cancelled, revoked or all [default: pending]
        #[arg(long)]
        status: Option<String>,
    },
    /// Show one approval: who asks, what was found, the code
    Show { id: String },
    /// Say yes; not with the key that asks
    Approve {
        id: String,
        /// once (this execution), session (what these rules are about, in this sandbox) or digest (this code, in this tenant)
        #[arg(long, default_value = "once", value_parser = ["once", "session", "digest"])]
        scope: String,
    },
    /// Say no; not with the key that asks
    Deny {
        id: String,
        /// What who asks is told
        #[arg(long)]
        reason: Option<String>,
    },
    /// Take back an approval that holds for a sandbox or for a digest
    Revoke { id: String },
    /// Save the files of a dry run that was approved
    Fetch {
        id: String,
        /// Where
        #[arg(long, value_name = "DIR", default_value = "atoll-out")]
        out: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(subcommand)]
    pub(crate) command: AuditCommand,
    /// Directory of the log [default: as a server finds it, else audit in the data directory]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Show the newest entries
    Tail {
        /// How many
        #[arg(short = 'n', long, default_value_t = 20)]
        count: usize,
        /// Go on with what comes
        #[arg(short, long)]
        follow: bool,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Show one entry, or all of a sandbox or an execution
    Show {
        /// Its number, as `atoll audit tail` shows it, or the id of a sandbox (sbx…) or of an execution (exec_…)
        id: String,
        /// Print JSON, one object per line
        #[arg(long)]
        json: bool,
    },
    /// Check that nothing was changed; needs the files and the public key only
    Verify(VerifyArgs),
    /// Print entries for other programs, one JSON object per line
    Export(ExportArgs),
    /// Erase what is private of entries: code, names, addresses, commands, errors
    Redact {
        /// Their numbers
        #[arg(required = true)]
        ids: Vec<u64>,
        /// Why, for those who read the log later
        #[arg(long)]
        reason: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// Public key [default: key.pub beside the log]
    #[arg(long, value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
    /// A record that must be there, as an earlier `verify` printed its head
    #[arg(long, value_name = "SEQ:HASH")]
    pub(crate) expect: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// Atoll's own words, or OCSF 1.3 (API Activity)
    #[arg(long, value_enum, default_value = "jsonl")]
    pub(crate) format: ExportFormat,
    /// Entries from this time on, like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME")]
    pub(crate) since: Option<String>,
    /// Entries before this time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// Entries of this tenant
    #[arg(long, value_name = "NAME")]
    pub(crate) tenant: Option<String>,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(crate) enum ExportFormat {
    Jsonl,
    Ocsf,
}

#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    pub(crate) command: PolicyCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Check a policy, and code against it; exit code 2 for a bad policy, 3 for code that it denies or asks about
    Check(CheckArgs),
    /// List the shipped policies
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a policy says about each rule
    Show {
        /// A shipped name or a file
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The policy: a file, or a shipped name
    pub(crate) policy: String,
    /// File with code to hold against it; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) code: Option<PathBuf>,
    /// The code's language [default: as the file's name ends, else python]
    #[arg(long)]
    pub(crate) lang: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
