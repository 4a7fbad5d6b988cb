//! Requests that are wrong: each is refused with a sentence, a code of the list and the right status.

use atoll_tests::server::Server;
use serde_json::{Value, json};

fn check(server: &Server, path: &str, rows: &[(Value, &str)]) {
    for (body, words) in rows {
        let refused = server.json("POST", path, body).unwrap();
        assert_eq!(
            (refused.status, refused.code().unwrap().as_str()),
            (400, "invalid_request"),
            "{path} {body}"
        );
        assert!(refused.text().contains(words), "{path} {body}: {}", refused.text());
    }
}

#[test]
fn wrong_runs_and_sandboxes_are_refused_with_words() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-profile", "small"]).unwrap();
    check(
        &server,
        "/v1/run",
        &[
            (json!({}), "no code"),
            (json!({"code": " "}), "empty"),
            (json!({"code": 1}), "expected a string"),
            (json!({"code": "1", "cod": "2"}), "unknown field `cod`"),
            (json!({"code": "1", "language": "perl"}), "one of: python"),
            (json!({"code": "1", "language": "r"}), "not supported yet"),
            (json!({"code": "1", "tier": "steel"}), "unknown tier"),
            (json!({"code": "1", "profile": "huge"}), "unknown profile"),
            (json!({"code": "1", "profile": "data"}), "at most `small`"),
            (json!({"code": "1", "limits": {"memory_bytes": 1}}), "allowed 64 MiB"),
            (
                json!({"code": "1", "limits": {"memory_bytes": 1_u64 << 33}}),
                "at most 512 MiB",
            ),
            (json!({"code": "1", "limits": {"wall_ms": -1}}), "invalid value"),
            (json!({"code": "1", "limits": [1, 2]}), "expected an object"),
            (json!({"code": "1", "env": {"A=B": "c"}}), "environment"),
            (json!({"code": "1", "inputs": [["a", "b"]]}), "expected an object"),
            (
                json!({"code": "1", "inputs": [{"name": "a", "content": "!"}]}),
                "not valid base64",
            ),
            (
                json!({"code": "1", "inputs": [{"name": "../a", "content": ""}]}),
                "not a plain file name",
            ),
            (
                json!({"code": "1", "inputs": [{"name": "a", "content": ""}, {"name": "a", "content": ""}]}),
                "duplicate input name",
            ),
        ],
    );
    check(
        &server,
        "/v1/sandboxes",
        &[
            (json!({"idle_ms": 1}), "out of range"),
            (json!({"lifetime_ms": 86_400_001}), "lifetime too long"),
            (json!({"max_executions": 0}), "minimum 1"),
            (json!({"metadata": {"a": 1}}), "expected a string"),
            (json!({"metadata": {"a": "x".repeat(20_000)}}), "at most 16384"),
            (json!([]), "expected an object"),
        ],
    );
    let wall = server
        .json("POST", "/v1/run", &json!({"code": "1", "tier": "microvm"}))
        .unwrap();
    assert_eq!((wall.status, wall.code().unwrap().as_str()), (501, "no_wall"));
    let unknown = server
        .json("POST", "/v1/run", &json!({"code": "1", "template": "no"}))
        .unwrap();
    assert_eq!((unknown.status, unknown.code().unwrap().as_str()), (404, "not_found"));
    let all = server.send("GET", "/v1/sandboxes", None).unwrap().json().unwrap();
    assert_eq!(all["sandboxes"], json!([]), "nothing was made");
}

#[test]
fn wrong_work_in_a_sandbox_is_refused_with_words() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    check(
        &server,
        &path("/run"),
        &[
            (json!({}), "no code"),
            (
                json!({"code": "1", "language": "bash", "context_id": "x"}),
                "cannot be combined",
            ),
            (
                json!({"code": "1", "limits": {"memory_bytes": 1 << 30}}),
                "fixed when the sandbox is created",
            ),
            (json!({"code": "1", "limits": {"wall_ms": 1}}), "out of range"),
        ],
    );
    check(
        &server,
        &path("/contexts"),
        &[(json!({"language": "cobol"}), "unknown language")],
    );
    check(
        &server,
        &path("/extend"),
        &[(json!({}), "missing field `ms`"), (json!({"ms": 1}), "out of range")],
    );
    check(
        &server,
        &path("/files/move"),
        &[(json!({"from": "a"}), "missing field `to`")],
    );
    for missing in [
        json!({"code": "1", "context_id": "x"}),
        json!({"code": "1", "context_id": "ctx_aaaaaaaaaaaaaaaaaaaaaaaaaa"}),
    ] {
        assert_eq!(
            server.json("POST", &path("/run"), &missing).unwrap().code().unwrap(),
            "not_found"
        );
    }
    assert_eq!(
        server
            .json("POST", &path("/contexts"), &json!({"cwd": "/nowhere"}))
            .unwrap()
            .code()
            .unwrap(),
        "not_found"
    );
    for query in ["?limit=0", "?limit=101", "?state=gone", "?after=x", "?pages=1"] {
        let refused = server.send("GET", &format!("/v1/sandboxes{query}"), None).unwrap();
        assert_eq!(refused.code().unwrap(), "invalid_request", "{query}");
    }
}
