//! `atoll run --dry-run`: the files are held until somebody has seen what they are, what the code reached for and what it started.

use super::gate;
use super::request::Request;
use crate::commands::dry_report::report;
use crate::output::Failure;
use crate::printer::{Printer, Stream};
use atoll_core::execution::Execution;
use atoll_engine::audit::{Action, Actor, AuditLog, Closing, Ending, Opening};
use atoll_engine::{OutDir, SavedFiles, safe_path};
use std::fs::{File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;

/// A directory of our own, gone with this. While somebody has it locked it is in use.
pub(super) struct Held {
    dir: tempfile::TempDir,
    _lock: File,
}

const PREFIX: &str = "dry-run-";

/// Why a file of a dry run is where it is.
const HELD: &str = "held: a dry run saves files only after confirmation on a terminal";
const NOBODY: &str =
    "note: files were not saved: confirmation requires a terminal; run without `--dry-run` to save them\n";

pub(super) fn held(request: &Request, home: &Path) -> Result<Option<Held>, Failure> {
    if !request.dry_run {
        return Ok(None);
    }
    sweep(home);
    let made = loop {
        let made = make(home).map_err(|error| Failure::ours(&error))?;
        // One that sweeps may have been faster than the lock; then it has removed the directory.
        if made.dir.path().exists() {
            break made;
        }
    };
    Ok(Some(made))
}

fn make(home: &Path) -> std::io::Result<Held> {
    let mut builder = tempfile::Builder::new();
    let builder = builder.prefix(PREFIX).permissions(Permissions::from_mode(0o700));
    let dir = builder.tempdir_in(home)?;
    let lock = File::open(dir.path())?;
    lock.lock()?;
    Ok(Held { dir, _lock: lock })
}

/// What runs that were killed have left.
fn sweep(home: &Path) {
    let entries = std::fs::read_dir(home).into_iter().flatten().flatten();
    for entry in entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(PREFIX)) {
        // Locked until it is gone: who has just made it waits, and makes another one.
        if let Some(_lock) = File::open(entry.path()).ok().filter(|dir| dir.try_lock().is_ok()) {
            std::fs::remove_dir_all(entry.path()).ok();
        }
    }
}

impl Held {
    pub(super) fn out_dir(&self) -> OutDir {
        OutDir::later(self.dir.path().join("files"))
    }
}

/// A signal is a no.
async fn yes(interrupt: &Notify) -> bool {
    let (tell, told) = tokio::sync::oneshot::channel();
    // It reads until somebody answers, and may stay behind.
    std::thread::spawn(move || tell.send(gate::yes("save these files?")).ok());
    tokio::select! {
        answer = told => answer.unwrap_or(false),
        () = interrupt.notified() => false,
    }
}

/// Shows what was held and, if somebody says so, saves exactly those bytes.
pub(super) async fn settle(
    request: &mut Request,
    log: &Arc<AuditLog>,
    (mut execution, mut files): (Execution, SavedFiles),
    charts: &[PathBuf],
    (printer, interrupt): (&Printer, &Notify),
) -> (Execution, SavedFiles, Option<OutDir>) {
    if !request.json || gate::can_be_asked() {
        let told = execution.dry_run.as_ref().map(|dry_run| report(dry_run, charts));
        let told = told.unwrap_or_default();
        printer.print(Stream::Stderr, told.into_bytes());
        printer.settle().await;
    }
    let mut out = request.out.take();
    files.saved.clear();
    let wanted = !execution.files.is_empty() || !charts.is_empty();
    if wanted && yes(interrupt).await {
        match approved(log, &execution) {
            Ok(()) => release(&mut execution, &mut files, out.as_mut()),
            Err(failure) => files.problem = Some(failure.message),
        }
    } else {
        keep_back(&mut execution, &mut files, request.json);
        if wanted && !request.json && !gate::can_be_asked() {
            printer.print(Stream::Stderr, NOBODY.as_bytes().to_vec());
        }
        out = None;
    }
    (execution, files, out)
}

/// Written down before anything is saved.
fn approved(log: &Arc<AuditLog>, execution: &Execution) -> Result<(), Failure> {
    let actor = Actor::local();
    let opening = Opening {
        execution: Some(execution.execution_id.clone()),
        ..Opening::new(Action::ApprovalAnswer, &actor)
    };
    let closing = Closing {
        verdict: Some("approved".to_owned()),
        approver: Some("local".to_owned()),
        ..Closing::of(Ending::Ok)
    };
    crate::commands::audit::noted(log, opening, || Ok(()), |()| closing)
}

fn release(execution: &mut Execution, files: &mut SavedFiles, mut out: Option<&mut OutDir>) {
    for file in &mut execution.files {
        let (Some(held), Some(out)) = (file.saved.take(), out.as_mut()) else {
            continue;
        };
        let name = file.path.strip_prefix("/data/output/").unwrap_or(&file.path);
        match copy(Path::new(&held), name, out) {
            Ok(place) => {
                file.saved = Some(place.to_string_lossy().into_owned());
                files.saved.push(place);
            }
            Err(error) => {
                let why = format!("cannot save output file `{name}`: {error}");
                files.problem.get_or_insert(why);
            }
        }
    }
}

fn copy(held: &Path, name: &str, out: &mut OutDir) -> std::io::Result<PathBuf> {
    let name = safe_path(name).ok_or(std::io::ErrorKind::InvalidFilename)?;
    let mut target = out.begin(&name)?;
    target.take_all(held)?;
    out.finish(&target)
}

/// The report has told of them already; an object has it in its own words.
fn keep_back(execution: &mut Execution, files: &mut SavedFiles, json: bool) {
    for file in &mut execution.files {
        file.saved = None;
        if !json {
            continue;
        }
        let name = file.path.strip_prefix("/data/output/").unwrap_or(&file.path);
        files.skipped.push((name.to_owned(), HELD.to_owned()));
    }
}
