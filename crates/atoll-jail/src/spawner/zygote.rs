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
use atoll_core::SandboxId;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::thread::{CapabilitySet, CapabilitySets};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ffi::CString;

/// What a zygote keeps: to enter a pid namespace and, in its fork, the other namespaces of a sandbox.
const KEPT: CapabilitySet = CapabilitySet::SYS_ADMIN.union(CapabilitySet::SYS_PTRACE).union(CapabilitySet::SYS_CHROOT);
/// A zygote that dies this often before it was ever ready is not started again.
const MAX_FAILED_STARTS: u32 = 3;

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
    forks: HashMap<i32, (SandboxId, u32)>,
    next_number: u32,
    failed_starts: u32,
    last_failure: String,
}

struct Live {
    pid: i32,
    channel: OwnedFd,
    ready: bool,
}

/// One fork to be made.
pub(super) struct Fork {
    sandbox: SandboxId,
    context: u32,
    fds: Vec<OwnedFd>,
    rlimits: Vec<Rlimit>,
}

pub(super) enum Event {
    Ready(Map<String, Value>),
    Failed(String),
    Forked { sandbox: SandboxId, context: u32, pidfd: OwnedFd },
    Refused { sandbox: SandboxId, context: u32, message: String },
    Exited { sandbox: SandboxId, context: u32, code: Option<i32>, signal: Option<i32> },
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
        Ok(Self { sandbox: id, context, fds, rlimits: crate::rlimits::of(&sandbox.limits, mode) })
    }

    fn refuse(self, why: &str) -> Event {
        let message = format!("the template's interpreter does not start: {why}");
        Event::Refused { sandbox: self.sandbox, context: self.context, message }
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
            next_number: 0,
            failed_starts: 0,
            last_failure: String::new(),
        }
    }

    pub(super) fn channel(&self) -> Option<BorrowedFd<'_>> {
        self.live.as_ref().map(|live| live.channel.as_fd())
    }

    pub(super) fn is(&self, pid: i32) -> bool {
        self.live.as_ref().is_some_and(|live| live.pid == pid)
    }

    pub(super) fn forget(&mut self, pid: i32) -> Option<(SandboxId, u32)> {
        self.forks.remove(&pid)
    }

    /// Starts a zygote; one that lives is asked to go first. Its forks go on living.
    pub(super) fn start(&mut self, _filters: &Filters) -> Result<(), StepError> {
        let Some(plan) = self.plan.clone() else { return Ok(()) };
        self.live = None;
        let (ours, theirs) = channel::pair().map_err(|_| rustix::io::Errno::MFILE).step("make the zygote's channel")?;
        let config = Value::Object(plan.config.clone());
        channel::send(&ours, &config, &[]).map_err(|_| rustix::io::Errno::PIPE).step("configure the zygote")?;
        match fork_with(0).step("fork the zygote")? {
            Forked::Child => {
                drop(ours);
                let failed = become_zygote(&plan.argv, &self.env, self.mode, theirs);
                eprintln_step(&failed);
                exit_now(127)
            }
            Forked::Parent { pid, .. } => self.live = Some(Live { pid, channel: ours, ready: false }),
        }
        Ok(())
    }

    /// After a death: another one. If it keeps dying before it is ready, who waits for a fork is told so.
    pub(super) fn restart(&mut self, filters: &Filters) -> Result<Vec<Event>, StepError> {
        let was_ready = self.live.as_ref().is_some_and(|live| live.ready);
        self.failed_starts = if was_ready { 0 } else { self.failed_starts + 1 };
        self.live = None;
        if self.failed_starts < MAX_FAILED_STARTS {
            self.start(filters)?;
            return Ok(Vec::new());
        }
        let why = &self.last_failure;
        Ok(self.waiting.drain(..).map(|fork| fork.refuse(why)).collect())
    }

    pub(super) fn request(&mut self, fork: Fork) -> Result<Option<Event>, ChannelError> {
        if self.live.is_none() {
            return Ok(Some(fork.refuse(&self.last_failure)));
        }
        self.waiting.push_back(fork);
        self.send_waiting().map(|()| None)
    }

    fn send_waiting(&mut self) -> Result<(), ChannelError> {
        let Some(live) = self.live.as_ref().filter(|live| live.ready) else { return Ok(()) };
        while let Some(fork) = self.waiting.pop_front() {
            let number = self.next_number;
            self.next_number = self.next_number.wrapping_add(1);
            let mut rlimits = [Rlimit { resource: 0, soft: 0, hard: 0 }; MAX_RLIMITS];
            rlimits[..fork.rlimits.len()].copy_from_slice(&fork.rlimits);
            let count = u32::try_from(fork.rlimits.len()).unwrap_or(0);
            let request = ForkRequest { magic: MAGIC, context: number, rlimit_count: count, _pad: 0, rlimits };
            let fds: Vec<_> = fork.fds.iter().map(AsFd::as_fd).collect();
            match channel::send_bytes(&live.channel, bytes_of(&request), &fds) {
                // The zygote has died; its end is reaped next, and the request goes to its successor.
                Err(ChannelError::Closed) => {
                    self.waiting.push_front(fork);
                    return Ok(());
                }
                sent => sent?,
            }
            self.asked.insert(number, (fork.sandbox, fork.context));
        }
        Ok(())
    }

    /// What the zygote has said. Its first message tells whether it is warm; then it is armed.
    pub(super) fn hear(&mut self, filters: &Filters) -> Result<Vec<Event>, ChannelError> {
        let Some(live) = &mut self.live else { return Ok(Vec::new()) };
        let (body, fds) = match channel::receive_bytes(&live.channel) {
            // Its death is reaped by pid; until then there is nothing more to hear.
            Err(ChannelError::Closed) => {
                return Ok(self.fail_asked());
            }
            received => received?,
        };
        if live.ready {
            return Ok(self.hear_reply(&body, fds).into_iter().collect());
        }
        let first: Map<String, Value> = serde_json::from_slice(&body).map_err(ChannelError::Read)?;
        if first.get("type").and_then(Value::as_str) != Some("ready") {
            let message = first.get("message").and_then(Value::as_str).unwrap_or("the zygote failed to start");
            self.last_failure = message.to_owned();
            return Ok(vec![Event::Failed(message.to_owned())]);
        }
        arm(&live.channel, filters, self.walls.bits())?;
        live.ready = true;
        self.failed_starts = 0;
        self.send_waiting()?;
        Ok(vec![Event::Ready(first)])
    }

    fn hear_reply(&mut self, body: &[u8], fds: Vec<OwnedFd>) -> Option<Event> {
        let reply: ForkReply = view(body)?;
        match reply.kind {
            ForkReply::FORKED => {
                let (sandbox, context) = self.asked.remove(&reply.context)?;
                self.forks.insert(reply.pid, (sandbox.clone(), context));
                fds.into_iter().next().map(|pidfd| Event::Forked { sandbox, context, pidfd })
            }
            ForkReply::EXITED => {
                let (sandbox, context) = self.forks.remove(&reply.pid)?;
                let (code, signal) = wait_status(reply.value);
                Some(Event::Exited { sandbox, context, code, signal })
            }
            _ => {
                let (sandbox, context) = self.asked.remove(&reply.context)?;
                let errno = rustix::io::Errno::from_raw_os_error(reply.value);
                Some(Event::Refused { sandbox, context, message: format!("the fork was refused: {errno}") })
            }
        }
    }

    /// Requests that a dead zygote never answered. The channel is closed so that it is not polled again.
    fn fail_asked(&mut self) -> Vec<Event> {
        let message = "the zygote ended while forking".to_owned();
        if let Some(live) = &mut self.live
            && let Ok((silent, _)) = channel::pair()
        {
            live.channel = silent;
        }
        self.asked
            .drain()
            .map(|(_, (sandbox, context))| Event::Refused { sandbox, context, message: message.clone() })
            .collect()
    }
}

fn wait_status(status: i32) -> (Option<i32>, Option<i32>) {
    let signal = status & 0x7f;
    if signal == 0 { (Some((status >> 8) & 0xff), None) } else { (None, Some(signal)) }
}

fn arm(channel: &OwnedFd, filters: &Filters, off: Off) -> Result<(), ChannelError> {
    let seccomp = !off.has(Off::SECCOMP);
    let none = Vec::new();
    let (inherited, last) = if seccomp { (&filters.allow, &filters.deny) } else { (&none, &none) };
    let length = |bytes: &Vec<u8>| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let arm = Arm { magic: MAGIC, off: off.0, inherited_bytes: length(inherited), final_bytes: length(last) };
    let body = [bytes_of(&arm), inherited, last].concat();
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
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).step("lay /dev/null")?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr()).step("lay stdout")?;
    crate::sys::process::lay_and_close(channel)?;
    nix::sys::signal::SigSet::empty().thread_set_mask().step("unblock signals")?;
    let text = |s: &str| CString::new(s).map_err(std::io::Error::from).step("read the zygote's command");
    let argv = argv.iter().map(|arg| text(arg)).collect::<Result<Vec<_>, _>>()?;
    let env = env.iter().map(|(k, v)| text(&format!("{k}={v}"))).collect::<Result<Vec<_>, _>>()?;
    let program = argv.first().ok_or(rustix::io::Errno::INVAL).step("find the interpreter")?;
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
    let sets = CapabilitySets { effective: KEPT, permitted: KEPT, inheritable: KEPT };
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
