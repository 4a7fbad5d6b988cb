//! What the engine says to the keeper of one sandbox, on a channel of theirs, and what it hears.

use crate::channel;
use crate::step::{Step, StepError};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What the engine asks of a keeper. First come `Adopt`, as often as needed, and one `Begin`; each of the others has one answer.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToKeeper {
    /// Streams that a restored sandbox has already. Beside it: one descriptor for each number.
    Adopt { streams: Vec<u32> },
    /// How the sandbox starts. Beside it, for a snapshot under gVisor: its two files.
    Begin { from: Origin },
    /// Under gVisor. Beside it: the two files to write to. One that goes on is back when this is answered.
    Save { goes_on: bool },
    /// Of a virtual machine: nothing is under way between the two ferries, until they may go on.
    Hold { on: bool },
    /// Of a virtual machine that stands still. Beside it: the file that its memory is written to.
    Copy,
    /// Of a virtual machine that has not begun. Beside it: the file that its memory comes from.
    Lay,
}

/// What a sandbox is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Origin {
    Nothing,
    /// The template's saved one, which waits for code.
    Ready,
    /// A saved live one. New streams have numbers from here.
    Snapshot {
        next: u32,
    },
}

impl Origin {
    /// The number of the first new stream, where a guest must be told to go on.
    pub(crate) fn next(self) -> Option<u32> {
        match self {
            Self::Snapshot { next } => Some(next),
            Self::Nothing | Self::Ready => None,
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromKeeper {
    Done,
    /// The sandbox goes on as before, unless it is `over`.
    Failed {
        message: String,
        over: bool,
    },
}

/// All that is said before a sandbox starts.
pub(crate) struct Start {
    pub(crate) from: Origin,
    pub(crate) adopted: Vec<(u32, OwnedFd)>,
    /// Of a snapshot under gVisor: image and scratch files.
    pub(crate) files: Vec<OwnedFd>,
}

impl Start {
    pub(crate) fn hear(engine: Option<&OwnedFd>) -> Result<Self, StepError> {
        let what = "receive the sandbox's start parameters";
        let engine = engine.ok_or(Errno::BADF).step(what)?;
        let mut adopted = Vec::new();
        loop {
            match channel::receive::<ToKeeper>(engine)
                .map_err(|_| Errno::PROTO)
                .step(what)?
            {
                (ToKeeper::Adopt { streams }, fds) => adopted.extend(streams.into_iter().zip(fds)),
                (ToKeeper::Begin { from }, files) => {
                    return Ok(Self { from, adopted, files });
                }
                _ => return Err(Errno::PROTO).step(what),
            }
        }
    }
}
