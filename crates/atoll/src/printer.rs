//! Output that never holds a running sandbox: a thread of its own writes, and whoever reads slowly makes only it wait.
//!
//! The queue has no bound of its own. What comes from code is bounded already, by the limits of its output.

use crate::output::visible;
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
pub(crate) struct Printer {
    queue: mpsc::Sender<(Stream, Vec<u8>)>,
    done: oneshot::Receiver<Option<Errno>>,
}

impl Printer {
    pub(crate) fn start() -> Self {
        let (queue, pieces) = mpsc::channel();
        let (tell, done) = oneshot::channel();
        std::thread::spawn(move || {
            // Nobody listens any more if the wait was given up.
            tell.send(write_all(&pieces)).ok();
        });
        Self { queue, done }
    }

    /// Bytes of the code; a terminal gets them without escape sequences.
    pub(crate) fn pass(&self, stream: Stream, bytes: &[u8]) {
        let bytes = if stream.is_terminal() {
            visible(&String::from_utf8_lossy(bytes)).into_bytes()
        } else {
            bytes.to_vec()
        };
        self.print(stream, bytes);
    }

    /// Words of ours.
    pub(crate) fn print(&self, stream: Stream, bytes: Vec<u8>) {
        // The thread lives as long as this end.
        self.queue.send((stream, bytes)).ok();
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

fn write_all(pieces: &mpsc::Receiver<(Stream, Vec<u8>)>) -> Option<Errno> {
    let (mut stdout, mut stderr) = (Ok(()), Ok(()));
    for (stream, bytes) in pieces {
        let state = match stream {
            Stream::Stdout => &mut stdout,
            Stream::Stderr => &mut stderr,
        };
        if state.is_ok() {
            *state = write_piece(stream.fd(), &bytes);
        }
    }
    stdout.err().filter(|errno| *errno != Errno::PIPE)
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
