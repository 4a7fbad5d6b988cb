//! Many at once: limits hold, an end wins over everything else, and nothing hangs.

use atoll_tests::e2b::{Raw, create, key_of, read_until};
use atoll_tests::process::eventually;
use atoll_tests::server::{Server, connect};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};

#[test]
fn parallel_creates_never_pass_a_quota() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let quota = ["--quota", "live_sandboxes=3,creates_per_minute=1000"];
    let (key, _) = key_of(&server, "team", &quota).unwrap();
    let statuses = std::thread::scope(|scope| {
        let create = || {
            let body = "{\"templateID\":\"base\",\"timeout\":300}";
            let answer = server.send_as(&key, "POST", "/sandboxes", Some(body)).unwrap();
            let wait = answer.header("retry-after").map(str::to_owned);
            assert!(answer.status == 201 || wait.is_some(), "{}", answer.text());
            answer.status
        };
        let threads: Vec<_> = (0..40).map(|_| scope.spawn(create)).collect();
        threads.into_iter().fold(BTreeMap::new(), |mut counts, thread| {
            *counts.entry(thread.join().unwrap()).or_insert(0) += 1;
            counts
        })
    });
    assert_eq!(statuses, BTreeMap::from([(201, 3), (429, 37)]));
    let listed = server
        .send_as(&key, "GET", "/v2/sandboxes", None)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(listed.as_array().map(Vec::len), Some(3));
}

#[test]
fn an_end_wins_over_what_runs_and_comes_once() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(600)\nprint('en' + 'ded')";
    let mut running = sandbox.begin_code(&server, code).unwrap();
    read_until(&mut running, "begun").unwrap();
    let path = format!("/sandboxes/{}", sandbox.id);
    let ends: Vec<u16> = std::thread::scope(|scope| {
        let end = || server.send("DELETE", &path, None).unwrap().status;
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(end)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(ends.iter().filter(|status| **status == 204).count(), 1, "{ends:?}");
    assert!(ends.iter().all(|status| [204, 404].contains(status)), "{ends:?}");
    let mut rest = String::new();
    running.read_to_string(&mut rest).ok();
    assert!(!rest.contains("ended"), "{rest}");
    for (method, path, body) in [
        ("POST", "/execute", "{\"code\":\"1\"}"),
        ("POST", "/files?path=/tmp/x", "x"),
        ("POST", "/process.Process/List", "{}"),
    ] {
        let late = sandbox.send(&server, method, path, body.as_bytes()).unwrap();
        assert_eq!(late.status, 502, "{path}: {late:?}");
    }
}

#[test]
fn a_sandbox_whose_time_is_over_is_lost_by_header_and_by_host() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let code = "print('begun', flush=True)\nimport time\nwhile True: time.sleep(1)";
    let mut running = sandbox.begin_code(&server, code).unwrap();
    read_until(&mut running, "begun").unwrap();
    let timeout = format!("/sandboxes/{}/timeout", sandbox.id);
    let set = server.send("POST", &timeout, Some("{\"timeout\":1}")).unwrap();
    assert_eq!(set.status, 204, "{}", set.text());
    // Neither the last line nor the last chunk comes: the connection breaks off.
    let mut rest = String::new();
    running.read_to_string(&mut rest).ok();
    assert!(!rest.contains("end_of_execution"), "{rest}");
    assert!(!rest.ends_with("0\r\n\r\n"), "{rest}");
    let calls = [
        (49983, "GET", "/health"),
        (49983, "GET", "/files?path=x"),
        (49983, "POST", "/process.Process/List"),
        (49999, "GET", "/contexts"),
        (49999, "POST", "/execute"),
    ];
    for (port, method, path) in calls {
        let named = sandbox.send(&server, method, path, b"{}").unwrap();
        assert_eq!(named.status, 502, "{path}: {named:?}");
        assert!(named.body.contains("was not found"), "{path}: {named:?}");
        let host = format!("{port}-{}.sbx.localhost", sandbox.id);
        let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: 2\r\n\r\n{{}}");
        let answer = server.raw(head.as_bytes()).unwrap();
        assert_eq!(answer.status, 502, "{host}{path}: {}", answer.text());
        assert!(answer.text().contains("was not found"), "{path}: {}", answer.text());
    }
}

#[test]
fn one_end_among_many_uses_breaks_no_other_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let neighbour = create(&server, &server.key, json!({})).unwrap();
    for round in 0..5 {
        let sandbox = create(&server, &server.key, json!({})).unwrap();
        let path = format!("/sandboxes/{}", sandbox.id);
        std::thread::scope(|scope| {
            for number in 0..4 {
                let (server, sandbox) = (&server, &sandbox);
                scope.spawn(move || match number % 2 {
                    0 => drop(sandbox.run(server, "sum(range(1000))")),
                    _ => drop(sandbox.send(server, "GET", "/files?path=/etc/hostname", b"")),
                });
            }
            scope.spawn(|| assert_eq!(server.send("DELETE", &path, None).unwrap().status, 204));
        });
        let fine = neighbour.run(&server, &format!("print({round} + 40)")).unwrap();
        assert!(fine.body.contains(&format!("{}", round + 40)), "{fine:?}");
    }
}

#[test]
fn a_request_whose_sandbox_is_paused_before_its_body_arrives_wakes_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({"autoResume": {"enabled": true}})).unwrap();
    let body = json!({"code": "print('wo' + 'ke')"}).to_string();
    let head = format!(
        "POST /execute HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        server.api,
        sandbox.id,
        sandbox.token,
        body.len()
    );
    let mut connection = connect(server.api).unwrap();
    connection.write_all(head.as_bytes()).unwrap();
    // The server has found the sandbox running, and waits for the body.
    let told = read_until(&mut connection, "\r\n\r\n").unwrap();
    assert!(told.starts_with("HTTP/1.1 100"), "{told}");
    let pause = format!("/sandboxes/{}/pause", sandbox.id);
    assert_eq!(server.send("POST", &pause, None).unwrap().status, 204);
    connection.write_all(body.as_bytes()).unwrap();
    let answer = Raw::read(&mut connection).unwrap();
    assert!(answer.status == 200 && answer.body.contains("woke"), "{answer:?}");
}

#[test]
fn requests_at_the_moment_of_a_pause_find_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({"autoResume": {"enabled": true}})).unwrap();
    let pause = format!("/sandboxes/{}/pause", sandbox.id);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let answer = sandbox.send(&server, "POST", "/process.Process/List", b"{}").unwrap();
                    assert_eq!(answer.status, 200, "{answer:?}");
                });
            }
            let paused = server.send("POST", &pause, None).unwrap().status;
            assert!([204, 409].contains(&paused), "{paused}");
        });
    }
}

#[test]
fn a_pause_at_the_end_of_the_time_does_not_end_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({"autoPause": true})).unwrap();
    let path = |what: &str| format!("/sandboxes/{}{what}", sandbox.id);
    for _ in 0..20 {
        std::thread::scope(|scope| {
            scope.spawn(|| server.send("POST", &path("/pause"), None).unwrap());
            scope.spawn(|| server.send("POST", &path("/timeout"), Some("{\"timeout\":0}")).unwrap());
        });
        eventually("the sandbox is paused", || {
            let shown = server.send("GET", &path(""), None).and_then(|shown| shown.json());
            shown.is_ok_and(|shown| shown["state"] == "paused")
        })
        .unwrap();
        let connected = server
            .send("POST", &path("/connect"), Some("{\"timeout\":300}"))
            .unwrap();
        assert!([200, 201].contains(&connected.status), "{}", connected.text());
    }
}
