//! The wall of one container: the jailer's work, and a receipt that names the runtime.

use super::python::PythonStart;
use super::runtime::Runtime;
use crate::backend::agent::Agent;
use crate::backend::context::Context;
use crate::backend::start::Inspected;
use crate::backend::{BareSandbox, Later, Layers, OpenInput, TierError, Wall};
use atoll_core::Limits;
use atoll_core::dry_run::Attempts;
use serde_json::json;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct ContainerWall {
    pub(super) inner: Box<dyn Wall>,
    pub(super) runtime: Arc<Runtime>,
    pub(super) python: Arc<PythonStart>,
}

impl Wall for ContainerWall {
    fn claim<'a>(
        &'a self,
        agent: &'a Agent,
        limits: Limits,
        inputs: Vec<OpenInput>,
    ) -> Later<'a, Result<(), TierError>> {
        self.inner.claim(agent, limits, inputs)
    }

    fn start_python<'a>(&'a self, sandbox: &'a BareSandbox) -> Later<'a, Result<Inspected, TierError>> {
        Box::pin(self.python.start(sandbox))
    }

    fn begins<'a>(&'a self, context: &'a mut Context) -> Later<'a, Result<(), TierError>> {
        self.inner.begins(context)
    }

    fn inspect<'a>(&'a self, context: &'a Context) -> Later<'a, Result<Layers, TierError>> {
        Box::pin(async move {
            let mut layers = self.inner.inspect(context).await?;
            layers.insert("runtime".to_owned(), json!(self.runtime.facts()));
            Ok(layers)
        })
    }

    fn has_cgroups(&self) -> bool {
        self.inner.has_cgroups()
    }

    fn attempts(&self) -> Option<Attempts> {
        self.inner.attempts()
    }

    fn end(&self) -> Later<'_, Result<(), TierError>> {
        self.inner.end()
    }

    fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }

    fn ended(&self) -> Later<'_, ()> {
        self.inner.ended()
    }
}
