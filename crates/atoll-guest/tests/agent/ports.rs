//! Connections to servers inside.

use crate::Test;
use crate::client::Client;
use atoll_core::wire::agent::{Answer, Ask, Refusal};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};

pub(crate) const TESTS: &[Test] = &[
    (
        "a_port_is_reached_over_both_families",
        a_port_is_reached_over_both_families,
    ),
    ("a_closed_port_is_not_listening", a_closed_port_is_not_listening),
];

/// The agent of these tests shares the loopback of its parent.
fn a_port_is_reached_over_both_families() {
    let mut client = Client::new();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = TcpListener::bind(address).unwrap();
        let port = server.local_addr().unwrap().port();
        let request = client.ask(Ask::Connect { port });
        let (answer, fds) = client.answer(request);
        assert_eq!(answer, Answer::Connected);
        let mut inside = server.accept().unwrap().0;
        let mut outside = TcpStream::from(fds.into_iter().next().unwrap());
        outside.set_nonblocking(false).unwrap();
        outside.write_all(b"ping").unwrap();
        let mut bytes = [0; 4];
        inside.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"ping");
    }
}

fn a_closed_port_is_not_listening() {
    let mut client = Client::new();
    // Bound, so that no other process listens there, and not listened on.
    let reserved = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    bind(&reserved, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = SocketAddrV4::try_from(getsockname(&reserved).unwrap()).unwrap().port();
    assert_eq!(client.refusal(Ask::Connect { port }), Refusal::NotListening);
    assert_eq!(client.refusal(Ask::Connect { port: 0 }), Refusal::Invalid);
}
