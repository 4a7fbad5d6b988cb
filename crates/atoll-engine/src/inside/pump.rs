//! The task that reads a command's output and hands it to all who listen.

use super::command::{CommandEnd, CommandEvent, Told};
use super::commands::Newcomers;
use crate::backend::{Asked, read_piece};
use atoll_core::wire::agent::Answer;
use atoll_guard::redact::{Redactor, Stream};
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

/// After a command was killed, output that others still hold open is waited for no longer than this.
const AFTER_KILL: Duration = Duration::from_millis(50);
/// A terminal shows after this pause what could be the beginning of a secret: somebody looks at each letter.
const PAUSE: Duration = Duration::from_millis(100);

type Wrap = fn(Vec<u8>) -> CommandEvent;

/// Our ends of a command's outputs.
#[derive(Debug, Default)]
pub(super) struct Sources {
    first: Option<Source>,
    second: Option<Source>,
}

#[derive(Debug)]
struct Source {
    fd: AsyncFd<OwnedFd>,
    wrap: Wrap,
    hides: Option<Stream>,
    is_terminal: bool,
}

impl Source {
    fn new(fd: AsyncFd<OwnedFd>, wrap: Wrap) -> Option<Self> {
        Some(Self {
            fd,
            wrap,
            hides: None,
            is_terminal: false,
        })
    }

    /// A piece as it is shown, empty if all of it is held back; `None` at the end.
    async fn read(&mut self) -> Option<Vec<u8>> {
        let reading = read_piece(Some(&self.fd));
        let Some(hides) = &mut self.hides else {
            return reading.await;
        };
        if !(self.is_terminal && hides.holds()) {
            return reading.await.map(|piece| hides.push(&piece));
        }
        match tokio::time::timeout(PAUSE, reading).await {
            Ok(piece) => piece.map(|piece| hides.push(&piece)),
            Err(_) => Some(hides.release()),
        }
    }

    /// Nothing more is read: what was held back.
    fn rest(mut self) -> Option<CommandEvent> {
        let rest = self.hides.as_mut().map(Stream::finish).unwrap_or_default();
        (!rest.is_empty()).then(|| (self.wrap)(rest))
    }
}

async fn read(source: Option<&mut Source>) -> Option<Vec<u8>> {
    match source {
        Some(source) => source.read().await,
        None => std::future::pending().await,
    }
}

impl Sources {
    pub(super) fn of_pipes(stdout: AsyncFd<OwnedFd>, stderr: AsyncFd<OwnedFd>) -> Self {
        Self {
            first: Source::new(stdout, CommandEvent::Stdout),
            second: Source::new(stderr, CommandEvent::Stderr),
        }
    }

    pub(super) fn of_terminal(master: AsyncFd<OwnedFd>) -> Self {
        let mut first = Source::new(master, CommandEvent::Terminal);
        first.iter_mut().for_each(|source| source.is_terminal = true);
        Self { first, second: None }
    }

    /// Each stream is searched by itself.
    pub(super) fn hiding(mut self, redactor: &Arc<Redactor>) -> Self {
        for source in self.first.iter_mut().chain(&mut self.second) {
            source.hides = Some(Stream::new(Arc::clone(redactor)));
        }
        self
    }

    /// The next piece of output; `None` when all are at their end.
    async fn next(&mut self) -> Option<CommandEvent> {
        loop {
            if self.first.is_none() && self.second.is_none() {
                return None;
            }
            let (from_first, piece) = tokio::select! {
                piece = read(self.first.as_mut()) => (true, piece),
                piece = read(self.second.as_mut()) => (false, piece),
            };
            let source = if from_first { &mut self.first } else { &mut self.second };
            match piece {
                // All of it is held back.
                Some(bytes) if bytes.is_empty() => {}
                Some(bytes) => return source.as_ref().map(|source| (source.wrap)(bytes)),
                None => {
                    if let Some(rest) = source.take().and_then(Source::rest) {
                        return Some(rest);
                    }
                }
            }
        }
    }

    /// What was held back of streams that are not at their end.
    fn rest(self) -> impl Iterator<Item = CommandEvent> {
        [self.first, self.second].into_iter().flatten().filter_map(Source::rest)
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
pub(super) async fn pump(told: Told, mut asked: Asked, mut sources: Sources) {
    let mut listeners = Listeners {
        all: Vec::new(),
        newcomers: told.newcomers,
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
    for event in sources.rest() {
        listeners.tell(event).await;
    }
    let end = match end {
        Some(end) => end,
        None => exit(&mut asked).await,
    };
    // Without an end the sandbox is gone: the listeners just see their queue close.
    if let Some(end) = end {
        told.end.send_replace(Some(end));
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
