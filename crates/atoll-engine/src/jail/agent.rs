//! The talk with the agent of one sandbox: many requests under way at once, each with its own answers.

use super::link::{JailError, lock, receive_on, send_bytes_on, watch};
use atoll_core::wire::agent::{Answer, Ask, FromAgent, Refusal, ToAgent, UNASKED, encode};
use rustix::fd::{BorrowedFd, OwnedFd};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// Answers that one request may have waiting. Who does not read them loses the rest, not the others' answers.
const WAITING: usize = 4096;

type Reply = (Answer, Vec<OwnedFd>);

/// Requests without their last answer; `None` once the agent is gone.
type Waiting = Mutex<Option<HashMap<u32, mpsc::Sender<Reply>>>>;

#[derive(Debug)]
pub(crate) struct Agent {
    channel: Arc<AsyncFd<OwnedFd>>,
    waiting: Arc<Waiting>,
    next: AtomicU32,
    reader: tokio::task::JoinHandle<()>,
}

/// A request that was sent, and its answers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: u32,
    replies: mpsc::Receiver<Reply>,
    waiting: Arc<Waiting>,
}

impl Agent {
    /// Starts listening. The first answer of the returned request says that the agent is there.
    pub(super) fn start(ours: OwnedFd) -> Result<(Self, Asked), JailError> {
        let channel = Arc::new(watch(ours)?);
        let waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let hello = expect(&waiting, UNASKED);
        let reader = tokio::spawn(read(Arc::clone(&channel), Arc::clone(&waiting)));
        let agent = Self {
            channel,
            waiting,
            next: AtomicU32::new(UNASKED),
            reader,
        };
        Ok((agent, hello))
    }

    pub(crate) async fn ask(&self, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<Asked, JailError> {
        let request = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let asked = expect(&self.waiting, request);
        self.send(request, ask, fds).await?;
        Ok(asked)
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
        match self.replies.recv().await {
            Some((Answer::Refused { why, message }, _)) => Err(JailError::Refused { why, message }),
            Some(reply) => Ok(reply),
            None => Err(JailError::Agent),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(waiting) = lock(&self.waiting).as_mut() {
            waiting.remove(&self.request);
        }
    }
}

fn too_long() -> JailError {
    let message = "the request is too long for the sandbox's agent".to_owned();
    let why = Refusal::Invalid;
    JailError::Refused { why, message }
}

fn expect(waiting: &Arc<Waiting>, request: u32) -> Asked {
    let (sender, replies) = mpsc::channel(WAITING);
    if let Some(waiting) = lock(waiting).as_mut() {
        waiting.insert(request, sender);
    }
    Asked {
        request,
        replies,
        waiting: Arc::clone(waiting),
    }
}

async fn read(channel: Arc<AsyncFd<OwnedFd>>, waiting: Arc<Waiting>) {
    while let Ok((FromAgent { request, answer }, fds)) = receive_on(&channel).await {
        if let Some(waiting) = lock(&waiting).as_mut() {
            let full = waiting
                .get(&request)
                .is_some_and(|s| s.try_send((answer, fds)).is_err());
            if full {
                waiting.remove(&request);
            }
        }
    }
    *lock(&waiting) = None;
}
