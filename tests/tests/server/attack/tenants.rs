//! One tenant's key or token on another's sandbox: the same answer as for a sandbox that never was.

use atoll_tests::e2b::{Sandbox, create, key_of};
use atoll_tests::server::Server;
use serde_json::json;

/// Every verb of the control API that names a sandbox.
const VERBS: [(&str, &str, Option<&str>); 10] = [
    ("GET", "", None),
    ("DELETE", "", None),
    ("POST", "/connect", Some("{\"timeout\":60}")),
    ("POST", "/resume", Some("{\"timeout\":60}")),
    ("POST", "/timeout", Some("{\"timeout\":60}")),
    ("POST", "/pause", None),
    ("POST", "/fork", Some("{}")),
    ("POST", "/snapshots", Some("{}")),
    ("GET", "/metrics", None),
    ("PUT", "/network", Some("{}")),
];

#[test]
fn a_foreign_sandbox_is_answered_as_one_that_never_was() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let theirs = create(&server, &server.key, json!({})).unwrap();
    let (key, _) = key_of(&server, "other", &[]).unwrap();
    let never = format!("sbx{}", "a".repeat(theirs.id.len() - 3));
    for (method, path, body) in VERBS {
        let ask = |id: &str| {
            let answer = server.send_as(&key, method, &format!("/sandboxes/{id}{path}"), body);
            let answer = answer.unwrap();
            (answer.status, answer.text().replace(id, "<id>"))
        };
        let foreign = ask(&theirs.id);
        assert_eq!(foreign, ask(&never), "{method} {path}");
        assert!((400..500).contains(&foreign.0), "{method} {path}: {foreign:?}");
    }
    let own = server.send("GET", &format!("/sandboxes/{}", theirs.id), None).unwrap();
    assert_eq!(own.status, 200, "it is there for its owner, after all of that");
}

#[test]
fn lists_and_numbers_are_of_the_own_tenant_only() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let theirs = create(&server, &server.key, json!({"metadata": {"note": "private"}})).unwrap();
    let (key, _) = key_of(&server, "other", &[]).unwrap();
    for path in ["/v2/sandboxes", "/sandboxes", "/v2/sandboxes?metadata=note%3Dprivate"] {
        let foreign = server.send_as(&key, "GET", path, None).unwrap();
        assert!(!foreign.text().contains(&theirs.id), "{path}: {}", foreign.text());
        let own = server.send("GET", path, None).unwrap();
        assert!(own.text().contains(&theirs.id), "{path}: {}", own.text());
    }
}

#[test]
fn a_token_opens_its_own_sandbox_only() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let one = create(&server, &server.key, json!({})).unwrap();
    let two = create(&server, &server.key, json!({})).unwrap();
    assert_ne!((&one.id, &one.token), (&two.id, &two.token));
    let crossed = Sandbox {
        token: two.token.clone(),
        ..one.clone()
    };
    let keyed = Sandbox {
        token: server.key.clone(),
        ..one.clone()
    };
    let bare = Sandbox {
        token: String::new(),
        ..one.clone()
    };
    let doors = [
        ("POST", "/execute", "{\"code\":\"1\"}"),
        ("GET", "/contexts", ""),
        ("GET", "/files?path=/etc/hostname", ""),
        ("POST", "/filesystem.Filesystem/Stat", "{\"path\":\"/etc\"}"),
        ("POST", "/process.Process/List", "{}"),
    ];
    for (method, path, body) in doors {
        for wrong in [&crossed, &keyed, &bare] {
            let refused = wrong.send(&server, method, path, body.as_bytes()).unwrap();
            assert_eq!(refused.status, 401, "{path}: {refused:?}");
        }
        let right = one.send(&server, method, path, body.as_bytes()).unwrap();
        assert_eq!(right.status, 200, "{path}: {right:?}");
    }
}

#[test]
fn a_key_that_may_only_read_gets_no_token_that_runs_code() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let (runs, _) = key_of(&server, "team", &["--scope", "run,read"]).unwrap();
    let (reads, _) = key_of(&server, "team", &["--scope", "read"]).unwrap();
    let sandbox = create(&server, &runs, json!({})).unwrap();
    let shown = |key: &str| {
        let answer = server.send_as(key, "GET", &format!("/sandboxes/{}", sandbox.id), None);
        answer.unwrap().json().unwrap()
    };
    assert_eq!(shown(&runs)["envdAccessToken"], json!(sandbox.token));
    let seen = shown(&reads);
    assert_eq!(seen["sandboxID"], json!(sandbox.id));
    assert!(!seen.to_string().contains(&sandbox.token), "{seen}");
}
