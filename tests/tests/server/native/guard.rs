//! The output guard over HTTP: results of both dialects, and files as downloads.

use atoll_tests::e2b;
use atoll_tests::server::{Server, connect};
use serde_json::{Value, json};
use std::io::Write;

const HOSTILE: &str = "from IPython.display import display, HTML\n\
    display({'text/plain': 'p', 'text/html': '<b>b</b><script>x()</script>', 'application/javascript': 'x()'}, raw=True)";

fn html(answer: &Value) -> &Value {
    &answer["results"][0]["data"]["text/html"]
}

#[test]
fn results_are_cleaned_unless_raw_ones_are_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let run = |body: Value| server.json("POST", "/v1/run", &body).unwrap().json().unwrap();
    let cleaned = run(json!({"code": HOSTILE}));
    assert_eq!(html(&cleaned), "<b>b</b>", "{cleaned}");
    assert_eq!(cleaned["results"][0]["cleaned"], json!(["text/html"]));
    assert_eq!(cleaned["results"][0]["left_out"][0]["form"], "application/javascript");
    assert_eq!(
        cleaned["provenance"],
        json!({"source": "sandbox", "trusted": false, "tier": "jail", "execution_id": cleaned["execution_id"]})
    );
    let raw = run(json!({"code": HOSTILE, "raw_results": true}));
    assert_eq!(html(&raw), "<b>b</b><script>x()</script>");
    let id = server.sandbox(&json!({})).unwrap();
    let execute = |raw: bool| {
        let body = json!({"code": HOSTILE, "raw_results": raw});
        server
            .json("POST", &format!("/v1/sandboxes/{id}/run"), &body)
            .unwrap()
            .json()
            .unwrap()
    };
    assert_eq!(html(&execute(false)), "<b>b</b>");
    assert_eq!(html(&execute(true)), "<b>b</b><script>x()</script>");
}

#[test]
fn an_operator_can_have_raw_results_for_all() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--raw-results"]).unwrap();
    let answer = server.json("POST", "/v1/run", &json!({"code": HOSTILE})).unwrap();
    assert_eq!(html(&answer.json().unwrap()), "<b>b</b><script>x()</script>");
}

#[test]
fn a_file_is_something_to_save_in_both_dialects() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/files?path=");
    let written = server.bytes(
        "PUT",
        &format!("{path}p%22%0Age.html"),
        "application/octet-stream",
        b"<script>x()</script>",
    );
    assert_eq!(written.unwrap().status, 201);
    let native = server.send("GET", &format!("{path}p%22%0Age.html"), None).unwrap();
    let sandbox = e2b::create(&server, &server.key, json!({})).unwrap();
    let made = sandbox
        .run(&server, "open('p\"\\nge.html', 'w').write('<script>x()</script>')")
        .unwrap();
    assert_eq!(made.status, 200);
    let theirs = sandbox.send(&server, "GET", "/files?path=p%22%0Age.html", b"").unwrap();
    for header in [
        (
            "content-disposition",
            "attachment; filename=\"p__ge.html\"; filename*=UTF-8''p%22%0Age.html",
        ),
        ("content-security-policy", "sandbox; default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("content-type", "application/octet-stream"),
    ] {
        assert_eq!(native.header(header.0), Some(header.1));
        assert!(
            theirs
                .head
                .contains(&format!("{}: {}", header.0, header.1).to_ascii_lowercase()),
            "{}",
            theirs.head
        );
    }
}

#[test]
fn results_of_the_other_dialect_are_cleaned_unless_its_sandbox_says_otherwise() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let plain = e2b::create(&server, &server.key, json!({})).unwrap();
    let said = plain.run(&server, HOSTILE).unwrap().body;
    assert!(
        said.contains(r#""html":"<b>b</b>""#) && !said.contains(r#""javascript""#),
        "{said}"
    );
    assert!(
        said.contains("some result formats were omitted: application/javascript"),
        "{said}"
    );
    let raw = e2b::create(&server, &server.key, json!({"metadata": {"atoll.raw_results": "true"}})).unwrap();
    let said = raw.run(&server, HOSTILE).unwrap().body;
    assert!(
        said.contains(r#""html":"<b>b</b><script>x()</script>""#) && said.contains(r#""javascript":"x()""#),
        "{said}"
    );
}

/// A body without the lengths of its chunks.
fn joined(mut body: &[u8]) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(end) = body.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(std::str::from_utf8(&body[..end]).unwrap(), 16).unwrap();
        let chunk = &body[end + 2..];
        all.extend_from_slice(&chunk[..length]);
        body = &chunk[length + 2..];
    }
    all
}

/// A sandbox with this file, and the path of the file over HTTP.
fn sandbox_with(server: &Server, name: &str, content: &[u8]) -> String {
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/files?path={name}");
    let written = server.bytes("PUT", &path, "application/octet-stream", content);
    assert_eq!(written.unwrap().status, 201);
    path
}

#[test]
fn csv_for_a_spreadsheet_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    // Several pieces, cut in the middle of cells.
    let rows = "x,=1+1,-1.5\n".repeat(400_000);
    let path = sandbox_with(&server, "a.csv", rows.as_bytes());
    for asked in ["", "&spreadsheet=false"] {
        let answer = server.send("GET", &format!("{path}{asked}"), None).unwrap();
        assert!(answer.body == rows.as_bytes());
    }
    let mut connection = connect(server.api).unwrap();
    let head = format!(
        "GET {path}&spreadsheet=true HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nX-API-KEY: {}\r\n\r\n",
        server.api, server.key
    );
    connection.write_all(head.as_bytes()).unwrap();
    let safe = e2b::Raw::read(&mut connection).unwrap();
    assert_eq!(safe.status, 200);
    assert!(
        safe.head.contains("content-disposition: attachment") && !safe.head.contains("content-length"),
        "{}",
        safe.head
    );
    let wanted = rows.replace("=1+1", "'=1+1");
    assert!(joined(safe.body.as_bytes()) == wanted.as_bytes());
}

#[test]
fn what_is_no_csv_is_not_sent_to_a_spreadsheet() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    for (name, content, words) in [
        ("a.html", &b"=1"[..], "a name ending in .csv or .tsv"),
        ("a.csv", b"\xff\xfe=\x001\x00", "requires a text file"),
        ("b.csv", b"PK\x03\x04\x14\0", "requires a text file"),
    ] {
        let path = sandbox_with(&server, name, content);
        let refused = server.send("GET", &format!("{path}&spreadsheet=true"), None).unwrap();
        assert_eq!(refused.status, 400, "{}", refused.text());
        assert_eq!(refused.code().unwrap(), "invalid_request");
        assert!(refused.text().contains(words), "{}", refused.text());
        assert_eq!(server.send("GET", &path, None).unwrap().body, content, "{name}");
    }
}
