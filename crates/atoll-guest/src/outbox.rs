//! What the agent says: one queue in order, so that a slow engine never blocks the agent's loop.

use atoll_core::wire::agent::{Answer, FromAgent, Refusal, encode};
use atoll_jail::channel::{self, ChannelError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;

/// Above any of these the agent takes no new work until the engine has read.
const FULL_MESSAGES: usize = 1024;
const FULL_BYTES: usize = 4 << 20;
const FULL_DESCRIPTORS: usize = 128;

/// One datagram with the descriptors beside it.
type Datagram = (Vec<u8>, Vec<OwnedFd>);

#[derive(Debug)]
pub(crate) struct Outbox {
    channel: OwnedFd,
    queue: VecDeque<Datagram>,
    bytes: usize,
}

impl Outbox {
    pub(crate) fn new(channel: OwnedFd) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&channel, true)?;
        Ok(Self {
            channel,
            queue: VecDeque::new(),
            bytes: 0,
        })
    }

    pub(crate) fn channel(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        let descriptors = || self.queue.iter().map(|(_, fds)| fds.len()).sum::<usize>();
        self.queue.len() >= FULL_MESSAGES || self.bytes >= FULL_BYTES || descriptors() >= FULL_DESCRIPTORS
    }

    pub(crate) fn tell(&mut self, request: u32, answer: Answer) -> Result<(), ChannelError> {
        self.tell_with(request, answer, Vec::new())
    }

    /// Says it now if the socket has room, else after all that waits.
    pub(crate) fn tell_with(&mut self, request: u32, answer: Answer, fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        let body = encode(&FromAgent { request, answer }).or_else(|| {
            let message = "the response is too large for the agent channel".to_owned();
            let why = Refusal::Failed;
            let answer = Answer::Refused { why, message };
            encode(&FromAgent { request, answer })
        });
        let Some(body) = body else { return Ok(()) };
        self.bytes += body.len();
        self.queue.push_back((body, fds));
        self.flush()
    }

    /// Sends what the socket takes.
    pub(crate) fn flush(&mut self) -> Result<(), ChannelError> {
        while let Some((body, fds)) = self.queue.front() {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match channel::send_bytes(&self.channel, body, &fds) {
                Err(ChannelError::Socket(Errno::AGAIN | Errno::INTR)) => return Ok(()),
                sent => sent?,
            }
            self.bytes -= body.len();
            self.queue.pop_front();
        }
        Ok(())
    }

    /// Waits until the engine has taken everything.
    pub(crate) fn flush_all(&mut self) -> Result<(), ChannelError> {
        use rustix::event::{PollFd, PollFlags, poll};
        loop {
            self.flush()?;
            if self.is_empty() {
                return Ok(());
            }
            let mut fds = [PollFd::from_borrowed_fd(self.channel.as_fd(), PollFlags::OUT)];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(ChannelError::Socket(errno)),
            }
        }
    }

    /// The next message of the engine, if there is one.
    pub(crate) fn hear(&self) -> Result<Option<Datagram>, ChannelError> {
        match channel::receive_bytes(&self.channel) {
            Err(ChannelError::Socket(Errno::AGAIN)) => Ok(None),
            heard => heard.map(Some),
        }
    }
}
