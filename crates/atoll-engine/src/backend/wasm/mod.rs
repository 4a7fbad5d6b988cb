//! The tier `wasm`: Python as WebAssembly, in one process for each sandbox. It needs nothing of the host but to run it.
//!
//! The process speaks as an agent does, so contexts, files and limits are those of every tier. What differs is here: the
//! component that all start from, the directory of each sandbox, and that ending a sandbox is ending a process.

mod dir;
mod process;
mod wall;

use super::{Backend, BareSandbox, Fresh, Later, Made, TierError};
use crate::stat::Stats;
use atoll_core::{SandboxId, Tier};
use atoll_wasm::component::{self, Checked, ComponentError};
use dir::Dirs;
use process::{Live, Process};
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wall::WasmWall;

#[derive(Debug)]
pub(crate) struct WasmBackend {
    program: PathBuf,
    dirs: Dirs,
    component: Arc<Checked>,
    live: Live,
}

impl WasmBackend {
    /// Checks the component, and makes it first if it is not there or not what it was.
    pub(crate) async fn start(home: &Path, program: &Path) -> Result<Self, TierError> {
        let (at, with) = (home.to_owned(), program.to_owned());
        let checked = tokio::task::spawn_blocking(move || prepare_wasm(&at, &with, &mut |_| {})).await;
        let component = checked.map_err(|error| TierError::Sandbox(error.to_string()))??;
        Ok(Self {
            program: program.to_owned(),
            dirs: Dirs::open(home).map_err(TierError::Start)?,
            component: Arc::new(component),
            live: Live::default(),
        })
    }

    pub(crate) fn digest(&self) -> String {
        format!("sha256:{}", self.component.digest)
    }

    async fn make_one(&self, made: Made) -> Result<Fresh, TierError> {
        if made.watched {
            return Err(TierError::no_dry_run(Tier::Wasm));
        }
        let id = SandboxId::from_random(crate::random_bytes());
        let dir = self.dirs.make(&id).map_err(in_making)?;
        dir.lay(&made.inputs)
            .map_err(|error| TierError::Claim(error.to_string()))?;
        let process = Process::start(
            &self.program,
            &self.component,
            dir,
            (made.limits, made.gives),
            &self.live,
        )
        .await?;
        let (agent, process) = process;
        let wall = WasmWall::new(process, Arc::clone(&self.component), made.gives);
        let sandbox = BareSandbox {
            id,
            tier: Tier::Wasm,
            stats: Stats::default(),
            agent: Arc::new(agent),
            limits: made.limits,
            wall: Box::new(wall),
            carried: None,
        };
        let python = match made.python {
            true => Some(sandbox.start_python().await?),
            false => None,
        };
        Ok((sandbox, python))
    }
}

impl Backend for WasmBackend {
    fn tier(&self) -> Tier {
        Tier::Wasm
    }

    fn ready(&self) -> Later<'_, Result<Map<String, Value>, TierError>> {
        let facts = [
            ("wasmtime".to_owned(), json!(atoll_wasm::WASMTIME)),
            ("component".to_owned(), json!(self.component.digest)),
        ];
        Box::pin(async move { Ok(facts.into_iter().collect()) })
    }

    fn make(&self, made: Made) -> Later<'_, Result<Fresh, TierError>> {
        Box::pin(self.make_one(made))
    }

    fn stop(&self) -> Later<'_, ()> {
        Box::pin(self.live.stop())
    }
}

/// The component, checked; made first if it is not there, or is not what was made. `tell` hears of each step.
pub fn prepare_wasm(home: &Path, program: &Path, tell: &mut dyn FnMut(&str)) -> Result<Checked, TierError> {
    match component::open(home) {
        Err(ComponentError::NotBuilt | ComponentError::Changed { .. }) => {
            component::build(home, program, tell).map_err(|error| not_made(&error))?;
            component::open(home).map_err(|error| not_made(&error))
        }
        checked => checked.map_err(|error| not_made(&error)),
    }
}

fn not_made(error: &ComponentError) -> TierError {
    no_wall(
        "wasm",
        &atoll_jail::chain(error),
        "fix the cause above and retry; the build runs once and is cached in the data directory",
    )
}

fn in_making(error: std::io::Error) -> TierError {
    TierError::Sandbox(format!("cannot create its directory: {error}"))
}

fn no_wall(layer: &str, message: &str, fix: &str) -> TierError {
    TierError::NoWall {
        layer: layer.to_owned(),
        message: message.to_owned(),
        fix: fix.to_owned(),
    }
}
