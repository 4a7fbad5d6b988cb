//! Nobody outside reaches what listens in a sandbox: not the machine, not another sandbox.

use crate::bench::{end, say};
use crate::case::cases;
use std::net::{Ipv4Addr, TcpListener, TcpStream};

/// A listener on the sandbox's own loopback, and a way to ask who came.
const LISTEN: &str = "import socket
s = socket.socket()
s.bind(('127.0.0.1', 0))
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

cases! {
    N21 {
        id: "N21",
        claim: "What listens in a sandbox is reached neither by the machine nor by another sandbox",
        expected: "both are refused at the same port, and the listener hears nobody",
        oracle: "the machine itself knocks; the port is free there",
        twin: "the listener hears its own process",
        control: "the same knock reaches a listener of our own on the machine's loopback",
    } |bench, _lab, shown| {
        let (engine, mut a, mut b) = bench.two(&[]).await?;
        let port: u16 = say(&mut a, LISTEN).await?.parse().unwrap_or(0);
        let own = say(&mut a, &format!("{KNOCK}\n(knock({port}), heard())")).await?;
        shown.works(own == "('ok', True)", format!("the listener hears its own process: {own}"));
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        shown.works(free, format!("port {port} is free on the machine"));
        let from_machine = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).map_err(|error| error.kind());
        shown.holds(!free || from_machine.is_err(), format!("the machine cannot reach it: {from_machine:?}"));
        let from_other = say(&mut b, &format!("{KNOCK}\nknock({port})")).await?;
        shown.holds(from_other == "'ECONNREFUSED'", format!("another sandbox cannot reach it: {from_other}"));
        let heard = say(&mut a, "heard()").await?;
        shown.holds(heard == "False", format!("the listener heard nobody: {heard}"));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|listener| listener.local_addr().map(|at| (listener, at)));
        let reached = listener.is_ok_and(|(_listener, at)| TcpStream::connect(at).is_ok());
        shown.control(reached, "the same knock reaches a listener of the machine");
        end(&engine, [a, b]).await?;
    }
}
