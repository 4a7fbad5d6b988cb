//! The harness: the real binary, real sandboxes, a world of its own per test.
//!
//! Tests call [`run`] for what a person types, and [`engine`] for long-lived sandboxes and for walls taken away.

use anyhow::{Context, Result, bail};
use atoll_core::execution::Execution;
use atoll_core::form::Form;
use atoll_core::quantity::{CpuTimeMillis, WallMillis};
use atoll_core::{Language, Limits, Tier};
use atoll_engine::template::{Progress, Template, TemplateStore};
use atoll_engine::{
    Audit, Engine, EngineConfig, Output, RuntimeKind, Sandbox, SandboxSpec, TierSettings, Walls, Warmth,
};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use tokio::sync::Notify;

pub mod census;
pub mod e2b;
pub mod events;
pub mod fuzz_bodies;
pub mod guest;
pub mod image;
pub mod load;
mod place;
pub mod private_home;
pub mod process;
pub mod server;
pub mod terminal;
pub mod tls;
pub mod user;

pub use place::{Place, input};

/// The binary under test: `ATOLL_BIN`, else the one that cargo built beside the tests.
pub fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("ATOLL_BIN") {
        return path.into();
    }
    let own = std::env::current_exe().unwrap_or_default();
    // A benchmark lies beside it, a test one directory below.
    let beside = own.ancestors().skip(1).map(|dir| dir.join("atoll"));
    beside.take(2).find(|path| path.is_file()).unwrap_or_default()
}

/// The data directory with the built templates: `ATOLL_HOME`, else below the target directory.
pub fn home() -> PathBuf {
    if let Some(path) = std::env::var_os("ATOLL_HOME") {
        return path.into();
    }
    let mut path = binary();
    path.pop();
    path.pop();
    path.join("atoll-home")
}

/// `atoll` with the tests' data directory and no standard input.
pub fn atoll() -> Command {
    let mut command = Command::new(binary());
    command.env("ATOLL_HOME", home()).stdin(Stdio::null());
    command
}

/// A form as a tree, to look into it.
pub fn value(form: &Form) -> serde_json::Value {
    serde_json::to_value(form).unwrap_or_default()
}

/// What one call of `atoll` gave.
#[derive(Debug)]
pub struct Ran {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

/// Runs `atoll` with these arguments in an empty directory.
pub fn run(args: &[&str]) -> Result<Ran> {
    let dir = tempfile::tempdir()?;
    run_command(atoll().args(args).current_dir(dir.path()))
}

/// Runs a prepared command to its end.
pub fn run_command(command: &mut Command) -> Result<Ran> {
    let output = command.output().with_context(|| format!("start {command:?}"))?;
    Ok(Ran {
        code: output.status.code(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

/// Runs a command that is given these bytes as standard input.
pub fn run_fed(command: &mut Command, stdin: &[u8]) -> Result<Ran> {
    let mut file = tempfile::tempfile()?;
    std::io::Write::write_all(&mut file, stdin)?;
    std::io::Seek::rewind(&mut file)?;
    run_command(command.stdin(file))
}

/// Runs `atoll run --json` and reads its answer.
pub fn run_json(args: &[&str]) -> Result<Execution> {
    let args: Vec<&str> = ["run", "--json"].iter().chain(args).copied().collect();
    let ran = run(&args)?;
    serde_json::from_str(&ran.stdout).with_context(|| format!("not an answer: {ran:?}"))
}

#[derive(Debug)]
struct Silent;

impl Progress for Silent {
    fn step(&self, _text: &str, _done: u64, _total: u64) {}
}

/// Builds Python for tier `wasm` in the tests' data directory, unless it is built.
pub fn ensure_component() -> Result<()> {
    let store = TemplateStore::new(home());
    store.ensure_component(&binary(), &Silent)?;
    Ok(())
}

pub fn template(name: &str) -> Result<Template> {
    Ok(TemplateStore::new(home()).ensure(name, &Silent)?)
}

/// For engines that are looked at from inside; what people start keeps its log.
pub const NO_AUDIT: Audit = Audit::Off {
    because: "a test holds the engine itself",
};

/// An engine of its own for one test.
pub async fn engine(template_name: &str, warmth: Warmth, walls: Walls) -> Result<Arc<Engine>> {
    engine_with(template_name, warmth, walls, NO_AUDIT).await
}

/// The same, with a log.
pub async fn engine_with(name: &str, warmth: Warmth, walls: Walls, audit: Audit) -> Result<Arc<Engine>> {
    let config = EngineConfig {
        tier: Tier::Jail,
        settings: TierSettings::default(),
        home: home(),
        program: binary(),
        warmth,
        walls,
        audit,
    };
    Ok(Arc::new(Engine::start(config, template(name)?).await?))
}

/// An engine whose sandboxes are containers, by this runtime.
pub async fn container_engine(name: &str, runtime: RuntimeKind, walls: Walls) -> Result<Arc<Engine>> {
    let config = EngineConfig {
        home: home(),
        program: binary(),
        tier: Tier::Container,
        settings: TierSettings {
            runtime: Some(runtime),
            ..TierSettings::default()
        },
        warmth: Warmth::Cold,
        walls,
        audit: NO_AUDIT,
    };
    Ok(Arc::new(Engine::start(config, template(name)?).await?))
}

/// An engine whose sandboxes run under gVisor.
pub async fn gvisor_engine(name: &str, walls: Walls) -> Result<Arc<Engine>> {
    let config = EngineConfig {
        home: home(),
        program: binary(),
        tier: Tier::Gvisor,
        settings: TierSettings::default(),
        warmth: Warmth::Warm,
        walls,
        audit: NO_AUDIT,
    };
    Ok(Arc::new(Engine::start(config, template(name)?).await?))
}

/// An engine whose sandboxes are virtual machines, with the kernel of the guest tests.
pub async fn microvm_engine(name: &str) -> Result<Arc<Engine>> {
    let config = EngineConfig {
        home: home(),
        program: binary(),
        tier: Tier::Microvm,
        settings: TierSettings::from_environment(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    Ok(Arc::new(Engine::start(config, template(name)?).await?))
}

/// Ends an engine that nobody else holds any more, and waits until nothing of it is left.
pub async fn stop(engine: Arc<Engine>) -> Result<()> {
    match Arc::try_unwrap(engine) {
        Ok(engine) => {
            engine.stop().await;
            Ok(())
        }
        Err(_) => bail!("the engine is still in use"),
    }
}

/// The small limits with time to spare: for executions whose time is not what is tested.
pub const PATIENT: Limits = Limits {
    wall: WallMillis::known(300_000),
    cpu_time: CpuTimeMillis::known(300_000),
    ..Limits::SMALL
};

/// A sandbox with the small limits, time to spare and nothing personal.
pub async fn sandbox(engine: &Engine) -> Result<Sandbox> {
    Ok(engine
        .create(SandboxSpec {
            limits: PATIENT,
            ..SandboxSpec::default()
        })
        .await?)
}

/// Runs Python in a sandbox.
pub async fn python(sandbox: &mut Sandbox, code: &str) -> Result<Execution> {
    execute(sandbox, Language::Python, code).await
}

pub async fn execute(sandbox: &mut Sandbox, language: Language, code: &str) -> Result<Execution> {
    let mut sink = |_: Output<'_>| {};
    Ok(sandbox.run(language, code, Arc::new(Notify::new()), &mut sink).await?)
}

/// The same within limits of time and output of this execution.
pub async fn execute_within(
    sandbox: &mut Sandbox,
    limits: Limits,
    language: Language,
    code: &str,
) -> Result<Execution> {
    let mut sink = |_: Output<'_>| {};
    let interrupt = Arc::new(Notify::new());
    Ok(sandbox.run_within(limits, language, code, interrupt, &mut sink).await?)
}
