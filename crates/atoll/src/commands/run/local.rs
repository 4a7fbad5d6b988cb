//! A run on this machine: a tier is chosen, its engine started, the code run, the sandbox taken down.

use super::gate::Passed;
use super::request::Request;
use super::tier::{self, Choosing};
use super::{charts, dry, random, show, show_refused, with_printer};
use crate::bar::Bar;
use crate::commands::{audit, template, tier_settings, usable_home};
use crate::output::Failure;
use crate::printer::{Printer, Stream};
use atoll_core::execution::Execution;
use atoll_core::outcome::ExitStatus;
use atoll_core::{ExecutionId, Limits, Tier};
use atoll_engine::audit::{Actor, AuditLog};
use atoll_engine::routing::Chosen;
use atoll_engine::template::TemplateStore;
use atoll_engine::{
    Audit, Choice, Control, Engine, EngineConfig, EngineError, OutDir, Output, SandboxSpec, SavedFiles, Secrets,
    TierError, TierSettings, Walls, Warmth,
};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// Where nobody names another one.
pub(super) const DEFAULT_TEMPLATE: &str = "python-data";

/// What every attempt needs besides its request.
struct Ground {
    home: PathBuf,
    program: PathBuf,
    store: TemplateStore,
    log: Arc<AuditLog>,
    settings: TierSettings,
    /// Somebody has said yes to what the policy asks about.
    approved: bool,
    /// Where the files of a dry run are until somebody wants them.
    held: Option<dry::Held>,
    /// Shows the first use of a guest.
    bar: Arc<Bar>,
}

/// What became of one attempt.
enum Ran {
    Done(Box<(Execution, SavedFiles, Option<OutDir>)>),
    /// The code needs the next tier. Nothing was shown or collected.
    NeedsMore {
        tier: Tier,
        why: String,
    },
}

pub(super) fn run(request: &mut Request, passed: Passed) -> Result<ExitStatus, Failure> {
    let home = usable_home()?;
    let program = std::env::current_exe().map_err(|error| Failure::ours(&error))?;
    let store = TemplateStore::new(home.clone());
    let settings = tier_settings(&home)?;
    let choosing = Choosing::new(request, &passed, settings.clone());
    let chosen = match choosing.choose(request, &store, &program)? {
        Ok(chosen) => chosen,
        Err(refused) => return show_refused(request, *refused),
    };
    // A name that nobody knows is refused before anything is written.
    if chosen.tier != Tier::Wasm {
        template::known(&store, template_name(request))?;
    }
    let ground = Ground {
        log: audit::log_of(&home)?,
        settings,
        held: dry::held(request, &home)?,
        bar: Arc::new(Bar::without_stop(format!("template {}", template_name(request)))),
        approved: passed.approved,
        store,
        program,
        home,
    };
    raise_open_files();
    with_printer(request, async |request, printer, interrupt| {
        whole_run(&ground, &choosing, chosen, request, printer, interrupt).await
    })
}

async fn whole_run(
    ground: &Ground,
    choosing: &Choosing,
    chosen: Chosen,
    request: &mut Request,
    printer: &Printer,
    interrupt: &Arc<Notify>,
) -> Result<ExitStatus, Failure> {
    let (mut chosen, mut moved_from) = (chosen, None);
    let (mut execution, files, out) = loop {
        let ran = attempt(ground, &chosen, request, printer, interrupt).await;
        match ran {
            Ok(Ran::Done(done)) => break *done,
            Ok(Ran::NeedsMore { tier, why }) => {
                moved_from = Some(chosen.tier);
                chosen = tier::moved(tier, why);
            }
            Err(Fault::Engine(EngineError::Tier(TierError::NoWall { message, .. })))
                if let Some(other) = choosing.instead(&chosen, &message) =>
            {
                chosen = other;
            }
            Err(fault) => return Err(fault.into()),
        }
    };
    execution.tier_choice = Some(choosing.told(chosen, moved_from));
    match &ground.held {
        None => Ok(show(request, execution, files, out, printer)),
        Some(_) => {
            let save = |mut held| charts::save(&execution.results, &mut held).saved;
            let charts = out.filter(|_| request.saves_charts()).map(save).unwrap_or_default();
            let done = (execution, files);
            let (execution, files, out) = dry::settle(request, &ground.log, done, &charts, (printer, interrupt)).await;
            Ok(show(request, execution, files, out, printer))
        }
    }
}

/// Why an attempt has no result.
enum Fault {
    Engine(EngineError),
    Other(Failure),
}

impl From<Fault> for Failure {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Engine(error) => Self::of_engine(&error),
            Fault::Other(failure) => failure,
        }
    }
}

/// One engine, one sandbox, one execution, and nothing left of them.
async fn attempt(
    ground: &Ground,
    chosen: &Chosen,
    request: &mut Request,
    printer: &Printer,
    interrupt: &Arc<Notify>,
) -> Result<Ran, Fault> {
    let engine = start(ground, chosen.tier, request).await?;
    let done = in_sandbox(&engine, ground, chosen, request, printer, interrupt).await;
    engine.stop().await;
    done.map_err(Fault::Engine)
}

async fn start(ground: &Ground, tier: Tier, request: &Request) -> Result<Engine, Fault> {
    let config = EngineConfig {
        tier,
        settings: ground.settings.clone(),
        home: ground.home.clone(),
        program: ground.program.clone(),
        warmth: Warmth::Cold,
        walls: Walls::default(),
        audit: Audit::Log(Arc::clone(&ground.log)),
    };
    if tier == Tier::Wasm {
        prepare_wasm(ground)?;
        return Engine::start(config, None).await.map_err(Fault::Engine);
    }
    let known = template::known(&ground.store, template_name(request)).map_err(Fault::Other)?;
    let template = template::open(&ground.store, &ground.log, known).map_err(Fault::Other)?;
    // A signal that came too late for the build is for what follows.
    if ground.store.stop().is_stopped() {
        return Err(Fault::Engine(EngineError::Interrupted));
    }
    let bar = Arc::clone(&ground.bar);
    let engine = Engine::start_reporting(config, template, bar).await;
    engine.map_err(Fault::Engine)
}

fn template_name(request: &Request) -> &str {
    request.template.as_deref().unwrap_or(DEFAULT_TEMPLATE)
}

#[cfg(feature = "wasm")]
fn prepare_wasm(ground: &Ground) -> Result<(), Fault> {
    crate::commands::component::prepare(&ground.store, &ground.log, &ground.program).map_err(Fault::Engine)
}

#[cfg(not(feature = "wasm"))]
fn prepare_wasm(_: &Ground) -> Result<(), Fault> {
    Ok(())
}

/// How long a sandbox may take to be made before somebody at a terminal is told what is going on.
const SLOW: Duration = Duration::from_secs(2);

async fn told_if_slow<T>(tier: Tier, bar: &Bar, made: impl Future<Output = T>) -> T {
    let mut made = std::pin::pin!(made);
    if let Ok(made) = tokio::time::timeout(SLOW, &mut made).await {
        return made;
    }
    if std::io::stderr().is_terminal() && !bar.has_begun() {
        anstream::eprintln!("{tier}: creating the sandbox");
    }
    made.await
}

async fn in_sandbox(
    engine: &Engine,
    ground: &Ground,
    chosen: &Chosen,
    request: &mut Request,
    printer: &Printer,
    interrupt: &Arc<Notify>,
) -> Result<Ran, EngineError> {
    let made = told_if_slow(chosen.tier, &ground.bar, engine.create(spec(request, chosen.tier))).await;
    ground.bar.finish();
    let sandbox = made?;
    interrupt_on_signals(interrupt);
    // What may be run again elsewhere is not shown before that is known.
    let trial = chosen.trial_limits(&request.limits);
    let shows = !request.json && trial.is_none();
    let mut sink = |output: Output<'_>| match output {
        Output::Stdout(bytes) if shows => printer.pass(Stream::Stdout, bytes),
        Output::Stderr(bytes) if shows => printer.pass(Stream::Stderr, bytes),
        Output::Usage(usage) => printer.status(&usage),
        Output::Stdout(_)
        | Output::Stderr(_)
        | Output::Result(_)
        | Output::Updated(..)
        | Output::Cleared
        | Output::Held(_) => {}
    };
    let mut execution = sandbox
        .execute(asked(request, ground.approved, trial, interrupt), &mut sink)
        .await?;
    if let Some((tier, why)) = chosen.after_trial(&execution) {
        return Ok(Ran::NeedsMore { tier, why });
    }
    if trial.is_some() && !request.json {
        printer.pass(Stream::Stdout, execution.stdout.as_bytes());
        printer.pass(Stream::Stderr, execution.stderr.as_bytes());
    }
    // The caller's own directory is not touched by a dry run.
    let into = match &ground.held {
        Some(held) => Some(held.out_dir()),
        None => request.out.take(),
    };
    let (files, out) = sandbox.collect_into(into).await?;
    execution.files = files.files.clone();
    execution.dry_run = sandbox.dry_run(&execution.files, &request.inputs).await;
    Ok(Ran::Done(Box::new((execution, files, out))))
}

fn spec(request: &Request, tier: Tier) -> SandboxSpec {
    SandboxSpec {
        tier,
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
    }
}

fn asked<'a>(
    request: &'a Request,
    approved: bool,
    limits: Option<Limits>,
    interrupt: &Arc<Notify>,
) -> atoll_engine::Request<'a> {
    atoll_engine::Request {
        id: ExecutionId::from_random(random()),
        context: Choice::Default(request.language),
        code: &request.code,
        env: BTreeMap::new(),
        // The sandbox has them.
        secrets: Secrets::default(),
        limits,
        control: Control::of(Arc::clone(interrupt)),
        room: atoll_engine::Room::default(),
        raw_results: request.raw_results,
        policy: None,
        approved,
    }
}

/// Each collected file is a descriptor for a moment. What the system does not give is told when it is missed.
fn raise_open_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    let current = maximum;
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).ok();
}

/// Ctrl-C and a polite end of the process interrupt the code; the sandbox is then taken down as always.
pub(super) fn interrupt_on_signals(interrupt: &Arc<Notify>) {
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
