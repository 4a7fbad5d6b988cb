//! The tier `wasm`: Python as WebAssembly, in one process for each sandbox. It needs nothing of the host but to run it.
//!
//! The process speaks as an agent does, so contexts, files and limits are those of every tier. What differs is here: the
//! component that all start from, the directory of each sandbox, and that ending a sandbox is ending a process.

mod dir;
mod process;
mod wall;

use super::{Backend, BareSandbox, Fresh, Later, Made, TierError};
use crate::node::Quiet;
use crate::stat::Stats;
use crate::template::{ComponentBuildError, PreparedComponent, TemplateStore};
use atoll_core::{SandboxId, Tier};
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
    component: Arc<PreparedComponent>,
    live: Live,
}

impl WasmBackend {
    /// Opens the component. [`Node`](crate::Node) and `atoll run` build it before, with progress.
    pub(crate) async fn start(home: &Path, program: &Path) -> Result<Self, TierError> {
        let (store, with) = (TemplateStore::new(home.to_owned()), program.to_owned());
        let prepared = tokio::task::spawn_blocking(move || store.ensure_component(&with, &Quiet)).await;
        let component = prepared.map_err(|error| TierError::Sandbox(error.to_string()))??;
        Ok(Self {
            program: program.to_owned(),
            dirs: Dirs::open(home).map_err(TierError::Start)?,
            component: Arc::new(component),
            live: Live::default(),
        })
    }

    pub(crate) fn digest(&self) -> String {
        format!("sha256:{}", self.component.checked.digest)
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
            &self.component.checked,
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
            ("component".to_owned(), json!(self.component.checked.digest)),
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

impl From<ComponentBuildError> for TierError {
    fn from(error: ComponentBuildError) -> Self {
        let retry = "fix the cause above and retry; the build runs once and is cached in the data directory";
        Self::NoWall {
            layer: "wasm".to_owned(),
            message: atoll_jail::chain(&error),
            fix: error.hint().unwrap_or(retry).to_owned(),
        }
    }
}

fn in_making(error: std::io::Error) -> TierError {
    TierError::Sandbox(format!("cannot create its directory: {error}"))
}
