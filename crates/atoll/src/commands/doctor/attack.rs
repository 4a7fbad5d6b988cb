//! `atoll doctor --attack`: every shipped probe against this install, a table, and a report file.

use super::DEFAULT_TEMPLATE;
use crate::args::DoctorArgs;
use crate::commands::template::{self, print, print_json};
use crate::commands::{audit, tier_settings, usable_home};
use crate::output::{Failure, note, visible};
use atoll_attack::bench::Bench;
use atoll_attack::{AttackError, Finding, Ground, Report, Verdict, attack, steps};
use atoll_core::Tier;
use atoll_core::outcome::ExitStatus;
use atoll_engine::template::TemplateStore;
use atoll_engine::{Audit, EngineConfig, Walls, Warmth};
use indicatif::{ProgressBar, ProgressStyle};
use std::fs::File;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use time::OffsetDateTime;
use time::macros::format_description;

/// Said before anything is done.
const BEFORE: &str = "\
Runs escape probes against sandboxes of this installation, for about a minute. Effects on this host:
- creates and terminates its own sandboxes; running sandboxes and servers are not affected
- as controls, starts some sandboxes with a layer disabled and a few unsandboxed processes; only Atoll's probes run in them
- resource probes are bounded: at most 200 MiB of memory in each of three sandboxes, 200 processes and 8 s of CPU time
- creates canary files in the temporary directory and listeners on the loopback interface, and removes them afterwards
- sends nothing over the network; every execution is recorded in the audit log
";

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitStatus, Failure> {
    let tier = check_tier(&args.tier)?;
    let (path, mut file) = report_file(args.report.as_deref())?;
    let attacked = attacked(args, tier);
    let report = match attacked {
        Ok(report) => report,
        Err(failure) => {
            // Made for nothing.
            std::fs::remove_file(&path).ok();
            return Err(failure);
        }
    };
    write(&mut file, &path, &report)?;
    match args.json {
        true => print_json(&report)?,
        false => print(&table(&report))?,
    };
    note(&format!("report: {}\n", visible(&path.display().to_string())));
    Ok(report.summary.exit_status())
}

fn check_tier(name: &str) -> Result<Tier, Failure> {
    let tier: Tier = name.parse().map_err(|error| Failure::bad(&error))?;
    match tier {
        Tier::Jail | Tier::Container | Tier::Gvisor | Tier::Microvm => Ok(tier),
        Tier::Wasm | Tier::Auto => Err(Failure::no_wall(
            format!("attack probes do not support tier `{tier}`"),
            "use --tier jail, container, gvisor or microvm",
        )),
    }
}

/// Made before the work, so that a place that cannot be written to is told at once. A report that is there stays.
fn report_file(asked: Option<&Path>) -> Result<(PathBuf, File), Failure> {
    let own = || {
        let format = format_description!("[year][month][day]T[hour][minute][second]Z");
        let now = OffsetDateTime::now_utc().format(format).unwrap_or_default();
        PathBuf::from(format!("atoll-attack-{now}.md"))
    };
    let path = asked.map_or_else(own, Path::to_owned);
    let file = File::create_new(&path);
    let shown = path.display();
    let file = file.map_err(|error| Failure::usage(format!("cannot create the report file `{shown}`: {error}")))?;
    Ok((path, file))
}

fn write(file: &mut File, path: &Path, report: &Report) -> Result<(), Failure> {
    let text = match path.extension().is_some_and(|end| end == "json") {
        true => serde_json::to_string_pretty(report).map_err(|error| Failure::ours(&error))? + "\n",
        false => report.markdown(),
    };
    file.write_all(text.as_bytes()).map_err(|error| Failure::ours(&error))
}

fn attacked(args: &DoctorArgs, tier: Tier) -> Result<Report, Failure> {
    let home = usable_home()?;
    let store = TemplateStore::new(home.clone());
    let template = template::known(&store, args.template.as_deref().unwrap_or(DEFAULT_TEMPLATE))?;
    let log = audit::log_of(&home)?;
    let template = template::open(&store, &log, template)?;
    let audit = Audit::Log(log);
    let program = std::env::current_exe().map_err(|error| Failure::ours(&error))?;
    let bench = Bench {
        config: EngineConfig {
            tier,
            settings: tier_settings(&home)?,
            home,
            program,
            warmth: Warmth::Warm,
            walls: Walls::default(),
            audit,
        },
        template,
        ground: Ground::default(),
    };
    note(BEFORE);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    let bar = bar();
    let done = runtime.block_on(until_signalled(attack(&bench, &|what: &str| step(&bar, what))));
    bar.finish_and_clear();
    done
}

/// A signal drops the attack: its engines go with their channels, its canaries are removed.
async fn until_signalled(attack: impl Future<Output = Result<Report, AttackError>>) -> Result<Report, Failure> {
    let signal = crate::bar::any_signal();
    tokio::select! {
        done = attack => done.map_err(|error| fail(&error)),
        _ = signal => Err(Failure {
            status: ExitStatus::CodeFailed,
            message: "interrupted: the attack did not finish, so there is no verdict".to_owned(),
            hint: None,
        }),
    }
}

fn fail(error: &AttackError) -> Failure {
    match error {
        AttackError::Engine(error) => Failure::of_engine(error),
        AttackError::Io { .. } | AttackError::Words(_) => Failure::ours(error),
    }
}

fn bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(steps());
    if let Ok(style) = ProgressStyle::with_template("[{bar:30}] {percent}% {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    bar
}

/// A bar on a terminal, lines elsewhere.
fn step(bar: &ProgressBar, what: &str) {
    bar.set_message(what.to_owned());
    bar.inc(1);
    if bar.is_hidden() {
        note(&format!("running {what}\n"));
    }
}

/// One line per probe; what did not stay inside says why.
fn table(report: &Report) -> String {
    let host = &report.host;
    let mut text = format!(
        "tier {}, kernel {}, user {} ({}), template {} {}\n\n",
        report.tier, host.kernel, host.user, host.mode, report.template.name, report.template.digest
    );
    report
        .findings
        .iter()
        .for_each(|finding| text.push_str(&lines(finding)));
    text.push_str(&format!("\n{} ({} s)\n", report.summary.in_words(), report.seconds));
    text
}

fn lines(finding: &Finding) -> String {
    let verdict = match finding.verdict {
        Verdict::Breached => "BREACHED",
        Verdict::Inconclusive | Verdict::Contained => finding.verdict.as_str(),
    };
    let mut text = format!("{:<6} {verdict:<13} {}\n", finding.id, finding.claim);
    let evidence = match finding.verdict {
        Verdict::Contained => &finding.seen[..finding.seen.len().min(1)],
        Verdict::Breached | Verdict::Inconclusive => &finding.why[..],
    };
    for line in evidence {
        text.push_str(&format!("{:<20} {}\n", "", shortened(&visible(line))));
    }
    text
}

/// The whole of it is in the report.
fn shortened(line: &str) -> String {
    const LONGEST: usize = 100;
    match line.chars().count() {
        0..=LONGEST => line.to_owned(),
        _ => line.chars().take(LONGEST).chain(" …".chars()).collect(),
    }
}
