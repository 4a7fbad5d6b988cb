//! The wall of one sandbox of the jail: everything about it that the jailer does and answers.

use super::TEMPLATE;
use super::link::Link;
use super::mailbox::{Letters, Mailbox, Topic};
use super::watch::Watch;
use crate::backend::agent::Agent;
use crate::backend::context::Context;
use crate::backend::start::Inspected;
use crate::backend::{BareSandbox, Later, Layers, OpenInput, TierError, Wall};
use atoll_core::dry_run::Attempts;
use atoll_core::{Limits, SandboxId};
use atoll_jail::plan::{FromJailer, InputPlan, ToJailer};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[derive(Debug)]
pub(super) struct JailWall {
    pub(super) id: SandboxId,
    pub(super) link: Arc<Link>,
    pub(super) mailbox: Arc<Mailbox>,
    /// Only in a dry run: what its contexts try.
    pub(super) watch: Option<Arc<Watch>>,
    /// Questions to the jailer about the whole sandbox go one after the other.
    turn: tokio::sync::Mutex<()>,
    contexts: AtomicU32,
    ended: AtomicBool,
}

impl JailWall {
    pub(super) fn new(link: Arc<Link>, watched: bool) -> Self {
        let id = SandboxId::from_random(crate::random_bytes());
        Self {
            mailbox: link.mailbox(&id),
            id,
            link,
            watch: watched.then(Arc::default),
            turn: tokio::sync::Mutex::default(),
            contexts: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }
    }

    pub(super) async fn ask_claim(&self, limits: Limits, inputs: Vec<OpenInput>) -> Result<Letters, TierError> {
        let (plans, proofs): (Vec<InputPlan>, Vec<OwnedFd>) = inputs.into_iter().unzip();
        let fds: Vec<BorrowedFd<'_>> = proofs.iter().map(AsFd::as_fd).collect();
        let message = ToJailer::Claim {
            sandbox: self.id.clone(),
            limits,
            inputs: plans,
        };
        let letters = self.mailbox.listen(Topic::Claim);
        self.link.send(&message, &fds).await?;
        Ok(letters)
    }

    /// Asks for the walls of a context; the answer is awaited later. One without a pidfd runs under another kernel than ours:
    /// asked for are the walls around that.
    pub(super) async fn ask_inspect(&self, context: &Context) -> Result<AskedInspect<'_>, TierError> {
        let turn = self.turn.lock().await;
        let message = ToJailer::Inspect {
            sandbox: self.id.clone(),
        };
        let pidfd: Vec<BorrowedFd<'_>> = context.pidfd.iter().map(AsFd::as_fd).collect();
        let letters = self.mailbox.listen(Topic::Inspect);
        self.link.send(&message, &pidfd).await?;
        Ok(AskedInspect { letters, _turn: turn })
    }

    /// In a dry run: takes the context's listener before anything runs in it.
    pub(super) async fn watch_context(&self, context: &mut Context) -> Result<(), TierError> {
        let Some(watch) = &self.watch else {
            return Ok(());
        };
        let listener = context.take_listener().await?;
        watch.begin(listener, context.process.is_some())
    }

    async fn end_now(&self) -> Result<(), TierError> {
        if !self.ended.swap(true, Ordering::Relaxed) && !self.mailbox.has_ended() {
            let message = ToJailer::EndSandbox {
                sandbox: self.id.clone(),
            };
            self.link.send(&message, &[]).await?;
        }
        self.mailbox.ended().await;
        Ok(())
    }

    /// Ends a sandbox that could not be made, and names the cause: with a spawner all of its processes end, and any of them
    /// may have been missed first.
    pub(super) async fn give_up(&self, error: TierError) -> TierError {
        self.end_now().await.ok();
        self.blame_spawner(error)
    }

    pub(super) fn blame_spawner(&self, error: TierError) -> TierError {
        if self.mailbox.spawner_has_ended() {
            TierError::Spawner(self.link.why_down(TEMPLATE))
        } else {
            error
        }
    }

    pub(super) fn next_context(&self) -> u32 {
        self.contexts.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Wall for JailWall {
    fn claim<'a>(&'a self, _: &'a Agent, limits: Limits, inputs: Vec<OpenInput>) -> Later<'a, Result<(), TierError>> {
        Box::pin(async move {
            let claimed = await_claim(self.ask_claim(limits, inputs).await?).await;
            claimed.map_err(|error| self.blame_spawner(error))
        })
    }

    /// Forks a context from the template's warm interpreter.
    fn start_python<'a>(&'a self, _: &'a BareSandbox) -> Later<'a, Result<Inspected, TierError>> {
        Box::pin(async move { self.fork_python().await.map_err(|error| self.link.blame(error)) })
    }

    fn begins<'a>(&'a self, context: &'a mut Context) -> Later<'a, Result<(), TierError>> {
        Box::pin(self.watch_context(context))
    }

    fn inspect<'a>(&'a self, context: &'a Context) -> Later<'a, Result<Layers, TierError>> {
        Box::pin(async move { self.ask_inspect(context).await?.layers().await })
    }

    fn has_cgroups(&self) -> bool {
        self.link.host.has_cgroups()
    }

    fn attempts(&self) -> Option<Attempts> {
        Some(self.watch.as_ref()?.attempts())
    }

    fn end(&self) -> Later<'_, Result<(), TierError>> {
        Box::pin(self.end_now())
    }

    fn has_ended(&self) -> bool {
        self.mailbox.has_ended()
    }

    fn ended(&self) -> Later<'_, ()> {
        Box::pin(self.mailbox.ended())
    }
}

impl Drop for JailWall {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed) {
            self.link.end_without_waiting(&self.id);
        }
    }
}

/// A context's walls are being read back.
pub(super) struct AskedInspect<'a> {
    letters: Letters,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl AskedInspect<'_> {
    pub(super) async fn layers(mut self) -> Result<Layers, TierError> {
        match self.letters.next().await? {
            (FromJailer::Inspected { layers, .. }, _) => Ok(layers),
            (FromJailer::InspectFailed { message, .. }, _) => Err(TierError::Context(message)),
            (other, _) => Err(TierError::Context(format!(
                "unexpected message from the jailer: {other:?}"
            ))),
        }
    }
}

pub(super) async fn await_claim(mut letters: Letters) -> Result<(), TierError> {
    match letters.next().await? {
        (FromJailer::Claimed { .. }, _) => Ok(()),
        (FromJailer::ClaimFailed { message, .. }, _) => Err(TierError::Claim(message)),
        (other, _) => Err(TierError::Claim(format!(
            "unexpected message from the jailer: {other:?}"
        ))),
    }
}
