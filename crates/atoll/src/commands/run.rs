//! `atoll run`: one piece of code in a fresh sandbox, without a daemon.

mod charts;
mod request;

use super::{home, template};
use crate::args::RunArgs;
use crate::output::{Failure, pass, visible};
use atoll_core::Outcome;
use atoll_core::execution::Execution;
use atoll_core::outcome::ExitStatus;
use atoll_engine::template::TemplateStore;
use atoll_engine::{Engine, EngineConfig, EngineError, Output, SandboxSpec, SavedFiles, Walls, Warmth};
use request::Request;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;

pub(crate) fn run(args: RunArgs) -> Result<ExitStatus, Failure> {
    let request = Request::read(args)?;
    let home = home()?;
    let template = template::open(&TemplateStore::new(home.clone()), &request.template)?;
    let program = std::env::current_exe().map_err(|error| Failure::ours(&error))?;
    let config = EngineConfig {
        home,
        program,
        warmth: Warmth::Cold,
        walls: Walls::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::ours(&error))?;
    runtime.block_on(async {
        let engine = Engine::start(config, template)
            .await
            .map_err(|error| Failure::of_engine(&error))?;
        let done = in_sandbox(&engine, &request).await;
        engine.stop().await;
        let (execution, files) = done.map_err(|error| Failure::of_engine(&error))?;
        show(&request, execution, files)
    })
}

async fn in_sandbox(engine: &Engine, request: &Request) -> Result<(Execution, SavedFiles), EngineError> {
    let spec = SandboxSpec {
        limits: request.limits,
        inputs: request.inputs.clone(),
        env: request.env.clone(),
        start: Some(request.language),
    };
    let sandbox = engine.create(spec).await?;
    let interrupt = interrupt_on_signals();
    let json = request.json;
    let mut sink = |output: Output<'_>| match output {
        Output::Stdout(bytes) if !json => pass(&mut std::io::stdout(), bytes),
        Output::Stderr(bytes) if !json => pass(&mut std::io::stderr(), bytes),
        Output::Stdout(_) | Output::Stderr(_) | Output::Result(_) | Output::Updated(..) | Output::Cleared => {}
    };
    let mut execution = sandbox
        .run(request.language, &request.code, interrupt, &mut sink)
        .await?;
    let files = sandbox.collect(request.save_to().as_deref()).await?;
    execution.files = files.files.clone();
    Ok((execution, files))
}

/// Ctrl-C and a polite end of the process interrupt the code; the sandbox is then taken down as always.
fn interrupt_on_signals() -> Arc<Notify> {
    use tokio::signal::unix::{SignalKind, signal};
    let interrupt = Arc::new(Notify::new());
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        if let Ok(mut signals) = signal(kind) {
            let interrupt = Arc::clone(&interrupt);
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    interrupt.notify_one();
                }
            });
        }
    }
    interrupt
}

fn show(request: &Request, execution: Execution, files: SavedFiles) -> Result<ExitStatus, Failure> {
    let status = execution.outcome.exit_status();
    let mut saved = match request.save_to() {
        Some(out) => charts::save(&execution.results, &out).map_err(|error| Failure::ours(&error))?,
        None => Vec::new(),
    };
    saved.extend(files.saved);
    if request.json {
        template::print_json(&execution)?;
        return Ok(status);
    }
    let text = notes(&execution, &saved, &files.skipped, files.complete);
    std::io::stderr().write_all(text.as_bytes()).ok();
    Ok(status)
}

/// What is said on stderr after the code's own output.
fn notes(execution: &Execution, saved: &[PathBuf], skipped: &[(String, String)], complete: bool) -> String {
    let mut text = String::new();
    if let Some(error) = &execution.error {
        let lines = error
            .traceback
            .iter()
            .map(|line| visible(line))
            .collect::<Vec<_>>()
            .join("\n");
        match (lines.is_empty(), execution.outcome) {
            (false, _) => text.push_str(&format!("{lines}\n")),
            // A shell's own words are on stderr already.
            (true, Outcome::Error) if error.name == "ExitStatus" => {}
            (true, _) => text.push_str(&format!("{}: {}\n", visible(&error.name), visible(&error.value))),
        }
    }
    if let Some(hint) = &execution.hint {
        text.push_str(&format!(
            "refused: {} ({})\n\nhint: {}\n",
            hint.refused, hint.rule, hint.instead
        ));
    }
    let cut = execution.truncated;
    if cut.stdout || cut.stderr || cut.results {
        text.push_str("note: output was cut at its limit\n");
    }
    for path in saved {
        text.push_str(&format!("saved: {}\n", visible(&shown(path))));
    }
    for (path, why) in skipped {
        text.push_str(&format!("not saved: {}: {}\n", visible(path), visible(why)));
    }
    if !complete {
        text.push_str("note: there are more output files than are collected\n");
    }
    text
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
