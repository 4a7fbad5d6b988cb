//! Contexts and running executions, reached by other calls.

use atoll_tests::events::Events;
use atoll_tests::server::Server;
use serde_json::{Value, json};

#[test]
fn contexts_are_apart_restart_and_go() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    let made = server
        .json("POST", &path("/contexts"), &json!({"cwd": "/tmp"}))
        .unwrap();
    assert_eq!(made.status, 201, "{}", made.text());
    let context = made.json().unwrap()["id"].as_str().unwrap().to_owned();
    let run = |context: Option<&str>, code: &str| -> Value {
        let call = json!({"code": code, "context_id": context});
        server.json("POST", &path("/run"), &call).unwrap().json().unwrap()
    };
    run(Some(&context), "x = 1");
    assert_eq!(run(None, "x")["error"]["name"], "NameError");
    assert_eq!(
        run(Some(&context), "import os; print(x, os.getcwd())")["stdout"],
        "1 /tmp\n"
    );
    let listed = server.send("GET", &path("/contexts"), None).unwrap().json().unwrap();
    assert_eq!(listed["contexts"].as_array().unwrap().len(), 2);
    let one = path(&format!("/contexts/{context}"));
    assert_eq!(
        server.send("POST", &format!("{one}/restart"), None).unwrap().status,
        204
    );
    assert_eq!(run(Some(&context), "x")["error"]["name"], "NameError");
    assert_eq!(server.send("DELETE", &one, None).unwrap().status, 204);
    assert_eq!(server.send("DELETE", &one, None).unwrap().code().unwrap(), "not_found");
    assert_eq!(run(Some(&context), "1")["error"]["code"], "not_found");
    let bash = json!({"code": "echo $0", "language": "bash"});
    assert_eq!(
        server.json("POST", &path("/run"), &bash).unwrap().json().unwrap()["language"],
        "bash"
    );
}

#[test]
fn another_call_interrupts_or_extends_what_runs() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let run = format!("/v1/sandboxes/{id}/run");
    let begin = |code: &str, wall: u64| {
        let call = json!({"code": code, "limits": {"wall_ms": wall}}).to_string();
        let mut events = Events::open(&server, "POST", &run, "", Some(&call))?;
        let seen = events.until("stdout")?;
        let execution = seen[0].data["execution_id"].as_str().unwrap().to_owned();
        anyhow::Ok((events, format!("/v1/sandboxes/{id}/executions/{execution}")))
    };
    let outcome = |mut events: Events| events.until("end").unwrap().pop().unwrap().data["outcome"].clone();
    let (events, path) = begin("print('go', flush=True)\nwhile True: pass", 300_000).unwrap();
    assert_eq!(
        server.send("POST", &format!("{path}/interrupt"), None).unwrap().status,
        204
    );
    assert_eq!(outcome(events), "interrupted");
    let over = server.send("POST", &format!("{path}/interrupt"), None).unwrap();
    assert_eq!(over.code().unwrap(), "not_found");
    // It goes on for a second behind its first deadline: without more time it would end as a timeout.
    let ends_well = |wall: u64| {
        let code = format!(
            "import time\nend = time.monotonic() + {wall} / 1000 + 1\nprint('go', flush=True)\n\
             while time.monotonic() < end: time.sleep(0.01)\nprint('done')"
        );
        let Ok((events, path)) = begin(&code, wall) else {
            return false;
        };
        let more = json!({"ms": 60_000});
        let extended = server.json("POST", &format!("{path}/extend"), &more).unwrap();
        extended.status == 200 && outcome(events) == "ok"
    };
    // On a busy host a short deadline may come before anything else.
    assert!([2_000, 8_000, 32_000].into_iter().any(ends_well));
}
