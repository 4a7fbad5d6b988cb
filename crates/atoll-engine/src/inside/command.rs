//! One command or terminal as its callers see it: its output as events, its input, its end.

use super::commands::{CommandSpec, Newcomers};
use crate::backend::{Agent, TierError};
use crate::engine::EngineError;
use crate::lock::lock;
use atoll_core::wire::agent::{Answer, Ask, TerminalSize};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Signal, pidfd_send_signal};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Mutex, mpsc, watch};

/// Pieces of output that wait for a listener; then the command waits, too.
const WAITING: usize = 16;
/// Listeners that wait until the command says something; one more hears nothing.
const NEWCOMERS: usize = 64;
/// A program that never rests keeps nobody waiting for longer than these.
const RESIZES: usize = 20;
const BETWEEN_RESIZES: Duration = Duration::from_millis(5);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommandEvent {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    Terminal(Vec<u8>),
    End(CommandEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandEnd {
    pub code: Option<i32>,
    pub signal: Option<i32>,
}

#[derive(Clone, Debug)]
pub struct CommandInfo {
    /// The number inside the sandbox.
    pub pid: u32,
    pub spec: CommandSpec,
}

/// Hears what a command says, from now on. Who listens too slowly slows the command down.
#[derive(Debug)]
pub struct Listener(mpsc::Receiver<CommandEvent>);

impl Listener {
    /// The next event; `None` after the end, or if the sandbox has ended instead.
    pub async fn next(&mut self) -> Option<CommandEvent> {
        self.0.recv().await
    }
}

/// How a command is reached: by its agent, and its own process by a pidfd where that crosses the wall.
#[derive(Debug)]
pub(super) struct Reach {
    pub(super) agent: Arc<Agent>,
    /// The request that has started it.
    pub(super) process: u32,
    /// Until the command has ended.
    pub(super) pidfd: std::sync::Mutex<Option<OwnedFd>>,
}

impl Reach {
    /// To itself, or by the agent to its group.
    async fn signal(&self, signal: Signal) -> bool {
        let by_pidfd = lock(&self.pidfd)
            .as_ref()
            .map(|pidfd| pidfd_send_signal(pidfd, signal).is_ok());
        match by_pidfd {
            Some(sent) => sent,
            None => {
                let (process, signal) = (self.process, signal.as_raw());
                self.agent.tell(Ask::Signal { process, signal }).await.is_ok()
            }
        }
    }

    /// Who just runs may set the size that it has asked for before: it is set once more until nobody does.
    async fn resize(&self, size: TerminalSize) -> bool {
        let process = self.process;
        for _ in 0..RESIZES {
            match self.agent.ask_once(Ask::Resize { process, size }).await {
                Ok((Answer::Resized { still: true }, _)) => return true,
                Ok((Answer::Resized { still: false }, _)) => tokio::time::sleep(BETWEEN_RESIZES).await,
                _ => return false,
            }
        }
        true
    }
}

#[derive(Debug)]
pub struct Command {
    pub info: CommandInfo,
    reach: Reach,
    stdin: Mutex<Option<AsyncFd<OwnedFd>>>,
    newcomers: mpsc::Sender<mpsc::Sender<CommandEvent>>,
    /// Its sender goes when nothing more is heard of the command.
    end: watch::Receiver<Option<CommandEnd>>,
}

/// What the task needs that reads the output: who wants to hear it, and where the end is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) newcomers: Newcomers,
    pub(super) end: watch::Sender<Option<CommandEnd>>,
}

impl Command {
    pub(super) fn new(
        pid: u32,
        spec: CommandSpec,
        reach: Reach,
        stdin: Option<OwnedFd>,
    ) -> Result<(Self, Listener, Told), TierError> {
        let (newcomers, listeners) = mpsc::channel(NEWCOMERS);
        let (told_end, end) = watch::channel(None);
        let command = Self {
            info: CommandInfo { pid, spec },
            reach,
            stdin: Mutex::new(stdin.map(watch_fd).transpose()?),
            newcomers,
            end,
        };
        let first = command.listen();
        let told = Told {
            newcomers: listeners,
            end: told_end,
        };
        Ok((command, first, told))
    }

    /// What it says from now on; what was said before is gone. One that has ended tells its end.
    pub fn listen(&self) -> Listener {
        let (sender, receiver) = mpsc::channel(WAITING);
        if let Err(refused) = self.newcomers.try_send(sender)
            && let Some(end) = self.end()
        {
            refused.into_inner().try_send(CommandEvent::End(end)).ok();
        }
        Listener(receiver)
    }

    pub fn end(&self) -> Option<CommandEnd> {
        *self.end.borrow()
    }

    /// `None`: the sandbox has ended instead.
    pub async fn wait(&self) -> Option<CommandEnd> {
        let mut seen = self.end.clone();
        seen.wait_for(Option::is_some).await.ok().and_then(|end| *end)
    }

    /// Closes what it was reached by. Whoever still holds this value holds no descriptor.
    pub(super) async fn let_go(&self) {
        self.close_stdin().await;
        lock(&self.reach.pidfd).take();
    }

    /// `false` if it is gone already.
    pub async fn signal(&self, signal: i32) -> bool {
        match Signal::from_named_raw(signal) {
            Some(signal) if self.end().is_none() => self.reach.signal(signal).await,
            _ => false,
        }
    }

    /// Writes to its standard input or terminal. `false` if it has none, or reads no more.
    pub async fn write(&self, mut bytes: &[u8]) -> Result<bool, EngineError> {
        let stdin = self.stdin.lock().await;
        let Some(stdin) = stdin.as_ref() else { return Ok(false) };
        while !bytes.is_empty() {
            let mut guard = stdin.writable().await.map_err(TierError::Start)?;
            match rustix::io::write(stdin.get_ref(), bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(Errno::AGAIN) => guard.clear_ready(),
                Err(_) => return Ok(false),
            }
        }
        Ok(true)
    }

    pub async fn close_stdin(&self) -> bool {
        self.stdin.lock().await.take().is_some()
    }

    /// Tells a terminal its new size; `false` if it is no terminal.
    pub async fn resize(&self, size: TerminalSize) -> bool {
        self.info.spec.terminal.is_some() && self.reach.resize(size).await
    }
}

fn watch_fd(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, TierError> {
    crate::backend::watch(fd)
}
