//! Terminals of a kernel that does not tell when nobody is at their other end any more, and has no keys that are signals (gVisor's).
//!
//! There the engine gets a socket in the terminal's place, and the agent carries the bytes between the two. When the command has
//! ended, what it wrote is carried, and then the socket ends: what its children write later is not heard. Ctrl-C, Ctrl-\ and Ctrl-Z
//! become signals here, where the terminal's modes say so.

use nix::sys::signal::Signal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use rustix::termios::{LocalModes, SpecialCodeIndex, tcgetattr};

const PIECE: usize = 16 << 10;
const KEYS: [(SpecialCodeIndex, Signal); 3] = [
    (SpecialCodeIndex::VINTR, Signal::SIGINT),
    (SpecialCodeIndex::VQUIT, Signal::SIGQUIT),
    (SpecialCodeIndex::VSUSP, Signal::SIGTSTP),
];

#[derive(Debug)]
pub(crate) struct Relay {
    terminal: OwnedFd,
    engine: OwnedFd,
    to_terminal: Vec<u8>,
    to_engine: Vec<u8>,
    /// Keys that are signals, as they came.
    signals: Vec<Signal>,
    command_ended: bool,
    engine_is_silent: bool,
}

impl Relay {
    /// With what the engine gets.
    pub(crate) fn new(terminal: OwnedFd) -> Result<(Self, OwnedFd), Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (theirs, engine) = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        rustix::io::ioctl_fionbio(&terminal, true)?;
        let relay = Self {
            terminal,
            engine,
            to_terminal: Vec::new(),
            to_engine: Vec::new(),
            signals: Vec::new(),
            command_ended: false,
            engine_is_silent: false,
        };
        Ok((relay, theirs))
    }

    pub(crate) fn command_ended(&mut self) {
        self.command_ended = true;
    }

    /// What to wake up for.
    pub(crate) fn interests(&self) -> [(BorrowedFd<'_>, PollFlags); 2] {
        let interest = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let listens = self.to_terminal.is_empty() && !self.engine_is_silent;
        [
            (
                self.terminal.as_fd(),
                interest(self.to_engine.is_empty(), !self.to_terminal.is_empty()),
            ),
            (self.engine.as_fd(), interest(listens, !self.to_engine.is_empty())),
        ]
    }

    /// Carries what can be carried now. Returns whether it goes on.
    pub(crate) fn step(&mut self) -> bool {
        self.hear_engine();
        if write(&mut self.to_terminal, |bytes| rustix::io::write(&self.terminal, bytes)).is_err() {
            self.to_terminal.clear();
        }
        let all_was_read = self.to_engine.is_empty() && self.hear_terminal();
        let heard = write(&mut self.to_engine, |bytes| {
            send(&self.engine, bytes, SendFlags::NOSIGNAL)
        });
        let nobody_listens = self.engine_is_silent && has_hung_up(&self.engine);
        heard.is_ok() && !nobody_listens && !(self.command_ended && all_was_read)
    }

    fn hear_engine(&mut self) {
        if !self.to_terminal.is_empty() || self.engine_is_silent {
            return;
        }
        let mut bytes = vec![0; PIECE];
        match recv(&self.engine, &mut bytes[..], RecvFlags::empty()) {
            Ok((count @ 1.., _)) => self.press(&bytes[..count]),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Ok(_) | Err(_) => self.engine_is_silent = true,
        }
    }

    /// What the keys that came since the last time ask for.
    pub(crate) fn take_signals(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.signals)
    }

    fn press(&mut self, keys: &[u8]) {
        let modes = tcgetattr(&self.terminal).ok();
        let modes = modes.filter(|modes| modes.local_modes.contains(LocalModes::ISIG));
        for key in keys {
            let asks = |(code, _): &&(SpecialCodeIndex, Signal)| {
                modes
                    .as_ref()
                    .is_some_and(|modes| *key != 0 && modes.special_codes[*code] == *key)
            };
            match KEYS.iter().find(asks) {
                Some((_, signal)) => self.signals.push(*signal),
                None => self.to_terminal.push(*key),
            }
        }
    }

    /// Returns whether nothing is there to be read.
    fn hear_terminal(&mut self) -> bool {
        let mut bytes = vec![0; PIECE];
        match rustix::io::read(&self.terminal, &mut bytes) {
            Ok(count @ 1..) => self.to_engine = bytes[..count].to_vec(),
            Err(Errno::INTR) => {}
            Ok(_) | Err(_) => return true,
        }
        false
    }
}

/// Whether the other end is closed, and not only silent.
fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let polled = poll(&mut fds, Some(&Timespec::default()));
    polled.is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

/// Writes as much as goes.
fn write(bytes: &mut Vec<u8>, write: impl Fn(&[u8]) -> Result<usize, Errno>) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match write(bytes) {
            Ok(count) => drop(bytes.drain(..count)),
            Err(Errno::AGAIN) => break,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    /// A terminal whose other end is held by the test, so that this kernel does not tell either.
    fn terminal() -> (OwnedFd, std::fs::File) {
        let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&outside).unwrap();
        let name = ptsname(&outside, Vec::new()).unwrap();
        let inside = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
        (outside, inside.into())
    }

    #[test]
    fn bytes_go_both_ways_and_all_are_heard_before_the_end() {
        let (outside, mut inside) = terminal();
        let (mut relay, engine) = Relay::new(outside).unwrap();
        let mut engine = UnixStream::from(engine);
        engine.set_nonblocking(false).unwrap();
        engine.write_all(b"in\n").unwrap();
        assert!(relay.step());
        let mut line = [0; 8];
        assert_eq!(inside.read(&mut line).unwrap(), 3);
        inside.write_all(b"out\n").unwrap();
        relay.command_ended();
        assert!(relay.step(), "there was something to carry");
        while relay.step() {}
        drop(relay);
        let mut heard = String::new();
        engine.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, "in\r\nout\r\n");
    }

    #[test]
    fn an_engine_that_reads_nothing_holds_no_input_up() {
        let (outside, mut inside) = terminal();
        let (mut relay, engine) = Relay::new(outside).unwrap();
        rustix::io::ioctl_fionbio(&inside, true).unwrap();
        while relay.to_engine.is_empty() {
            while inside.write(&[b'x'; 1000]).is_ok_and(|count| count > 0) {}
            assert!(relay.step());
        }
        rustix::io::ioctl_fionbio(&inside, false).unwrap();
        UnixStream::from(engine).write_all(b"in\n").unwrap();
        assert!(!relay.step(), "the stream is gone with its words");
        let mut line = [0; 8];
        assert_eq!(inside.read(&mut line).unwrap(), 3);
    }

    #[test]
    fn keys_are_signals_where_the_modes_say_so() {
        let (outside, mut inside) = terminal();
        let (mut relay, engine) = Relay::new(outside).unwrap();
        let mut engine = UnixStream::from(engine);
        engine.write_all(b"a\x03b\x1c\n").unwrap();
        assert!(relay.step());
        assert_eq!(relay.take_signals(), [Signal::SIGINT, Signal::SIGQUIT]);
        let mut modes = tcgetattr(&inside).unwrap();
        modes.local_modes.remove(LocalModes::ISIG);
        rustix::termios::tcsetattr(&inside, rustix::termios::OptionalActions::Now, &modes).unwrap();
        engine.write_all(b"\x03\n").unwrap();
        assert!(relay.step());
        assert_eq!(relay.take_signals(), []);
        let mut line = [0; 8];
        assert_eq!(inside.read(&mut line).unwrap(), 3);
        assert_eq!(&line[..3], b"ab\n");
        assert_eq!(inside.read(&mut line).unwrap(), 2);
    }

    #[test]
    fn a_silent_engine_hears_and_one_that_is_gone_ends_it() {
        let (outside, mut inside) = terminal();
        let (mut relay, engine) = Relay::new(outside).unwrap();
        let mut engine = UnixStream::from(engine);
        engine.shutdown(std::net::Shutdown::Write).unwrap();
        inside.write_all(b"x").unwrap();
        assert!(relay.step());
        let mut byte = [0];
        engine.read_exact(&mut byte).unwrap();
        drop(engine);
        assert!(!relay.step());
    }
}
