//! One stream: bytes of a descriptor of ours that go over, and bytes from over there that come to it.

use super::frame::{Broken, Frame, PIECE, WINDOW};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) struct Stream {
    number: u32,
    /// `None` when both directions are over.
    pub(super) fd: Option<OwnedFd>,
    /// What we may still send.
    room: usize,
    /// We read from it and send: until its end, or until nobody over there reads.
    reads: bool,
    /// We write to it what comes.
    writes: bool,
    waiting: VecDeque<u8>,
    /// Written, and not told yet.
    taken: u32,
    no_more_comes: bool,
    /// Nobody over there hears it any more: what is read is dropped, so that who writes goes on.
    unheard: bool,
}

impl Stream {
    pub(super) fn new(number: u32, fd: OwnedFd, (reads, writes): (bool, bool)) -> Result<Self, Errno> {
        // A plain file never blocks and may not know the call.
        rustix::io::ioctl_fionbio(&fd, true).ok();
        Ok(Self {
            number,
            fd: Some(fd),
            room: WINDOW,
            reads,
            writes,
            waiting: VecDeque::new(),
            taken: 0,
            no_more_comes: false,
            unheard: false,
        })
    }

    /// The other side has forgotten what was under way.
    pub(super) fn renew(&mut self) {
        self.room = WINDOW;
        self.taken = 0;
    }

    /// The other side does not know it.
    pub(super) fn forget(&mut self, out: &mut Vec<u8>) {
        self.renew();
        self.unheard = true;
        self.no_more_comes(out);
    }

    pub(super) fn is_over(&self) -> bool {
        self.fd.is_none()
    }

    /// What to wake up for; `None` if nothing can happen. A pipe that we write to tells when nobody reads it any more.
    pub(super) fn interest(&self, may_read: bool) -> Option<PollFlags> {
        let mut interest = PollFlags::empty();
        interest.set(PollFlags::IN, self.reads && may_read && self.room > 0);
        interest.set(PollFlags::OUT, !self.waiting.is_empty());
        let only_writes = self.writes && !self.reads;
        (only_writes || !interest.is_empty()).then_some(interest)
    }

    /// Sends what there is to read, one piece.
    pub(super) fn pump(&mut self, out: &mut Vec<u8>) {
        let (Some(fd), true, true) = (&self.fd, self.reads, self.room > 0) else {
            return;
        };
        let stream = self.number;
        let mut bytes = vec![0; PIECE.min(self.room)];
        match rustix::io::read(fd, &mut bytes) {
            Ok(1..) if self.unheard => {}
            Ok(count @ 1..) => {
                bytes.truncate(count);
                self.room -= count;
                Frame::Data { stream, bytes }.write(out);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            // A terminal whose other end is closed answers with an error.
            Ok(0) | Err(_) => {
                Frame::End { stream }.write(out);
                self.stop_reading();
            }
        }
    }

    /// Takes what came from over there.
    pub(super) fn take(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
        if self.waiting.len() + bytes.len() > WINDOW || self.no_more_comes {
            return Err(Broken);
        }
        if self.writes {
            self.waiting.extend(bytes);
            self.flush(out);
        }
        Ok(())
    }

    /// Writes what waits, as far as it goes.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) {
        while let (Some(fd), (piece @ [_, ..], _)) = (&self.fd, self.waiting.as_slices()) {
            match rustix::io::write(fd, piece) {
                Ok(count) => {
                    self.waiting.drain(..count);
                    self.taken += u32::try_from(count).unwrap_or(u32::MAX);
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => return self.nobody_reads(out),
            }
        }
        self.tell_room(out);
        if self.no_more_comes && self.waiting.is_empty() {
            self.stop_writing();
        }
    }

    /// In large steps, so that small pieces do not double the frames.
    fn tell_room(&mut self, out: &mut Vec<u8>) {
        let enough = self.waiting.is_empty() || self.taken as usize >= WINDOW / 2;
        if self.taken > 0 && enough {
            let (stream, bytes) = (self.number, std::mem::take(&mut self.taken));
            Frame::Room { stream, bytes }.write(out);
        }
    }

    /// Our own reader has gone.
    pub(super) fn nobody_reads(&mut self, out: &mut Vec<u8>) {
        if self.writes {
            let stream = self.number;
            Frame::Gone { stream }.write(out);
            self.waiting.clear();
            self.stop_writing();
        }
    }

    pub(super) fn no_more_comes(&mut self, out: &mut Vec<u8>) {
        self.no_more_comes = true;
        self.flush(out);
    }

    /// Nobody over there reads: who writes here shall know.
    pub(super) fn nobody_listens(&mut self) {
        if let (Some(fd), true) = (&self.fd, self.reads) {
            // Not a socket: it goes whole, below.
            rustix::net::shutdown(fd, Shutdown::Read).ok();
        }
        self.stop_reading();
    }

    pub(super) fn more_room(&mut self, bytes: u32) -> Result<(), Broken> {
        let room = self.room + bytes as usize;
        if room > WINDOW {
            return Err(Broken);
        }
        self.room = room;
        Ok(())
    }

    fn stop_reading(&mut self) {
        self.reads = false;
        self.close_if_over();
    }

    fn stop_writing(&mut self) {
        self.writes = false;
        if let Some(fd) = &self.fd {
            rustix::net::shutdown(fd, Shutdown::Write).ok();
        }
        self.close_if_over();
    }

    fn close_if_over(&mut self) {
        if !self.reads && !self.writes {
            self.fd = None;
        }
    }
}
