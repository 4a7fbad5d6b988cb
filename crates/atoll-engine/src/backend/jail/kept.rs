//! Sandboxes that a keeper holds behind a wall of its own kind, made new or restored from a saved one.
//!
//! The engine talks to the keeper on a channel of theirs. A restored sandbox has an agent that has said its first word
//! long ago, and contexts that wait for code.

use super::JailBackend;
use super::mailbox::Topic;
use super::make::{ask, await_made};
use super::wall::JailWall;
use crate::backend::agent::{Agent, Asked};
use crate::backend::carried::Carried;
use crate::backend::context::{Context, Parts};
use crate::backend::descriptors::{send_on, watch};
use crate::backend::start::{Ends, Parent};
use crate::backend::{BareSandbox, Made, Saved, SavedContext, TierError};
use crate::stat::Stats;
use atoll_core::Tier;
use atoll_core::wire::agent::Answer;
use atoll_jail::channel;
use atoll_jail::order::{Origin, ToKeeper};
use atoll_jail::plan::VmStart;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;

/// A sandbox as its keeper has it.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) sandbox: BareSandbox,
    /// Our end of the channel to the keeper.
    pub(crate) keeper: AsyncFd<OwnedFd>,
    /// Of a restored one. Nothing was read back of them yet.
    pub(crate) contexts: Vec<Context>,
}

/// What a virtual machine begins with: how, and its descriptors. Nothing where the sandbox is in none.
pub(crate) type Machine = Option<(VmStart, Vec<OwnedFd>)>;

/// Where a saved one comes from, and what its keeper gets of it.
pub(crate) type Source = (Origin, Vec<OwnedFd>);

impl JailBackend {
    /// One that starts: its agent has said that it is there.
    pub(crate) async fn make_kept(&self, tier: Tier, made: Made) -> Result<Kept, TierError> {
        let (kept, mut hello) = self.begin_kept(tier, &made, None).await?;
        match hello.next().await {
            Ok((Answer::Ready, _)) => Ok(kept),
            _ => {
                let complaint = self.link.complaint();
                let error = TierError::Sandbox(format!("the agent exited immediately{complaint}"));
                Err(self.link.blame(error))
            }
        }
    }

    /// The same, while its agent still starts; its first answer comes to the returned request.
    pub(crate) async fn begin_kept(
        &self,
        tier: Tier,
        made: &Made,
        machine: Machine,
    ) -> Result<(Kept, Asked), TierError> {
        let begun = self.begun(tier, made, machine).await;
        begun.map_err(|error| self.link.blame(error))
    }

    /// One that was saved with contexts that wait for code. Their new descriptors go to the streams that it knows.
    pub(crate) async fn restore_kept(
        &self,
        tier: Tier,
        made: &Made,
        saved: &Saved,
        (from, machine): (Source, Machine),
    ) -> Result<Kept, TierError> {
        let restored = self.restored(tier, made, saved, (from, machine)).await;
        restored.map_err(|error| self.link.blame(error))
    }

    async fn begun(&self, tier: Tier, made: &Made, machine: Machine) -> Result<(Kept, Asked), TierError> {
        let (ours, theirs) = channel::pair().map_err(TierError::Channel)?;
        let (keeper, their_keeper) = channel::pair().map_err(TierError::Channel)?;
        let keeper = watch(keeper)?;
        let (agent, hello) = Agent::start(ours)?;
        let wall = JailWall::new(Arc::clone(&self.link), false);
        let mut answers = wall.mailbox.listen(Topic::Made);
        ask_keeper(&wall, made, [theirs, their_keeper], machine).await?;
        let from = Origin::Nothing;
        // If it is gone already, the jailer says why.
        send_on(&keeper, &ToKeeper::Begin { from }, &[]).await.ok();
        let stats = await_made(&wall, &mut answers).await?;
        let kept = Kept {
            sandbox: self.bare(tier, made, (agent, stats, wall)),
            keeper,
            contexts: Vec::new(),
        };
        Ok((kept, hello))
    }

    async fn restored(
        &self,
        tier: Tier,
        made: &Made,
        saved: &Saved,
        ((from, files), machine): (Source, Machine),
    ) -> Result<Kept, TierError> {
        let (ours, theirs) = channel::pair().map_err(TierError::Channel)?;
        let (keeper, their_keeper) = channel::pair().map_err(TierError::Channel)?;
        let keeper = watch(keeper)?;
        let requests: Vec<u32> = saved.contexts.iter().map(|context| context.process).collect();
        let (agent, asked) = Agent::resume(ours, &requests, saved.talk)?;
        let wall = JailWall::new(Arc::clone(&self.link), false);
        let mut answers = wall.mailbox.listen(Topic::Made);
        ask_keeper(&wall, made, [theirs, their_keeper], machine).await?;
        let mut contexts = Vec::new();
        for (context, asked) in saved.contexts.iter().zip(asked) {
            contexts.push(adopt(&keeper, context, asked).await?);
        }
        let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        send_on(&keeper, &ToKeeper::Begin { from }, &files).await.ok();
        let stats = await_made(&wall, &mut answers).await?;
        Ok(Kept {
            sandbox: self.bare(tier, made, (agent, stats, wall)),
            keeper,
            contexts,
        })
    }

    fn bare(&self, tier: Tier, made: &Made, (agent, stats, wall): (Agent, Stats, JailWall)) -> BareSandbox {
        let dir = self.spool.clone();
        BareSandbox {
            id: wall.id.clone(),
            tier,
            stats,
            agent: Arc::new(agent),
            limits: made.limits,
            wall: Box::new(wall),
            carried: Some(Carried { dir }),
        }
    }
}

/// Asks for a sandbox with a keeper: the agent's and the keeper's ends, and what its machine is given.
async fn ask_keeper(wall: &JailWall, made: &Made, ends: [OwnedFd; 2], machine: Machine) -> Result<(), TierError> {
    let (start, given) = machine.unzip();
    let beside: Vec<OwnedFd> = ends.into_iter().chain(given.into_iter().flatten()).collect();
    ask(wall, made, (true, None, start), &beside).await
}

/// New descriptors for a context from before.
async fn adopt(keeper: &AsyncFd<OwnedFd>, saved: &SavedContext, asked: Asked) -> Result<Context, TierError> {
    let ends = Ends::make()?;
    let streams = saved.streams.to_vec();
    let fds = ends.theirs.each_ref().map(AsFd::as_fd);
    // If the keeper is gone already, the jailer says why.
    send_on(keeper, &ToKeeper::Adopt { streams }, &fds).await.ok();
    let parts = Parts {
        pidfd: None,
        parent: Parent::Agent(asked),
        process: Some(saved.process),
    };
    let mut context = Context::new(saved.interpreter, ends.ours, parts)?;
    (context.inside, context.streams) = (Some(saved.pid), saved.streams);
    Ok(context)
}
