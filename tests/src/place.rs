//! One sandbox with an engine of its own: what most tests of contexts and limits need.

use crate::{PATIENT, execute_within};
use anyhow::{Context, Result, bail};
use atoll_core::execution::Execution;
use atoll_core::quantity::WallMillis;
use atoll_core::{ExecutionId, Language, Limits, Outcome};
use atoll_engine::{
    Choice, Control, Engine, Input, Output, Request, Room, Sandbox, SandboxSpec, Secrets, Walls, Warmth,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::Notify;

/// Deadlines for code that must have begun when it is stopped: on a busy host a short one comes too early.
const DEADLINES: [WallMillis; 4] = [
    WallMillis::known(1_000),
    WallMillis::known(4_000),
    WallMillis::known(16_000),
    WallMillis::known(64_000),
];

#[derive(Debug)]
pub struct Place {
    engine: Arc<Engine>,
    pub sandbox: Sandbox,
}

impl Place {
    /// The small limits, nothing personal.
    pub async fn new(template: &str) -> Result<Self> {
        Self::with(template, SandboxSpec::default()).await
    }

    pub async fn limited(template: &str, limits: Limits) -> Result<Self> {
        Self::with(
            template,
            SandboxSpec {
                limits,
                ..SandboxSpec::default()
            },
        )
        .await
    }

    pub async fn with(template: &str, spec: SandboxSpec) -> Result<Self> {
        let engine = crate::engine(template, Warmth::Cold, Walls::default()).await?;
        let sandbox = engine.create(spec).await?;
        Ok(Self { engine, sandbox })
    }

    pub async fn python(&mut self, code: &str) -> Result<Execution> {
        crate::python(&mut self.sandbox, code)
            .await
            .with_context(|| code.to_owned())
    }

    /// The same, with results as the code made them.
    pub async fn raw(&mut self, code: &str) -> Result<Execution> {
        let request = Request {
            id: ExecutionId::from_random([9; 16]),
            context: Choice::Default(Language::Python),
            code,
            env: BTreeMap::new(),
            secrets: Secrets::default(),
            limits: None,
            control: Control::default(),
            room: Room::default(),
            raw_results: true,
            policy: None,
            approved: false,
        };
        let mut sink = |_: Output<'_>| {};
        Ok(self.sandbox.execute(request, &mut sink).await?)
    }

    pub async fn bash(&mut self, code: &str) -> Result<Execution> {
        crate::execute(&mut self.sandbox, Language::Bash, code)
            .await
            .with_context(|| code.to_owned())
    }

    /// Runs code that prints `marker` when it may be interrupted, and interrupts it then.
    pub async fn interrupted(&mut self, language: Language, code: &str, marker: &str) -> Result<Execution> {
        let interrupt = Arc::new(Notify::new());
        let (bell, mut seen, mut rung) = (Arc::clone(&interrupt), Vec::new(), false);
        let mut sink = |output: Output<'_>| {
            if let Output::Stdout(bytes) = output {
                seen.extend_from_slice(bytes);
            }
            if !rung && String::from_utf8_lossy(&seen).contains(marker) {
                rung = true;
                bell.notify_one();
            }
        };
        Ok(self.sandbox.run(language, code, interrupt, &mut sink).await?)
    }

    /// Runs code that ends at a deadline only: the first deadline by which it has printed `marker`. Each one must end it.
    pub async fn timed_out(&mut self, language: Language, code: &str, marker: &str) -> Result<(WallMillis, Execution)> {
        for wall in DEADLINES {
            let limits = Limits { wall, ..PATIENT };
            let ended = execute_within(&mut self.sandbox, limits, language, code).await?;
            if ended.outcome != Outcome::Timeout || ended.stdout.contains(marker) {
                return Ok((wall, ended));
            }
        }
        bail!("{code}: `{marker}` was not printed before any deadline")
    }

    /// Ends the sandbox, then the engine, and waits until nothing is left.
    pub async fn end(self) -> Result<()> {
        self.sandbox.end().await?;
        crate::stop(self.engine).await
    }
}

/// An input that is shown under `name`.
pub fn input(path: impl Into<PathBuf>, name: &str) -> Result<Input> {
    Ok(Input::new(path.into(), Some(name))?)
}
