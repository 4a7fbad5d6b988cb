//! Bodies that are too large, in the words of the dialect that was spoken.

use atoll_tests::e2b::create;
use atoll_tests::server::Server;
use serde_json::{Value, json};

#[test]
fn a_body_over_the_limit_is_refused_in_the_words_of_the_dialect() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-body-bytes", "20000"]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let long = format!("{{\"code\": \"{}\"}}", "x".repeat(30_000));
    let told = server.send("POST", "/sandboxes", Some(&long)).unwrap();
    let body = told.json().unwrap();
    assert_eq!((told.status, &body["code"]), (413, &json!(413)), "{body}");
    assert!(body["message"].as_str().unwrap().starts_with("the body is larger than"));
    // Without a length in the head, too.
    let chunked = |path: &str| {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n\
             Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n",
            sandbox.id,
            sandbox.token,
            long.len()
        );
        server.raw(head.as_bytes()).unwrap()
    };
    for path in ["/filesystem.Filesystem/Stat", "/process.Process/Start"] {
        let refused = chunked(path);
        let body: Value = refused.json().unwrap();
        assert_eq!(
            (refused.status, &body["code"]),
            (413, &json!("resource_exhausted")),
            "{path}: {body}"
        );
    }
    let refused = chunked("/execute");
    assert_eq!(refused.status, 413);
    assert!(
        refused.text().starts_with("the body is larger than"),
        "{}",
        refused.text()
    );
    assert_eq!(chunked("/contexts").status, 413);
}
