//! One zygote process: started, armed once it is warm, asked for forks.

use super::interpreter::become_zygote;
use crate::channel::{self, ChannelError};
use crate::filter::Filters;
use crate::plan::{Mode, ZygotePlan};
use crate::step::{Step, StepError, chain};
use crate::sys::fork_wire::{Arm, MAGIC};
use crate::sys::lockdown::Off;
use crate::sys::process::{Forked, exit_now, fork_with};
use crate::sys::wire_bytes::bytes_of;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Instant;

pub(super) struct Live {
    pub(super) pid: i32,
    pidfd: OwnedFd,
    pub(super) channel: OwnedFd,
    /// When it was started; a ready one's age counts from here, too.
    pub(super) began: Instant,
    pub(super) forks: u64,
    /// Data of the process when it was ready: its forks begin with them.
    pub(super) data_bytes: u64,
    /// It has closed its channel and is on its way out.
    pub(super) hung_up: bool,
}

impl Live {
    pub(super) fn start(plan: &ZygotePlan, env: &BTreeMap<String, String>, mode: Mode) -> Result<Self, StepError> {
        let (ours, theirs) = channel::pair()
            .map_err(|_| rustix::io::Errno::MFILE)
            .step("create the zygote's channel")?;
        let config = Value::Object(plan.config.clone());
        channel::send(&ours, &config, &[])
            .map_err(|_| rustix::io::Errno::PIPE)
            .step("configure the zygote")?;
        match fork_with(0).step("fork the zygote")? {
            Forked::Child => {
                drop(ours);
                let failed = become_zygote(&plan.argv, env, mode, theirs);
                complain(&failed);
                exit_now(127)
            }
            Forked::Parent { pid, pidfd } => Ok(Self {
                pid,
                pidfd,
                channel: ours,
                began: Instant::now(),
                forks: 0,
                data_bytes: 0,
                hung_up: false,
            }),
        }
    }

    /// After its first message, which is trusted: no user code has run in it.
    pub(super) fn ready(self, facts: &Map<String, Value>) -> Self {
        let data_bytes = facts.get("data_bytes").and_then(Value::as_u64).unwrap_or(0);
        Self { data_bytes, ..self }
    }

    /// The filters that it and its forks will wear; without them it would refuse to fork.
    pub(super) fn arm(&self, filters: &Filters, off: Off) -> Result<(), ChannelError> {
        let seccomp = !off.has(Off::SECCOMP);
        let all = [&filters.allow, &filters.inherited_deny, &filters.entered_deny];
        let watch = filters.watch.as_slice();
        let [allow, deny, last] = all.map(|filter| if seccomp { filter.as_slice() } else { &[] });
        let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let arm = Arm {
            magic: MAGIC,
            off: off.0,
            allow_bytes: length(allow),
            deny_bytes: length(deny),
            final_bytes: length(last),
            watch_bytes: length(watch),
        };
        let body = [bytes_of(&arm), allow, deny, last, watch].concat();
        channel::send_bytes(&self.channel, &body, &[])
    }

    /// Whether it has something to say within `patience`.
    pub(super) fn speaks_within(&self, patience: Timespec) -> bool {
        loop {
            let mut fds = [PollFd::new(&self.channel, PollFlags::IN)];
            match poll(&mut fds, Some(&patience)) {
                Err(rustix::io::Errno::INTR) => {}
                found => return found.is_ok() && fds[0].revents().contains(PollFlags::IN),
            }
        }
    }

    /// Tells it to exit. The channel stays readable: a fork may have ended since the last report was read.
    pub(super) fn retire(&self) {
        rustix::net::shutdown(&self.channel, rustix::net::Shutdown::Write).ok();
    }

    pub(super) fn kill(&self) {
        // One that is gone already is reaped next.
        rustix::process::pidfd_send_signal(&self.pidfd, rustix::process::Signal::KILL).ok();
    }
}

/// To the jailer's stderr, of which the engine keeps the end.
fn complain(error: &StepError) {
    let text = format!("{}\n", chain(error));
    rustix::io::write(rustix::stdio::stderr(), text.as_bytes()).ok();
}
