//! What zygotes are asked and answer: forks that wait, forks asked for, forks made and ended.

use super::fork::{Event, Fork, Owner, wait_status};
use super::zygotes::{Child, Place, Zygotes};
use crate::channel::{self, ChannelError};
use crate::filter::Filters;
use crate::step::StepError;
use crate::sys::fork_wire::ForkReply;
use crate::sys::wire_bytes::{bytes_of, view};
use crate::walls::NoWall;
use rustix::event::Timespec;
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{HashMap, VecDeque};

#[derive(Default)]
pub(super) struct Asked {
    waiting: VecDeque<Fork>,
    /// Requests sent and not yet answered, by their number.
    sent: HashMap<u32, Owner>,
    next_number: u32,
}

impl Asked {
    /// Nobody will fork for those who wait.
    pub(super) fn refuse_waiting(&mut self, why: &str) -> Vec<Event> {
        self.waiting.drain(..).map(|fork| fork.refuse(why)).collect()
    }

    /// Requests that a dead zygote never answered.
    pub(super) fn fail_all(&mut self) -> Vec<Event> {
        let refused = |(_, owner): (u32, Owner)| owner.refused("the zygote exited while forking".to_owned());
        self.sent.drain().map(refused).collect()
    }
}

impl Zygotes {
    pub(super) fn request(&mut self, fork: Fork) -> Vec<Event> {
        if self.present.is_none() && self.starting.is_none() {
            return vec![fork.refuse(&self.last_failure)];
        }
        self.asked.waiting.push_back(fork);
        self.send_waiting()
    }

    /// Whether requests wait for room in the present zygote's channel.
    pub(super) fn wants_room(&self) -> bool {
        self.present.is_some() && !self.asked.waiting.is_empty()
    }

    pub(super) fn send_waiting(&mut self) -> Vec<Event> {
        let mut refused = Vec::new();
        let Some(present) = self.present.as_mut().filter(|live| !live.hung_up) else {
            return refused;
        };
        while let Some(fork) = self.asked.waiting.pop_front() {
            let number = self.asked.next_number;
            self.asked.next_number = number.wrapping_add(1);
            let fds: Vec<_> = fork.fds.iter().map(AsFd::as_fd).collect();
            let request = fork.request(number, present.data_bytes);
            match channel::send_bytes_now(&present.channel, bytes_of(&request), &fds) {
                Ok(()) => {
                    present.forks += 1;
                    self.asked.sent.insert(number, fork.owner);
                }
                // No room now; or the zygote has died, its end is reaped next, and the request goes to its successor.
                Err(ChannelError::Closed | ChannelError::Socket(Errno::AGAIN)) => {
                    self.asked.waiting.push_front(fork);
                    break;
                }
                Err(error) => refused.push(fork.fail(&error)),
            }
        }
        self.rotate_if_due();
        refused
    }

    /// What a zygote has said.
    pub(super) fn hear(&mut self, place: Place, filters: &Filters) -> Result<Vec<Event>, ChannelError> {
        let live = match place {
            Place::Present => &self.present,
            Place::Starting => &self.starting,
        };
        let Some(live) = live else { return Ok(Vec::new()) };
        let (body, fds) = match channel::receive_bytes(&live.channel) {
            Err(ChannelError::Closed) => return Ok(self.hang_up(place)),
            received => received?,
        };
        match place {
            Place::Present => Ok(self.hear_reply(&body, fds)),
            Place::Starting => self.hear_first(&body, filters),
        }
    }

    /// Takes what the present zygote has said or says within `patience`; what it was asked and did not answer failed.
    pub(super) fn hear_out(&mut self, patience: Timespec) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(live) = self.present.as_ref().filter(|live| !live.hung_up) {
            let nothing_asked = self.asked.sent.is_empty();
            let patience = if nothing_asked {
                Timespec { tv_sec: 0, tv_nsec: 0 }
            } else {
                patience
            };
            if !live.speaks_within(patience) {
                break;
            }
            match channel::receive_bytes(&live.channel) {
                Ok((body, fds)) => events.extend(self.hear_reply(&body, fds)),
                Err(_) => break,
            }
        }
        events.extend(self.asked.fail_all());
        events
    }

    pub(super) fn hear_reply(&mut self, body: &[u8], fds: Vec<OwnedFd>) -> Vec<Event> {
        let Some(reply) = view::<ForkReply>(body) else {
            return Vec::new();
        };
        let refused = reply.kind != ForkReply::FORKED && reply.kind != ForkReply::EXITED;
        let no_wall = refused.then(|| of_refused_fork(reply.value)).flatten();
        let event = self.event_of(&reply, fds);
        no_wall.map(Event::NoWall).into_iter().chain(event).collect()
    }

    fn event_of(&mut self, reply: &ForkReply, fds: Vec<OwnedFd>) -> Option<Event> {
        match reply.kind {
            ForkReply::FORKED => self.forked(reply, fds),
            ForkReply::EXITED => Some(self.forget(reply.pid)?.exited(wait_status(reply.value))),
            _ => {
                let owner = self.asked.sent.remove(&reply.context)?;
                let errno = Errno::from_raw_os_error(reply.value);
                Some(owner.refused(format!("fork failed: {errno}")))
            }
        }
    }

    fn forked(&mut self, reply: &ForkReply, fds: Vec<OwnedFd>) -> Option<Event> {
        let owner = self.asked.sent.remove(&reply.context)?;
        let child = Child {
            owner: owner.clone(),
            zygote: self.present.as_ref()?.pid,
        };
        self.forks.insert(reply.pid, child);
        let pidfd = fds.into_iter().next()?;
        Some(Event::Forked { owner, pidfd })
    }
}

/// A zygote that may not enter the sandbox's PID namespace.
fn of_refused_fork(errno: i32) -> Option<NoWall> {
    let errno = Errno::from_raw_os_error(errno);
    let what = "enter the sandbox's PID namespace".to_owned();
    let layer = Some("namespaces");
    NoWall::in_error(&StepError { what, errno, layer })
}
