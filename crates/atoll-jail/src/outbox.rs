//! Messages that wait for room in a channel. Who posts here never sleeps in a send, so two that post to each other
//! cannot wait for each other.
//!
//! The rule that keeps it short: while an outbox is full, its owner takes no new work that would fill it further, and
//! goes on reading answers.

use crate::channel::{ChannelError, send_bytes_now};
use rustix::event::PollFlags;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use serde::Serialize;
use std::collections::VecDeque;

/// From this many waiting messages on, the owner takes no new work.
const FULL: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: VecDeque<(Vec<u8>, Vec<OwnedFd>)>,
}

impl Outbox {
    /// Sends the message, after all that wait already; what finds no room waits.
    pub(crate) fn post<T: Serialize>(
        &mut self,
        socket: impl AsFd,
        message: &T,
        fds: Vec<OwnedFd>,
    ) -> Result<(), ChannelError> {
        let body = serde_json::to_vec(message).map_err(ChannelError::Write)?;
        self.post_bytes(socket, body, fds)
    }

    pub(crate) fn post_bytes(
        &mut self,
        socket: impl AsFd,
        body: Vec<u8>,
        fds: Vec<OwnedFd>,
    ) -> Result<(), ChannelError> {
        self.waiting.push_back((body, fds));
        self.flush(socket)
    }

    /// Sends what there is room for.
    pub(crate) fn flush(&mut self, socket: impl AsFd) -> Result<(), ChannelError> {
        while let Some((body, fds)) = self.waiting.pop_front() {
            let borrowed: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match send_bytes_now(&socket, &body, &borrowed) {
                Ok(()) => {}
                Err(ChannelError::Socket(Errno::AGAIN)) => {
                    self.waiting.push_front((body, fds));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= FULL
    }

    /// What to wait for on the channel: words if they are wanted, and room if something waits for it.
    pub(crate) fn interest(&self, listen: bool) -> PollFlags {
        let words = if listen { PollFlags::IN } else { PollFlags::empty() };
        let room = if self.waiting.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        };
        words | room
    }
}

/// Whether a poll found something to read, or the end.
pub(crate) fn is_readable(found: PollFlags) -> bool {
    found.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{pair, receive};

    #[test]
    fn nothing_sleeps_or_is_lost_while_both_sides_only_send() {
        let (left, right) = pair().unwrap();
        let (mut to_right, mut to_left) = (Outbox::default(), Outbox::default());
        // Far more than two sockets hold: blocking senders would wait for each other here.
        for number in 0..5000u32 {
            to_right.post(&left, &number, Vec::new()).unwrap();
            to_left.post(&right, &number, Vec::new()).unwrap();
        }
        assert!(to_right.is_full() && to_left.is_full());
        for number in 0..5000u32 {
            assert_eq!(receive::<u32>(&right).unwrap().0, number);
            to_right.flush(&left).unwrap();
            assert_eq!(receive::<u32>(&left).unwrap().0, number);
            to_left.flush(&right).unwrap();
        }
        assert_eq!(to_right.interest(true), PollFlags::IN);
        assert_eq!(to_left.interest(false), PollFlags::empty());
    }

    #[test]
    fn descriptors_wait_with_their_message() {
        let (left, right) = pair().unwrap();
        let mut outbox = Outbox::default();
        for _ in 0..5000 {
            outbox.post(&left, &"filler", Vec::new()).unwrap();
        }
        let (read, write) = rustix::pipe::pipe().unwrap();
        outbox.post(&left, &"last", vec![write]).unwrap();
        loop {
            let (word, fds) = receive::<String>(&right).unwrap();
            outbox.flush(&left).unwrap();
            if word == "last" {
                rustix::io::write(&fds[0], b"x").unwrap();
                break;
            }
        }
        assert_eq!(rustix::io::read(&read, &mut [0; 1]).unwrap(), 1);
    }
}
