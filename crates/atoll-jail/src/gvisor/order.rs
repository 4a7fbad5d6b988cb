//! What the engine says to a keeper, on a channel of theirs, and what it hears.

use crate::channel;
use crate::step::{Step, StepError};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

/// What the engine asks of a keeper. First come `Adopt`, as often as needed, and one `Begin`.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToKeeper {
    /// Streams that a restored sandbox has already. Beside it: one descriptor for each number.
    Adopt { streams: Vec<u32> },
    /// How the sandbox starts. Beside it, for a snapshot: its two files.
    Begin { from: Origin },
    /// Beside it: the two files to write to. One that goes on is back when this is answered.
    Save { goes_on: bool },
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

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromKeeper {
    Saved,
    /// It goes on as before, unless it is `over`.
    NotSaved {
        message: String,
        over: bool,
    },
}

/// All that is said before a sandbox starts.
pub(super) struct Start {
    pub(super) from: Origin,
    pub(super) adopted: Vec<(u32, OwnedFd)>,
    /// Of a snapshot: image and scratch files.
    pub(super) files: Vec<OwnedFd>,
}

impl Start {
    pub(super) fn hear(engine: Option<&OwnedFd>) -> Result<Self, StepError> {
        let what = "hear how the sandbox starts";
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
                (ToKeeper::Save { .. }, _) => return Err(Errno::PROTO).step(what),
            }
        }
    }
}
