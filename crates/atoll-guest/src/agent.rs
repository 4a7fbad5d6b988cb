//! The agent's loop: messages of the engine, ended children.

use crate::collect::collect;
use atoll_core::wire::agent::{FromAgent, ToAgent, parse};
use atoll_jail::channel::{self, ChannelError};
use atoll_jail::{AgentStart, chain, command};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::HashMap;

/// Runs until the engine goes; the sandbox ends with it.
pub fn main(start: AgentStart) -> i32 {
    let Ok(children) = watch_children() else { return 1 };
    let mut agent = Agent {
        start,
        children,
        processes: HashMap::new(),
    };
    if agent.tell(&FromAgent::Ready, &[]).is_err() {
        return 1;
    }
    while agent.turn().is_ok() {}
    0
}

struct Agent {
    start: AgentStart,
    children: SignalFd,
    /// Live commands: pid inside, and the engine's number for it.
    processes: HashMap<i32, u32>,
}

impl Agent {
    fn turn(&mut self) -> Result<(), ChannelError> {
        let (engine, children) = self.wait()?;
        if children {
            self.reap()?;
        }
        if engine {
            let (body, fds) = channel::receive_bytes(&self.start.channel)?;
            if let Some(message) = parse::<ToAgent>(&body) {
                self.obey(message, fds)?;
            }
        }
        Ok(())
    }

    fn wait(&self) -> Result<(bool, bool), ChannelError> {
        let mut fds = [
            PollFd::from_borrowed_fd(self.start.channel.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
        ];
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(ChannelError::Socket(errno)),
        }
        Ok((!fds[0].revents().is_empty(), !fds[1].revents().is_empty()))
    }

    fn obey(&mut self, message: ToAgent, fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        match message {
            ToAgent::Spawn {
                process,
                argv,
                env,
                cwd,
            } => match command::start(&self.start, &argv, &env, &cwd, &fds) {
                Ok((pid, pidfd)) => {
                    self.processes.insert(pid, process);
                    self.tell(&FromAgent::Spawned { process }, &[pidfd.as_fd()])
                }
                Err(error) => self.tell(
                    &FromAgent::SpawnFailed {
                        process,
                        message: chain(&error),
                    },
                    &[],
                ),
            },
            ToAgent::Signal { process, signal } => {
                let pid = self
                    .processes
                    .iter()
                    .find(|(_, number)| **number == process)
                    .map(|(pid, _)| *pid);
                if let (Some(pid), Ok(signal)) = (pid, Signal::try_from(signal)) {
                    // Every command leads a session of its own, so its group has its number.
                    killpg(Pid::from_raw(pid), signal).ok();
                }
                Ok(())
            }
            ToAgent::Collect { dir, max_files } => collect(&self.start.channel, &dir, max_files),
            ToAgent::Usage { exact_above_bytes } => {
                let usage = crate::usage::read(exact_above_bytes);
                self.tell(
                    &FromAgent::Usage {
                        memory_bytes: usage.memory_bytes,
                        cpu_ms: usage.cpu_ms,
                    },
                    &[],
                )
            }
            ToAgent::KillAll => {
                // From PID 1, `-1` means everybody else in this pid namespace.
                nix::sys::signal::kill(Pid::from_raw(-1), Signal::SIGKILL).ok();
                Ok(())
            }
            ToAgent::Scratch => {
                let (free_bytes, free_inodes) = match rustix::fs::statvfs("/home/user") {
                    Ok(stat) => (stat.f_bavail * stat.f_frsize, stat.f_favail),
                    Err(_) => (0, 0),
                };
                self.tell(
                    &FromAgent::Scratch {
                        free_bytes,
                        free_inodes,
                    },
                    &[],
                )
            }
        }
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
            if let Some(process) = self.processes.remove(&pid) {
                self.tell(&FromAgent::Exited { process, code, signal }, &[])?;
            }
        }
    }

    fn tell(&self, message: &FromAgent, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        channel::send(&self.start.channel, message, fds)
    }
}

fn watch_children() -> Result<SignalFd, Errno> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
}
