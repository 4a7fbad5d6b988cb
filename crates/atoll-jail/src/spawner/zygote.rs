//! The warm interpreter of a template, as its spawner sees it: started, fed with fork requests, restarted.

use super::sandbox::Sandbox;
use crate::channel::{self, ChannelError};
use crate::filter::Filters;
use crate::plan::{Mode, Walls, ZygotePlan};
use crate::step::{Step, StepError};
use crate::sys::fork_wire::{Arm, ForkReply, ForkRequest, MAGIC, MAX_RLIMITS};
use crate::sys::lockdown::{Off, Rlimit};
use crate::sys::process::{Forked, exit_now, fork_with};
use crate::sys::wire_bytes::{bytes_of, view};
use crate::walls::NoWall;
use atoll_core::SandboxId;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::CString;

/// What a zygote keeps: to enter a pid namespace and, in its fork, the other namespaces of a sandbox.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::SYS_CHROOT);
/// A zygote that dies this often before it was ever ready is not started again.
const MAX_FAILED_STARTS: u32 = 3;
/// How long a zygote that is replaced may take to answer what it was asked. A fork takes milliseconds.
const LAST_WORDS: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

pub(super) struct Zygote {
    plan: Option<ZygotePlan>,
    walls: Walls,
    mode: Mode,
    env: BTreeMap<String, String>,
    live: Option<Live>,
    waiting: VecDeque<Fork>,
    /// Requests sent and not yet answered, by their number.
    asked: HashMap<u32, (SandboxId, u32)>,
    /// Live forks by pid.
    forks: HashMap<i32, Child>,
    /// Zygotes that were replaced and have not ended yet.
    retired: Vec<i32>,
    next_number: u32,
    failed_starts: u32,
    last_failure: String,
}

struct Live {
    pid: i32,
    pidfd: OwnedFd,
    channel: OwnedFd,
    ready: bool,
    /// It has closed its channel and is on its way out.
    hung_up: bool,
}

/// A fork that has been made: who it is for, and which zygote waits for its end.
struct Child {
    sandbox: SandboxId,
    context: u32,
    zygote: i32,
}

/// One fork to be made.
pub(super) struct Fork {
    sandbox: SandboxId,
    context: u32,
    fds: Vec<OwnedFd>,
    rlimits: Vec<Rlimit>,
}

pub(super) enum Event {
    /// Told before a refusal: it was a wall that this host cannot build.
    NoWall(NoWall),
    Ready(Map<String, Value>),
    Failed(String),
    Forked {
        sandbox: SandboxId,
        context: u32,
        pidfd: OwnedFd,
    },
    Refused {
        sandbox: SandboxId,
        context: u32,
        message: String,
    },
    Exited {
        sandbox: SandboxId,
        context: u32,
        code: Option<i32>,
        signal: Option<i32>,
    },
}

impl Fork {
    pub(super) fn new(
        id: SandboxId,
        context: u32,
        [control, stdout, stderr]: [OwnedFd; 3],
        sandbox: &Sandbox,
        mode: Mode,
    ) -> Result<Self, StepError> {
        let copy = |fd: &OwnedFd| fd.try_clone().step("copy a descriptor");
        // Where Landlock is off there is no ruleset; the place in the list is kept by another descriptor.
        let ruleset = copy(sandbox.ruleset.as_ref().unwrap_or(&sandbox.shell))?;
        let mut fds = vec![copy(&sandbox.shell)?, control, stdout, stderr, ruleset];
        for cgroup in &sandbox.cgroups {
            fds.push(copy(cgroup)?);
        }
        Ok(Self {
            sandbox: id,
            context,
            fds,
            rlimits: crate::rlimits::of(&sandbox.limits, mode, !sandbox.cgroups.is_empty()),
        })
    }

    fn fail(self, error: &ChannelError) -> Event {
        let message = format!("the fork cannot be asked for: {}", crate::step::chain(error));
        Event::Refused {
            sandbox: self.sandbox,
            context: self.context,
            message,
        }
    }

    fn refuse(self, why: &str) -> Event {
        let message = format!("the template's interpreter does not start: {why}");
        Event::Refused {
            sandbox: self.sandbox,
            context: self.context,
            message,
        }
    }
}

impl Zygote {
    pub(super) fn new(plan: Option<ZygotePlan>, walls: Walls, mode: Mode, env: BTreeMap<String, String>) -> Self {
        Self {
            plan,
            walls,
            mode,
            env,
            live: None,
            waiting: VecDeque::new(),
            asked: HashMap::new(),
            forks: HashMap::new(),
            retired: Vec::new(),
            next_number: 0,
            failed_starts: 0,
            last_failure: String::new(),
        }
    }

    pub(super) fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.live
            .as_ref()
            .filter(|live| !live.hung_up)
            .map(|live| live.channel.as_fd())
    }

    pub(super) fn is(&self, pid: i32) -> bool {
        self.live.as_ref().is_some_and(|live| live.pid == pid)
    }

    /// A fork whose zygote is gone has ended.
    pub(super) fn forget(&mut self, pid: i32) -> Option<(SandboxId, u32)> {
        self.forks.remove(&pid).map(|child| (child.sandbox, child.context))
    }

    /// Another zygote in place of the present one, which is heard out first. Its forks go on living.
    pub(super) fn rotate(&mut self) -> Result<Vec<Event>, StepError> {
        let events = self.hear_out(LAST_WORDS);
        self.retired.extend(self.live.take().map(|live| live.pid));
        self.failed_starts = 0;
        self.start()?;
        Ok(events)
    }

    /// Whether `pid` was a zygote that has been replaced; if so, what it left unsaid.
    pub(super) fn retire(&mut self, pid: i32) -> Option<Vec<Event>> {
        let at = self.retired.iter().position(|one| *one == pid)?;
        self.retired.swap_remove(at);
        Some(self.lost_forks(pid))
    }

    /// Starts a zygote.
    pub(super) fn start(&mut self) -> Result<(), StepError> {
        let Some(plan) = self.plan.clone() else { return Ok(()) };
        self.last_failure.clear();
        let (ours, theirs) = channel::pair()
            .map_err(|_| rustix::io::Errno::MFILE)
            .step("make the zygote's channel")?;
        let config = Value::Object(plan.config.clone());
        channel::send(&ours, &config, &[])
            .map_err(|_| rustix::io::Errno::PIPE)
            .step("configure the zygote")?;
        match fork_with(0).step("fork the zygote")? {
            Forked::Child => {
                drop(ours);
                let failed = become_zygote(&plan.argv, &self.env, self.mode, theirs);
                eprintln_step(&failed);
                exit_now(127)
            }
            Forked::Parent { pid, pidfd } => {
                self.live = Some(Live {
                    pid,
                    pidfd,
                    channel: ours,
                    ready: false,
                    hung_up: false,
                });
            }
        }
        Ok(())
    }

    /// After a death: another one. If it keeps dying before it is ready, who waits for a fork is told so.
    pub(super) fn restart(&mut self, how: &str) -> Result<Vec<Event>, StepError> {
        let mut events = self.hear_out(Timespec { tv_sec: 0, tv_nsec: 0 });
        let dead = self.live.take();
        let was_ready = dead.as_ref().is_some_and(|live| live.ready);
        events.extend(dead.into_iter().flat_map(|dead| self.lost_forks(dead.pid)));
        self.failed_starts = if was_ready { 0 } else { self.failed_starts + 1 };
        if self.failed_starts < MAX_FAILED_STARTS {
            self.start()?;
            return Ok(events);
        }
        if self.last_failure.is_empty() {
            self.last_failure = how.to_owned();
        }
        let why = &self.last_failure;
        events.extend(self.waiting.drain(..).map(|fork| fork.refuse(why)));
        Ok(events)
    }

    /// Whether a zygote that is not ready has said something that nobody has heard yet.
    pub(super) fn has_unread_words(&self) -> bool {
        let Some(live) = self.live.as_ref().filter(|live| !live.ready && !live.hung_up) else {
            return false;
        };
        let mut fds = [PollFd::new(&live.channel, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::IN)
    }

    /// What the present zygote said of its failure to start.
    pub(super) fn failure(&self) -> Option<&str> {
        Some(self.last_failure.as_str()).filter(|words| !words.is_empty())
    }

    /// Takes what the present zygote has said or says within `patience`; what it was asked and did not answer failed.
    fn hear_out(&mut self, patience: Timespec) -> Vec<Event> {
        let mut events = Vec::new();
        while let Some(live) = self.live.as_ref().filter(|live| live.ready && !live.hung_up) {
            let patience = if self.asked.is_empty() {
                Timespec { tv_sec: 0, tv_nsec: 0 }
            } else {
                patience
            };
            let mut fds = [PollFd::from_borrowed_fd(live.channel.as_fd(), PollFlags::IN)];
            match poll(&mut fds, Some(&patience)) {
                Err(rustix::io::Errno::INTR) => continue,
                Ok(ready) if ready > 0 => {}
                _ => break,
            }
            match channel::receive_bytes(&live.channel) {
                Ok((body, fds)) => events.extend(self.hear_reply(&body, fds)),
                Err(_) => break,
            }
        }
        events.extend(self.fail_asked());
        events
    }

    /// Forks of a dead zygote are our children now. One that is not has ended and was reaped by the zygote, which
    /// could not say so any more.
    fn lost_forks(&mut self, zygote: i32) -> Vec<Event> {
        let pids: Vec<i32> = self
            .forks
            .iter()
            .filter(|(_, child)| child.zygote == zygote)
            .map(|(pid, _)| *pid)
            .collect();
        pids.into_iter().filter_map(|pid| self.lost_fork(pid)).collect()
    }

    fn lost_fork(&mut self, pid: i32) -> Option<Event> {
        let (code, signal) = match waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(_, code)) => (Some(code), None),
            Ok(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
            Ok(_) => return None,
            Err(_) => (None, None),
        };
        let Child { sandbox, context, .. } = self.forks.remove(&pid)?;
        Some(Event::Exited {
            sandbox,
            context,
            code,
            signal,
        })
    }

    pub(super) fn request(&mut self, fork: Fork) -> Vec<Event> {
        if self.live.is_none() {
            return vec![fork.refuse(&self.last_failure)];
        }
        self.waiting.push_back(fork);
        self.send_waiting()
    }

    fn send_waiting(&mut self) -> Vec<Event> {
        let mut refused = Vec::new();
        let Some(live) = self.live.as_ref().filter(|live| live.ready) else {
            return refused;
        };
        while let Some(fork) = self.waiting.pop_front() {
            let number = self.next_number;
            self.next_number = self.next_number.wrapping_add(1);
            let mut rlimits = [Rlimit {
                resource: 0,
                soft: 0,
                hard: 0,
            }; MAX_RLIMITS];
            rlimits[..fork.rlimits.len()].copy_from_slice(&fork.rlimits);
            let count = u32::try_from(fork.rlimits.len()).unwrap_or(0);
            let request = ForkRequest {
                magic: MAGIC,
                context: number,
                rlimit_count: count,
                _pad: 0,
                rlimits,
            };
            let fds: Vec<_> = fork.fds.iter().map(AsFd::as_fd).collect();
            match channel::send_bytes(&live.channel, bytes_of(&request), &fds) {
                Ok(()) => drop(self.asked.insert(number, (fork.sandbox, fork.context))),
                // The zygote has died; its end is reaped next, and the request goes to its successor.
                Err(ChannelError::Closed) => {
                    self.waiting.push_front(fork);
                    break;
                }
                Err(error) => refused.push(fork.fail(&error)),
            }
        }
        refused
    }

    /// What the zygote has said. Its first message tells whether it is warm; then it is armed.
    pub(super) fn hear(&mut self, filters: &Filters) -> Result<Vec<Event>, ChannelError> {
        let Some(live) = &mut self.live else {
            return Ok(Vec::new());
        };
        let (body, fds) = match channel::receive_bytes(&live.channel) {
            Err(ChannelError::Closed) => return Ok(self.hang_up()),
            received => received?,
        };
        if live.ready {
            return Ok(self.hear_reply(&body, fds));
        }
        let first: Map<String, Value> = serde_json::from_slice(&body).map_err(ChannelError::Read)?;
        if first.get("type").and_then(Value::as_str) != Some("ready") {
            let message = first
                .get("message")
                .and_then(Value::as_str)
                .unwrap_or("the zygote failed to start");
            self.last_failure = message.to_owned();
            return Ok(vec![Event::Failed(message.to_owned())]);
        }
        match arm(&live.channel, filters, self.walls.bits()) {
            Err(ChannelError::Closed) => return Ok(self.hang_up()),
            armed => armed?,
        }
        live.ready = true;
        self.failed_starts = 0;
        let mut events = vec![Event::Ready(first)];
        events.extend(self.send_waiting());
        Ok(events)
    }

    fn hear_reply(&mut self, body: &[u8], fds: Vec<OwnedFd>) -> Vec<Event> {
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
            ForkReply::FORKED => {
                let (sandbox, context) = self.asked.remove(&reply.context)?;
                let zygote = self.live.as_ref()?.pid;
                self.forks.insert(
                    reply.pid,
                    Child {
                        sandbox: sandbox.clone(),
                        context,
                        zygote,
                    },
                );
                fds.into_iter().next().map(|pidfd| Event::Forked {
                    sandbox,
                    context,
                    pidfd,
                })
            }
            ForkReply::EXITED => {
                let Child { sandbox, context, .. } = self.forks.remove(&reply.pid)?;
                let (code, signal) = wait_status(reply.value);
                Some(Event::Exited {
                    sandbox,
                    context,
                    code,
                    signal,
                })
            }
            _ => {
                let (sandbox, context) = self.asked.remove(&reply.context)?;
                let errno = rustix::io::Errno::from_raw_os_error(reply.value);
                Some(Event::Refused {
                    sandbox,
                    context,
                    message: format!("the fork was refused: {errno}"),
                })
            }
        }
    }

    /// The zygote has closed its channel. It is on its way out, or is helped; its end is reaped by pid.
    fn hang_up(&mut self) -> Vec<Event> {
        if let Some(live) = &mut self.live {
            live.hung_up = true;
            rustix::process::pidfd_send_signal(&live.pidfd, rustix::process::Signal::KILL).ok();
        }
        self.fail_asked()
    }

    /// Requests that a dead zygote never answered.
    fn fail_asked(&mut self) -> Vec<Event> {
        let refused = |(_, (sandbox, context))| Event::Refused {
            sandbox,
            context,
            message: "the zygote ended while forking".to_owned(),
        };
        self.asked.drain().map(refused).collect()
    }
}

/// A zygote that may not enter the sandbox's pid namespace.
fn of_refused_fork(errno: i32) -> Option<NoWall> {
    let errno = rustix::io::Errno::from_raw_os_error(errno);
    let what = "enter the sandbox's pid namespace".to_owned();
    let layer = Some("namespaces");
    NoWall::in_error(&StepError { what, errno, layer })
}

fn wait_status(status: i32) -> (Option<i32>, Option<i32>) {
    let signal = status & 0x7f;
    if signal == 0 {
        (Some((status >> 8) & 0xff), None)
    } else {
        (None, Some(signal))
    }
}

fn arm(channel: &OwnedFd, filters: &Filters, off: Off) -> Result<(), ChannelError> {
    let seccomp = !off.has(Off::SECCOMP);
    let all = [&filters.allow, &filters.inherited_deny, &filters.entered_deny];
    let [allow, deny, last] = all.map(|filter| if seccomp { filter.as_slice() } else { &[] });
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let arm = Arm {
        magic: MAGIC,
        off: off.0,
        allow_bytes: length(allow),
        deny_bytes: length(deny),
        final_bytes: length(last),
    };
    let body = [bytes_of(&arm), allow, deny, last].concat();
    channel::send_bytes(channel, &body, &[])
}

/// In the child: an own id where there is more than one, three capabilities, one channel, then the interpreter.
fn become_zygote(argv: &[String], env: &BTreeMap<String, String>, mode: Mode, channel: OwnedFd) -> StepError {
    match try_become_zygote(argv, env, mode, channel) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_become_zygote(
    argv: &[String],
    env: &BTreeMap<String, String>,
    mode: Mode,
    channel: OwnedFd,
) -> Result<std::convert::Infallible, StepError> {
    if mode == Mode::Root {
        rustix::thread::set_keep_capabilities(true).step("keep capabilities")?;
        let (uid, gid) = (rustix::process::Uid::from_raw(1), rustix::process::Gid::from_raw(1));
        rustix::thread::set_thread_res_gid(gid, gid, gid).step("become the zygote's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).step("become the zygote's user")?;
    }
    keep_three_capabilities()?;
    let null =
        rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).step("lay /dev/null")?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).step("lay stdout")?;
    crate::sys::process::lay_and_close(channel)?;
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .step("unblock signals")?;
    let text = |s: &str| {
        CString::new(s)
            .map_err(std::io::Error::from)
            .step("read the zygote's command")
    };
    let argv = argv.iter().map(|arg| text(arg)).collect::<Result<Vec<_>, _>>()?;
    let env = env
        .iter()
        .map(|(k, v)| text(&format!("{k}={v}")))
        .collect::<Result<Vec<_>, _>>()?;
    let program = argv
        .first()
        .ok_or(rustix::io::Errno::INVAL)
        .step("find the interpreter")?;
    nix::unistd::execve(program, &argv, &env).step("start the interpreter")
}

fn keep_three_capabilities() -> Result<(), StepError> {
    // The change of ids has left all capabilities permitted but none in effect.
    let mut all = rustix::thread::capabilities(None).step("read capabilities")?;
    all.effective = all.permitted;
    rustix::thread::set_capabilities(None, all).step("use capabilities")?;
    for capability in CapabilitySet::all().iter().filter(|c| !KEPT.contains(*c)) {
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => {}
            Err(errno) => return Err(errno).step("drop a capability"),
        }
    }
    let sets = CapabilitySets {
        effective: KEPT,
        permitted: KEPT,
        inheritable: KEPT,
    };
    rustix::thread::set_capabilities(None, sets).step("set capabilities")?;
    for capability in KEPT.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true).step("pass a capability on")?;
    }
    Ok(())
}

/// To the jailer's stderr, of which the engine keeps the end.
fn eprintln_step(error: &StepError) {
    let text = format!("{}\n", crate::step::chain(error));
    rustix::io::write(rustix::stdio::stderr(), text.as_bytes()).ok();
}
