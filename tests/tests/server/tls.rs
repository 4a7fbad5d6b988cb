//! HTTPS of the server itself: its own CA, certificates of the operator, and clients that never finish the handshake.

use anyhow::{Context, Result};
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Answer, Server, atoll_in, connect, is_closed};
use atoll_tests::tls::{certificate, connect as connect_tls, write_certificate};
use rustls::{ClientConnection, StreamOwned};
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;

/// The start of a handshake, and no more of it.
const BEGUN: &[u8] = &[0x16, 0x03, 0x01, 0x02];

struct Local {
    server: Server,
    home: tempfile::TempDir,
    authority: String,
}

impl Local {
    fn start(flags: &[&str]) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let server = Server::start(home.path(), &[&["--tls", "local"], flags].concat())?;
        let authority = std::fs::read_to_string(home.path().join("tls/ca.pem"))?;
        Ok(Self {
            server,
            home,
            authority,
        })
    }

    /// Asks for the list of sandboxes at this host, which the certificate must name.
    fn ask(&self, host: &str) -> Result<Answer> {
        let mut connection = connect_tls(&self.authority, host, self.server.api)?;
        connection.write_all(self.request(host).as_bytes())?;
        Answer::read(&mut connection)
    }

    /// Where the server waits for a handshake for a moment only: on a busy host the first may come too late.
    fn connected_in_time(&self) -> Result<StreamOwned<ClientConnection, TcpStream>> {
        let mut found = None;
        eventually("a handshake that comes in time", || {
            found = connect_tls(&self.authority, "localhost", self.server.api).ok();
            found.is_some()
        })?;
        found.context("no connection")
    }

    fn request(&self, host: &str) -> String {
        let (key, port) = (&self.server.key, self.server.api.port());
        format!("GET /v1/sandboxes HTTP/1.1\r\nHost: {host}:{port}\r\nX-API-KEY: {key}\r\n\r\n")
    }
}

#[test]
fn a_server_with_a_ca_of_its_own_is_reached_by_those_who_trust_it() {
    let local = Local::start(&[]).unwrap();
    let run = |host: &str, authority: &Path| {
        let url = format!("https://{host}:{}", local.server.api.port());
        let mut command = atoll_in(local.home.path());
        command.env("ATOLL_API_KEY", &local.server.key);
        command.args(["run", "-c", "print(6 * 7)", "--server", &url]);
        run_command(command.arg("--cacert").arg(authority)).unwrap()
    };
    for host in ["127.0.0.1", "localhost"] {
        let ran = run(host, &local.home.path().join("tls/ca.pem"));
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "42\n"), "{ran:?}");
    }
    let stranger = local.home.path().join("stranger.pem");
    std::fs::write(&stranger, certificate("127.0.0.1").unwrap().0).unwrap();
    let refused = run("127.0.0.1", &stranger);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused:?}");
    assert!(refused.stderr.contains("certificate"), "{refused:?}");
}

#[test]
fn names_below_the_domain_are_served_over_https() {
    let local = Local::start(&["--domain", "sbx.example.org"]).unwrap();
    for host in ["sbx.example.org", "api.sbx.example.org", "localhost"] {
        assert_eq!(local.ask(host).unwrap().status, 200, "{host}");
    }
    let port = local.ask("3000-sbxaaaaaaaaaaaaaaaaaaaaaaaaaa.sbx.example.org").unwrap();
    assert!(port.text().contains("was not found"), "{port:?}");
    let other = local.ask("nothing.sbx.example.org").unwrap();
    assert_eq!(other.code().unwrap(), "host_not_allowed");
    assert!(
        local.ask("other.example.org").is_err(),
        "the certificate does not name it"
    );
}

#[test]
fn a_client_that_offers_http_2_gets_http_1_1() {
    let local = Local::start(&[]).unwrap();
    let connection = connect_tls(&local.authority, "localhost", local.server.api).unwrap();
    assert_eq!(connection.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
}

#[test]
fn the_ca_stays_the_same_when_the_server_starts_again() {
    let local = Local::start(&[]).unwrap();
    let Local {
        server,
        home,
        authority,
    } = local;
    drop(server);
    let _server = Server::start(home.path(), &["--tls", "local"]).unwrap();
    let again = std::fs::read_to_string(home.path().join("tls/ca.pem")).unwrap();
    assert_eq!(again, authority);
}

#[test]
fn a_changed_certificate_is_served_to_new_connections_and_a_broken_one_is_not() {
    let home = tempfile::tempdir().unwrap();
    let [cert, key] = ["cert.pem", "key.pem"].map(|name| home.path().join(name));
    let files = [cert.as_path(), key.as_path()];
    let first = write_certificate("127.0.0.1", files).unwrap();
    let flags = files.map(|path| path.to_str().unwrap());
    let server = Server::start(home.path(), &["--tls-cert", flags[0], "--tls-key", flags[1]]).unwrap();
    let reached = |authority: &str| connect_tls(authority, "127.0.0.1", server.api).is_ok();
    assert!(reached(&first));
    let second = write_certificate("127.0.0.1", files).unwrap();
    assert!(reached(&second) && !reached(&first));
    std::fs::write(&key, "no key\n").unwrap();
    assert!(reached(&second));
    assert!(
        server.log().contains("the previous one stays in use"),
        "{}",
        server.log()
    );
    let third = write_certificate("127.0.0.1", files).unwrap();
    assert!(reached(&third) && !reached(&second));
}

#[test]
fn a_handshake_has_the_time_of_a_request_head() {
    let local = Local::start(&["--header-timeout", "300ms"]).unwrap();
    let mut nothing = connect(local.server.api).unwrap();
    let mut begun = connect(local.server.api).unwrap();
    begun.write_all(BEGUN).unwrap();
    assert!(is_closed(&mut nothing) && is_closed(&mut begun));
    // So has the head of the first request, after the handshake.
    let mut silent = local.connected_in_time().unwrap();
    assert!(Answer::read(&mut silent).is_err());
    assert!(is_closed(&mut silent.sock));
}

/// Connections without a handshake count, and make room as those without a key do.
#[test]
fn unfinished_handshakes_do_not_shut_out_clients_with_a_key() {
    let local = Local::start(&["--max-connections", "2", "--header-timeout", "1h"]).unwrap();
    let mut begun = [(); 2].map(|()| connect(local.server.api).unwrap());
    for connection in &mut begun {
        connection.write_all(BEGUN).unwrap();
    }
    let kept = || {
        let mut connection = connect_tls(&local.authority, "localhost", local.server.api)?;
        connection.write_all(local.request("localhost").as_bytes())?;
        assert_eq!(Answer::read(&mut connection)?.status, 200);
        anyhow::Ok(connection)
    };
    let _kept = [(); 2].map(|()| kept().unwrap());
    for connection in &mut begun {
        assert!(is_closed(connection));
    }
    // The reason of a refusal comes over HTTPS as well.
    let mut refused = connect_tls(&local.authority, "localhost", local.server.api).unwrap();
    let refused = Answer::read(&mut refused).context("no refusal").unwrap();
    assert_eq!((refused.status, refused.code().unwrap().as_str()), (503, "at_capacity"));
}
