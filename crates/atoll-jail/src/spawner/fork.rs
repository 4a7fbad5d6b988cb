//! One fork of a zygote: asked for, waiting at its sandbox's gate, made, ended.

use super::sandbox::Sandbox;
use crate::channel::ChannelError;
use crate::step::{Step, StepError, chain};
use crate::sys::fork_wire::{ForkRequest, MAGIC, MAX_RLIMITS};
use crate::sys::lockdown::Rlimit;
use crate::walls::NoWall;
use atoll_core::{Limits, SandboxId};
use rustix::fd::OwnedFd;
use serde_json::{Map, Value};

/// Who a fork is for: a sandbox, and the engine's number of the context.
#[derive(Clone, Debug)]
pub(super) struct Owner {
    pub(super) sandbox: SandboxId,
    pub(super) context: u32,
}

/// A fork to be made.
pub(super) struct Fork {
    pub(super) owner: Owner,
    pub(super) fds: Vec<OwnedFd>,
    limits: Limits,
    alone: bool,
    watched: bool,
}

/// What zygotes have to tell.
pub(super) enum Event {
    /// Told before a refusal: it was a wall that this host cannot build.
    NoWall(NoWall),
    Ready(Map<String, Value>),
    Failed(String),
    Forked {
        owner: Owner,
        pidfd: OwnedFd,
    },
    Refused {
        owner: Owner,
        message: String,
    },
    Exited {
        owner: Owner,
        code: Option<i32>,
        signal: Option<i32>,
    },
}

impl Fork {
    /// A fork into `sandbox`, which may still be being built: the fork waits at its gate.
    pub(super) fn new(owner: Owner, stdio: [OwnedFd; 3], sandbox: &mut Sandbox) -> Result<Self, StepError> {
        let [control, stdout, stderr] = stdio;
        let shell = sandbox.shell.try_clone().step("duplicate a descriptor")?;
        let fds = vec![shell, control, stdout, stderr, sandbox.gate()?];
        Ok(Self {
            owner,
            fds,
            limits: sandbox.limits,
            alone: sandbox.alone,
            watched: sandbox.watched,
        })
    }

    /// The request under this number, as it goes to a zygote with so many bytes of data.
    pub(super) fn request(&self, number: u32, zygote_data: u64) -> ForkRequest {
        let wanted = crate::rlimits::of_fork(&self.limits, self.alone, zygote_data);
        let mut rlimits = [Rlimit {
            resource: 0,
            soft: 0,
            hard: 0,
        }; MAX_RLIMITS];
        rlimits[..wanted.len()].copy_from_slice(&wanted);
        ForkRequest {
            magic: MAGIC,
            context: number,
            rlimit_count: u32::try_from(wanted.len()).unwrap_or(0),
            watched: u32::from(self.watched),
            rlimits,
        }
    }

    pub(super) fn fail(self, error: &ChannelError) -> Event {
        self.owner
            .refused(format!("cannot send the fork request to the zygote: {}", chain(error)))
    }

    pub(super) fn refuse(self, why: &str) -> Event {
        self.owner
            .refused(format!("the template's interpreter failed to start: {why}"))
    }
}

impl Owner {
    pub(super) fn refused(self, message: String) -> Event {
        Event::Refused { owner: self, message }
    }

    pub(super) fn exited(self, (code, signal): (Option<i32>, Option<i32>)) -> Event {
        Event::Exited {
            owner: self,
            code,
            signal,
        }
    }
}

/// Exit code or signal of a raw wait status.
pub(super) fn wait_status(status: i32) -> (Option<i32>, Option<i32>) {
    let signal = status & 0x7f;
    if signal == 0 {
        (Some((status >> 8) & 0xff), None)
    } else {
        (None, Some(signal))
    }
}
