//! The output guard over HTTP: results of both dialects, and files as downloads.

use atoll_tests::e2b;
use atoll_tests::server::Server;
use serde_json::{Value, json};

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
        said.contains("forms of results were left out: application/javascript"),
        "{said}"
    );
    let raw = e2b::create(&server, &server.key, json!({"metadata": {"atoll.raw_results": "true"}})).unwrap();
    let said = raw.run(&server, HOSTILE).unwrap().body;
    assert!(
        said.contains(r#""html":"<b>b</b><script>x()</script>""#) && said.contains(r#""javascript":"x()""#),
        "{said}"
    );
}
