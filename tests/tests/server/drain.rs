//! The end of a server: running requests finish, and nothing waits for ever.

use super::admin::wait_for_waiting;
use anyhow::{Result, ensure};
use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server, connect};
use rustix::process::Signal;
use std::io::Write;
use std::net::TcpStream;

/// A request whose body has not arrived yet, and which the server has begun to read.
fn half_sent(server: &Server) -> Result<TcpStream> {
    let mut connection = connect(server.api)?;
    let head = format!(
        "POST /v1/keys HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Expect: 100-continue\r\nContent-Length: 12\r\n\r\n",
        server.key
    );
    connection.write_all(head.as_bytes())?;
    ensure!(Answer::read(&mut connection)?.status == 100);
    Ok(connection)
}

#[test]
fn a_running_request_ends_well_and_new_ones_go_elsewhere() {
    for signal in [Signal::TERM, Signal::INT] {
        let home = tempfile::tempdir().unwrap();
        let mut server = Server::start(home.path(), &["--drain-timeout", "10min"]).unwrap();
        let mut running = half_sent(&server).unwrap();
        server.signal(signal).unwrap();
        eventually("nobody listens any more", || TcpStream::connect(server.api).is_err()).unwrap();
        running.write_all(br#"{"name":"n"}"#).unwrap();
        assert_eq!(Answer::read(&mut running).unwrap().status, 201);
        assert_eq!(server.wait().unwrap().code(), Some(0));
        assert!(server.log().contains("stopped"), "{}", server.log());
    }
}

#[test]
fn a_second_signal_ends_the_patience() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &["--drain-timeout", "10min"]).unwrap();
    let _running = half_sent(&server).unwrap();
    server.signal(Signal::INT).unwrap();
    eventually("nobody listens any more", || TcpStream::connect(server.api).is_err()).unwrap();
    server.signal(Signal::INT).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(server.log().contains("were closed before"), "{}", server.log());
}

#[test]
fn a_request_that_never_ends_is_cut_when_the_time_is_over() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &["--drain-timeout", "300ms"]).unwrap();
    let _running = half_sent(&server).unwrap();
    server.signal(Signal::TERM).unwrap();
    assert_eq!(server.wait().unwrap().code(), Some(0));
    assert!(server.log().contains("were closed before"), "{}", server.log());
}

#[test]
fn a_create_that_waits_is_refused_when_the_server_stops() {
    let home = tempfile::tempdir().unwrap();
    let flags = [
        "--max-sandboxes",
        "1",
        "--queue-timeout",
        "5m",
        "--drain-timeout",
        "10min",
    ];
    let mut server = Server::start(home.path(), &flags).unwrap();
    server.sandbox(&serde_json::json!({})).unwrap();
    let mut waits = connect(server.api).unwrap();
    let head = format!(
        "POST /v1/sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Connection: close\r\nContent-Length: 2\r\n\r\n{{}}",
        server.key
    );
    waits.write_all(head.as_bytes()).unwrap();
    wait_for_waiting(&server, 1).unwrap();
    server.signal(Signal::TERM).unwrap();
    let refused = Answer::read(&mut waits).unwrap();
    assert_eq!((refused.status, refused.code().unwrap()), (503, "not_ready".to_owned()));
    assert!(refused.header("retry-after").is_some());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}
