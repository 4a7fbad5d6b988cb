//! Servers inside a sandbox: each way to them, and those that answer what nobody asked for, take nothing, or never end.

use atoll_tests::e2b::{Raw, create, read_until};
use atoll_tests::process::eventually;
use atoll_tests::server::{Server, connect};
use serde_json::json;
use std::io::Write;

/// A server that answers with the path and the prefix it is asked for, and with capitals after an upgrade.
const TELL: &str = r#"
import http.server, threading
class Tell(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers['Upgrade']:
            self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n')
            self.wfile.write(self.rfile.readline().upper())
            return
        body = f"{self.path} {self.headers['X-Forwarded-Prefix']}".encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.send_header('Set-Cookie', 'a=1; Path=/b')
        self.end_headers()
        self.wfile.write(body)
threading.Thread(target=http.server.HTTPServer(('127.0.0.1', 8000), Tell).serve_forever, daemon=True).start()
"#;

/// Asks the address of the API, with these lines of a head besides.
fn ask(server: &Server, path: &str, more: &str) -> anyhow::Result<Raw> {
    let mut connection = connect(server.api)?;
    let head = format!(
        "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{more}\r\n",
        server.api
    );
    connection.write_all(head.as_bytes())?;
    Raw::read(&mut connection)
}

#[test]
fn a_server_inside_is_reached_by_headers_and_by_path() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    assert_eq!(sandbox.run(&server, TELL).unwrap().status, 200);
    let id = &sandbox.id;
    let named = format!("E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: 8000\r\n");
    let answer = ask(&server, "/a?b", &named).unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "/a?b None"));
    let prefix = format!("/sandboxes/{id}/ports/8000");
    let answer = ask(&server, &format!("{prefix}/a?b"), "").unwrap();
    assert_eq!((answer.status, answer.body), (200, format!("/a?b {prefix}")));
    // Its cookies and its pages are apart from those of other servers at the same address.
    assert!(!answer.head.contains("set-cookie"), "{}", answer.head);
    assert!(
        answer.head.contains("content-security-policy: sandbox "),
        "{}",
        answer.head
    );
    let closed = ask(&server, &format!("/sandboxes/{id}/ports/8001/"), "").unwrap();
    assert_eq!(closed.status, 502, "{closed:?}");
    let mut connection = connect(server.api).unwrap();
    let head = format!(
        "GET {prefix}/up HTTP/1.1\r\nHost: {}\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n",
        server.api
    );
    connection.write_all(head.as_bytes()).unwrap();
    let head = read_until(&mut connection, "\r\n\r\n").unwrap();
    assert!(head.contains(" 101 "), "{head}");
    connection.write_all(b"hello\n").unwrap();
    read_until(&mut connection, "HELLO").unwrap();
}

#[test]
fn a_private_sandbox_wants_its_token_by_headers_and_by_path_too() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let private = json!({"network": {"allowPublicTraffic": false}});
    let sandbox = create(&server, &server.key, private).unwrap();
    assert_eq!(sandbox.run(&server, TELL).unwrap().status, 200);
    let id = &sandbox.id;
    let named = format!("E2b-Sandbox-Id: {id}\r\nE2b-Sandbox-Port: 8000\r\n");
    for (path, headers) in [("/", named.as_str()), (&*format!("/sandboxes/{id}/ports/8000/"), "")] {
        // A key of the API opens no server inside.
        let key = format!("X-API-KEY: {}\r\n", server.key);
        for no_token in ["", "X-Access-Token: 0\r\n", &key] {
            let refused = ask(&server, path, &format!("{headers}{no_token}")).unwrap();
            assert_eq!(refused.status, 403, "{path}: {refused:?}");
        }
        let token = format!("X-Access-Token: {}\r\n", sandbox.token);
        let answer = ask(&server, path, &format!("{headers}{token}")).unwrap();
        assert_eq!(answer.status, 200, "{path}: {answer:?}");
    }
}

#[test]
fn a_server_inside_that_changes_the_protocol_unasked_is_a_broken_one() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let code = r"
import socket, threading
listener = socket.create_server(('127.0.0.1', 8000))
def serve():
    while True:
        one, _ = listener.accept()
        one.recv(4096)
        one.sendall(b'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nraw')
threading.Thread(target=serve, daemon=True).start()
";
    sandbox.run(&server, code).unwrap();
    let answer = sandbox.port(&server, 8000, "").unwrap();
    assert_eq!(answer.status, 502, "{answer:?}");
    assert!(answer.body.contains("unexpected protocol upgrade"), "{answer:?}");
}

fn descriptors(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", server.pid())).map_or(usize::MAX, Iterator::count)
}

#[test]
fn connections_to_a_server_that_takes_nothing_go_with_their_clients() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--read-timeout", "8s"]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let code = "import socket\nlistener = socket.create_server(('127.0.0.1', 8000), backlog=64)\nlistener.setblocking(False)\ntaken = []";
    sandbox.run(&server, code).unwrap();
    let before = descriptors(&server);
    let mut clients = Vec::new();
    for _ in 0..8 {
        let mut client = connect(server.api).unwrap();
        let id = &sandbox.id;
        let head = format!("POST / HTTP/1.1\r\nHost: 8000-{id}.sbx.localhost\r\nContent-Length: 100000000\r\n\r\n");
        client.write_all(head.as_bytes()).unwrap();
        client.set_nonblocking(true).unwrap();
        while client.write(&[0; 65_536]).is_ok() {}
        clients.push(client);
    }
    // Inside they are accepted, and nothing is read from them.
    let accept =
        "try:\n    while True: taken.append(listener.accept())\nexcept BlockingIOError: print('taken', len(taken))";
    eventually("all are passed on", || {
        sandbox.run(&server, accept).unwrap().body.contains("taken 8")
    })
    .unwrap();
    drop(clients);
    eventually("nothing is kept", || descriptors(&server) <= before + 2).unwrap();
}

#[test]
fn a_stream_of_a_port_is_use_of_the_sandbox() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let code = "import socket, threading, time\nlistener = socket.create_server(('127.0.0.1', 8000))\n\
                def serve():\n    one, _ = listener.accept()\n    one.recv(4096)\n    one.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\n')\n\
                \x20   while True:\n        one.sendall(b'tick')\n        time.sleep(0.1)\n\
                threading.Thread(target=serve, daemon=True).start()";
    let run = server.json("POST", &format!("/v1/sandboxes/{id}/run"), &json!({"code": code}));
    assert_eq!(run.unwrap().status, 200);
    let mut client = connect(server.api).unwrap();
    let head = format!("GET / HTTP/1.1\r\nHost: 8000-{id}.sbx.localhost\r\n\r\n");
    client.write_all(head.as_bytes()).unwrap();
    read_until(&mut client, "tick").unwrap();
    // One that has as little time and that nobody uses ends meanwhile.
    let timeout = format!("/sandboxes/{id}/timeout");
    assert_eq!(
        server.send("POST", &timeout, Some("{\"timeout\":1}")).unwrap().status,
        204
    );
    let idle = server.sandbox(&json!({"idle_ms": 1500})).unwrap();
    let state = |id: &str| {
        let shown = server.send("GET", &format!("/v1/sandboxes/{id}"), None).unwrap();
        shown.json().unwrap()["state"].as_str().unwrap_or_default().to_owned()
    };
    eventually("the other one ends", || state(&idle) == "ended").unwrap();
    assert_eq!(state(&id), "running");
}
