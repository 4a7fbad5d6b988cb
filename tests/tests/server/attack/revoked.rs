//! A revoked key: what it is just doing ends, and so do the tokens that it was given.

use atoll_tests::e2b::{create, key_of, read_until};
use atoll_tests::process::eventually;
use atoll_tests::run_command;
use atoll_tests::server::{Server, connect, is_closed};
use serde_json::json;
use std::io::Write;

#[test]
fn a_revoked_key_loses_its_streams_and_tokens_and_the_tenant_keeps_its_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let (leaked, id) = key_of(&server, "team", &[]).unwrap();
    let (kept, _) = key_of(&server, "team", &[]).unwrap();
    let sandbox = create(&server, &leaked, json!({})).unwrap();
    sandbox.run(&server, "x = 41").unwrap();
    // Longer than a connection of the tests waits: if the stream were not cut, the read would fail.
    let code = "import time\nprint('begun', flush=True)\ntime.sleep(600)";
    let mut running = sandbox.begin_code(&server, code).unwrap();
    read_until(&mut running, "begun").unwrap();
    let revoked = run_command(server.atoll().args(["keys", "revoke", &id])).unwrap();
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert!(is_closed(&mut running), "the stream goes on");
    eventually("the token is refused", || {
        sandbox
            .send(&server, "GET", "/contexts", b"")
            .is_ok_and(|answer| answer.status == 401)
    })
    .unwrap();
    let connect = format!("/sandboxes/{}/connect", sandbox.id);
    let refused = server
        .send_as(&leaked, "POST", &connect, Some("{\"timeout\":60}"))
        .unwrap();
    assert_eq!(refused.status, 401);
    let taken = server
        .send_as(&kept, "POST", &connect, Some("{\"timeout\":60}"))
        .unwrap();
    assert_eq!(taken.status, 200, "{}", taken.text());
    let goes_on = sandbox.run(&server, "print(x + 1)").unwrap();
    assert!(goes_on.status == 200 && goes_on.body.contains("42"), "{goes_on:?}");
}

/// A server that says its own name to everybody.
const SERVE: &str = r"
import http.server, threading
class Hello(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header('Content-Length', '6')
        self.end_headers()
        self.wfile.write(b'inside')
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', 8000), Hello).serve_forever, daemon=True).start()
";

#[test]
fn ports_of_a_revoked_keys_sandbox_are_closed_and_do_not_wake_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let (leaked, id) = key_of(&server, "team", &[]).unwrap();
    let (kept, _) = key_of(&server, "team", &[]).unwrap();
    let awake = create(&server, &leaked, json!({})).unwrap();
    let asleep = create(&server, &leaked, json!({"autoResume": {"enabled": true}})).unwrap();
    let pause = format!("/sandboxes/{}/pause", asleep.id);
    for sandbox in [&awake, &asleep] {
        sandbox.run(&server, SERVE).unwrap();
    }
    // Both are reached, and the paused one is woken, while the key is valid.
    assert_eq!(server.send_as(&kept, "POST", &pause, None).unwrap().status, 204);
    for sandbox in [&awake, &asleep] {
        let reached = sandbox.port(&server, 8000, "").unwrap();
        assert_eq!((reached.status, reached.body.as_str()), (200, "inside"), "{reached:?}");
    }
    assert_eq!(server.send_as(&kept, "POST", &pause, None).unwrap().status, 204);
    let revoked = run_command(server.atoll().args(["keys", "revoke", &id])).unwrap();
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    eventually("the port is closed", || {
        awake.port(&server, 8000, "").is_ok_and(|answer| answer.status == 403)
    })
    .unwrap();
    let refused = asleep.port(&server, 8000, "").unwrap();
    assert_eq!(refused.status, 502, "{refused:?}");
    let refused = asleep.run(&server, "1").unwrap();
    assert!(refused.status >= 400, "{refused:?}");
    let shown = server.send_as(&kept, "GET", &format!("/sandboxes/{}", asleep.id), None);
    assert_eq!(shown.unwrap().json().unwrap()["state"], "paused");
}

#[test]
fn a_stream_of_a_port_ends_with_the_key() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let (leaked, id) = key_of(&server, "team", &[]).unwrap();
    let sandbox = create(&server, &leaked, json!({})).unwrap();
    let endless = SERVE
        .replace("self.send_header('Content-Length', '6')", "pass")
        .replace(
            "self.wfile.write(b'inside')",
            "self.wfile.write(b'inside'); threading.Event().wait()",
        );
    sandbox.run(&server, &endless).unwrap();
    let mut client = connect(server.api).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: 8000-{}.sbx.localhost\r\n\r\n", sandbox.id);
    client.write_all(head.as_bytes()).unwrap();
    read_until(&mut client, "inside").unwrap();
    let revoked = run_command(server.atoll().args(["keys", "revoke", &id])).unwrap();
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert!(is_closed(&mut client), "the stream goes on");
}
