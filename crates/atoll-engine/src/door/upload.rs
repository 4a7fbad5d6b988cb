//! A file on its way in, with its entry: closed with size and digest when the file is there, as given up when it is not.

use super::Ticket;
use crate::audit::{Closing, Digest, Ending, FileFact};
use crate::engine::EngineError;
use crate::inside::RawUpload;
use atoll_core::wire::agent::Entry;
use sha2::{Digest as _, Sha256};

#[derive(Debug)]
pub struct Upload<'a> {
    raw: RawUpload<'a>,
    ticket: Ticket,
    hasher: Sha256,
    size: u64,
}

impl<'a> Upload<'a> {
    pub(super) fn new(raw: RawUpload<'a>, ticket: Ticket) -> Self {
        Self {
            raw,
            ticket,
            hasher: Sha256::new(),
            size: 0,
        }
    }

    /// Hands over the next bytes. An agent that has given up is told of by [`Upload::commit`].
    pub async fn push(&mut self, bytes: &[u8]) -> Result<(), EngineError> {
        if self.ticket.is_kept() {
            self.hasher.update(bytes);
        }
        self.size += bytes.len() as u64;
        self.raw.push(bytes).await
    }

    /// Whether the agent has refused the file and wants no more of it.
    pub fn is_refused(&self) -> bool {
        self.raw.is_refused()
    }

    /// All is handed over: the file is there when this returns.
    pub async fn commit(self) -> Result<Entry, EngineError> {
        let done = self.raw.commit().await;
        let (hasher, size) = (self.hasher, self.size);
        self.ticket.close(|| match &done {
            Ok(_) => Closing {
                inputs: vec![FileFact {
                    size,
                    sha256: Some(Digest::finish(hasher)),
                }],
                ..Closing::of(Ending::Ok)
            },
            Err(error) => Closing::failed(error),
        });
        done
    }

    /// Gives the file up; nothing of it stays.
    pub async fn abort(self) -> Result<(), EngineError> {
        let done = self.raw.abort().await;
        self.ticket.close(|| Closing::of(Ending::Abandoned));
        done
    }
}
