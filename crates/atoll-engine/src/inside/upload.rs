//! A file on its way into a sandbox: bytes through a pipe to the agent, which writes them with the user's rights.

use crate::backend::{Agent, Asked, TierError, pipe, watch};
use crate::engine::EngineError;
use atoll_core::wire::agent::{Answer, Ask, Entry};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use tokio::io::unix::AsyncFd;

/// Room of the pipe: fewer turns for the same bytes.
const PIPE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct RawUpload<'a> {
    agent: &'a Agent,
    asked: Asked,
    pipe: Option<AsyncFd<OwnedFd>>,
}

impl<'a> RawUpload<'a> {
    pub(super) async fn begin(
        agent: &'a Agent,
        path: &str,
        metadata: BTreeMap<String, String>,
    ) -> Result<Self, TierError> {
        let (theirs, ours) = pipe()?;
        // A smaller pipe is slower, not wrong.
        rustix::pipe::fcntl_setpipe_size(&ours, PIPE_BYTES).ok();
        let path = path.to_owned();
        let asked = agent.ask(Ask::Write { path, metadata }, &[theirs.as_fd()]).await?;
        let pipe = Some(watch(ours)?);
        Ok(Self { agent, asked, pipe })
    }

    /// Hands over the next bytes. An agent that has given up is told of by [`RawUpload::commit`].
    pub(crate) async fn push(&mut self, mut bytes: &[u8]) -> Result<(), EngineError> {
        while let (Some(pipe), false) = (&self.pipe, bytes.is_empty()) {
            let mut guard = pipe.writable().await.map_err(TierError::Start)?;
            match rustix::io::write(pipe.get_ref(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(Errno::PIPE) => self.pipe = None,
                Err(errno) => return Err(TierError::Start(errno.into()).into()),
            }
        }
        Ok(())
    }

    /// Whether the agent has refused the file and wants no more of it.
    pub(crate) fn is_refused(&self) -> bool {
        self.pipe.is_none()
    }

    /// All is handed over: the file is there when this returns.
    pub(crate) async fn commit(mut self) -> Result<Entry, EngineError> {
        self.pipe = None;
        let write = self.asked.request;
        self.agent.tell(Ask::Commit { write }).await?;
        match self.asked.next().await? {
            (Answer::Entry { entry }, _) => Ok(entry),
            _ => Err(TierError::Agent.into()),
        }
    }

    /// Gives the file up; nothing of it stays.
    pub(crate) async fn abort(mut self) -> Result<(), EngineError> {
        self.pipe = None;
        let write = self.asked.request;
        Ok(self.agent.tell(Ask::Abort { write }).await?)
    }
}
