//! `atoll audit tail|show|verify|report|verify-report|export|redact`: the audit log of this data directory, or of a copy of it.

mod filter;
mod report;
mod shown;

use super::template::{print, print_json, written};
use super::{home, sources, usable_home};
use crate::args::{AuditArgs, AuditCommand, ExportArgs, ExportFormat, VerifyArgs};
use crate::output::{Failure, visible};
use atoll_core::outcome::ExitStatus;
use atoll_core::{ExecutionId, SandboxId};
use atoll_engine::audit::{
    AuditError, AuditLog, AuditOptions, Closing, Digest, Ending, Index, Opening, Place, PublicKey, Query, View,
    notebook, ocsf, verify,
};
use atoll_engine::{EngineError, TierError};
use atoll_server::config::resolve_audit;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How often a log that is followed is looked at.
const LOOK: Duration = Duration::from_millis(300);
const PAGE: usize = 500;
/// More than a segment of the log.
const LEAST_FILE_BYTES: u64 = 64 << 20;

/// Where commands that run without a server write.
pub(crate) fn log_of(home: &Path) -> Result<Arc<AuditLog>, Failure> {
    check_file_size()?;
    AuditLog::open(options(home)?).map_err(|error| unusable(&error))
}

/// As the settings of a server say, so that all of a data directory write to one log.
fn options(home: &Path) -> Result<AuditOptions, Failure> {
    let settings = resolve_audit(&sources(home)).map_err(|error| Failure::bad(&error))?;
    Ok(settings.options(home))
}

/// Does something that is not done in a sandbox, between the two halves of its entry.
pub(crate) fn noted<T>(
    log: &Arc<AuditLog>,
    opening: Opening<'_>,
    work: impl FnOnce() -> Result<T, Failure>,
    facts: impl FnOnce(&T) -> Closing,
) -> Result<T, Failure> {
    let entry = log.begin(opening).map_err(|error| unusable(&error))?;
    let done = work();
    entry.close(match &done {
        Ok(done) => facts(done),
        Err(_) => Closing::of(Ending::Failed),
    });
    done
}

/// The kernel ends who writes more to a file than a shell has allowed: better said before.
fn check_file_size() -> Result<(), Failure> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let (current, maximum) = (None, None);
    if setrlimit(Resource::Fsize, Rlimit { current, maximum }).is_ok() {
        return Ok(());
    }
    match getrlimit(Resource::Fsize)
        .current
        .filter(|most| *most < LEAST_FILE_BYTES)
    {
        None => Ok(()),
        Some(most) => Err(Failure::of_engine(&EngineError::Tier(TierError::NoWall {
            layer: "rlimits".to_owned(),
            message: format!("the file size limit of this process is {most} bytes (`ulimit -f`), which is too low"),
            fix: "start Atoll with a file size limit of at least 64 MiB, or `ulimit -f unlimited`".to_owned(),
        }))),
    }
}

fn unusable(error: &AuditError) -> Failure {
    Failure {
        hint: Some("Atoll does not run anything it cannot log; find the problem with `atoll audit verify`".to_owned()),
        ..Failure::ours(error)
    }
}

pub(crate) fn run(args: AuditArgs) -> Result<ExitStatus, Failure> {
    let dir = match args.dir {
        Some(dir) => dir,
        None => options(&home()?)?.dir,
    };
    match args.command {
        AuditCommand::Tail {
            count,
            follow,
            filter,
            json,
        } => tail(&dir, filter::query(filter)?, (count, follow, json)),
        AuditCommand::Show { id, json } => show(&dir, &id, json),
        AuditCommand::Verify(args) => check(&dir, &args),
        AuditCommand::Report(args) => report::run(&dir, args),
        AuditCommand::VerifyReport(args) => report::check(&args),
        AuditCommand::Export(args) => export(&dir, args),
        AuditCommand::Redact { ids, reason } => redact(dir, &ids, &reason),
    }
}

fn indexed(dir: &Path) -> Result<Index, Failure> {
    // Reading leaves nothing where there was no log.
    if !has_log(dir) {
        return Err(no_log(dir));
    }
    let mut index = Index::open(dir).map_err(|error| Failure::ours(&error))?;
    index.update().map_err(|error| Failure::ours(&error))?;
    Ok(index)
}

fn no_log(dir: &Path) -> Failure {
    Failure::usage(format!("no audit log in `{}`", dir.display()))
}

fn has_log(dir: &Path) -> bool {
    let names = std::fs::read_dir(dir).into_iter().flatten().flatten();
    names
        .map(|entry| entry.path())
        .any(|path| path.extension().is_some_and(|end| end == "jsonl"))
}

fn told(view: &View, json: bool) -> Result<String, Failure> {
    match json {
        true => serde_json::to_string(view)
            .map(|text| text + "\n")
            .map_err(|error| Failure::ours(&error)),
        false => Ok(shown::row(view)),
    }
}

fn tail(dir: &Path, query: Query, (count, follow, json): (usize, bool, bool)) -> Result<ExitStatus, Failure> {
    let fail = |error: AuditError| Failure::ours(&error);
    let mut index = indexed(dir)?;
    let newest = Query {
        before: Some(u64::MAX),
        ..query
    };
    let mut entries = index.list(&newest, count).map_err(fail)?;
    entries.reverse();
    let text: Result<String, Failure> = entries.iter().map(|view| told(view, json)).collect();
    print(&text?)?;
    match follow {
        true => go_on(&mut index, &newest, json),
        false => Ok(ExitStatus::Ok),
    }
}

/// Until a signal, or until nobody reads any more.
fn go_on(index: &mut Index, query: &Query, json: bool) -> Result<ExitStatus, Failure> {
    let fail = |error: AuditError| Failure::ours(&error);
    let mut seen = index.last_change().map_err(fail)?;
    loop {
        std::thread::sleep(LOOK);
        index.update().map_err(fail)?;
        for (change, view) in index.changed(seen, PAGE).map_err(fail)? {
            seen = change;
            if query.takes(&view) {
                print(&told(&view, json)?)?;
            }
        }
    }
}

fn show(dir: &Path, id: &str, json: bool) -> Result<ExitStatus, Failure> {
    let index = indexed(dir)?;
    match id.parse::<u64>() {
        Ok(number) => show_one(&index.find(number).map_err(|error| not_there(&error))?, json),
        Err(_) if SandboxId::parse(id).is_some() || ExecutionId::parse(id).is_some() => show_all(&index, id, json),
        Err(_) => Err(Failure::usage(format!(
            "invalid entry `{}`: expected an entry number, a sandbox id or an execution id",
            visible(id)
        ))),
    }
}

fn not_there(error: &AuditError) -> Failure {
    match error {
        AuditError::NoEntry(_) => Failure::bad(error),
        error => Failure::ours(error),
    }
}

fn show_one(view: &View, json: bool) -> Result<ExitStatus, Failure> {
    match json {
        true => print_json(view),
        false => print(&shown::whole(view)?),
    }
}

fn show_all(index: &Index, id: &str, json: bool) -> Result<ExitStatus, Failure> {
    let mut last = 0;
    loop {
        let page = index.about(id, last, PAGE).map_err(|error| Failure::ours(&error))?;
        for view in &page {
            if !json && last > 0 {
                print("\n")?;
            }
            show_one(view, json)?;
            last = view.id;
        }
        match (page.len() < PAGE, last) {
            (true, 0) => return Err(Failure::usage(format!("no entries for `{id}` in the audit log"))),
            (true, _) => return Ok(ExitStatus::Ok),
            (false, _) => {}
        }
    }
}

fn check(dir: &Path, args: &VerifyArgs) -> Result<ExitStatus, Failure> {
    let key = match &args.key {
        Some(path) => PublicKey::read(path).map_err(|error| Failure::bad(&error))?,
        None => PublicKey::beside(dir).map_err(|error| match has_log(dir) {
            true => Failure::bad(&error),
            false => no_log(dir),
        })?,
    };
    let expect = args.expect.as_deref().map(expected).transpose()?;
    let report = verify(dir, &key, expect).map_err(|error| Failure::bad(&error))?;
    match args.json {
        true => print_json(&report)?,
        false => print(&shown::report(&report, &key))?,
    };
    Ok(match report.is_clean() {
        true => ExitStatus::Ok,
        false => ExitStatus::CodeFailed,
    })
}

fn expected(text: &str) -> Result<Place, Failure> {
    let place = text.split_once(':').and_then(|(seq, hash)| {
        Some(Place {
            seq: seq.parse().ok()?,
            hash: Digest::parse(hash)?,
        })
    });
    place.ok_or_else(|| {
        Failure::usage(format!(
            "invalid record `{text}`: expected SEQ:HASH, as printed after `head` by `atoll audit verify`"
        ))
    })
}

fn export(dir: &Path, args: ExportArgs) -> Result<ExitStatus, Failure> {
    let query = filter::query(args.filter)?;
    let spell: fn(&View) -> serde_json::Result<String> = match (args.format, &args.sandbox) {
        (ExportFormat::Ipynb, Some(sandbox)) => return replay(dir, sandbox, &query),
        (ExportFormat::Ipynb, None) => return Err(Failure::usage("--format ipynb needs --sandbox ID")),
        (_, Some(_)) => {
            return Err(Failure::usage(
                "--sandbox needs --format ipynb; for JSON use `atoll audit show ID --json`",
            ));
        }
        (ExportFormat::Jsonl, None) => serde_json::to_string,
        (ExportFormat::Ocsf, None) => |view| serde_json::to_string(&ocsf(view)),
    };
    lines(dir, query, spell)
}

fn replay(dir: &Path, sandbox: &str, query: &Query) -> Result<ExitStatus, Failure> {
    let mut entries = report::of_sandbox(&indexed(dir)?, sandbox)?;
    entries.retain(|view| query.takes(view));
    print_json(&notebook(&entries))
}

fn lines(dir: &Path, mut query: Query, spell: fn(&View) -> serde_json::Result<String>) -> Result<ExitStatus, Failure> {
    let index = indexed(dir)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    loop {
        let page = index.list(&query, PAGE).map_err(|error| Failure::ours(&error))?;
        for view in &page {
            let line = spell(view).map_err(|error| Failure::ours(&error))?;
            if let Err(error) = writeln!(out, "{line}") {
                return written(Err(error));
            }
        }
        match page.last() {
            Some(last) => query.after = Some(last.id),
            None => break,
        }
    }
    written(out.flush())
}

fn redact(dir: PathBuf, ids: &[u64], reason: &str) -> Result<ExitStatus, Failure> {
    usable_home()?;
    let log = AuditLog::open(AuditOptions::new(dir)).map_err(|error| unusable(&error))?;
    let hit = log
        .redact(&ids.iter().copied().collect(), reason)
        .map_err(|error| Failure::ours(&error))?;
    print(&format!("redacted {}\n", shown::counted(hit.len() as u64, "record")))
}
