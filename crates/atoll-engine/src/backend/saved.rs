//! A live sandbox that was saved: what must be known, besides its files, to go on with a copy of it.

use super::agent::Talk;
use super::context::{Context, Interpreter};
use super::descriptors::{receive_on, send_on};
use super::start::Inspected;
use super::{BareSandbox, TierError};
use atoll_jail::order::{FromKeeper, ToKeeper};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};
use std::time::Duration;
use tokio::io::unix::AsyncFd;

/// Before any byte of a user: two sandboxes of one saved may not draw the same numbers.
pub(super) const RESEED: &str = "from atoll_kernel import reseed\nreseed.all()";
/// How long a context of a copy may take for that.
const RENEWED_WITHIN: Duration = Duration::from_secs(60);

/// Two open files: the memory, and what is none: the files of the scratch places, or a machine's devices.
pub(crate) type Files = [OwnedFd; 2];

/// A copy, with the contexts that live in it, in the order in which they were saved.
pub(crate) type Back = (BareSandbox, Vec<Inspected>);

/// Where the talk with its agent was, and which contexts go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Saved {
    pub(crate) talk: Talk,
    pub(crate) contexts: Vec<SavedContext>,
}

/// An interpreter that waits for code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedContext {
    pub(crate) interpreter: Interpreter,
    /// The agent's request that has started it.
    pub(crate) process: u32,
    /// Its number inside.
    pub(crate) pid: u32,
    /// Of control socket, stdout and stderr.
    pub(crate) streams: [u32; 3],
}

impl SavedContext {
    pub(crate) fn of(context: &Context) -> Result<Self, TierError> {
        let found = context.process.zip(context.inside);
        let (process, pid) = found.ok_or(TierError::Agent)?;
        Ok(Self {
            interpreter: context.interpreter,
            process,
            pid,
            streams: context.streams,
        })
    }
}

impl BareSandbox {
    /// Writes the sandbox down between two words of its agent, and lets it go on. The talk is further then than in the
    /// saved one, never behind it.
    pub(crate) async fn save(&self, contexts: Vec<SavedContext>, files: Files) -> Result<Saved, TierError> {
        self.wall.save(self, files, true).await?;
        let talk = self.agent.talk().await;
        Ok(Saved { talk, contexts })
    }

    /// The same for one that nobody needs any more: it is over.
    pub(super) async fn save_for_good(&self, contexts: Vec<SavedContext>, files: Files) -> Result<Saved, TierError> {
        let talk = self.agent.talk().await;
        self.wall.save(self, files, false).await?;
        Ok(Saved { talk, contexts })
    }
}

impl BareSandbox {
    /// A copy stands still as the saved one did: it goes on, and its contexts draw numbers of their own. Their walls are read back.
    pub(super) async fn wake(&self, contexts: Vec<Context>) -> Result<Vec<Inspected>, TierError> {
        self.freeze(false).await?;
        let mut inspected = Vec::new();
        for mut context in contexts {
            renew(&mut context).await?;
            let layers = self.inspect(&context).await?;
            inspected.push((context, layers));
        }
        Ok(inspected)
    }
}

/// Two copies of one interpreter may not draw the same numbers.
async fn renew(context: &mut Context) -> Result<(), TierError> {
    let seed = u32::from_be_bytes(crate::random_bytes()[..4].try_into().unwrap_or_default());
    let renewed = async {
        match context.interpreter {
            Interpreter::Python => context.warm(RESEED).await,
            Interpreter::Bash => context.reseed_shell(seed).await,
            Interpreter::Node => Ok(()),
        }
    };
    tokio::time::timeout(RENEWED_WITHIN, renewed)
        .await
        .map_err(|_| TierError::Context("a context restored from the snapshot does not respond".into()))?
}

/// Has a keeper do something, with these files.
pub(super) async fn order(keeper: &AsyncFd<OwnedFd>, what: &ToKeeper, files: &[OwnedFd]) -> Result<(), TierError> {
    let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
    send_on(keeper, what, &fds).await.map_err(|_| TierError::Over)?;
    match receive_on::<FromKeeper>(keeper).await {
        Ok((FromKeeper::Done, _)) => Ok(()),
        Ok((FromKeeper::Failed { message, .. }, _)) => Err(TierError::NotSaved(message)),
        Err(_) => Err(TierError::Over),
    }
}

/// Of files that are read to their ends, one after the other.
pub(crate) fn digest(files: &mut [File]) -> io::Result<String> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; 1 << 20];
    for file in files {
        loop {
            match file.read(&mut piece)? {
                0 => break,
                count => hash.update(&piece[..count]),
            }
        }
    }
    Ok(format!("{:x}", hash.finalize()))
}
