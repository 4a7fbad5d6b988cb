//! Where answers of one agent wait for those who asked: a line for each request, bounded in number and in bytes.
//!
//! The agent is behind the wall and may say anything. Who does not read loses the rest of his own answers, nobody else's;
//! only if all lines together are too long it is whoever gets the next answer.

use crate::lock::lock;
use atoll_core::wire::agent::Answer;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::mpsc;

/// Answers that one request may have waiting.
const MOST_ANSWERS: usize = 4096;
/// Bytes that wait in all lines of one sandbox together.
const MOST_TOGETHER: usize = 16 << 20;

pub(crate) type Reply = (Answer, Vec<OwnedFd>);

#[derive(Debug, Default)]
pub(super) struct Lines(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// Requests without their last answer.
    open: HashMap<u32, Open>,
    bytes: usize,
    closed: bool,
}

#[derive(Debug)]
struct Open {
    sender: mpsc::Sender<(Reply, usize)>,
    bytes: usize,
    most: usize,
}

/// The reading end of one line. What waits in it goes when it is dropped.
#[derive(Debug)]
pub(super) struct Line {
    request: u32,
    replies: mpsc::Receiver<(Reply, usize)>,
    lines: Arc<Lines>,
}

impl Lines {
    /// Begins a line that holds at most so many bytes. Once the agent is gone nothing comes any more.
    pub(super) fn open(self: &Arc<Self>, request: u32, most: usize) -> Line {
        let (sender, replies) = mpsc::channel(MOST_ANSWERS);
        let mut waiting = lock(&self.0);
        if !waiting.closed {
            let bytes = 0;
            waiting.open.insert(request, Open { sender, bytes, most });
        }
        Line {
            request,
            replies,
            lines: Arc::clone(self),
        }
    }

    /// Puts an answer into its line. One that does not fit ends the line.
    pub(super) fn add(&self, request: u32, reply: Reply, bytes: usize) {
        let mut waiting = lock(&self.0);
        let waiting = &mut *waiting;
        let together = waiting.bytes + bytes;
        let Some(open) = waiting.open.get_mut(&request) else {
            return;
        };
        let fits = open.bytes + bytes <= open.most && together <= MOST_TOGETHER;
        if fits && open.sender.try_send((reply, bytes)).is_ok() {
            open.bytes += bytes;
            waiting.bytes = together;
        } else {
            // What is in it can still be read, and counts until then.
            open.most = 0;
            open.sender = mpsc::channel(1).0;
        }
    }

    /// The agent is gone: whoever waits sees it.
    pub(super) fn close(&self) {
        *lock(&self.0) = Waiting {
            closed: true,
            ..Waiting::default()
        };
    }

    fn taken(&self, request: u32, bytes: usize) {
        let mut waiting = lock(&self.0);
        let waiting = &mut *waiting;
        if let Some(open) = waiting.open.get_mut(&request) {
            open.bytes -= bytes;
            waiting.bytes -= bytes;
        }
    }
}

impl Line {
    /// The next answer and its bytes; `None` when the line was ended or the agent is gone.
    pub(super) async fn next(&mut self) -> Option<(Reply, usize)> {
        let (reply, bytes) = self.replies.recv().await?;
        self.lines.taken(self.request, bytes);
        Some((reply, bytes))
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut waiting = lock(&self.lines.0);
        if let Some(open) = waiting.open.remove(&self.request) {
            waiting.bytes -= open.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines() -> Arc<Lines> {
        Arc::default()
    }

    fn reply() -> Reply {
        (Answer::Done, Vec::new())
    }

    #[tokio::test]
    async fn a_line_that_nobody_reads_ends_at_its_bytes_and_no_other_does() {
        let lines = lines();
        let (mut slow, mut other) = (lines.open(1, 100), lines.open(2, 100));
        for _ in 0..5 {
            lines.add(1, reply(), 40);
        }
        lines.add(2, reply(), 40);
        assert!(slow.next().await.is_some() && slow.next().await.is_some());
        assert!(slow.next().await.is_none());
        lines.add(1, reply(), 1);
        assert!(slow.next().await.is_none());
        assert!(other.next().await.is_some());
    }

    #[tokio::test]
    async fn what_was_read_makes_room_and_so_does_who_goes() {
        let lines = lines();
        let mut read = lines.open(1, usize::MAX);
        for _ in 0..10 {
            lines.add(1, reply(), MOST_TOGETHER);
            assert!(read.next().await.is_some());
        }
        let gone = lines.open(2, usize::MAX);
        lines.add(2, reply(), MOST_TOGETHER);
        drop(gone);
        lines.add(1, reply(), MOST_TOGETHER);
        assert!(read.next().await.is_some());
        assert_eq!(lock(&lines.0).bytes, 0);
    }

    #[tokio::test]
    async fn all_lines_of_a_sandbox_have_a_bound_together() {
        let lines = lines();
        let all: Vec<Line> = (0..64).map(|request| lines.open(request, 1 << 20)).collect();
        for request in 0..64 {
            lines.add(request, reply(), 1 << 20);
        }
        assert_eq!(lock(&lines.0).bytes, MOST_TOGETHER);
        drop(all);
        assert_eq!(lock(&lines.0).bytes, 0);
    }

    #[tokio::test]
    async fn after_the_agents_end_nobody_waits() {
        let lines = lines();
        let mut before = lines.open(1, 100);
        lines.close();
        assert!(before.next().await.is_none());
        assert!(lines.open(2, 100).next().await.is_none());
    }
}
