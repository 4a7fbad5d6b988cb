//! Connections to servers inside: the sandbox's own loopback, reached from within.

use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Answer, Refusal};
use atoll_jail::channel::ChannelError;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, getpeername, getsockname, socket_with};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

const MAX_PENDING: usize = 128;
/// A server whose queue is full does not answer at all.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct Ports {
    pending: Vec<Pending>,
}

#[derive(Debug)]
struct Pending {
    request: u32,
    port: u16,
    socket: OwnedFd,
    until: Instant,
    /// Addresses still to try.
    others: Vec<SocketAddr>,
}

impl Ports {
    pub(crate) fn start(&mut self, request: u32, port: u16) -> Result<(), Refused> {
        if port == 0 || self.pending.len() >= MAX_PENDING {
            let why = if port == 0 { Refusal::Invalid } else { Refusal::Failed };
            return Err(Refused::new(
                why,
                format!("port {port}: too many pending connections, or not a valid port"),
            ));
        }
        let addresses = [
            SocketAddr::from((Ipv6Addr::LOCALHOST, port)),
            SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ];
        let pending = begin(request, port, Instant::now() + PATIENCE, addresses.to_vec())?;
        self.pending.push(pending);
        Ok(())
    }

    pub(crate) fn sockets(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        self.pending.iter().map(|one| (one.request, one.socket.as_fd()))
    }

    /// When the next one has waited long enough.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.pending.iter().map(|one| one.until).min()
    }

    /// The kernel has something to say about the connection of `request`.
    pub(crate) fn settle(&mut self, request: u32, outbox: &mut Outbox) -> Result<(), ChannelError> {
        let Some(index) = self.pending.iter().position(|one| one.request == request) else {
            return Ok(());
        };
        let one = self.pending.swap_remove(index);
        match is_connected(&one.socket) {
            Ok(()) => outbox.tell_with(request, Answer::Connected, vec![one.socket]),
            Err(Errno::CONNREFUSED) => match begin(request, one.port, one.until, one.others) {
                Ok(next) => {
                    self.pending.push(next);
                    Ok(())
                }
                Err(refused) => outbox.tell(request, refused.into_answer()),
            },
            Err(errno) => {
                let message = format!("port {}: {errno}", one.port);
                outbox.tell(request, Refused::new(Refusal::Failed, message).into_answer())
            }
        }
    }

    pub(crate) fn give_up_late(&mut self, outbox: &mut Outbox) -> Result<(), ChannelError> {
        let now = Instant::now();
        let (late, pending) = self.pending.drain(..).partition(|one| one.until <= now);
        self.pending = pending;
        for one in late {
            let message = format!("port {}: connection timed out", one.port);
            outbox.tell(one.request, Refused::new(Refusal::Failed, message).into_answer())?;
        }
        Ok(())
    }
}

/// Starts to connect to the last of the addresses that does not refuse at once.
fn begin(request: u32, port: u16, until: Instant, mut others: Vec<SocketAddr>) -> Result<Pending, Refused> {
    while let Some(address) = others.pop() {
        if let Some(socket) = try_connect(&address).about(format!("port {port}"))? {
            return Ok(Pending {
                request,
                port,
                socket,
                until,
                others,
            });
        }
    }
    let message = format!("port {port}: connection refused, no process is listening");
    Err(Refused::new(Refusal::NotListening, message))
}

/// `None` if nobody can listen there.
fn try_connect(address: &SocketAddr) -> Result<Option<OwnedFd>, Errno> {
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = match socket_with(family, SocketType::STREAM, flags, None) {
        Err(Errno::AFNOSUPPORT) => return Ok(None),
        socket => socket?,
    };
    match connect(&socket, address) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(Some(socket)),
        Err(Errno::CONNREFUSED | Errno::ADDRNOTAVAIL | Errno::NETUNREACH) => Ok(None),
        Err(errno) => Err(errno),
    }
}

fn is_connected(socket: &OwnedFd) -> Result<(), Errno> {
    rustix::net::sockopt::socket_error(socket)??;
    let (here, there) = (getsockname(socket)?, getpeername(socket)?);
    // A port that the kernel also gives to clients can meet itself: that is nobody.
    match there == Some(here) {
        true => Err(Errno::CONNREFUSED),
        false => Ok(()),
    }
}
