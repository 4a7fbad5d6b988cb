//! Output that never holds a running sandbox: a thread of its own writes, and whoever reads slowly makes only it wait.
//!
//! The queue has no bound of its own. What comes from code is bounded already, by the limits of its output.

use crate::status_line::{self, StatusLine};
use atoll_core::execution::LiveUsage;
use atoll_guard::terminal::{How, Terminal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use std::io::IsTerminal;
use std::sync::mpsc;
use tokio::sync::oneshot;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

#[derive(Debug)]
struct Piece {
    stream: Stream,
    bytes: Vec<u8>,
    /// Of the code, not words of ours.
    is_foreign: bool,
}

#[derive(Debug)]
enum Work {
    Write(Piece),
    /// On a terminal, until something else is written.
    Status(String),
    /// All that was before is written.
    Tell(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(crate) struct Printer {
    queue: mpsc::Sender<Work>,
    done: oneshot::Receiver<Option<Errno>>,
}

impl Printer {
    /// `strip`: what steers a terminal is taken out, whoever reads.
    pub(crate) fn start(strip: bool) -> Self {
        let (queue, pieces) = mpsc::channel();
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            // Nobody listens any more if the wait was given up.
            tell.send(write_all(&pieces, strip)).ok();
        });
        Self { queue, done }
    }

    /// Bytes of the code; a terminal gets them so that they cannot steer it.
    pub(crate) fn pass(&self, stream: Stream, bytes: &[u8]) {
        self.send(stream, bytes.to_vec(), true);
    }

    /// Words of ours.
    pub(crate) fn print(&self, stream: Stream, bytes: Vec<u8>) {
        self.send(stream, bytes, false);
    }

    /// What a running execution uses, as one line that goes away again. Only a terminal shows it.
    pub(crate) fn status(&self, usage: &LiveUsage) {
        if let Some(text) = status_line::of_usage(usage) {
            self.queue.send(Work::Status(text)).ok();
        }
    }

    fn send(&self, stream: Stream, bytes: Vec<u8>, is_foreign: bool) {
        let piece = Piece {
            stream,
            bytes,
            is_foreign,
        };
        // The thread lives as long as this end.
        self.queue.send(Work::Write(piece)).ok();
    }

    /// Waits until what was printed so far is written.
    pub(crate) async fn settle(&self) {
        let (tell, told) = oneshot::channel();
        self.queue.send(Work::Tell(tell)).ok();
        told.await.ok();
    }

    /// Waits until all is written. Returns why standard output could not take it, if it could not; a reader that has
    /// gone away is no failure.
    pub(crate) async fn finish(self) -> Option<Errno> {
        drop(self.queue);
        self.done.await.unwrap_or(None)
    }
}

impl Stream {
    fn fd(self) -> BorrowedFd<'static> {
        match self {
            Self::Stdout => rustix::stdio::stdout(),
            Self::Stderr => rustix::stdio::stderr(),
        }
    }

    fn is_terminal(self) -> bool {
        match self {
            Self::Stdout => std::io::stdout().is_terminal(),
            Self::Stderr => std::io::stderr().is_terminal(),
        }
    }
}

fn write_all(work: &mpsc::Receiver<Work>, strip: bool) -> Option<Errno> {
    let mut stdout = Out::new(Stream::Stdout, strip);
    let mut stderr = Out::new(Stream::Stderr, strip);
    let mut status = StatusLine::default();
    for one in work {
        match one {
            Work::Status(text) => stderr.write(&status.show(&text)),
            Work::Write(piece) => {
                stderr.write(status.erase());
                let out = match piece.stream {
                    Stream::Stdout => &mut stdout,
                    Stream::Stderr => &mut stderr,
                };
                out.take(piece, &mut status);
            }
            Work::Tell(tell) => {
                stderr.write(status.erase());
                // Who asked may have gone.
                tell.send(()).ok();
            }
        }
    }
    stderr.write(status.erase());
    stdout.end();
    stderr.end();
    stdout.state.err().filter(|errno| *errno != Errno::PIPE)
}

/// One of the two streams, and how text of the code is written to it.
struct Out {
    stream: Stream,
    /// `None`: as it is.
    terminal: Option<Terminal>,
    is_terminal: bool,
    state: Result<(), Errno>,
}

impl Out {
    fn new(stream: Stream, strip: bool) -> Self {
        let is_terminal = stream.is_terminal();
        let how = match (strip, is_terminal) {
            (true, _) => Some(How::Strip),
            (false, true) => Some(How::Show),
            (false, false) => None,
        };
        Self {
            stream,
            terminal: how.map(Terminal::new),
            is_terminal,
            state: Ok(()),
        }
    }

    fn take(&mut self, piece: Piece, status: &mut StatusLine) {
        if self.is_terminal {
            status.note_output(&piece.bytes);
        }
        match &mut self.terminal {
            Some(terminal) if piece.is_foreign => {
                let text = terminal.pass(&piece.bytes);
                self.write(text.as_bytes());
            }
            Some(_) => {
                self.end();
                self.write(&piece.bytes);
            }
            None => self.write(&piece.bytes),
        }
    }

    /// What waits for more of the code's text is written before other words.
    fn end(&mut self) {
        if let Some(terminal) = &mut self.terminal {
            let rest = terminal.end();
            self.write(rest.as_bytes());
        }
    }

    fn write(&mut self, bytes: &[u8]) {
        if self.state.is_ok() {
            self.state = write_piece(self.stream.fd(), bytes);
        }
    }
}

fn write_piece(fd: BorrowedFd<'_>, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            // Whoever shares the terminal may have made it non-blocking.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::OUT)], None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            },
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}
