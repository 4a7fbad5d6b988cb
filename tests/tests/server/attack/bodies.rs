//! Bodies that are too large or not what they should be, in the words of the dialect that was spoken.

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
    assert!(
        body["message"]
            .as_str()
            .unwrap()
            .starts_with("the request body exceeds the limit of")
    );
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
        refused.text().starts_with("the request body exceeds the limit of"),
        "{}",
        refused.text()
    );
    assert_eq!(chunked("/contexts").status, 413);
}

/// Without names a value means nothing, even if it stands where one with a name would.
#[test]
fn a_list_of_values_is_no_object() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    for body in [
        json!(["base", 60]),
        json!({"templateID": "base", "network": [null, null]}),
        json!({"templateID": "base", "autoResume": [true, "any"]}),
    ] {
        let refused = server.send("POST", "/sandboxes", Some(&body.to_string())).unwrap();
        assert_eq!(refused.status, 400, "{body}");
        assert!(refused.text().contains("expected an object"), "{}", refused.text());
    }
    for (path, body) in [
        ("/execute", json!(["1", null, null, null])),
        ("/contexts", json!(["python", "/"])),
        ("/filesystem.Filesystem/Stat", json!(["/", 1, "", "", false, false, ""])),
        (
            "/process.Process/SendSignal",
            json!({"process": [1, null], "signal": 9}),
        ),
    ] {
        let refused = sandbox
            .send(&server, "POST", path, body.to_string().as_bytes())
            .unwrap();
        assert_eq!(refused.status, 400, "{path}: {refused:?}");
        assert!(refused.body.contains("expected an object"), "{path}: {refused:?}");
    }
    let start = json!({"process": ["/bin/echo", [], {}, null]});
    let refused = sandbox.call(&server, "/process.Process/Start", &start).unwrap();
    assert!(refused.body.contains("expected an object"), "{refused:?}");
}

/// A tag is kept as long as its command is known, in the server's own memory.
#[test]
fn the_tag_of_a_command_is_short() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    let start = |length: usize| {
        let message = json!({"process": {"cmd": "/bin/true", "args": []}, "tag": "t".repeat(length)});
        sandbox.call(&server, "/process.Process/Start", &message).unwrap()
    };
    let (short, long) = (start(1_024), start(1_025));
    assert!(
        !short.body.contains("at most 1024 bytes") && short.body.contains("pid"),
        "{short:?}"
    );
    assert!(long.body.contains("at most 1024 bytes"), "{long:?}");
}
