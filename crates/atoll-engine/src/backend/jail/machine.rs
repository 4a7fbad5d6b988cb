//! Sandboxes in a virtual machine: the jailer starts the machine's process; what is inside is asked elsewhere.

use super::JailBackend;
use super::mailbox::Topic;
use super::make::{ask, await_made};
use super::wall::JailWall;
use crate::backend::agent::{Agent, Asked};
use crate::backend::carried::Carried;
use crate::backend::{BareSandbox, Made, TierError};
use atoll_core::Tier;
use atoll_jail::channel;
use atoll_jail::plan::VmStart;
use rustix::fd::OwnedFd;
use std::sync::Arc;

impl JailBackend {
    pub(super) async fn machine(
        &self,
        made: &Made,
        start: VmStart,
        beside: Vec<OwnedFd>,
        under_way: u32,
    ) -> Result<(BareSandbox, Asked), TierError> {
        let (ours, theirs) = channel::pair().map_err(TierError::Channel)?;
        let (agent, asked) = Agent::adopt(ours, under_way)?;
        let wall = JailWall::new(Arc::clone(&self.link), false);
        let mut answers = wall.mailbox.listen(Topic::Made);
        let beside: Vec<OwnedFd> = std::iter::once(theirs).chain(beside).collect();
        ask(&wall, made, (false, None, Some(start)), &beside).await?;
        drop(beside);
        let sandbox = BareSandbox {
            id: wall.id.clone(),
            tier: Tier::Microvm,
            stats: await_made(&wall, &mut answers).await?,
            agent: Arc::new(agent),
            limits: made.limits,
            wall: Box::new(wall),
            carried: Some(Carried {
                dir: self.spool.clone(),
            }),
        };
        Ok((sandbox, asked))
    }
}
