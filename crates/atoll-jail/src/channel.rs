//! Datagrams with descriptors beside them: how engine, jailer, spawner and agent talk. Bounded, no streams.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType,
};
use serde::{Serialize, de::DeserializeOwned};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;

/// The longest datagram either side sends; a longer one is refused by the sender.
pub const MAX_BYTES: usize = 128 << 10;
/// The most descriptors beside one datagram.
pub const MAX_FDS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("the channel was closed by the peer")]
    Closed,
    #[error("message of {0} bytes exceeds the channel's size limit")]
    TooLong(usize),
    #[error("cannot encode the message")]
    Write(#[source] serde_json::Error),
    #[error("cannot decode the message")]
    Read(#[source] serde_json::Error),
    #[error("the message arrived without its file descriptors")]
    MissingDescriptor,
    #[error("socket call failed")]
    Socket(#[source] Errno),
}

/// A connected pair. Both ends close on exec and block.
pub fn pair() -> Result<(OwnedFd, OwnedFd), ChannelError> {
    rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(ChannelError::Socket)
}

pub fn send<T: Serialize>(socket: impl AsFd, message: &T, fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
    let body = serde_json::to_vec(message).map_err(ChannelError::Write)?;
    send_bytes(socket, &body, fds)
}

pub fn send_bytes(socket: impl AsFd, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
    send_with(socket, body, fds, SendFlags::empty())
}

/// The same; a full channel answers `AGAIN` at once.
pub(crate) fn send_bytes_now(socket: impl AsFd, body: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
    send_with(socket, body, fds, SendFlags::DONTWAIT)
}

fn send_with(socket: impl AsFd, body: &[u8], fds: &[BorrowedFd<'_>], flags: SendFlags) -> Result<(), ChannelError> {
    if body.len() > MAX_BYTES {
        return Err(ChannelError::TooLong(body.len()));
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(ChannelError::TooLong(fds.len()));
    }
    let sent = rustix::net::sendmsg(socket, &[IoSlice::new(body)], &mut control, SendFlags::NOSIGNAL | flags);
    match sent {
        Ok(_) => Ok(()),
        Err(Errno::PIPE | Errno::CONNRESET) => Err(ChannelError::Closed),
        Err(errno) => Err(ChannelError::Socket(errno)),
    }
}

pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> Result<(T, Vec<OwnedFd>), ChannelError> {
    let (body, fds) = receive_bytes(socket)?;
    Ok((serde_json::from_slice(&body).map_err(ChannelError::Read)?, fds))
}

/// The same from somebody who may have ended with words of ours unread: the kernel tells that first, and what was said
/// before the end only when it is asked again.
pub(crate) fn receive_to_the_end<T: DeserializeOwned>(socket: impl AsFd) -> Result<(T, Vec<OwnedFd>), ChannelError> {
    match receive(&socket) {
        Err(ChannelError::Closed) => receive(&socket),
        received => received,
    }
}

pub fn receive_bytes(socket: impl AsFd) -> Result<(Vec<u8>, Vec<OwnedFd>), ChannelError> {
    // As long as the message, not as the longest one: these processes are many, and small.
    let mut body = vec![0; length_of_next(&socket)?];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(&mut body)];
    let got = loop {
        match rustix::net::recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => continue,
            Err(Errno::CONNRESET) => return Err(ChannelError::Closed),
            other => break other.map_err(ChannelError::Socket)?,
        }
    };
    let fds = descriptors(&mut control).collect();
    if got.bytes == 0 {
        return Err(ChannelError::Closed);
    }
    body.truncate(got.bytes);
    Ok((body, fds))
}

/// The next bytes of a stream into all of `body`, and the one descriptor that came beside them.
pub fn receive_beside(socket: impl AsFd, body: &mut [u8]) -> Result<Option<OwnedFd>, ChannelError> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(body)];
    let got = rustix::net::recvmsg(&socket, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC);
    match got.map_err(ChannelError::Socket)?.bytes {
        0 => Err(ChannelError::Closed),
        _ => Ok(descriptors(&mut control).next()),
    }
}

fn descriptors<'a>(control: &'a mut RecvAncillaryBuffer<'_>) -> impl Iterator<Item = OwnedFd> + use<'a> {
    let rights = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    rights.flatten()
}

/// How long the next datagram is; it stays where it is.
fn length_of_next(socket: impl AsFd) -> Result<usize, ChannelError> {
    loop {
        let flags = RecvFlags::PEEK | RecvFlags::TRUNC;
        match rustix::net::recv(&socket, &mut [0u8; 0][..], flags) {
            Err(Errno::INTR) => {}
            Err(Errno::CONNRESET) | Ok((_, 0)) => return Err(ChannelError::Closed),
            Err(errno) => return Err(ChannelError::Socket(errno)),
            Ok((_, length)) => return Ok(length.min(MAX_BYTES)),
        }
    }
}

/// Takes the next descriptor that came beside a message.
pub fn next_fd(fds: &mut std::vec::IntoIter<OwnedFd>) -> Result<OwnedFd, ChannelError> {
    fds.next().ok_or(ChannelError::MissingDescriptor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_and_its_descriptor_arrive_together() {
        let (left, right) = pair().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        send(&left, &"hello", &[write.as_fd()]).unwrap();
        drop(write);
        let (text, fds): (String, _) = receive(&right).unwrap();
        rustix::io::write(&fds[0], b"x").unwrap();
        let mut byte = [0; 1];
        assert_eq!(
            (text.as_str(), rustix::io::read(&read, &mut byte).unwrap(), byte),
            ("hello", 1, *b"x")
        );
    }

    #[test]
    fn last_words_are_heard_although_ours_were_not() {
        let (left, right) = pair().unwrap();
        send(&left, &"unread", &[]).unwrap();
        send(&right, &"last words", &[]).unwrap();
        drop(right);
        let (text, _): (String, _) = receive_to_the_end(&left).unwrap();
        assert_eq!(text, "last words");
        assert!(matches!(receive_to_the_end::<String>(&left), Err(ChannelError::Closed)));
    }

    #[test]
    fn a_closed_peer_and_a_long_message_are_told_apart() {
        let (left, right) = pair().unwrap();
        assert!(matches!(
            send_bytes(&left, &vec![0; MAX_BYTES + 1], &[]),
            Err(ChannelError::TooLong(_))
        ));
        drop(left);
        assert!(matches!(receive::<String>(&right), Err(ChannelError::Closed)));
    }
}
