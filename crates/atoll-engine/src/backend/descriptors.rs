//! Descriptors of a sandbox and messages on its channels, for the runtime of the engine.

use super::error::TierError;
use atoll_jail::channel::{self, ChannelError};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use tokio::io::unix::AsyncFd;

/// Makes a descriptor non-blocking and has the runtime watch it.
#[expect(
    deprecated,
    reason = "an OwnedFd names one open file for all its life, which is what the unsafe successor asks"
)]
pub(crate) fn watch(fd: OwnedFd) -> Result<AsyncFd<OwnedFd>, TierError> {
    rustix::io::ioctl_fionbio(&fd, true).map_err(|errno| TierError::Start(errno.into()))?;
    AsyncFd::new(fd).map_err(TierError::Start)
}

pub(crate) async fn send_on<T: serde::Serialize>(
    channel: &AsyncFd<OwnedFd>,
    message: &T,
    fds: &[BorrowedFd<'_>],
) -> Result<(), TierError> {
    loop {
        let mut guard = channel.writable().await.map_err(TierError::Start)?;
        match channel::send(channel.get_ref(), message, fds) {
            Err(ChannelError::Socket(rustix::io::Errno::AGAIN)) => guard.clear_ready(),
            sent => return sent.map_err(TierError::Channel),
        }
    }
}

pub(crate) async fn send_bytes_on(
    channel: &AsyncFd<OwnedFd>,
    body: &[u8],
    fds: &[BorrowedFd<'_>],
) -> Result<(), TierError> {
    loop {
        let mut guard = channel.writable().await.map_err(TierError::Start)?;
        match channel::send_bytes(channel.get_ref().as_fd(), body, fds) {
            Err(ChannelError::Socket(rustix::io::Errno::AGAIN)) => guard.clear_ready(),
            sent => return sent.map_err(TierError::Channel),
        }
    }
}

pub(crate) async fn receive_on<T: serde::de::DeserializeOwned>(
    channel: &AsyncFd<OwnedFd>,
) -> Result<(T, Vec<OwnedFd>), TierError> {
    receive_long_on(channel).await.map(|(message, fds, _)| (message, fds))
}

/// The same, with how many bytes the message had.
pub(crate) async fn receive_long_on<T: serde::de::DeserializeOwned>(
    channel: &AsyncFd<OwnedFd>,
) -> Result<(T, Vec<OwnedFd>, usize), TierError> {
    loop {
        let mut guard = channel.readable().await.map_err(TierError::Start)?;
        match channel::receive_bytes(channel.get_ref()) {
            Err(ChannelError::Socket(rustix::io::Errno::AGAIN)) => guard.clear_ready(),
            Err(error) => return Err(TierError::Channel(error)),
            Ok((body, fds)) => {
                let message = serde_json::from_slice(&body).map_err(ChannelError::Read);
                return Ok((message.map_err(TierError::Channel)?, fds, body.len()));
            }
        }
    }
}

pub(crate) fn null() -> Result<OwnedFd, TierError> {
    rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
        .map_err(|errno| TierError::Start(errno.into()))
}

pub(crate) fn stream_pair() -> Result<(OwnedFd, OwnedFd), TierError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| TierError::Start(errno.into()))
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), TierError> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| TierError::Start(errno.into()))
}
