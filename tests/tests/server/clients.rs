//! Clients that are slow, wrong, too many or hostile.

use anyhow::{Context, Result, ensure};
use atoll_tests::e2b::{create, read_until};
use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server, connect, is_closed};
use serde_json::json;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn get(server: &Server, host: &str) -> String {
    let key = &server.key;
    format!("GET /v1/keys HTTP/1.1\r\nHost: {host}\r\nX-API-KEY: {key}\r\n\r\n")
}

fn post(server: &Server, headers: &str) -> String {
    let (host, key) = (server.api, &server.key);
    format!(
        "POST /v1/keys HTTP/1.1\r\nHost: {host}\r\nX-API-KEY: {key}\r\nContent-Type: application/json\r\n{headers}\r\n"
    )
}

/// A connection that has got one answer and stays open.
fn kept(server: &Server) -> Result<TcpStream> {
    let mut connection = connect(server.api)?;
    connection.write_all(get(server, &server.api.to_string()).as_bytes())?;
    ensure!(Answer::read(&mut connection)?.status == 200);
    Ok(connection)
}

/// The same where the server waits for a head for a moment only: on a busy host the first may come too late.
fn kept_in_time(server: &Server) -> Result<TcpStream> {
    let mut found = None;
    eventually("a head that comes in time", || {
        found = kept(server).ok();
        found.is_some()
    })?;
    found.context("no connection was kept")
}

#[test]
fn a_head_that_does_not_arrive_is_cut_and_an_idle_connection_is_not() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--header-timeout", "300ms"]).unwrap();
    let mut idle = kept_in_time(&server).unwrap();
    let mut nothing = connect(server.api).unwrap();
    let mut slow = connect(server.api).unwrap();
    slow.write_all(b"GET /healthz HT").unwrap();
    assert!(is_closed(&mut nothing) && is_closed(&mut slow));
    idle.write_all(get(&server, &server.api.to_string()).as_bytes())
        .unwrap();
    assert_eq!(Answer::read(&mut idle).unwrap().status, 200);
    // The same connection, now slow within its second head.
    idle.write_all(b"GET /heal").unwrap();
    assert!(is_closed(&mut idle));
}

#[test]
fn a_head_that_drips_is_cut() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--header-timeout", "300ms"]).unwrap();
    let mut slow = connect(server.api).unwrap();
    slow.write_all(b"GET /healthz HTTP/1.1\r\nX: ").unwrap();
    eventually("the server hangs up", || {
        std::thread::sleep(Duration::from_millis(20));
        slow.write_all(b"x").is_err()
    })
    .unwrap();
}

#[test]
fn an_idle_connection_ends_in_its_time() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--idle-timeout", "300ms", "--header-timeout", "1h"]).unwrap();
    assert!(is_closed(&mut kept_in_time(&server).unwrap()));
}

#[test]
fn a_body_that_stops_or_drips_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--read-timeout", "400ms"]).unwrap();
    let mut stopped = connect(server.api).unwrap();
    stopped
        .write_all((post(&server, "Content-Length: 99\r\n") + "{").as_bytes())
        .unwrap();
    let answer = Answer::read(&mut stopped).unwrap();
    assert_eq!((answer.status, answer.code().unwrap().as_str()), (408, "body_timeout"));
    let mut drips = connect(server.api).unwrap();
    drips
        .write_all(post(&server, "Content-Length: 999\r\n").as_bytes())
        .unwrap();
    let mut feeding = drips.try_clone().unwrap();
    let feeder = std::thread::spawn(move || {
        while feeding.write_all(b" ").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(Answer::read(&mut drips).unwrap().code().unwrap(), "body_timeout");
    drips.shutdown(std::net::Shutdown::Both).ok();
    feeder.join().unwrap();
}

#[test]
fn more_connections_than_allowed_are_told_so() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-connections", "2"]).unwrap();
    let (one, _two) = (kept(&server).unwrap(), kept(&server).unwrap());
    let refused = server.raw(b"").unwrap();
    assert_eq!((refused.status, refused.code().unwrap().as_str()), (503, "at_capacity"));
    assert_eq!(refused.header("retry-after"), Some("1"));
    drop(one);
    eventually("room again", || {
        server
            .send("GET", "/healthz", None)
            .is_ok_and(|answer| answer.status == 200)
    })
    .unwrap();
}

#[test]
fn a_chunked_body_is_taken_up_to_the_limit() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-body-bytes", "2KiB"]).unwrap();
    let chunked = post(&server, "Transfer-Encoding: chunked\r\n");
    let made = server
        .raw((chunked.clone() + "e\r\n{\"name\":\"ab\"  \r\n1\r\n}\r\n0\r\n\r\n").as_bytes())
        .unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let endless = format!("1000\r\n{}\r\n", " ".repeat(0x1000));
    let refused = server.raw((chunked + &endless).as_bytes()).unwrap();
    assert_eq!(
        (refused.status, refused.code().unwrap().as_str()),
        (413, "body_too_large")
    );
    let told = server
        .raw(post(&server, "Content-Length: 99999999999\r\n").as_bytes())
        .unwrap();
    assert_eq!(told.code().unwrap(), "body_too_large");
}

#[test]
fn a_packed_body_is_not_unpacked() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let packed = post(&server, "Content-Encoding: gzip\r\nContent-Length: 2\r\n") + "{}";
    assert_eq!(
        server.raw(packed.as_bytes()).unwrap().code().unwrap(),
        "unsupported_media_type"
    );
}

#[test]
fn what_is_no_http_ends_its_own_connection_only() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(100_000));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(1_000));
    let both = post(&server, "Content-Length: 1\r\nContent-Length: 2\r\n") + "{}";
    for bytes in [
        &b"\x16\x03\x01\x02\0\x01\0\x01\xfc"[..],
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nbad header\r\n\r\n",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\nHost: localhost\r\n\r\n",
        long.as_bytes(),
        many.as_bytes(),
        both.as_bytes(),
    ] {
        let mut connection = connect(server.api).unwrap();
        connection.write_all(bytes).ok();
        let answer = Answer::read(&mut connection);
        assert!(
            answer
                .as_ref()
                .map_or(true, |answer| (400..500).contains(&answer.status)),
            "{answer:?}"
        );
        assert!(is_closed(&mut connection));
    }
    assert_eq!(server.send("GET", "/healthz", None).unwrap().status, 200);
}

#[test]
fn two_lengths_of_one_body_hide_no_second_request() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let hidden = "0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: localhost\r\n\r\n";
    for lengths in [
        "Content-Length: 60\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 60\r\n",
    ] {
        let mut connection = connect(server.api).unwrap();
        connection
            .write_all((post(&server, lengths) + hidden).as_bytes())
            .unwrap();
        assert_eq!(Answer::read(&mut connection).unwrap().status, 400);
        let mut rest = Vec::new();
        connection.read_to_end(&mut rest).ok();
        assert!(rest.is_empty(), "{}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn a_name_that_points_here_from_elsewhere_gets_nothing() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--allowed-hosts", "atoll.test,*.proxy.test"]).unwrap();
    let port = server.api.port();
    let ask = |host: &str| server.raw(get(&server, host).as_bytes()).unwrap();
    for fine in [
        "localhost",
        "127.0.0.1",
        "[::1]",
        "atoll.test",
        "a.proxy.test",
        "sbx.localhost",
        "api.sbx.localhost",
    ] {
        assert_eq!(ask(&format!("{fine}:{port}")).status, 200, "{fine}");
    }
    for foreign in ["evil.test", "proxy.test", "localhost.evil.test"] {
        let refused = ask(foreign);
        assert_eq!(
            (refused.status, refused.code().unwrap().as_str()),
            (421, "host_not_allowed"),
            "{foreign}"
        );
    }
    let absolute = get(&server, "localhost").replace("/v1/keys", "http://evil.test/v1/keys");
    assert_eq!(server.raw(absolute.as_bytes()).unwrap().status, 400);
}

#[test]
fn headers_of_proxies_and_overrides_change_nothing() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let extra = "X-HTTP-Method-Override: POST\r\nX-Forwarded-Host: evil.test\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n";
    let request = get(&server, "localhost").trim_end().to_owned() + "\r\n" + extra;
    let listed = server.raw(request.as_bytes()).unwrap();
    assert_eq!(listed.json().unwrap()["keys"].as_array().unwrap().len(), 1);
}

/// A refusal must not be lost because the client is still sending: the rest of the body is taken, and the connection lives.
#[test]
fn an_early_refusal_arrives_and_the_rest_of_the_body_is_taken() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let mut connection = connect(server.api).unwrap();
    let rest = vec![b'x'; 1 << 20];
    let head = format!(
        "POST /files?path=a HTTP/1.1\r\nHost: {}\r\nContent-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n",
        server.api,
        rest.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut connection).unwrap().status, 400);
    connection.write_all(&rest).unwrap();
    connection
        .write_all(get(&server, &server.api.to_string()).as_bytes())
        .unwrap();
    assert_eq!(Answer::read(&mut connection).unwrap().status, 200);
}

/// Strangers that hold all places: those with a key still get in, and a stranger that is needed no longer goes.
#[test]
fn connections_without_a_key_do_not_shut_out_those_with_one() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-connections", "3", "--header-timeout", "1h"]).unwrap();
    let sandbox = server.sandbox(&json!({})).unwrap();
    let mut keyed = kept(&server).unwrap();
    let mut strangers = [(); 2].map(|()| connect(server.api).unwrap());
    // One knows the name of a sandbox, which is in the address of each of its ports.
    let health = format!("GET /health HTTP/1.1\r\nHost: localhost\r\nE2b-Sandbox-Id: {sandbox}\r\n\r\n");
    strangers[0].write_all(health.as_bytes()).unwrap();
    assert_eq!(Answer::read(&mut strangers[0]).unwrap().status, 204);
    // One of them has an answer, but no key.
    strangers[1]
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    assert_eq!(Answer::read(&mut strangers[1]).unwrap().status, 200);
    let mut more = [(); 2].map(|()| kept(&server).unwrap());
    for stranger in &mut strangers {
        assert!(is_closed(stranger), "a stranger has a place that somebody needs");
    }
    let refused = server.raw(b"").unwrap();
    assert_eq!((refused.status, refused.code().unwrap().as_str()), (503, "at_capacity"));
    for connection in more.iter_mut().chain([&mut keyed]) {
        connection
            .write_all(get(&server, &server.api.to_string()).as_bytes())
            .unwrap();
        assert_eq!(Answer::read(connection).unwrap().status, 200);
    }
}

#[test]
fn metrics_are_those_of_the_interval_that_was_asked_for() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let sandbox = create(&server, &server.key, json!({}))?;
    let ask = |query: &str| server.send("GET", &format!("/sandboxes/{}/metrics{query}", sandbox.id), None);
    let samples = |query: &str| anyhow::Ok(ask(query)?.json()?.as_array().context("no list")?.len());
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (before, after) = (now - 3_600, now + 3_600);
    assert_eq!(samples("")?, 1);
    assert_eq!(samples(&format!("?start={before}&end={after}"))?, 1);
    assert_eq!(samples(&format!("?end={before}"))?, 0);
    assert_eq!(samples(&format!("?start={after}"))?, 0);
    for bad in ["?start=x", "?end=-1", "?start=1.5", "?start=2&end=1"] {
        assert_eq!(ask(bad)?.status, 400, "{bad}");
    }
    Ok(())
}

/// Reads past what only says that the answer comes later.
fn final_answer(connection: &mut TcpStream) -> Result<Answer> {
    loop {
        let answer = Answer::read(connection)?;
        if answer.status >= 200 {
            return Ok(answer);
        }
        ensure!(answer.status == 102, "{answer:?}");
    }
}

/// A client that has closed its side waits for its answer, whole or as a stream; one that is gone does not hold its code.
#[test]
fn a_half_closed_client_hears_its_answer() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = server.sandbox(&json!({})).unwrap();
    let run = |wanted: &str, code: &str| {
        let body = json!({ "code": code }).to_string();
        let mut connection = connect(server.api).unwrap();
        let head = format!(
            "POST /v1/sandboxes/{sandbox}/run HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\n{wanted}Connection: close\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            server.api,
            server.key,
            body.len()
        );
        connection.write_all(head.as_bytes()).unwrap();
        connection.shutdown(Shutdown::Write).unwrap();
        connection
    };
    // Long enough to be looked for a few times.
    let answer = final_answer(&mut run("", "import time; time.sleep(2.5); 6 * 7")).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(answer.json().unwrap()["results"][0]["data"]["text/plain"], "42");
    let mut stream = run(
        "Accept: text/event-stream\r\n",
        "import time; print('begun', flush=True); time.sleep(2.5); 6 * 7",
    );
    let told = read_until(&mut stream, "event: end").unwrap();
    assert!(told.contains("begun") && told.contains("\"42\""), "{told}");
    let mut health = connect(server.api).unwrap();
    health
        .write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        .unwrap();
    health.shutdown(Shutdown::Write).unwrap();
    assert_eq!(final_answer(&mut health).unwrap().status, 200);
    // A stream that may be silent for long ends with its client's side: nobody could tell that it is gone.
    let watched = create(&server, &server.key, json!({})).unwrap();
    let mut watch = watched
        .begin_call(&server, "/filesystem.Filesystem/WatchDir", &json!({"path": "/tmp"}))
        .unwrap();
    read_until(&mut watch, "start").unwrap();
    watch.shutdown(Shutdown::Write).unwrap();
    assert!(is_closed(&mut watch));
    // A body that is not whole, on the other hand, never comes.
    let mut cut = connect(server.api).unwrap();
    cut.write_all((post(&server, "Content-Length: 99\r\n") + "{").as_bytes())
        .unwrap();
    cut.shutdown(Shutdown::Write).unwrap();
    assert_eq!(Answer::read(&mut cut).unwrap().status, 400);
    // Gone altogether: the context is free for the next.
    drop(run("", "import time; time.sleep(600)"));
    let next = server
        .json("POST", &format!("/v1/sandboxes/{sandbox}/run"), &json!({"code": "1"}))
        .unwrap();
    assert_eq!(next.json().unwrap()["outcome"], "ok");
}
