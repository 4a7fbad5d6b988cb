//! The way to the engine. Any thread may answer.

use crate::refused::Refused;
use atoll_core::wire::agent::{Answer, FromAgent, encode};
use atoll_jail::channel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
pub(crate) struct Outbox {
    channel: OwnedFd,
    turn: Mutex<()>,
}

impl Outbox {
    pub(crate) fn new(channel: OwnedFd) -> Self {
        Self {
            channel,
            turn: Mutex::new(()),
        }
    }

    pub(crate) fn tell(&self, request: u32, answer: Answer) {
        self.tell_with(request, answer, &[]);
    }

    /// An engine that is gone is noticed by who listens to it.
    pub(crate) fn tell_with(&self, request: u32, answer: Answer, fds: &[BorrowedFd<'_>]) {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = encode(&FromAgent { request, answer }) {
            channel::send_bytes(self.channel.as_fd(), &body, fds).ok();
        }
    }

    pub(crate) fn answer(&self, request: u32, answer: Result<Answer, Refused>) {
        match answer {
            Ok(answer) => self.tell(request, answer),
            Err(Refused { why, message }) => self.tell(request, Answer::Refused { why, message }),
        }
    }
}
