//! Servers inside a sandbox that answer what nobody asked for.

use atoll_tests::e2b::create;
use atoll_tests::server::Server;
use serde_json::json;

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
    assert!(answer.body.contains("nobody had asked"), "{answer:?}");
}
