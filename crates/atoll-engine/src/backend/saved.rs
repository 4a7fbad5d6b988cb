//! A live sandbox that was saved: what must be known, besides its files, to go on with a copy of it.

use super::agent::Talk;
use super::context::{Context, Interpreter};
use super::start::Inspected;
use super::{BareSandbox, TierError};
use rustix::fd::OwnedFd;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, Read};

/// Two open files: the memory, and the files of the scratch places.
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
