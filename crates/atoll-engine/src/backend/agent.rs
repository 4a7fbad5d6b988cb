//! The talk with the agent of one sandbox: many requests under way at once, each with its own answers.

use super::descriptors::{receive_long_on, send_bytes_on, watch};
use super::error::TierError;
use super::lines::{Line, Lines, Reply};
use atoll_core::wire::agent::{Answer, Ask, FromAgent, Refusal, ToAgent, UNASKED, encode};
use atoll_jail::channel::ChannelError;
use atoll_jail::ferry;
use rustix::fd::{BorrowedFd, OwnedFd};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tokio::io::unix::AsyncFd;

/// Bytes of answers that one request may have waiting. The files of a collection have the longest answers.
const MOST_WAITING: usize = 8 << 20;
/// The same for changes of a watched directory: those come whether anybody reads them or not.
const MOST_CHANGES: usize = 1 << 20;

/// What a ferry of the host's side gives out first.
const FIRST_STREAM: u32 = 1;

#[derive(Debug)]
pub(crate) struct Agent {
    channel: Arc<AsyncFd<OwnedFd>>,
    lines: Arc<Lines>,
    next: AtomicU32,
    /// The number that a ferry gives to the next descriptor; it counts as we do.
    streams: tokio::sync::Mutex<u32>,
    reader: tokio::task::JoinHandle<()>,
}

/// How far the talk with an agent is: whoever goes on with it begins here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Talk {
    /// The last request.
    request: u32,
    /// The first number that no stream has had.
    pub(super) stream: u32,
}

/// A request that was sent, and its answers.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) request: u32,
    /// Where a ferry carries them: the numbers of the descriptors beside it, 0 for what is no stream.
    pub(crate) streams: Vec<u32>,
    line: Line,
}

impl Agent {
    /// Starts listening. The first answer of the returned request says that the agent is there.
    pub(super) fn start(ours: OwnedFd) -> Result<(Self, Asked), TierError> {
        let talk = Talk {
            request: UNASKED,
            stream: FIRST_STREAM,
        };
        let (agent, mut asked) = Self::resume(ours, &[UNASKED], talk)?;
        Ok((agent, asked.remove(0)))
    }

    /// Goes on with an agent that has requests under way already: their answers come to the returned ones, and the talk is
    /// further than these.
    pub(super) fn resume(ours: OwnedFd, requests: &[u32], talk: Talk) -> Result<(Self, Vec<Asked>), TierError> {
        let channel = Arc::new(watch(ours)?);
        let lines = Arc::new(Lines::default());
        let asked = |request: &u32| Asked {
            request: *request,
            streams: Vec::new(),
            line: lines.open(*request, MOST_WAITING),
        };
        let asked = requests.iter().map(asked).collect();
        let reader = tokio::spawn(read(Arc::clone(&channel), Arc::clone(&lines)));
        let agent = Self {
            channel,
            lines,
            next: AtomicU32::new(talk.request),
            streams: tokio::sync::Mutex::new(talk.stream),
            reader,
        };
        Ok((agent, asked))
    }

    pub(super) async fn talk(&self) -> Talk {
        Talk {
            stream: *self.streams.lock().await,
            request: self.next.load(Ordering::Relaxed),
        }
    }

    pub(crate) async fn ask(&self, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<Asked, TierError> {
        let request = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        let most = match ask {
            Ask::Watch { .. } => MOST_CHANGES,
            _ => MOST_WAITING,
        };
        let line = self.lines.open(request, most);
        let streams = self.send(request, ask, fds).await?;
        Ok(Asked { request, streams, line })
    }

    /// Asks for something that has one answer.
    pub(crate) async fn ask_once(&self, ask: Ask) -> Result<Reply, TierError> {
        self.ask(ask, &[]).await?.next().await
    }

    /// Says something that has no answer.
    pub(crate) async fn tell(&self, ask: Ask) -> Result<(), TierError> {
        let request = self.next.fetch_add(1, Ordering::Relaxed) + 1;
        self.send(request, ask, &[]).await.map(drop)
    }

    async fn send(&self, request: u32, ask: Ask, fds: &[BorrowedFd<'_>]) -> Result<Vec<u32>, TierError> {
        let body = encode(&ToAgent { request, ask }).ok_or_else(too_long)?;
        if fds.is_empty() {
            self.send_bytes(&body, fds).await?;
            return Ok(Vec::new());
        }
        // Numbers are given in the order in which messages are sent.
        let mut next = self.streams.lock().await;
        let numbers = fds.iter().map(|fd| match ferry::becomes_stream(*fd) {
            true => {
                *next += 2;
                *next - 2
            }
            false => 0,
        });
        let numbers = numbers.collect();
        self.send_bytes(&body, fds).await?;
        Ok(numbers)
    }

    /// An agent that has hung up is gone; the channel to it is not at fault.
    async fn send_bytes(&self, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), TierError> {
        let sent = send_bytes_on(&self.channel, body, fds).await;
        sent.map_err(|error| match error {
            TierError::Channel(ChannelError::Closed) => TierError::Agent,
            other => other,
        })
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

impl Asked {
    /// The next answer. What the agent refused is an error with its words.
    pub(crate) async fn next(&mut self) -> Result<Reply, TierError> {
        self.next_long().await.map(|(reply, _)| reply)
    }

    /// The same, with how many bytes it came in.
    pub(crate) async fn next_long(&mut self) -> Result<(Reply, usize), TierError> {
        match self.line.next().await {
            Some(((Answer::Refused { why, message }, _), _)) => Err(TierError::Refused { why, message }),
            Some(reply) => Ok(reply),
            None => Err(TierError::Agent),
        }
    }
}

fn too_long() -> TierError {
    let message = "the request is too large for the sandbox agent".to_owned();
    let why = Refusal::Invalid;
    TierError::Refused { why, message }
}

async fn read(channel: Arc<AsyncFd<OwnedFd>>, lines: Arc<Lines>) {
    while let Ok((FromAgent { request, answer }, fds, bytes)) = receive_long_on(&channel).await {
        lines.add(request, (answer, fds), bytes);
    }
    lines.close();
}
