//! `/v1/run`: the same answer as `atoll run --json`, from JSON and from a form.

use atoll_core::Outcome;
use atoll_core::execution::Execution;
use atoll_tests::server::{Answer, Server};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const CODE: &str = "import os\nprint(open('/data/input/a.txt').read(), os.environ['WHO'])\n\
                    os.write(2, b'warned\\n')\nopen('/data/output/out.bin', 'wb').write(bytes(range(256)) * 8)\n6 * 7";

fn execution(answer: &Answer) -> Execution {
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_value(answer.json().unwrap()).unwrap_or_else(|error| panic!("{error}: {}", answer.text()))
}

/// What must be the same wherever it ran.
fn compared(mut execution: Execution) -> Value {
    execution.files.iter_mut().for_each(|file| {
        file.saved = None;
        file.content = None;
    });
    let mut value = serde_json::to_value(execution).unwrap();
    for personal in [
        "execution_id",
        "sandbox_id",
        "context_id",
        "usage",
        "receipt",
        "provenance",
    ] {
        value.as_object_mut().unwrap().remove(personal).unwrap();
    }
    value
}

#[test]
fn a_run_answers_what_atoll_run_prints() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let file = home.path().join("a.txt");
    std::fs::write(&file, "héllo").unwrap();
    let request = json!({
        "code": CODE, "env": {"WHO": "me"},
        "inputs": [{"name": "a.txt", "content": STANDARD.encode("héllo")}],
    });
    let ran = execution(&server.json("POST", "/v1/run", &request).unwrap());
    let path = file.to_str().unwrap();
    let local = atoll_tests::run_json(&["-c", CODE, "--template", "python-min", "--env", "WHO=me", "--in", path]);
    assert_eq!(ran.outcome, Outcome::Ok);
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("héllo me\n", "warned\n"));
    let content = STANDARD.decode(ran.files[0].content.as_ref().unwrap()).unwrap();
    assert_eq!(content, (0..=255u8).cycle().take(2048).collect::<Vec<_>>());
    assert_eq!(compared(ran), compared(local.unwrap()));
    let left: Vec<_> = std::fs::read_dir(home.path().join("requests")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_form_has_the_request_the_code_and_files_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let big = "x".repeat(3 << 20);
    let form = format!(
        "--B\r\nContent-Disposition: form-data; name=\"file\"; filename=\"big.txt\"\r\n\r\n{big}\r\n\
         --B\r\nContent-Disposition: form-data; name=\"code\"\r\n\r\nwc -c < /data/input/big.txt; echo $WHO\r\n\
         --B\r\nContent-Disposition: form-data; name=\"request\"\r\n\r\n\
         {{\"language\":\"bash\",\"env\":{{\"WHO\":\"form\"}},\"output_files\":\"facts\"}}\r\n--B--\r\n"
    );
    let kind = "multipart/form-data; boundary=B";
    let ran = execution(&server.bytes("POST", "/v1/run", kind, form.as_bytes()).unwrap());
    assert_eq!(
        (ran.stdout.as_str(), ran.language.as_str()),
        ("3145728\nform\n", "bash")
    );
    for (wrong, words) in [
        (form.replace("name=\"code\"", "name=\"cod\""), "unknown form part"),
        (form.replace("big.txt\"", "../x\""), "not a plain file name"),
        (form.replace("name=\"file\"", "name=\"code\""), "duplicate form part"),
        (form.replace("--B--\r\n", ""), "invalid form"),
    ] {
        let refused = server.bytes("POST", "/v1/run", kind, wrong.as_bytes()).unwrap();
        assert_eq!(refused.status, 400, "{words}: {}", refused.text());
        assert!(refused.text().contains(words), "{words}: {}", refused.text());
    }
}

#[test]
fn what_the_code_does_wrong_is_an_outcome_and_limits_hold() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    for (request, outcome) in [
        (json!({"code": "1 / 0"}), Outcome::Error),
        (json!({"code": "def"}), Outcome::Error),
        (
            json!({"code": "while True: pass", "limits": {"wall_ms": 300}}),
            Outcome::Timeout,
        ),
        (
            json!({"code": "x = b'x' * (200 << 20)", "limits": {"memory_bytes": 100 << 20}}),
            Outcome::MemoryLimit,
        ),
        (json!({"code": "exit 3", "language": "bash"}), Outcome::Error),
    ] {
        let ran = execution(&server.json("POST", "/v1/run", &request).unwrap());
        assert_eq!(ran.outcome, outcome, "{request}");
    }
    let live = server.send("GET", "/v1/sandboxes?state=running,paused", None).unwrap();
    assert_eq!(live.json().unwrap()["sandboxes"], json!([]));
}

#[test]
fn files_that_do_not_fit_are_named() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-body-bytes", "64KiB"]).unwrap();
    let code = "open('/data/output/a', 'wb').write(b'a' * 60_000); open('/data/output/b', 'wb').write(b'b' * 60_000)";
    let ran = execution(&server.json("POST", "/v1/run", &json!({"code": code})).unwrap());
    assert!(ran.files[0].content.is_some() && ran.files[1].content.is_none());
    assert_eq!(
        (ran.left_out.count, ran.left_out.files[0].path.as_str()),
        (1, "/data/output/b")
    );
}
