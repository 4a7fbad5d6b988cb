//! Where tries are made: engines with the install's own settings and template, sandboxes of them, plain processes beside.
//!
//! Walls are taken away here for controls only, and only our own code ever runs there.

use crate::elsewhere::Ground;
use crate::error::AttackError;
use crate::probe::Facts;
use atoll_core::execution::Execution;
use atoll_core::form::Form;
use atoll_core::quantity::{CpuTimeMillis, WallMillis};
use atoll_core::{Language, Limits};
use atoll_engine::template::Template;
use atoll_engine::{Engine, EngineConfig, Output, Sandbox, SandboxSpec, Wall, Walls, Warmth};
use serde_json::{Map, Value};
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

pub const PRELUDE: &str = include_str!("../code/prelude.py");
/// The longest that a plain process of a control may take.
const OUTSIDE: Duration = Duration::from_secs(120);

#[derive(Clone, Debug)]
pub struct Bench {
    /// As the install has it. A test of the attack itself takes a wall away here.
    pub config: EngineConfig,
    pub template: Template,
    /// Who answers the code there. An attack finds out by itself.
    pub ground: Ground,
}

impl Bench {
    /// An engine as the install has it.
    pub async fn whole(&self) -> Result<Arc<Engine>, AttackError> {
        let engine = Engine::start(self.config.clone(), self.template.clone()).await?;
        // Restored sandboxes come sooner, and are what a server gives.
        if self.ground == Ground::Gvisor {
            engine.ready().await?;
        }
        Ok(Arc::new(engine))
    }

    /// An engine without these walls, besides those that are already away. It starts cold: most live for one try.
    pub async fn engine(&self, without: &[Wall]) -> Result<Arc<Engine>, AttackError> {
        let without = without.iter().filter(|wall| self.ground.can_lack(**wall));
        let walls = without.fold(self.config.walls.clone(), |all: Walls, wall| {
            all.without(*wall, "attack control: must breach; runs only Atoll's own probes")
        });
        let config = EngineConfig {
            walls,
            warmth: Warmth::Cold,
            ..self.config.clone()
        };
        Ok(Arc::new(Engine::start(config, self.template.clone()).await?))
    }

    /// Two sandboxes of one engine.
    pub async fn two(&self, without: &[Wall]) -> Result<(Arc<Engine>, Sandbox, Sandbox), AttackError> {
        let engine = self.engine(without).await?;
        let (a, b) = (sandbox(&engine).await?, sandbox(&engine).await?);
        Ok((engine, a, b))
    }
}

/// A sandbox with the small limits and nothing personal. It has the time that a slow wall needs.
pub async fn sandbox(engine: &Engine) -> Result<Sandbox, AttackError> {
    sandbox_with(engine, patient(Limits::default())).await
}

/// The same limits, with time to spare.
pub fn patient(limits: Limits) -> Limits {
    Limits {
        wall: WallMillis::known(300_000),
        cpu_time: CpuTimeMillis::known(300_000),
        ..limits
    }
}

pub async fn sandbox_with(engine: &Engine, limits: Limits) -> Result<Sandbox, AttackError> {
    let by = atoll_engine::audit::Actor::attack();
    let spec = SandboxSpec {
        limits,
        by,
        ..SandboxSpec::default()
    };
    Ok(engine.create(spec).await?)
}

/// Ends the sandboxes, then the engine, and waits until nothing of it is left.
pub async fn end(engine: &Engine, sandboxes: impl IntoIterator<Item = Sandbox>) -> Result<(), AttackError> {
    for sandbox in sandboxes {
        sandbox.end().await?;
    }
    engine.stop().await;
    Ok(())
}

pub async fn python(sandbox: &mut Sandbox, code: &str) -> Result<Execution, AttackError> {
    execute(sandbox, Language::Python, code).await
}

pub async fn execute(sandbox: &mut Sandbox, language: Language, code: &str) -> Result<Execution, AttackError> {
    let mut sink = |_: Output<'_>| {};
    Ok(sandbox.run(language, code, Arc::new(Notify::new()), &mut sink).await?)
}

/// Runs Python with limits of time and output of its own, so that the sandbox's other executions have time to spare.
pub async fn python_within(sandbox: &mut Sandbox, limits: Limits, code: &str) -> Result<Execution, AttackError> {
    let mut sink = |_: Output<'_>| {};
    let interrupt = Arc::new(Notify::new());
    Ok(sandbox
        .run_within(limits, Language::Python, code, interrupt, &mut sink)
        .await?)
}

/// Runs code that must end well, and gives what its last line showed.
pub async fn say(sandbox: &mut Sandbox, code: &str) -> Result<String, AttackError> {
    let execution = python(sandbox, code).await?;
    match execution.outcome {
        atoll_core::Outcome::Ok => Ok(shown(&execution)),
        other => Err(AttackError::Words(format!(
            "probe code ended with outcome `{other}`, expected `ok`; error {:?}",
            execution.error
        ))),
    }
}

/// The text that the last expression showed.
pub fn shown(execution: &Execution) -> String {
    let result = execution
        .results
        .iter()
        .find_map(|result| result.data.get("text/plain"));
    result.and_then(Form::as_str).unwrap_or_default().to_owned()
}

/// A program with its arguments and the prelude in front.
pub fn with_args(args: &Map<String, Value>, code: &str) -> String {
    let text = Value::String(Value::Object(args.clone()).to_string()).to_string();
    format!("import json\nARGS = json.loads({text})\n{PRELUDE}\n{code}")
}

pub fn facts_of(execution: &Execution) -> Result<Facts, AttackError> {
    Facts::read(&execution.stdout).map_err(|what| {
        AttackError::Words(format!(
            "{what}; outcome `{}`, error {:?}, stderr {:?}",
            execution.outcome, execution.error, execution.stderr
        ))
    })
}

/// Facts of code in a fresh sandbox of this engine.
pub async fn facts_in(engine: &Engine, code: &str) -> Result<Facts, AttackError> {
    let mut sandbox = sandbox(engine).await?;
    let execution = python(&mut sandbox, code).await;
    sandbox.end().await?;
    facts_of(&execution?)
}

/// Python code as a plain process of this machine, with nothing of our environment.
fn plain(code: &str, dir: &Path) -> tokio::process::Command {
    let mut command = tokio::process::Command::new("python3");
    command
        .args(["-I", "-c", code])
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .current_dir(dir)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

async fn in_time<T>(running: impl Future<Output = std::io::Result<T>>) -> Result<T, AttackError> {
    let ended = tokio::time::timeout(OUTSIDE, running).await;
    let ended = ended.map_err(|_| AttackError::Words("an unsandboxed control process timed out".to_owned()))?;
    ended.map_err(AttackError::io("start python3 on this host"))
}

/// Runs code outside of any sandbox that leaves processes behind; `word` is on their command line.
pub(crate) async fn leave_outside(code: &str, word: &str, dir: &Path) -> Result<(), AttackError> {
    let mut command = plain(code, dir);
    command.arg(word).stdout(Stdio::null()).stderr(Stdio::null());
    in_time(command.status()).await.map(drop)
}

pub async fn facts_outside(code: &str, dir: &Path) -> Result<Facts, AttackError> {
    let ended = in_time(plain(code, dir).output()).await?;
    Facts::read(&String::from_utf8_lossy(&ended.stdout))
        .map_err(|what| AttackError::Words(format!("{what}: {}", String::from_utf8_lossy(&ended.stderr))))
}
