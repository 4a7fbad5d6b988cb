//! What a descriptor beside a message becomes on the other side: something that behaves alike.

use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::termios::isatty;

/// What the other side's own peer is handed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `/dev/null`; no stream at all.
    Null,
    /// The end of a pipe to read from.
    Reads,
    /// The end of a pipe to write to.
    Writes,
    /// A stream socket.
    Both,
}

impl Kind {
    pub(super) fn byte(self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Reads => 1,
            Self::Writes => 2,
            Self::Both => 3,
        }
    }

    pub(super) fn of_byte(byte: u8) -> Option<Self> {
        [Self::Null, Self::Reads, Self::Writes, Self::Both]
            .into_iter()
            .find(|kind| kind.byte() == byte)
    }

    /// Of a descriptor that our peer has sent. What has no bytes that could be carried (a pidfd) is `None`.
    pub(super) fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let file = FileType::from_raw_mode(fstat(fd).ok()?.st_mode);
        match file {
            FileType::RegularFile => Some(Self::Reads),
            FileType::Fifo => match fcntl_getfl(fd).ok()? & OFlags::RWMODE {
                OFlags::WRONLY => Some(Self::Writes),
                _ => Some(Self::Reads),
            },
            FileType::Socket => {
                let kind = rustix::net::sockopt::socket_type(fd).ok()?;
                (kind == SocketType::STREAM).then_some(Self::Both)
            }
            FileType::CharacterDevice if isatty(fd) => Some(Self::Both),
            FileType::CharacterDevice => Some(Self::Null),
            _ => None,
        }
    }

    /// For our peer: what it is handed, and our own end of it.
    pub(super) fn make(self) -> Result<(OwnedFd, Option<OwnedFd>), Errno> {
        match self {
            Self::Null => {
                let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
                Ok((null, None))
            }
            Self::Reads => {
                let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
                Ok((reads, Some(writes)))
            }
            Self::Writes => {
                let (reads, writes) = pipe_with(PipeFlags::CLOEXEC)?;
                Ok((writes, Some(reads)))
            }
            Self::Both => {
                let (theirs, ours) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
                Ok((theirs, Some(ours)))
            }
        }
    }

    /// Whether we read from our end of what was handed to our peer, and whether we write to it.
    pub(super) fn as_made(self) -> (bool, bool) {
        (
            matches!(self, Self::Writes | Self::Both),
            matches!(self, Self::Reads | Self::Both),
        )
    }

    /// The same for a descriptor that our peer has sent to us.
    pub(super) fn as_sent(self) -> (bool, bool) {
        let (reads, writes) = self.as_made();
        (writes, reads)
    }
}
