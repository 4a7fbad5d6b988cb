//! Carries channels with descriptors over one byte stream, for walls that pass bytes only: gVisor, a virtual machine.
//!
//! There is one ferry on each side. Its own peers (the engine and the keeper here, the agent there) see datagrams with
//! descriptors, as everywhere else. Beside a message that goes over, each descriptor becomes a numbered stream, and the
//! other ferry hands out something that behaves alike. A plain file becomes a pipe with its bytes, a pidfd nothing.
//! Each stream has a window, so that none of them holds another one up and what waits has a bound. What the other side
//! says is not believed: whoever breaks the rules ends the talk.

mod frame;
mod hold;
mod kind;
mod line;
mod stream;

pub use hold::Holds;
pub(crate) use hold::{go_on, hold};

use crate::channel::{self, ChannelError};
use frame::{Broken, Frame};
use hold::Held;
use kind::Kind;
use line::Line;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, VecDeque};
use stream::Stream;

/// Streams at once. A channel is not listened to while there are as many.
const MOST_STREAMS: usize = 256;
/// Messages of one channel that wait for our own peer.
const MOST_WAITING: usize = 64;
/// How long one waits for a line whose other end is away: nobody tells when it is back.
const AWAY: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 5_000_000,
};

/// Whose numbers are whose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Host,
    Guest,
}

/// What a ferry is made of.
#[derive(Debug)]
pub struct Ferry {
    pub side: Side,
    /// In the same order on both sides. The end of the first one is the end of the ferry.
    pub channels: Vec<OwnedFd>,
    pub reads_from: OwnedFd,
    pub writes_to: OwnedFd,
    /// Streams that the other side has already: the number, and our end.
    pub adopted: Vec<(u32, OwnedFd)>,
    /// The other end of the line may be away and come back: a saved guest is one whose host has gone.
    pub patient: bool,
    /// How a guest that is saved between two words is held, and goes on.
    pub holds: Holds,
}

/// Why a ferry has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Our own peer has gone.
    Here,
    /// The line is at its end.
    There,
    /// The other side has broken the rules.
    Broken,
    /// The kernel refused a call.
    Failed(Errno),
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Here => f.write_str("the local process disconnected"),
            Self::There => f.write_str("the connection was closed"),
            Self::Broken => f.write_str("protocol error"),
            Self::Failed(errno) => write!(f, "{errno}"),
        }
    }
}

impl From<Broken> for Ended {
    fn from(_: Broken) -> Self {
        Self::Broken
    }
}

/// Runs until one side is at its end.
pub fn run(ferry: Ferry) -> Ended {
    let mut work = match Work::new(ferry) {
        Ok(work) => work,
        Err(errno) => return Ended::Failed(errno),
    };
    loop {
        if let Err(ended) = work.turn() {
            return ended;
        }
    }
}

/// Whether a descriptor beside a message becomes a stream, with a number of its own. Those who must know the numbers count
/// along: they are given out in the order of the messages and of what is beside them.
pub fn becomes_stream(fd: BorrowedFd<'_>) -> bool {
    Kind::of(fd).is_some_and(|kind| kind != Kind::Null)
}

type Datagram = (Vec<u8>, Vec<OwnedFd>);

struct Channel {
    socket: OwnedFd,
    waiting: VecDeque<Datagram>,
    is_open: bool,
}

struct Work {
    channels: Vec<Channel>,
    line: Line,
    streams: BTreeMap<u32, Stream>,
    next: u32,
    patient: bool,
    held: Held,
}

/// What a turn was woken for.
#[derive(Default)]
struct Woken {
    ordered: bool,
    channels: Vec<(usize, PollFlags)>,
    streams: Vec<(u32, PollFlags)>,
}

impl Work {
    fn new(ferry: Ferry) -> Result<Self, Errno> {
        let channel = |socket: OwnedFd| {
            rustix::io::ioctl_fionbio(&socket, true)?;
            Ok(Channel {
                socket,
                waiting: VecDeque::new(),
                is_open: true,
            })
        };
        let first = match ferry.side {
            Side::Host => 1,
            Side::Guest => 2,
        };
        let after = ferry.adopted.iter().map(|(number, _)| number + 2).max();
        let mut line = Line::new(ferry.reads_from, ferry.writes_to)?;
        let after = ferry.holds.next.or(after);
        if ferry.holds.next.is_some() {
            let only = Some(ferry.adopted.iter().map(|(number, _)| *number).collect());
            line.say(&Frame::Go { only });
        }
        let mut streams = BTreeMap::new();
        for (number, fd) in ferry.adopted {
            let directions = Kind::of(fd.as_fd()).ok_or(Errno::INVAL)?.as_sent();
            streams.insert(number, Stream::new(number, fd, directions)?);
        }
        Ok(Self {
            channels: ferry.channels.into_iter().map(channel).collect::<Result<_, Errno>>()?,
            line,
            streams,
            next: after.unwrap_or(first),
            patient: ferry.patient,
            held: Held::new(ferry.side, ferry.holds)?,
        })
    }

    fn turn(&mut self) -> Result<(), Ended> {
        let woken = self.wait()?;
        self.line.flush(self.patient)?;
        if self.is_heard() {
            self.line.fill(self.patient)?;
        }
        while self.is_heard()
            && let Some(frame) = self.line.next()?
        {
            self.obey(frame)?;
        }
        // What came before the end counts.
        if self.is_heard() && self.line.is_over() {
            return Err(Ended::There);
        }
        if woken.ordered {
            self.obey_keeper();
        }
        for (index, flags) in woken.channels {
            self.serve(index, flags)?;
        }
        for (number, flags) in woken.streams {
            self.move_bytes(number, flags);
        }
        self.streams.retain(|_, stream| !stream.is_over());
        self.line.flush(self.patient)
    }

    /// Nothing is taken off the line while our own peer does not listen, or the other side takes none of our answers.
    fn is_heard(&self) -> bool {
        let listens = |channel: &Channel| channel.waiting.len() < MOST_WAITING;
        self.channels.iter().all(listens) && !self.line.is_stuck()
    }

    fn wait(&self) -> Result<Woken, Ended> {
        let may_send = !self.line.is_full() && !self.held.is_still();
        let may_open = may_send && self.streams.len() < MOST_STREAMS;
        let mut fds = self.line.interests(self.is_heard());
        let orders_at = fds.len();
        fds.extend(
            self.held
                .orders()
                .map(|orders| PollFd::from_borrowed_fd(orders, PollFlags::IN)),
        );
        let line = fds.len();
        let mut owners = Vec::new();
        for (index, channel) in self.channels.iter().enumerate().filter(|(_, channel)| channel.is_open) {
            let mut interest = PollFlags::empty();
            interest.set(PollFlags::IN, may_open);
            interest.set(PollFlags::OUT, !channel.waiting.is_empty());
            fds.push(PollFd::from_borrowed_fd(channel.socket.as_fd(), interest));
            owners.push(index);
        }
        let streams_at = fds.len();
        let mut numbers = Vec::new();
        for (number, stream) in self.streams.iter().filter(|_| !self.held.is_still()) {
            if let (Some(fd), Some(interest)) = (&stream.fd, stream.interest(may_send)) {
                fds.push(PollFd::from_borrowed_fd(fd.as_fd(), interest));
                numbers.push(*number);
            }
        }
        let patience = self.line.is_away().then_some(AWAY);
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(Ended::Failed(errno)),
        }
        let flags = |at: usize| fds[at].revents();
        let channels = owners.into_iter().enumerate();
        let streams = numbers.into_iter().enumerate();
        Ok(Woken {
            ordered: line > orders_at && !flags(orders_at).is_empty(),
            channels: channels.map(|(at, index)| (index, flags(line + at))).collect(),
            streams: streams.map(|(at, number)| (number, flags(streams_at + at))).collect(),
        })
    }

    fn serve(&mut self, index: usize, flags: PollFlags) -> Result<(), Ended> {
        if flags.contains(PollFlags::OUT) {
            self.hand_over(index)?;
        }
        if self.held.is_still() || !flags.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
            return Ok(());
        }
        match channel::receive_bytes(&self.channels[index].socket) {
            Ok((body, fds)) => {
                let beside = fds.into_iter().filter_map(|fd| self.open(fd)).collect();
                let channel = u32::try_from(index).unwrap_or(u32::MAX);
                self.line.say(&Frame::Message { channel, beside, body });
                Ok(())
            }
            Err(ChannelError::Socket(Errno::AGAIN)) => Ok(()),
            Err(_) => self.close(index),
        }
    }

    /// Its peer has gone. The first one was what all is for.
    fn close(&mut self, index: usize) -> Result<(), Ended> {
        self.channels[index].is_open = false;
        self.channels[index].waiting.clear();
        match index {
            0 => Err(Ended::Here),
            _ => Ok(()),
        }
    }

    /// A descriptor of our peer becomes a stream.
    fn open(&mut self, fd: OwnedFd) -> Option<(u32, Kind)> {
        let kind = Kind::of(fd.as_fd())?;
        if kind == Kind::Null {
            return Some((0, kind));
        }
        let number = self.next;
        let stream = Stream::new(number, fd, kind.as_sent()).ok()?;
        self.next += 2;
        self.streams.insert(number, stream);
        Some((number, kind))
    }

    fn obey(&mut self, frame: Frame) -> Result<(), Ended> {
        match frame {
            Frame::Message { channel, beside, body } => {
                let index = usize::try_from(channel).map_err(|_| Broken)?;
                let mut fds = Vec::new();
                for (number, kind) in beside {
                    fds.push(self.make(number, kind)?);
                }
                let channel = self.channels.get_mut(index).ok_or(Broken)?;
                if channel.is_open {
                    channel.waiting.push_back((body, fds));
                }
                self.hand_over(index)
            }
            Frame::Data { stream, bytes } => {
                let out = self.line.out();
                // One that we have closed already: it is on its way to hear of it.
                self.streams
                    .get_mut(&stream)
                    .map_or(Ok(()), |one| one.take(&bytes, out))?;
                Ok(())
            }
            Frame::End { stream } => {
                if let Some(one) = self.streams.get_mut(&stream) {
                    one.no_more_comes(self.line.out());
                }
                Ok(())
            }
            Frame::Gone { stream } => {
                if let Some(one) = self.streams.get_mut(&stream) {
                    one.nobody_listens();
                }
                Ok(())
            }
            Frame::Room { stream, bytes } => {
                self.streams
                    .get_mut(&stream)
                    .map_or(Ok(()), |one| one.more_room(bytes))?;
                Ok(())
            }
            Frame::Hold => Ok(self.hold()?),
            Frame::Held => Ok(self.other_is_held()?),
            Frame::Go { only } => Ok(self.go_on(only.as_deref())?),
        }
    }

    /// What our peer is handed for a stream of the other side.
    fn make(&mut self, number: u32, kind: Kind) -> Result<OwnedFd, Ended> {
        let (theirs, ours) = kind.make().map_err(Ended::Failed)?;
        if let Some(ours) = ours {
            // The other side counts its own numbers, never ours, and bounds what is open, twice as much with ours.
            if number % 2 == self.next % 2 || self.streams.len() >= 2 * MOST_STREAMS {
                return Err(Ended::Broken);
            }
            let stream = Stream::new(number, ours, kind.as_made()).map_err(Ended::Failed)?;
            if self.streams.insert(number, stream).is_some() {
                return Err(Ended::Broken);
            }
        }
        Ok(theirs)
    }

    /// Gives our peer what waits for it.
    fn hand_over(&mut self, index: usize) -> Result<(), Ended> {
        let channel = &mut self.channels[index];
        while let Some((body, fds)) = channel.waiting.front() {
            let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            match channel::send_bytes_now(&channel.socket, body, &fds) {
                Ok(()) => channel.waiting.pop_front(),
                Err(ChannelError::Socket(Errno::AGAIN | Errno::INTR)) => return Ok(()),
                Err(_) => return self.close(index),
            };
        }
        Ok(())
    }

    fn move_bytes(&mut self, number: u32, flags: PollFlags) {
        if self.held.is_still() {
            return;
        }
        let may_send = !self.line.is_full();
        let Some(stream) = self.streams.get_mut(&number) else {
            return;
        };
        let out = self.line.out();
        if flags.contains(PollFlags::OUT) {
            stream.flush(out);
        }
        if flags.contains(PollFlags::ERR) {
            stream.nobody_reads(out);
        }
        if may_send && flags.intersects(PollFlags::IN | PollFlags::HUP) {
            stream.pump(out);
        }
    }
}

#[cfg(test)]
mod tests;
