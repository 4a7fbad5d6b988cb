//! The wall of one sandbox under gVisor: the jailer's work, and a receipt that is read back from both sides.

use super::inside;
use super::runsc::Runsc;
use crate::backend::agent::Agent;
use crate::backend::context::Context;
use crate::backend::oci::PythonStart;
use crate::backend::saved::order;
use crate::backend::start::Inspected;
use crate::backend::{BareSandbox, Files, Later, Layers, OpenInput, TierError, Wall};
use crate::lock::lock;
use atoll_core::Limits;
use atoll_core::dry_run::Attempts;
use atoll_core::quantity::MemoryBytes;
use atoll_jail::order::ToKeeper;
use atoll_jail::plan::Layer;
use rustix::fd::OwnedFd;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use tokio::io::unix::AsyncFd;

#[derive(Debug)]
pub(super) struct GvisorWall {
    pub(super) inner: Box<dyn Wall>,
    pub(super) agent: Arc<Agent>,
    /// Our end of the channel to the keeper; one order at a time.
    pub(super) keeper: tokio::sync::Mutex<AsyncFd<OwnedFd>>,
    /// Of a restored sandbox: the context that it was saved with.
    pub(super) waiting: Mutex<Option<Context>>,
    pub(super) runsc: Arc<Runsc>,
    pub(super) required: Arc<BTreeSet<Layer>>,
    pub(super) python: Arc<PythonStart>,
}

impl GvisorWall {
    async fn order(&self, goes_on: bool, files: Files) -> Result<(), TierError> {
        let keeper = self.keeper.lock().await;
        order(&keeper, &ToKeeper::Save { goes_on }, &files).await
    }

    /// What is written counts as the sandbox's own memory until it is on disk, besides what it has.
    async fn save_with_room(&self, limits: Limits, files: Files) -> Result<(), TierError> {
        let memory = MemoryBytes::try_from(limits.memory.get().saturating_mul(3)).unwrap_or(MemoryBytes::MAX);
        let raised = Limits { memory, ..limits };
        self.inner.claim(&self.agent, raised, Vec::new()).await?;
        let saved = self.order(true, files).await;
        let lowered = self.inner.claim(&self.agent, limits, Vec::new()).await;
        if lowered.is_err() {
            self.inner.end().await?;
        }
        saved.and(lowered)
    }
}

impl Wall for GvisorWall {
    fn save<'a>(&'a self, sandbox: &'a BareSandbox, files: Files, goes_on: bool) -> Later<'a, Result<(), TierError>> {
        match goes_on {
            true => Box::pin(self.save_with_room(sandbox.limits, files)),
            false => Box::pin(self.order(false, files)),
        }
    }

    fn claim<'a>(
        &'a self,
        agent: &'a Agent,
        limits: Limits,
        inputs: Vec<OpenInput>,
    ) -> Later<'a, Result<(), TierError>> {
        self.inner.claim(agent, limits, inputs)
    }

    fn start_python<'a>(&'a self, sandbox: &'a BareSandbox) -> Later<'a, Result<Inspected, TierError>> {
        let waiting = lock(&self.waiting).take();
        Box::pin(async move {
            match waiting {
                Some(context) => {
                    let layers = self.inspect(&context).await?;
                    Ok((context, layers))
                }
                None => self.python.start(sandbox).await,
            }
        })
    }

    fn begins<'a>(&'a self, context: &'a mut Context) -> Later<'a, Result<(), TierError>> {
        self.inner.begins(context)
    }

    fn inspect<'a>(&'a self, context: &'a Context) -> Later<'a, Result<Layers, TierError>> {
        Box::pin(async move {
            let mut layers = self.inner.inspect(context).await?;
            layers.insert("runtime".to_owned(), self.runsc.facts());
            let pid = context.inside.ok_or(TierError::Agent)?;
            inside::inspect(&self.agent, pid, &self.required, &mut layers).await?;
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
