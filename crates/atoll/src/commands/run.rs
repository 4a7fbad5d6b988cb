//! `atoll run`: one piece of code in a fresh sandbox, without a daemon or on a server.

mod charts;
mod dry;
mod flags;
mod gate;
mod notes;
mod remote;
mod request;
mod secrets;
mod sheets;
mod shown;

use super::{audit, template, usable_home};
use crate::args::RunArgs;
use crate::client::Server;
use crate::output::Failure;
use crate::printer::{Printer, Stream};
use atoll_core::ExecutionId;
use atoll_core::execution::Execution;
use atoll_core::outcome::ExitStatus;
use atoll_engine::audit::{Action, Actor, AuditLog, Closing, Opening};
use atoll_engine::template::{Template, TemplateStore};
use atoll_engine::{
    Audit, Choice, Control, Engine, EngineConfig, EngineError, OutDir, Output, SandboxSpec, SavedFiles, Secrets, Walls,
    Warmth,
};
use request::Request;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;
use tokio::sync::Notify;

/// Where nobody names another one.
const DEFAULT_TEMPLATE: &str = "python-data";

pub(crate) fn run(args: RunArgs) -> Result<ExitStatus, Failure> {
    let mut request = Request::read(args)?;
    if let Some(url) = request.server.take() {
        let server = Server::new(&url)?;
        return with_printer(&mut request, async |request, printer, interrupt| {
            remote::run(&server, request, printer, interrupt).await
        });
    }
    let approved = match gate::pass(&request) {
        Ok(approved) => approved,
        Err(refused) => {
            // It is refused in any case.
            if let Err(failure) = note_refused(&request, &refused) {
                crate::output::note(&format!(
                    "note: the refusal is not in the audit log: {}\n",
                    failure.message
                ));
            }
            return with_printer(&mut request, async |request, printer, _| {
                Ok(show(request, *refused, SavedFiles::default(), None, printer))
            });
        }
    };
    let home = usable_home()?;
    let store = TemplateStore::new(home.clone());
    let template = template::known(&store, request.template.as_deref().unwrap_or(DEFAULT_TEMPLATE))?;
    let log = audit::log_of(&home)?;
    let template = template::open(&store, &log, template)?;
    // A signal that came too late for the build is for what follows.
    if store.stop().is_stopped() {
        return Err(Failure::of_engine(&EngineError::Interrupted));
    }
    let program = std::env::current_exe().map_err(|error| Failure::ours(&error))?;
    let held = dry::held(&request, &home)?;
    let config = EngineConfig {
        home,
        program,
        warmth: Warmth::Cold,
        walls: Walls::default(),
        audit: Audit::Log(Arc::clone(&log)),
    };
    raise_open_files();
    with_printer(&mut request, async |request, printer, interrupt| {
        let local = Local {
            config,
            template,
            approved,
            held,
            log,
        };
        whole_run(local, request, printer, interrupt).await
    })
}

/// Code that the policy refuses starts nothing, and is in the audit log all the same.
fn note_refused(request: &Request, refused: &Execution) -> Result<(), Failure> {
    let (log, actor) = (audit::log_of(&usable_home()?)?, Actor::local());
    let opening = Opening {
        execution: Some(refused.execution_id.clone()),
        language: Some(request.language.as_str().to_owned()),
        code: Some(&request.code),
        hides: request.secrets.redactor().cloned(),
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

/// What a run without a server needs besides its request.
struct Local {
    config: EngineConfig,
    template: Template,
    /// Somebody has said yes to what the policy asks about.
    approved: bool,
    /// Where the files of a dry run are until somebody wants them.
    held: Option<dry::Held>,
    log: Arc<AuditLog>,
}

async fn whole_run(
    local: Local,
    request: &mut Request,
    printer: &Printer,
    interrupt: &Arc<Notify>,
) -> Result<ExitStatus, Failure> {
    let engine = Engine::start(local.config, local.template).await;
    let engine = engine.map_err(|error| Failure::of_engine(&error))?;
    // The caller's own directory is not touched by a dry run.
    let into = match &local.held {
        Some(held) => Some(held.out_dir()),
        None => request.out.take(),
    };
    let done = in_sandbox(&engine, (local.approved, into), request, printer, interrupt).await;
    engine.stop().await;
    let (execution, files, out) = done.map_err(|error| Failure::of_engine(&error))?;
    match local.held {
        None => Ok(show(request, execution, files, out, printer)),
        Some(_held) => {
            let save = |mut held| charts::save(&execution.results, &mut held).saved;
            let charts = out.filter(|_| request.saves_charts()).map(save).unwrap_or_default();
            let done = (execution, files);
            let (execution, files, out) = dry::settle(request, &local.log, done, &charts, (printer, interrupt)).await;
            Ok(show(request, execution, files, out, printer))
        }
    }
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
            let failure = Failure::ours_in_words(format!("standard output cannot be written: {error}"));
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

/// Each collected file is a descriptor for a moment. What the system does not give is told when it is missed.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).ok();
}

async fn in_sandbox(
    engine: &Engine,
    (approved, out): (bool, Option<OutDir>),
    request: &Request,
    printer: &Printer,
    interrupt: &Arc<Notify>,
) -> Result<(Execution, SavedFiles, Option<OutDir>), EngineError> {
    let spec = SandboxSpec {
        limits: request.limits,
        inputs: request.inputs.clone(),
        env: request.env.clone(),
        secrets: request.secrets.clone(),
        start: Some(request.language),
        once: true,
        dry_run: request.dry_run,
        by: Actor::local(),
        policy: request.policy.clone(),
        // Was asked before anything was started.
        approver: None,
    };
    let sandbox = engine.create(spec).await?;
    interrupt_on_signals(interrupt);
    let json = request.json;
    let mut sink = |output: Output<'_>| match output {
        Output::Stdout(bytes) if !json => printer.pass(Stream::Stdout, bytes),
        Output::Stderr(bytes) if !json => printer.pass(Stream::Stderr, bytes),
        Output::Stdout(_)
        | Output::Stderr(_)
        | Output::Result(_)
        | Output::Updated(..)
        | Output::Cleared
        | Output::Held(_) => {}
    };
    let asked = atoll_engine::Request {
        id: ExecutionId::from_random(random()),
        context: Choice::Default(request.language),
        code: &request.code,
        env: BTreeMap::new(),
        // The sandbox has them.
        secrets: Secrets::default(),
        limits: None,
        control: Control::of(Arc::clone(interrupt)),
        room: atoll_engine::Room::default(),
        raw_results: request.raw_results,
        policy: None,
        approved,
    };
    let mut execution = sandbox.execute(asked, &mut sink).await?;
    let (files, out) = sandbox.collect_into(out).await?;
    execution.files = files.files.clone();
    execution.dry_run = sandbox.dry_run(&execution.files, &request.inputs).await;
    Ok((execution, files, out))
}

/// Ctrl-C and a polite end of the process interrupt the code; the sandbox is then taken down as always.
fn interrupt_on_signals(interrupt: &Arc<Notify>) {
    use tokio::signal::unix::{SignalKind, signal};
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        if let Ok(mut signals) = signal(kind) {
            let interrupt = Arc::clone(interrupt);
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    interrupt.notify_one();
                }
            });
        }
    }
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
