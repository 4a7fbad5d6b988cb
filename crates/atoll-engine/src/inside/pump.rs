//! The task that reads a command's output and hands it to all who listen.

use super::command::{Command, CommandEnd, CommandEvent};
use super::commands::Newcomers;
use crate::jail::{Asked, read_piece};
use atoll_core::wire::agent::Answer;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// After a command was killed, output that others still hold open is waited for no longer than this.
const AFTER_KILL: Duration = Duration::from_millis(50);

type Wrap = fn(Vec<u8>) -> CommandEvent;

/// Our ends of a command's outputs.
#[derive(Debug, Default)]
pub(super) struct Sources {
    first: Option<(AsyncFd<OwnedFd>, Wrap)>,
    second: Option<(AsyncFd<OwnedFd>, Wrap)>,
}

impl Sources {
    pub(super) fn of_pipes(stdout: AsyncFd<OwnedFd>, stderr: AsyncFd<OwnedFd>) -> Self {
        Self {
            first: Some((stdout, CommandEvent::Stdout)),
            second: Some((stderr, CommandEvent::Stderr)),
        }
    }

    pub(super) fn of_terminal(master: AsyncFd<OwnedFd>) -> Self {
        Self {
            first: Some((master, CommandEvent::Terminal)),
            second: None,
        }
    }

    /// The next piece of output; `None` when all are at their end.
    async fn next(&mut self) -> Option<CommandEvent> {
        loop {
            if self.first.is_none() && self.second.is_none() {
                return None;
            }
            let (from_first, piece) = tokio::select! {
                piece = read_piece(self.first.as_ref().map(|(fd, _)| fd)) => (true, piece),
                piece = read_piece(self.second.as_ref().map(|(fd, _)| fd)) => (false, piece),
            };
            let source = if from_first { &mut self.first } else { &mut self.second };
            match piece {
                Some(bytes) => return source.as_ref().map(|(_, wrap)| wrap(bytes)),
                None => *source = None,
            }
        }
    }
}

/// Those who hear a command. One that has gone is forgotten.
#[derive(Debug)]
struct Listeners {
    all: Vec<mpsc::Sender<CommandEvent>>,
    newcomers: Newcomers,
}

impl Listeners {
    async fn tell(&mut self, event: CommandEvent) {
        while let Ok(newcomer) = self.newcomers.try_recv() {
            self.all.push(newcomer);
        }
        let mut still = Vec::new();
        for listener in self.all.drain(..) {
            if listener.send(event.clone()).await.is_ok() {
                still.push(listener);
            }
        }
        self.all = still;
    }
}

/// Runs until the command has ended and its output is read. The end is told last.
pub(super) async fn pump(command: Arc<Command>, mut asked: Asked, mut sources: Sources, newcomers: Newcomers) {
    let mut listeners = Listeners {
        all: Vec::new(),
        newcomers,
    };
    let mut end = None;
    loop {
        tokio::select! {
            piece = sources.next() => match piece {
                Some(event) => listeners.tell(event).await,
                None => break,
            },
            exit = exit(&mut asked), if end.is_none() => {
                end = Some(exit);
                // Who is killed leaves no last words worth waiting for: its children may hold the pipes for long.
                if exit.is_none_or(|exit| exit.signal.is_some()) {
                    break;
                }
            }
        }
    }
    while let Ok(Some(event)) = tokio::time::timeout(AFTER_KILL, sources.next()).await {
        listeners.tell(event).await;
    }
    let end = match end {
        Some(end) => end,
        None => exit(&mut asked).await,
    };
    // Without an end the sandbox is gone: the listeners just see their queue close.
    if let Some(end) = end {
        command.has_ended(end);
        listeners.tell(CommandEvent::End(end)).await;
    }
}

async fn exit(asked: &mut Asked) -> Option<CommandEnd> {
    loop {
        match asked.next().await {
            Ok((Answer::Exited { code, signal }, _)) => return Some(CommandEnd { code, signal }),
            Ok(_) => {}
            Err(_) => return None,
        }
    }
}
