//! The byte stream between two ferries: what was said and not taken yet, what has come and is no whole frame yet.

use super::Ended;
use super::frame::{Broken, Frame, Unread};
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;

/// From here on nothing more is read from our own peers.
const FULL: usize = 256 << 10;
/// And from here on nothing from the other side, which takes none of our answers. They are small: who reads them never sees it.
const STUCK: usize = 4 * FULL;
const PIECE: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Line {
    reads_from: OwnedFd,
    writes_to: OwnedFd,
    out: Vec<u8>,
    unread: Unread,
    /// Its other end is not there now.
    away: bool,
    /// Nothing comes any more.
    over: bool,
}

impl Line {
    pub(super) fn new(reads_from: OwnedFd, writes_to: OwnedFd) -> Result<Self, Errno> {
        rustix::io::ioctl_fionbio(&reads_from, true)?;
        rustix::io::ioctl_fionbio(&writes_to, true)?;
        Ok(Self {
            reads_from,
            writes_to,
            out: Vec::new(),
            unread: Unread::default(),
            away: false,
            over: false,
        })
    }

    pub(super) fn is_full(&self) -> bool {
        self.out.len() >= FULL
    }

    pub(super) fn is_stuck(&self) -> bool {
        self.out.len() >= STUCK
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    pub(super) fn is_away(&self) -> bool {
        self.away
    }

    pub(super) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    pub(super) fn say(&mut self, frame: &Frame) {
        frame.write(&mut self.out);
    }

    /// A line whose end is away would wake us all the time.
    pub(super) fn interests(&self, is_heard: bool) -> Vec<PollFd<'_>> {
        let mut fds = Vec::new();
        if self.away {
            return fds;
        }
        if is_heard && !self.over {
            fds.push(PollFd::from_borrowed_fd(self.reads_from.as_fd(), PollFlags::IN));
        }
        if !self.out.is_empty() {
            fds.push(PollFd::from_borrowed_fd(self.writes_to.as_fd(), PollFlags::OUT));
        }
        fds
    }

    /// Writes what it takes.
    pub(super) fn flush(&mut self, patient: bool) -> Result<(), Ended> {
        let mut written = 0;
        let ended = loop {
            if written == self.out.len() {
                break Ok(());
            }
            match rustix::io::write(&self.writes_to, &self.out[written..]) {
                Ok(count) => written += count,
                Err(Errno::AGAIN) => break Ok(()),
                Err(Errno::INTR) => {}
                Err(_) if patient => break Ok(()),
                Err(Errno::PIPE | Errno::CONNRESET) => break Err(Ended::There),
                Err(errno) => break Err(Ended::Failed(errno)),
            }
        };
        self.out.drain(..written);
        ended
    }

    /// Reads what has come, one piece.
    pub(super) fn fill(&mut self, patient: bool) -> Result<(), Ended> {
        let mut piece = [0; PIECE];
        self.away = false;
        match rustix::io::read(&self.reads_from, &mut piece) {
            Ok(0) if patient => self.away = true,
            Ok(0) | Err(Errno::CONNRESET) => self.over = true,
            Ok(count) => self.unread.add(&piece[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return Err(Ended::Failed(errno)),
        }
        Ok(())
    }

    pub(super) fn next(&mut self) -> Result<Option<Frame>, Broken> {
        self.unread.next()
    }
}
