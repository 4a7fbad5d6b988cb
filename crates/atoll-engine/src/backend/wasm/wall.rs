//! The wall of one sandbox of WebAssembly: a process, and what it and the kernel say of it.

use super::process::Process;
use crate::backend::agent::Agent;
use crate::backend::context::{Context, Interpreter};
use crate::backend::start::Inspected;
use crate::backend::{BareSandbox, Later, Layers, OpenInput, TierError, Wall};
use crate::template::PreparedComponent;
use atoll_core::dry_run::Attempts;
use atoll_core::{Gives, Limits};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The one program that the process knows.
const PYTHON: &str = "python";

#[derive(Debug)]
pub(super) struct WasmWall {
    process: Process,
    component: Arc<PreparedComponent>,
    gives: Gives,
}

impl WasmWall {
    pub(super) fn new(process: Process, component: Arc<PreparedComponent>, gives: Gives) -> Self {
        Self {
            process,
            component,
            gives,
        }
    }

    async fn python(&self, sandbox: &BareSandbox) -> Result<Inspected, TierError> {
        let argv = vec![PYTHON.to_owned()];
        sandbox
            .start_program(Interpreter::Python, argv, &BTreeMap::new(), "")
            .await
    }

    /// What the kernel says of the process, not the process.
    fn layers(&self) -> Result<Layers, TierError> {
        let path = format!("/proc/{}/status", self.process.pid);
        let status = fs_err::read_to_string(path).map_err(|_| TierError::Over)?;
        let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let field = |name: &str| line(name).map(|value| value != "0");
        let first = |name: &str| line(name).and_then(|value| value.split_whitespace().next());
        let wasm = json!({
            "runtime": format!("wasmtime {}", atoll_wasm::WASMTIME),
            "component": self.component.checked.digest,
            "deadline": "epoch",
            "clock": self.gives.clock,
            "random": self.gives.random,
        });
        let uid = first("Uid:").and_then(|uid| uid.parse::<u32>().ok());
        let layers: [(&str, Value); 5] = [
            ("wasm", wasm),
            ("user", json!({"uid": uid, "capabilities": first("CapEff:")})),
            ("no_new_privs", json!(field("NoNewPrivs:"))),
            ("seccomp", json!(field("Seccomp:"))),
            ("landlock", json!(self.process.locked.landlock)),
        ];
        Ok(layers
            .map(|(name, value)| (name.to_owned(), value))
            .into_iter()
            .collect())
    }
}

impl Wall for WasmWall {
    fn claim<'a>(&'a self, _: &'a Agent, _: Limits, inputs: Vec<OpenInput>) -> Later<'a, Result<(), TierError>> {
        // The agent inside is told the limits by who claims.
        let laid = self.process.lay(&inputs);
        Box::pin(async move { laid.map_err(|error| TierError::Claim(error.to_string())) })
    }

    fn start_python<'a>(&'a self, sandbox: &'a BareSandbox) -> Later<'a, Result<Inspected, TierError>> {
        Box::pin(self.python(sandbox))
    }

    fn begins<'a>(&'a self, _: &'a mut Context) -> Later<'a, Result<(), TierError>> {
        Box::pin(async { Ok(()) })
    }

    fn inspect<'a>(&'a self, _: &'a Context) -> Later<'a, Result<Layers, TierError>> {
        Box::pin(async { self.layers() })
    }

    fn has_cgroups(&self) -> bool {
        false
    }

    fn attempts(&self) -> Option<Attempts> {
        None
    }

    fn end(&self) -> Later<'_, Result<(), TierError>> {
        Box::pin(async {
            self.process.end().await;
            Ok(())
        })
    }

    fn has_ended(&self) -> bool {
        self.process.has_ended()
    }

    fn ended(&self) -> Later<'_, ()> {
        Box::pin(self.process.ended())
    }
}
