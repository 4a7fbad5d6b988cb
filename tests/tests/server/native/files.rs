//! Files of a sandbox over HTTP.

use atoll_tests::server::{Answer, Server};
use serde_json::{Value, json};

struct Place {
    server: Server,
    id: String,
    _home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = Server::start(home.path(), &[]).unwrap();
        let id = server.sandbox(&json!({})).unwrap();
        Self {
            server,
            id,
            _home: home,
        }
    }

    fn path(&self, rest: &str) -> String {
        format!("/v1/sandboxes/{}/files{rest}", self.id)
    }

    fn get(&self, rest: &str) -> Answer {
        self.server.send("GET", &self.path(rest), None).unwrap()
    }

    fn post(&self, rest: &str, body: &Value) -> Answer {
        self.server.json("POST", &self.path(rest), body).unwrap()
    }

    fn put(&self, rest: &str, bytes: &[u8]) -> Answer {
        self.server
            .bytes("PUT", &self.path(rest), "application/octet-stream", bytes)
            .unwrap()
    }
}

#[test]
fn files_go_in_and_out_and_about() {
    let place = Place::new();
    let bytes: Vec<u8> = (0..=255u8).cycle().take(5 << 20).collect();
    let written = place.put("?path=dir/a.bin", &bytes);
    assert_eq!(written.status, 201, "{}", written.text());
    let written = written.json().unwrap();
    assert_eq!(
        (&written["path"], &written["size"]),
        (&json!("/home/user/dir/a.bin"), &json!(5 << 20))
    );
    assert_eq!(place.get("?path=/home/user/dir/a.bin").body, bytes);
    assert_eq!(place.post("/directory", &json!({"path": "/tmp/new/deep"})).status, 201);
    let moved = place.post("/move", &json!({"from": "dir/a.bin", "to": "/tmp/new/b.bin"}));
    assert_eq!(moved.json().unwrap()["path"], "/tmp/new/b.bin");
    let listed = place.get("/list?path=/tmp/new&depth=2").json().unwrap();
    let paths: Vec<&Value> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["path"])
        .collect();
    assert_eq!(paths, ["/tmp/new/b.bin", "/tmp/new/deep"]);
    assert_eq!(place.get("/stat?path=/tmp/new").json().unwrap()["kind"], "directory");
    let gone = place
        .server
        .send("DELETE", &place.path("?path=/tmp/new"), None)
        .unwrap();
    assert_eq!(gone.status, 204);
    assert_eq!(place.get("/stat?path=/tmp/new").code().unwrap(), "not_found");
}

#[test]
fn strange_files_and_names_are_refused() {
    let place = Place::new();
    for (path, status) in [
        ("/nothing", 404),
        ("/tmp", 400),
        ("/dev/null", 400),
        ("/etc/shadow", 404),
        ("", 400),
        ("a%00b", 400),
    ] {
        let refused = place.get(&format!("?path={path}"));
        assert_eq!(refused.status, status, "{path}: {}", refused.text());
        assert!(!refused.code().unwrap().is_empty());
    }
    for (rest, words) in [
        ("", "missing field `path`"),
        ("?path=a&extra=1", "unknown field `extra`"),
        ("/list?path=/tmp&depth=0", "out of range"),
        ("/list?path=/tmp&depth=x", "invalid query string"),
    ] {
        let refused = place.get(rest);
        assert_eq!(refused.code().unwrap(), "invalid_request", "{rest}");
        assert!(refused.text().contains(words), "{rest}: {}", refused.text());
    }
    assert!((400..500).contains(&place.put("?path=/etc/passwd", b"x").status));
    assert!((400..500).contains(&place.put("?path=/opt/atoll/x", b"x").status));
    let full = place.put("?path=big", &vec![0; 101 << 20]);
    assert_eq!(full.code().unwrap(), "no_room");
    assert!(
        full.text().contains("scratch disk is limited to 100 MiB and"),
        "{}",
        full.text()
    );
    assert_eq!(place.get("/stat?path=big").code().unwrap(), "not_found");
}

#[test]
fn an_upload_that_breaks_off_leaves_nothing() {
    let place = Place::new();
    let head = format!(
        "PUT {} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\nContent-Length: 100\r\nConnection: close\r\n\r\nhalf",
        place.path("?path=half"),
        place.server.key
    );
    let mut connection = atoll_tests::server::connect(place.server.api).unwrap();
    std::io::Write::write_all(&mut connection, head.as_bytes()).unwrap();
    connection.shutdown(std::net::Shutdown::Write).unwrap();
    std::io::Read::read_to_end(&mut connection, &mut Vec::new()).ok();
    let listed = place.get("/list?path=/home/user").json().unwrap();
    let names: Vec<&Value> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["path"])
        .collect();
    assert!(!names.contains(&&json!("/home/user/half")), "{names:?}");
}
