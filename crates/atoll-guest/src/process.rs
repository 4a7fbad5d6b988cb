//! Commands: started, signalled, reaped.

use crate::files::resolve;
use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use crate::relay::Relay;
use crate::terminal::{self, Ends};
use crate::usage::{catches, is_running, members};
use atoll_core::wire::agent::{Answer, Refusal, TerminalSize};
use atoll_jail::channel::ChannelError;
use atoll_jail::command::{self, Command};
use atoll_jail::{AgentStart, chain};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use rustix::event::PollFlags;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Access, access};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};

const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

#[derive(Debug)]
pub(crate) struct Processes {
    ended: SignalFd,
    /// Live commands by their number inside.
    live: HashMap<i32, Live>,
    /// Those of commands that have ended, as long as there is something to carry.
    relays: Vec<Relay>,
    /// Who has had SIGINT since the last interrupt of a shell began.
    interrupted: HashSet<i32>,
    /// Who was first seen with the last call of that interrupt.
    newcomers: HashSet<i32>,
}

#[derive(Debug)]
struct Live {
    /// Which has started it.
    request: u32,
    /// The other end of its terminal, if it has one.
    terminal: Option<OwnedFd>,
    /// Who carries its bytes, where the terminal cannot be handed to the engine.
    relay: Option<Relay>,
}

/// What a `Spawn` asks for.
#[derive(Debug)]
pub(crate) struct Spawn {
    pub(crate) argv: Vec<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) cwd: String,
    pub(crate) terminal: Option<TerminalSize>,
    pub(crate) fds: Vec<OwnedFd>,
}

impl Processes {
    pub(crate) fn new() -> Result<Self, Errno> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        mask.thread_block()?;
        let ended = SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)?;
        Ok(Self {
            ended,
            live: HashMap::new(),
            relays: Vec::new(),
            interrupted: HashSet::new(),
            newcomers: HashSet::new(),
        })
    }

    pub(crate) fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// What the relays of terminals wait for.
    pub(crate) fn relayed(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let live = self.live.values().filter_map(|live| live.relay.as_ref());
        live.chain(&self.relays).flat_map(Relay::interests)
    }

    pub(crate) fn relay(&mut self) {
        for (pid, Live { terminal, relay, .. }) in &mut self.live {
            relay.take_if(|relay| {
                let goes_on = relay.step();
                for signal in relay.take_signals() {
                    let group = terminal.as_ref().and_then(foreground);
                    killpg(group.unwrap_or(Pid::from_raw(*pid)), signal).ok();
                }
                !goes_on
            });
        }
        self.relays.retain_mut(Relay::step);
    }

    /// Starts a command: its number inside, its pidfd, and the other end of its terminal if it has one.
    pub(crate) fn start(
        &mut self,
        agent: &AgentStart,
        home: &str,
        request: u32,
        mut spawn: Spawn,
    ) -> Result<(u32, Vec<OwnedFd>), Refused> {
        let cwd = resolve(home, &spawn.cwd)?;
        if !Path::new(&cwd).is_dir() {
            return Err(Refused::new(Refusal::Invalid, format!("cwd '{cwd}' does not exist")));
        }
        let env = environment(agent, home, spawn.env);
        let program = find_program(&spawn.argv, &env, &cwd)?;
        let mut ends = Ends::default();
        if let Some(size) = spawn.terminal {
            let pair = terminal::open(size).about("cannot open a terminal")?;
            ends = Ends::of(pair.outside, pair.tells_end)?;
            spawn.fds = pair.inside;
        }
        let command = Command {
            program: &program,
            argv: &spawn.argv,
            env: &env,
            cwd: &cwd,
            fds: &spawn.fds,
            terminal: ends.terminal.is_some(),
        };
        let started = command::start(agent, &command);
        let (pid, pidfd) = started.map_err(|error| Refused::new(Refusal::Failed, chain(&error)))?;
        let Ends {
            terminal,
            engine,
            relay,
        } = ends;
        let live = Live {
            request,
            terminal,
            relay,
        };
        self.live.insert(pid, live);
        Ok((pid.unsigned_abs(), pidfd.into_iter().chain(engine).collect()))
    }

    pub(crate) fn signal(&self, process: u32, signal: i32) {
        if let (Some(pid), Ok(signal)) = (self.pid_of(process), Signal::try_from(signal)) {
            // Every command leads a session of its own, so its group has its number.
            killpg(Pid::from_raw(pid), signal).ok();
        }
    }

    /// The shell first: it must know before what it waits for is gone. A program that the shell was just about to start comes
    /// to be after its interrupt, and has its own with a later call: when it is seen for the second time. What the shell itself
    /// starts for a moment to give up a function would take the shell with it. A subshell that was just forked still has the
    /// shell's way to catch an interrupt and loses it: who is left and does not catch it has it once more.
    pub(crate) fn interrupt(&mut self, process: u32, again: bool) {
        let Some(shell) = self.pid_of(process) else {
            return;
        };
        let there: HashSet<i32> = members(shell).filter(|pid| *pid != shell).collect();
        kill(Pid::from_raw(shell), Signal::SIGURG).ok();
        let meant = match again {
            true => self.meant_again(&there),
            false => {
                self.interrupted.clear();
                there.clone()
            }
        };
        for pid in &meant {
            kill(Pid::from_raw(*pid), Signal::SIGINT).ok();
        }
        self.interrupted.extend(meant);
        self.newcomers = there.difference(&self.interrupted).copied().collect();
    }

    fn meant_again(&self, there: &HashSet<i32>) -> HashSet<i32> {
        let left = there.intersection(&self.interrupted).copied();
        let defenceless = left.filter(|pid| !catches(*pid, Signal::SIGINT));
        let late = there.intersection(&self.newcomers).copied();
        late.chain(defenceless).collect()
    }

    /// A shell's line editor asks for the size and sets what it was told, again and again: who changes it in between is not
    /// heard. So the answer says whether somebody runs who could be at it, and the engine then asks once more.
    pub(crate) fn resize(&self, process: u32, size: TerminalSize) -> Result<Answer, Refused> {
        let pid = self.pid_of(process);
        let terminal = pid.and_then(|pid| self.live.get(&pid)?.terminal.as_ref().map(|terminal| (pid, terminal)));
        let Some((pid, terminal)) = terminal else {
            return Err(Refused::new(Refusal::NotFound, "the process has no terminal"));
        };
        terminal::resize(terminal, size).about("cannot resize the terminal")?;
        // gVisor's terminals have a size, and tell nobody that it is another one.
        if self.live.get(&pid).is_some_and(|live| live.relay.is_some()) {
            killpg(foreground(terminal).unwrap_or(Pid::from_raw(pid)), Signal::SIGWINCH).ok();
        }
        Ok(Answer::Resized {
            still: !is_running(pid),
        })
    }

    fn pid_of(&self, process: u32) -> Option<i32> {
        let found = self.live.iter().find(|(_, live)| live.request == process);
        found.map(|(pid, _)| *pid)
    }

    /// From PID 1, `-1` means everybody else in this pid namespace. From another it would mean the machine.
    pub(crate) fn signal_all(signal: Signal) {
        if std::process::id() == 1 {
            kill(Pid::from_raw(-1), signal).ok();
        }
    }

    /// Reaps everything that ended: commands, which the engine is told of, and orphans of the user's programs.
    pub(crate) fn reap(&mut self, outbox: &mut Outbox) -> Result<(), ChannelError> {
        while let Ok(Some(_)) = self.ended.read_signal() {}
        loop {
            let (pid, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid.as_raw(), Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid.as_raw(), None, Some(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(Errno::ECHILD) => return Ok(()),
                Ok(_) | Err(_) => continue,
            };
            if let Some(live) = self.live.remove(&pid) {
                self.relays.extend(live.relay.map(|mut relay| {
                    relay.command_ended();
                    relay
                }));
                outbox.tell(live.request, Answer::Exited { code, signal })?;
            }
        }
    }
}

/// The group of whoever uses the terminal now.
fn foreground(terminal: &OwnedFd) -> Option<Pid> {
    let group = rustix::termios::tcgetpgrp(terminal).ok()?;
    Some(Pid::from_raw(group.as_raw_nonzero().get()))
}

/// Who the user is, then the sandbox's own environment, then the request's: the later wins.
fn environment(agent: &AgentStart, home: &str, asked: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let user = [
        ("HOME", home),
        ("USER", "user"),
        ("LOGNAME", "user"),
        ("PATH", DEFAULT_PATH),
    ];
    let mut env: BTreeMap<String, String> = user.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    env.extend(agent.env.iter().cloned());
    env.extend(asked);
    env
}

/// The program's file: as given if it has a slash, else the first in the command's own `PATH`.
fn find_program(argv: &[String], env: &BTreeMap<String, String>, cwd: &str) -> Result<PathBuf, Refused> {
    let name = argv.first().filter(|name| !name.is_empty());
    let name = name.ok_or_else(|| Refused::new(Refusal::Invalid, "the command is empty"))?;
    if name.contains('/') {
        let path = Path::new(cwd).join(name);
        access(&path, Access::EXEC_OK).about(format!("program '{name}'"))?;
        return Ok(path);
    }
    let path = env.get("PATH").map_or(DEFAULT_PATH, String::as_str);
    let places = path.split(':').map(|dir| Path::new(cwd).join(dir).join(name));
    let mut programs = places.filter(|place| place.is_file() && access(place, Access::EXEC_OK).is_ok());
    programs
        .next()
        .ok_or_else(|| Refused::new(Refusal::NotFound, format!("program '{name}': not found in {path}")))
}
