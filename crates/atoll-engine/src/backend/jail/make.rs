//! Making a sandbox of the jail: the sandbox, its inputs and its first context are asked for at once, then awaited.

use super::TEMPLATE;
use super::link::Link;
use super::mailbox::{Letters, Topic};
use super::start::AskedContext;
use super::wall::{JailWall, await_claim};
use crate::backend::agent::{Agent, Asked};
use crate::backend::{BareSandbox, Fresh, Inspected, Made, TierError};
use crate::stat::Stats;
use atoll_core::Tier;
use atoll_core::wire::agent::Answer;
use atoll_jail::channel;
use atoll_jail::plan::{FromJailer, ToJailer, VmStart};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

pub(super) async fn make(link: Arc<Link>, made: Made) -> Result<Fresh, TierError> {
    let (ours, theirs) = channel::pair().map_err(TierError::Channel)?;
    let (agent, mut hello) = Agent::start(ours)?;
    let wall = JailWall::new(link, made.watched);
    let limits = made.limits;
    let (stats, python) = match begin(&wall, made, theirs, &mut hello).await {
        Ok(begun) => begun,
        Err(error) => return Err(wall.give_up(error).await),
    };
    let sandbox = BareSandbox {
        id: wall.id.clone(),
        tier: Tier::Jail,
        stats,
        agent: Arc::new(agent),
        limits,
        wall: Box::new(wall),
        carried: None,
    };
    Ok((sandbox, python))
}

/// Until it is ready, with its first context if one was asked for.
async fn begin(
    wall: &JailWall,
    made: Made,
    theirs: OwnedFd,
    hello: &mut Asked,
) -> Result<(Stats, Option<Inspected>), TierError> {
    let (context, stdio) = match made.python {
        true => AskedContext::new(wall).map(|(asked, theirs)| (Some(asked), Vec::from(theirs)))?,
        false => (None, Vec::new()),
    };
    let mut answers = wall.mailbox.listen(Topic::Made);
    let number = context.as_ref().map(|asked| asked.number);
    let beside: Vec<OwnedFd> = std::iter::once(theirs).chain(stdio).collect();
    ask(wall, &made, (false, number, None), &beside).await?;
    drop(beside);
    let claimed = match made.inputs.is_empty() {
        true => None,
        false => Some(wall.ask_claim(made.limits, made.inputs).await?),
    };
    let stats = await_ready(wall, &mut answers, hello).await?;
    if let Some(claimed) = claimed {
        await_claim(claimed).await?;
    }
    let python = match context {
        Some(asked) => Some(asked.start(wall).await?),
        None => None,
    };
    Ok((stats, python))
}

/// With a channel to its keeper, the number of a context that comes with it, and its virtual machine.
pub(super) async fn ask(
    wall: &JailWall,
    made: &Made,
    (keeper, context, vm): (bool, Option<u32>, Option<VmStart>),
    beside: &[OwnedFd],
) -> Result<(), TierError> {
    let message = ToJailer::CreateSandbox {
        sandbox: wall.id.clone(),
        template: TEMPLATE,
        limits: made.limits,
        watched: made.watched,
        keeper,
        context,
        vm,
    };
    let fds: Vec<BorrowedFd<'_>> = beside.iter().map(AsFd::as_fd).collect();
    wall.link.send(&message, &fds).await
}

/// What the kernel counts of it can be read from here on.
pub(super) async fn await_made(wall: &JailWall, made: &mut Letters) -> Result<Stats, TierError> {
    match made.next().await {
        Ok((FromJailer::SandboxReady { stats, .. }, fds)) => Ok(Stats::new(stats, fds)),
        Ok((FromJailer::SandboxFailed { message, .. }, _)) => Err(TierError::Sandbox(message)),
        Ok((other, _)) => Err(TierError::Sandbox(format!(
            "unexpected message from the jailer: {other:?}"
        ))),
        Err(_) => {
            let why = format!("{}{}", wall.link.why_down(TEMPLATE), wall.link.complaint());
            let error = TierError::Sandbox(format!("the sandbox's first process exited immediately{why}"));
            Err(wall.blame_spawner(error))
        }
    }
}

/// The agent's word comes last: it is locked down, too.
async fn await_ready(wall: &JailWall, made: &mut Letters, hello: &mut Asked) -> Result<Stats, TierError> {
    let stats = await_made(wall, made).await?;
    match hello.next().await? {
        (Answer::Ready, _) => Ok(stats),
        _ => Err(TierError::Agent),
    }
}
