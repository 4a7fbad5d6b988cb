//! The talk with the agent of one sandbox: many requests under way at once, each with its own answers.

use super::lines::{Line, Lines, Reply};
use super::link::{JailError, receive_long_on, send_bytes_on, watch};
use atoll_core::wire::agent::{Answer, Ask, FromAgent, Refusal, ToAgent, UNASKED, encode};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::unix::AsyncFd;

/// Bytes of answers that one request may have waiting. The files of a collection have the longest answers.
const MOST_WAITING: usize = 8 << 20;
/// The same for changes of a watched directory: those come whether anybody reads them or not.
const MOST_CHANGES: usize = 1 << 20;

#[derive(Debug)]
pub(crate) struct Agent {
    channel: Arc<AsyncFd<OwnedFd>>,
    lines: Arc<Lines>,
    next: AtomicU32,
    reader: tokio::task::JoinHandle<()>,
}

/// A request that was sent, and its answers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: u32,
    line: Line,
}

impl Agent {
    /// Starts listening. The first answer of the returned request says that the agent is there.
    pub(super) fn start(ours: OwnedFd) -> Result<(Self, Asked), JailError> {
        let channel = Arc::new(watch(ours)?);
        let lines = Arc::new(Lines::default());
        let hello = Asked {
            request: UNASKED,
            line: lines.open(UNASKED, MOST_WAITING),
        };
        let reader = tokio::spawn(read(Arc::clone(&channel), Arc::clone(&lines)));
        let agent = Self {
            channel,
            lines,
            next: AtomicU32::new(UNASKED),
            reader,
        };
        Ok((agent, hello))
    }

    pub(crate) async fn ask(&self, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<Asked, JailError> {
        let request = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let most = match ask {
            Ask::Watch { .. } => MOST_CHANGES,
            _ => MOST_WAITING,
        };
        let line = self.lines.open(request, most);
        self.send(request, ask, fds).await?;
        Ok(Asked { request, line })
    }

    /// Asks for something that has one answer.
    pub(crate) async fn ask_once(&self, ask: Ask) -> Result<Reply, JailError> {
        self.ask(ask, &[]).await?.next().await
    }

    /// Says something that has no answer.
    pub(crate) async fn tell(&self, ask: Ask) -> Result<(), JailError> {
        let request = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(request, ask, &[]).await
    }

    async fn send(&self, request: u32, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<(), JailError> {
        let body = encode(&ToAgent { request, ask }).ok_or_else(too_long)?;
        send_bytes_on(&self.channel, &body, fds).await
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Asked {
    /// The next answer. What the agent refused is an error with its words.
    pub(crate) async fn next(&mut self) -> Result<Reply, JailError> {
        self.next_long().await.map(|(reply, _)| reply)
    }

    /// The same, with how many bytes it came in.
    pub(crate) async fn next_long(&mut self) -> Result<(Reply, usize), JailError> {
        match self.line.next().await {
            Some(((Answer::Refused { why, message }, _), _)) => Err(JailError::Refused { why, message }),
            Some(reply) => Ok(reply),
            None => Err(JailError::Agent),
        }
    }
}

fn too_long() -> JailError {
    let message = "the request is too long for the sandbox's agent".to_owned();
    let why = Refusal::Invalid;
    JailError::Refused { why, message }
}

async fn read(channel: Arc<AsyncFd<OwnedFd>>, lines: Arc<Lines>) {
    while let Ok((FromAgent { request, answer }, fds, bytes)) = receive_long_on(&channel).await {
        lines.add(request, (answer, fds), bytes);
    }
    lines.close();
}
