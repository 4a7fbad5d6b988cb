//! `atoll run`: one piece of code in a fresh sandbox, without a daemon or on a server.

mod charts;
mod dry;
mod flags;
mod gate;
mod local;
mod notes;
mod remote;
mod request;
mod secrets;
mod sheets;
mod shown;
mod tier;

use super::{audit, usable_home};
use crate::args::RunArgs;
use crate::client::Server;
use crate::output::Failure;
use crate::printer::{Printer, Stream};
use atoll_core::execution::Execution;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{Action, Actor, Behind, Closing, Opening};
use atoll_engine::policy::Policy;
use atoll_engine::{OutDir, SavedFiles};
use request::Request;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::Notify;

pub(crate) fn run(args: RunArgs) -> Result<ExitStatus, Failure> {
    let mut request = Request::read(args)?;
    if let Some(url) = request.server.take() {
        let server = Server::new(&url, request.cacert.as_deref())?;
        return with_printer(&mut request, async |request, printer, interrupt| {
            remote::run(&server, request, printer, interrupt).await
        });
    }
    match gate::pass(&request) {
        Ok(passed) => local::run(&mut request, passed),
        Err(refused) => show_refused(&mut request, *refused),
    }
}

/// It is refused in any case, whether that can be written down or not.
fn show_refused(request: &mut Request, refused: Execution) -> Result<ExitStatus, Failure> {
    if let Err(failure) = note_refused(request, &refused) {
        crate::output::note(&format!(
            "note: the refusal was not recorded in the audit log: {}\n",
            failure.message
        ));
    }
    with_printer(request, async |request, printer, _| {
        Ok(show(request, refused, SavedFiles::default(), None, printer))
    })
}

/// Code that the policy refuses starts nothing, and is in the audit log all the same.
fn note_refused(request: &Request, refused: &Execution) -> Result<(), Failure> {
    let (log, actor) = (audit::log_of(&usable_home()?)?, Actor::local());
    let policy = request.policy.clone().unwrap_or_else(Policy::standard);
    let opening = Opening {
        execution: Some(refused.execution_id.clone()),
        language: Some(request.language.as_str().to_owned()),
        code: Some(&request.code),
        hides: request.secrets.redactor().cloned(),
        behind: Behind::new(refused.tier, &policy.name),
        ..Opening::new(Action::Execute, &actor)
    };
    audit::noted(&log, opening, || Ok(()), |()| Closing::of_execution(refused))
}

/// Runs to the end; whatever went wrong is said, and all that was printed is waited for.
fn with_printer(
    request: &mut Request,
    work: impl AsyncFnOnce(&mut Request, &Printer, &Arc<Notify>) -> Result<ExitStatus, Failure>,
) -> Result<ExitStatus, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    let printer = Printer::start(request.strip);
    Ok(runtime.block_on(async {
        let interrupt = Arc::new(Notify::new());
        let ran = work(request, &printer, &interrupt).await;
        let status = match ran {
            Ok(status) => status,
            Err(failure) => tell(&printer, &failure, request.json),
        };
        finish(printer, status, &interrupt).await
    }))
}

/// Waits until all is printed. By now nothing runs any more: who does not read holds only this process, and a signal
/// ends the wait.
async fn finish(printer: Printer, status: ExitStatus, interrupt: &Notify) -> ExitStatus {
    let written = tokio::select! {
        written = printer.finish() => written,
        () = interrupt.notified() => return ExitStatus::CodeFailed,
    };
    match written {
        None => status,
        Some(errno) => {
            let error = std::io::Error::from(errno);
            let failure = Failure::ours_in_words(format!("cannot write to standard output: {error}"));
            std::io::stderr().write_all(failure.text().as_bytes()).ok();
            failure.status
        }
    }
}

fn tell(printer: &Printer, failure: &Failure, json: bool) -> ExitStatus {
    if json {
        printer.print(Stream::Stdout, failure.json().into_bytes());
    }
    printer.print(Stream::Stderr, failure.text().into_bytes());
    failure.status
}

/// Whatever could not be saved, what the code gave is shown.
fn show(
    request: &Request,
    mut execution: Execution,
    mut files: SavedFiles,
    out: Option<OutDir>,
    printer: &Printer,
) -> ExitStatus {
    let status = execution.outcome.exit_status();
    let mut saved = Vec::new();
    if let Some(mut out) = out.filter(|_| request.saves_charts()) {
        let charts = charts::save(&execution.results, &mut out);
        saved.extend(charts.saved);
        files.skipped.extend(charts.skipped);
        files.problem = files.problem.take().or(charts.problem);
    }
    if request.csv_safe {
        sheets::make_safe(&mut execution, &mut files);
    }
    saved.append(&mut files.saved);
    execution.left_out = files.left_out();
    execution.hint.iter_mut().for_each(flags::put);
    if request.json {
        printer.print(Stream::Stdout, as_line(&execution));
    } else {
        printer.print(Stream::Stderr, notes::of(&execution, &saved, &files).into_bytes());
    }
    match files.problem {
        None => status,
        Some(problem) => {
            let failure = Failure::ours_in_words(problem);
            printer.print(Stream::Stderr, failure.text().into_bytes());
            failure.status
        }
    }
}

/// For a name of an execution.
fn random() -> [u8; 16] {
    let mut bytes = [0; 16];
    // So few bytes come whole or not at all; a name of zeros would still be one.
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok();
    bytes
}

/// Every field of an execution is text, a number or a list of such: it can always be written.
fn as_line(execution: &Execution) -> Vec<u8> {
    let mut line = serde_json::to_vec(execution).unwrap_or_default();
    line.push(b'\n');
    line
}
