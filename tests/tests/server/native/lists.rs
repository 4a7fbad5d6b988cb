//! Long lists of files: in pages for clients of the native API, in pieces for clients of E2B; never whole in the server.

use atoll_tests::e2b::{Raw, Sandbox, create};
use atoll_tests::server::{Answer, Server};
use serde_json::{Value, json};

/// Links whose names and targets are as long as a path can be, of characters that JSON writes as six bytes: 100 of them
/// are about 4 MB.
const LONG_LINKS: &str = r"
import os
os.makedirs('/home/user/links')
os.chdir('/home/user/links')
for _ in range(15):
    os.mkdir('\x01' * 240)
    os.chdir('\x01' * 240)
for n in range(300):
    os.symlink('/' + '\x01' * 4000, f'{n:03}')
";

struct Place {
    server: Server,
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let server = Server::start(home.path(), &[]).unwrap();
        Self { server, home }
    }

    fn run(&self, id: &str, code: &str) {
        let ran = self
            .server
            .json("POST", &format!("/v1/sandboxes/{id}/run"), &json!({ "code": code }))
            .unwrap();
        assert_eq!(ran.json().unwrap()["outcome"], "ok", "{}", ran.text());
    }

    fn list(&self, id: &str, query: &str) -> Answer {
        let path = format!("/v1/sandboxes/{id}/files/list?{query}");
        self.server.send("GET", &path, None).unwrap()
    }

    /// Every path of a list, and how many pages it came in.
    fn all(&self, id: &str, query: &str) -> (Vec<String>, usize) {
        let (mut paths, mut pages, mut after) = (Vec::new(), 0, String::new());
        loop {
            let page = self.list(id, &format!("{query}{after}"));
            assert!(page.body.len() < 5 << 20, "{}", page.body.len());
            let page = page.json().unwrap();
            let entries = page["entries"].as_array().unwrap();
            paths.extend(entries.iter().map(|one| one["path"].as_str().unwrap().to_owned()));
            pages += 1;
            match page["next"].as_str() {
                Some(next) => after = format!("&after={next}"),
                None => return (paths, pages),
            }
        }
    }
}

#[test]
fn a_long_list_comes_in_pages() {
    let place = Place::new();
    let id = place.server.sandbox(&json!({})).unwrap();
    place.run(
        &id,
        "import os\nos.makedirs('d/e')\nfor n in range(3_000): open(f'd/{n:05}', 'w').close()",
    );
    let whole = place.list(&id, "path=d&depth=2").json().unwrap();
    assert_eq!(
        (whole["entries"].as_array().unwrap().len(), &whole["next"]),
        (3_001, &Value::Null)
    );
    for (limit, expected) in [(3_001, 1), (3_000, 2), (1_001, 3)] {
        let (paths, pages) = place.all(&id, &format!("path=d&depth=2&limit={limit}"));
        assert_eq!((paths.len(), pages), (3_001, expected), "{limit}");
        assert!(paths.is_sorted());
    }
    let short = place.list(&id, "path=d/e").json().unwrap();
    assert_eq!((&short["entries"], &short["next"]), (&json!([]), &Value::Null));
    for query in [
        "path=d&limit=0",
        "path=d&limit=10001",
        "path=d&after=x",
        "path=d&after=2e2e",
    ] {
        assert_eq!(place.list(&id, query).code().unwrap(), "invalid_request", "{query}");
    }
}

#[test]
fn a_page_of_long_names_is_bounded_in_bytes() {
    let place = Place::new();
    let id = place.server.sandbox(&json!({})).unwrap();
    place.run(&id, LONG_LINKS);
    let (paths, pages) = place.all(&id, "path=links&depth=20");
    assert_eq!(paths.len(), 315);
    assert!(pages > 2, "{pages}");
}

#[test]
fn a_list_counts_for_the_bytes_of_the_day() {
    let place = Place::new();
    let key = place
        .server
        .new_key(&json!({"name": "n", "quotas": {"bytes_per_day": 200_000}}))
        .unwrap();
    let made = place
        .server
        .send_as(&key, "POST", "/v1/sandboxes", Some("{}"))
        .unwrap()
        .json()
        .unwrap();
    let id = made["id"].as_str().unwrap();
    let code = "import os\nos.mkdir('d')\nfor n in range(500): open(f'd/{n}', 'w').close()";
    place.run(id, code);
    let list = || {
        let path = format!("/v1/sandboxes/{id}/files/list?path=d");
        place.server.send_as(&key, "GET", &path, None).unwrap().status
    };
    assert_eq!(list(), 200);
    let later: Vec<u16> = (0..3).map(|_| list()).collect();
    assert_eq!(later[2], 429, "{later:?}");
}

/// The body of an answer whose chunks are put together.
fn whole(raw: &Raw) -> String {
    if !raw.head.contains("transfer-encoding: chunked") {
        return raw.body.clone();
    }
    let (mut rest, mut whole) = (raw.body.as_bytes(), Vec::new());
    loop {
        let end = rest.windows(2).position(|two| two == b"\r\n").unwrap();
        let length = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        if length == 0 {
            return String::from_utf8(whole).unwrap();
        }
        whole.extend_from_slice(&rest[end + 2..end + 2 + length]);
        rest = &rest[end + 4 + length..];
    }
}

fn peak_bytes(server: &Server) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<usize>().unwrap() << 10
}

fn list_dir(server: &Server, sandbox: &Sandbox, body: &Value) -> Raw {
    let path = "/filesystem.Filesystem/ListDir";
    sandbox.send(server, "POST", path, body.to_string().as_bytes()).unwrap()
}

#[test]
fn a_client_of_e2b_gets_a_long_list_whole_and_the_server_never_has_it() {
    let place = Place::new();
    let server = &place.server;
    let sandbox = create(server, &server.key, json!({})).unwrap();
    // Whatever the first requests need is there.
    place.run(&sandbox.id, LONG_LINKS);
    let before = peak_bytes(server);
    let raw = list_dir(server, &sandbox, &json!({"path": "links", "depth": 20}));
    assert_eq!(raw.status, 200);
    let text = whole(&raw);
    assert!(text.len() > 10 << 20, "{}", text.len());
    let listed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(listed["entries"].as_array().unwrap().len(), 315);
    let grown = peak_bytes(server).saturating_sub(before);
    assert!(grown < 24 << 20, "{grown}");
    for (path, word) in [("none", "not_found"), ("/etc/passwd", "invalid_argument")] {
        let refused = list_dir(server, &sandbox, &json!({ "path": path }));
        assert!(refused.body.contains(word), "{refused:?}");
    }
    let empty = list_dir(server, &sandbox, &json!({"path": "/tmp"}));
    assert!(whole(&empty).starts_with("{\"entries\":["), "{empty:?}");
    drop(place.home);
}
