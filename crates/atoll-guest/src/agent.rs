//! The agent's loop: messages of the engine, ended children.

use crate::collect::collect;
use crate::outbox::Outbox;
use crate::refused::Refused;
use atoll_core::wire::agent::{Answer, Ask, Refusal, ToAgent, UNASKED, parse};
use atoll_jail::channel::ChannelError;
use atoll_jail::{AgentStart, chain, command};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::HashMap;

/// Runs until the engine goes; the sandbox ends with it.
pub fn main(start: AgentStart) -> i32 {
    let Ok(children) = watch_children() else { return 1 };
    let Ok(outbox) = start.channel.try_clone() else {
        return 1;
    };
    let Ok(outbox) = Outbox::new(outbox) else { return 1 };
    let mut agent = Agent {
        start,
        children,
        outbox,
        processes: HashMap::new(),
    };
    if agent.outbox.tell(UNASKED, Answer::Ready).is_err() {
        return 1;
    }
    while agent.turn().is_ok() {}
    0
}

struct Agent {
    start: AgentStart,
    children: SignalFd,
    outbox: Outbox,
    /// Live commands: pid inside, and the request that has started it.
    processes: HashMap<i32, u32>,
}

impl Agent {
    fn turn(&mut self) -> Result<(), ChannelError> {
        let (engine, children) = self.wait()?;
        self.outbox.flush()?;
        if children {
            self.reap()?;
        }
        if engine {
            if let Some((body, fds)) = self.outbox.hear()? {
                if let Some(message) = parse::<ToAgent>(&body) {
                    self.obey(message, fds)?;
                }
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<(bool, bool), ChannelError> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, !self.outbox.is_full());
        interest.set(PollFlags::OUT, !self.outbox.is_empty());
        let mut fds = [
            PollFd::from_borrowed_fd(self.outbox.channel(), interest),
            PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ChannelError::Socket(errno)),
        }
        let heard = PollFlags::IN | PollFlags::HUP | PollFlags::ERR;
        Ok((fds[0].revents().intersects(heard), !fds[1].revents().is_empty()))
    }

    fn obey(&mut self, message: ToAgent, fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        let request = message.request;
        match message.ask {
            Ask::Spawn {
                argv,
                env,
                cwd,
                terminal: None,
            } => match command::start(&self.start, &argv, &env, &cwd, &fds) {
                Ok((pid, pidfd)) => {
                    self.processes.insert(pid, request);
                    let spawned = Answer::Spawned {
                        pid: pid.unsigned_abs(),
                    };
                    self.outbox.tell_with(request, spawned, vec![pidfd])
                }
                Err(error) => self.refuse(request, Refused::new(Refusal::Failed, chain(&error))),
            },
            Ask::Signal { process, signal } => {
                let found = self.processes.iter().find(|(_, number)| **number == process);
                if let (Some((pid, _)), Ok(signal)) = (found, Signal::try_from(signal)) {
                    // Every command leads a session of its own, so its group has its number.
                    killpg(Pid::from_raw(*pid), signal).ok();
                }
                Ok(())
            }
            Ask::Collect { dir, max_files } => collect(&mut self.outbox, request, &dir, max_files),
            Ask::Usage { exact_above_bytes } => {
                let usage = crate::usage::read(exact_above_bytes);
                let answer = Answer::Usage {
                    memory_bytes: usage.memory_bytes,
                    cpu_ms: usage.cpu_ms,
                };
                self.outbox.tell(request, answer)
            }
            Ask::KillAll => {
                // From PID 1, `-1` means everybody else in this pid namespace.
                nix::sys::signal::kill(Pid::from_raw(-1), Signal::SIGKILL).ok();
                Ok(())
            }
            Ask::Freeze { on } => {
                let signal = if on { Signal::SIGSTOP } else { Signal::SIGCONT };
                nix::sys::signal::kill(Pid::from_raw(-1), signal).ok();
                self.outbox.tell(request, Answer::Done)
            }
            Ask::Scratch => {
                let (free_bytes, free_inodes) = match rustix::fs::statvfs("/home/user") {
                    Ok(stat) => (stat.f_bavail * stat.f_frsize, stat.f_favail),
                    Err(_) => (0, 0),
                };
                let answer = Answer::Scratch {
                    free_bytes,
                    free_inodes,
                };
                self.outbox.tell(request, answer)
            }
            _ => self.refuse(request, Refused::new(Refusal::Failed, "not yet")),
        }
    }

    fn refuse(&mut self, request: u32, refused: Refused) -> Result<(), ChannelError> {
        self.outbox.tell(request, refused.into_answer())
    }

    /// Reaps everything that ended: commands, which the engine is told of, and orphans of the user's programs.
    fn reap(&mut self) -> Result<(), ChannelError> {
        while let Ok(Some(_)) = self.children.read_signal() {}
        loop {
            let (pid, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid.as_raw(), Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid.as_raw(), None, Some(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(_) | Err(_) => continue,
            };
            if let Some(request) = self.processes.remove(&pid) {
                self.outbox.tell(request, Answer::Exited { code, signal })?;
            }
        }
    }
}

fn watch_children() -> Result<SignalFd, Errno> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
