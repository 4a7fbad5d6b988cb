//! `Idempotency-Key`: what was done once is not done again, also after a restart.

use atoll_tests::e2b::{self, Raw};
use atoll_tests::process::eventually;
use atoll_tests::server::{Server, connect};
use serde_json::{Value, json};
use std::io::Write;
use std::net::TcpStream;

/// Sends a request with the key `name`, and leaves the connection open. `head` is more lines of its head.
fn begin(server: &Server, head: &str, path: &str, name: &str, body: &Value) -> TcpStream {
    let body = body.to_string();
    let mut connection = connect(server.api).unwrap();
    let request = format!(
        "POST {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{head}Idempotency-Key: {name}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.api,
        body.len()
    );
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

fn send(server: &Server, head: &str, path: &str, name: &str, body: &Value) -> Raw {
    Raw::read(&mut begin(server, head, path, name, body)).unwrap()
}

fn api_key(key: &str) -> String {
    format!("X-API-KEY: {key}\r\n")
}

fn is_replayed(raw: &Raw) -> bool {
    raw.head.contains("idempotent-replayed: true")
}

/// Lines of a stream, without those that chunks bring along.
fn lines(raw: &Raw) -> Vec<&str> {
    let is_own = |line: &&str| ["{", "event: ", "data: "].iter().any(|start| line.starts_with(start));
    raw.body.lines().filter(is_own).collect()
}

#[test]
fn a_restart_does_not_do_again_what_was_done() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let (key, head) = (server.key.clone(), api_key(&server.key));
    let code = json!({"code": "import os\nprint(os.urandom(8).hex())"});
    let requests = [
        ("/v1/run", code),
        ("/v1/sandboxes", json!({"metadata": {"a": "b"}})),
        ("/sandboxes", json!({"templateID": "base", "timeout": 300})),
        ("/v2/sandboxes", json!({"templateID": "base", "timeout": 300})),
    ];
    let send_all = |server: &Server| {
        requests
            .clone()
            .map(|(path, body)| send(server, &head, path, "k", &body))
    };
    let first = send_all(&server);
    drop(server);
    let server = Server::start(home.path(), &[]).unwrap();
    for (first, again) in first.iter().zip(send_all(&server)) {
        assert!(first.status < 300 && !is_replayed(first), "{first:?}");
        assert!(is_replayed(&again), "{again:?}");
        assert_eq!((first.status, &first.body), (again.status, &again.body));
    }
    let live = server.send_as(&key, "GET", "/v1/sandboxes?state=running,paused", None);
    assert_eq!(live.unwrap().json().unwrap()["sandboxes"], json!([]));
}

#[test]
fn a_request_that_a_killed_server_had_begun_is_not_begun_again() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let head = api_key(&server.key);
    let body = json!({"code": "import signal\nsignal.pause()"});
    let _waiting = begin(&server, &head, "/v1/run", "k", &body);
    eventually("the code runs", || {
        let listed = server.send("GET", "/v1/sandboxes?state=running", None).unwrap();
        listed.text().contains("exec_")
    })
    .unwrap();
    let early = send(&server, &head, "/v1/run", "k", &body);
    assert_eq!(early.status, 409, "{early:?}");
    assert!(early.head.contains("retry-after: 1"), "{early:?}");
    drop(server);
    let server = Server::start(home.path(), &[]).unwrap();
    let late = send(&server, &head, "/v1/run", "k", &body);
    assert_eq!(late.status, 409, "{late:?}");
    assert!(late.body.contains("idempotency_no_answer"), "{late:?}");
}

#[test]
fn code_in_a_sandbox_runs_once_per_key() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/run");
    let body = json!({"code": "n = globals().get('n', 0) + 1\nprint('number', n)"});
    let events = format!("{}Accept: text/event-stream\r\n", api_key(&server.key));
    let ways = [
        (api_key(&server.key), "plain", "number 1"),
        (events, "events", "number 2"),
    ];
    for (head, name, printed) in &ways {
        let first = send(&server, head, &path, name, &body);
        assert!(first.body.contains(printed) && !is_replayed(&first), "{first:?}");
        let again = send(&server, head, &path, name, &body);
        assert!(is_replayed(&again), "{again:?}");
        assert_eq!((first.status, lines(&first)), (again.status, lines(&again)));
    }
    let other = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{other}/run");
    let refused = send(&server, &ways[0].0, &path, "plain", &body);
    assert_eq!(refused.status, 422, "{refused:?}");
}

#[test]
fn clients_of_e2b_run_code_once_per_key() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = e2b::create(&server, &server.key, json!({})).unwrap();
    let head = format!(
        "E2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n",
        sandbox.id, sandbox.token
    );
    let body = json!({"code": "n = globals().get('n', 0) + 1\nprint('number', n)"});
    for (name, printed) in [("a", "number 1"), ("b", "number 2")] {
        let first = send(&server, &head, "/execute", name, &body);
        assert!(first.body.contains(printed) && !is_replayed(&first), "{first:?}");
        let again = send(&server, &head, "/execute", name, &body);
        assert!(is_replayed(&again), "{again:?}");
        assert_eq!((first.status, lines(&first)), (again.status, lines(&again)));
    }
    let refused = send(&server, &head, "/execute", "a", &json!({"code": "1"}));
    assert_eq!(refused.status, 422, "{refused:?}");
}

/// The sandbox allows one execution, which is under way: the stream of another one has begun when that is found. A language
/// that is not there is a refusal before any code.
#[test]
fn a_stream_that_is_refused_late_is_not_stored_unless_code_may_have_run() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let head = format!("{}Accept: text/event-stream\r\n", api_key(&server.key));
    let id = server.sandbox(&json!({"max_executions": 1})).unwrap();
    let path = format!("/v1/sandboxes/{id}/run");
    let mut runs = begin(
        &server,
        &head,
        &path,
        "runs",
        &json!({"code": "import signal\nsignal.pause()"}),
    );
    e2b::read_until(&mut runs, "event: started").unwrap();
    // Code may have run in a sandbox that ended, so this error is the answer of the repeat.
    for is_repeat in [false, true] {
        let refused = send(&server, &head, &path, "late", &json!({"code": "1"}));
        assert_eq!(refused.status, 200, "{refused:?}");
        assert!(
            refused.body.contains("event: error") && refused.body.contains("\"ended\""),
            "{refused:?}"
        );
        assert_eq!(is_replayed(&refused), is_repeat, "{refused:?}");
    }
    let sandbox = e2b::create(&server, &server.key, json!({})).unwrap();
    let head = format!(
        "E2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n",
        sandbox.id, sandbox.token
    );
    for _ in 0..2 {
        let refused = send(
            &server,
            &head,
            "/execute",
            "late",
            &json!({"code": "1", "language": "r"}),
        );
        assert!(refused.body.contains("ExecutionFailed"), "{refused:?}");
        assert!(!is_replayed(&refused), "{refused:?}");
    }
}
