//! Executions as events, and clients that go away.

use atoll_tests::events::Events;
use atoll_tests::process::eventually;
use atoll_tests::server::{Server, connect};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::io::Write;

fn running(server: &Server) -> Vec<Value> {
    let listed = server.send("GET", "/v1/sandboxes?state=running", None).unwrap();
    listed.json().unwrap()["sandboxes"].as_array().unwrap().clone()
}

#[test]
fn a_run_as_events_ends_with_the_same_answer() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let code = "import sys, os\nprint('out')\nsys.stdout.flush()\nos.write(1, b'\\xff')\nprint('err', file=sys.stderr)\n\
                open('/data/output/f', 'wb').write(b'0123456789' * 50_000)\n1 + 1";
    let body = json!({"code": code}).to_string();
    let mut events = Events::open(&server, "POST", "/v1/run", "", Some(&body)).unwrap();
    let seen = events.rest().unwrap();
    let names: Vec<&str> = seen.iter().map(|event| event.name.as_str()).collect();
    assert_eq!((names[0], names[names.len() - 1]), ("started", "end"), "{names:?}");
    let bytes = |kind: &str| -> Vec<u8> {
        let pieces = seen.iter().filter(|event| event.name == kind);
        let piece = |data: &Value| match data["base64"].as_str() {
            Some(raw) => STANDARD.decode(raw).unwrap(),
            None => data["text"].as_str().unwrap().as_bytes().to_vec(),
        };
        pieces.flat_map(|event| piece(&event.data)).collect()
    };
    assert_eq!(
        (bytes("stdout"), bytes("stderr")),
        (b"out\n\xff".to_vec(), b"err\n".to_vec())
    );
    let pieces = seen.iter().filter(|event| event.name == "file");
    let file: Vec<u8> = pieces
        .flat_map(|event| STANDARD.decode(event.data["content"].as_str().unwrap()).unwrap())
        .collect();
    assert_eq!(file, b"0123456789".repeat(50_000));
    let end = &seen[seen.len() - 1].data;
    assert_eq!(
        (&end["outcome"], &end["files"][0]["size"]),
        (&json!("ok"), &json!(500_000))
    );
    assert!(names.contains(&"result") && end["sandbox_id"] == seen[0].data["sandbox_id"]);
}

/// Only the second attempt is told; it is in another sandbox, which on a full server gets the slot of the first.
#[test]
fn a_run_that_is_moved_tells_nothing_of_its_first_tier() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start_with_wasm(home.path(), &["--max-sandboxes", "1"]).unwrap();
    // A module that is not in `wasm`, and code that uses more than 2 s of CPU time there.
    for (code, why) in [
        (
            "import typing\nprint('once')\ntyping.sys.modules['importlib'].import_module('resour' + 'ce')",
            "resource",
        ),
        (
            "import typing\nprint('once')\nwhile typing.sys.platform == 'wasi': pass",
            "CPU time",
        ),
    ] {
        let body = json!({"code": code, "tier": "auto"}).to_string();
        let mut events = Events::open(&server, "POST", "/v1/run", "", Some(&body)).unwrap();
        let seen = events.rest().unwrap();
        let of = |name: &str| -> Vec<&Value> {
            let named = seen.iter().filter(|event| event.name == name);
            named.map(|event| &event.data).collect()
        };
        let (started, stdout, end) = (of("started"), of("stdout"), of("end"));
        assert_eq!((started.len(), stdout.len(), end.len()), (1, 1, 1), "{seen:?}");
        assert_eq!(stdout[0]["text"], "once\n");
        assert_eq!(end[0]["sandbox_id"], started[0]["sandbox_id"]);
        assert_eq!(end[0]["outcome"], "ok", "{}", end[0]);
        let choice = &end[0]["tier_choice"];
        assert_eq!(
            (&end[0]["tier"], &choice["asked"], &choice["moved_from"]),
            (&json!("jail"), &json!("auto"), &json!("wasm")),
            "{choice}"
        );
        assert!(choice["reason"].as_str().unwrap().contains(why), "{choice}");
    }
}

#[test]
fn a_long_run_tells_what_it_uses() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let body = json!({"code": "import signal\nsignal.pause()", "limits": {"wall_ms": 20_000}}).to_string();
    let mut events = Events::open(&server, "POST", "/v1/run", "", Some(&body)).unwrap();
    let seen = events.until("usage").unwrap();
    assert_eq!(seen[0].name, "started", "{seen:?}");
    let usage = &seen[seen.len() - 1].data;
    let number = |name: &str| usage[name].as_u64().unwrap_or_default();
    assert_eq!(number("deadline_ms"), 20_000, "{usage}");
    assert!((1000..20_000).contains(&number("elapsed_ms")), "{usage}");
    let memory = number("peak_memory_bytes");
    assert!(memory > 0 && memory < number("memory_limit_bytes"), "{usage}");
    assert!(usage["cpu_ms"].is_u64() && number("cpu_limit_ms") > 0, "{usage}");
    let seen = events.until("usage").unwrap();
    let next = &seen[seen.len() - 1].data;
    assert!(
        next["elapsed_ms"].as_u64() > usage["elapsed_ms"].as_u64(),
        "{usage} {next}"
    );
}

#[test]
fn a_client_that_goes_away_ends_its_run() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let code = "print('go', flush=True)\nwhile True: pass";
    let body = json!({"code": code}).to_string();
    let mut events = Events::open(&server, "POST", "/v1/run", "", Some(&body)).unwrap();
    events.until("stdout").unwrap();
    assert_eq!(running(&server).len(), 1);
    drop(events);
    eventually("the sandbox of the stream ends", || running(&server).is_empty()).unwrap();
    let mut silent = connect(server.api).unwrap();
    let head = format!(
        "POST /v1/run HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.key,
        body.len()
    );
    silent.write_all(head.as_bytes()).unwrap();
    eventually("the code runs", || {
        running(&server)
            .iter()
            .any(|one| one["running"].as_array().is_some_and(|running| !running.is_empty()))
    })
    .unwrap();
    drop(silent);
    eventually("the sandbox of the call ends", || running(&server).is_empty()).unwrap();
    let ended = server
        .send("GET", "/v1/sandboxes?state=ended", None)
        .unwrap()
        .json()
        .unwrap();
    let reasons: Vec<&Value> = ended["sandboxes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["reason"])
        .collect();
    assert_eq!(reasons, ["closed", "closed"]);
}

#[test]
fn a_client_that_goes_away_interrupts_its_code_and_the_state_stays() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/run");
    let body = json!({"code": "x = 5\nprint('go', flush=True)\nwhile True: pass"}).to_string();
    let mut events = Events::open(&server, "POST", &path, "", Some(&body)).unwrap();
    events.until("stdout").unwrap();
    drop(events);
    let after = server
        .json("POST", &path, &json!({"code": "print(x)"}))
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(after["stdout"], "5\n", "{after}");
}

#[test]
fn a_revoked_key_takes_its_running_code_with_it() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[]).unwrap();
    let made = server
        .json("POST", "/v1/keys", &json!({"name": "n"}))
        .unwrap()
        .json()
        .unwrap();
    let first = std::mem::replace(&mut server.key, made["key"].as_str().unwrap().to_owned());
    let body = json!({"code": "print('go', flush=True)\nwhile True: pass"}).to_string();
    let mut events = Events::open(&server, "POST", "/v1/run", "", Some(&body)).unwrap();
    events.until("stdout").unwrap();
    server.key = first;
    let path = format!("/v1/keys/{}", made["id"].as_str().unwrap());
    assert_eq!(server.send("DELETE", &path, None).unwrap().status, 200);
    assert!(events.until("end").is_err(), "the stream breaks off");
    eventually("its sandbox ends", || running(&server).is_empty()).unwrap();
}
