//! Nobody outside reaches what listens in a sandbox: not the machine, not another sandbox.

use crate::bench::{end, say};
use crate::case::cases;
use crate::error::AttackError;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};

/// A listener on the sandbox's own loopback at `PORT`, and a way to ask who came.
const LISTEN: &str = "import socket
s = socket.socket()
s.bind(('127.0.0.1', PORT))
s.listen()
s.settimeout(0)
def heard():
    try:
        s.accept()
        return True
    except BlockingIOError:
        return False
s.getsockname()[1]";

const KNOCK: &str = "import socket, errno
def knock(port):
    with socket.socket() as s:
        try:
            s.connect(('127.0.0.1', port))
            return 'ok'
        except OSError as e:
            return errno.errorcode[e.errno]
";

/// Binds a port of the host's loopback without listening on it, so that no other process listens there while it is held.
fn reserve_port() -> Result<(OwnedFd, u16), AttackError> {
    let reserve = || {
        let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
        let at = SocketAddrV4::try_from(getsockname(&socket)?)?;
        Ok::<_, Errno>((socket, at.port()))
    };
    reserve().map_err(|errno| AttackError::io("reserve a port on the loopback interface")(errno.into()))
}

cases! {
    N21 {
        id: "N21",
        claim: "Listeners in a sandbox cannot be reached from the host or from another sandbox",
        expected: "connections to the same port are refused from both, and the listener accepts none",
        oracle: "the host connects to the same port, which is reserved there",
        twin: "the listener accepts a connection from its own process",
        control: "the same connection attempt reaches a listener of the attack on the host's loopback interface",
    } |bench, _lab, shown| {
        let (engine, mut a, mut b) = bench.two(&[]).await?;
        let (_reserved, port) = reserve_port()?;
        let listens = say(&mut a, &LISTEN.replace("PORT", &port.to_string())).await?;
        shown.works(listens == port.to_string(), format!("the sandbox listens on port {port}, which is reserved on the host"));
        let own = say(&mut a, &format!("{KNOCK}\n(knock({port}), heard())")).await?;
        shown.works(own == "('ok', True)", format!("a connection from the listener's own process: (result, accepted) is {own}, expected ('ok', True)"));
        let from_machine = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.kind());
        shown.holds(from_machine.is_err(), format!("a connection from the host returned {from_machine:?}, expected an error"));
        let from_other = say(&mut b, &format!("{KNOCK}\nknock({port})")).await?;
        shown.holds(from_other == "'ECONNREFUSED'", format!("a connection from another sandbox returned {from_other}, expected 'ECONNREFUSED'"));
        let heard = say(&mut a, "heard()").await?;
        shown.holds(heard == "False", format!("the listener accepted another connection: {heard}, expected False"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr().map(|at| (listener, at)));
        let reached = listener.is_ok_and(|(_listener, at)| TcpStream::connect(at).is_ok());
        shown.control(reached, "the same connection attempt reaches a listener on the host");
        end(&engine, [a, b]).await?;
    }
}
