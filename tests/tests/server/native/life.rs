//! Sandboxes that live on: made, listed, paused, extended, ended, each with its reason.

use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server};
use rustix::process::Signal;
use serde_json::{Value, json};

fn code(answer: &Answer) -> (u16, String) {
    (answer.status, answer.code().unwrap())
}

#[test]
fn a_sandbox_is_made_used_paused_and_ended_with_a_reason() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let request = json!({"metadata": {"a": "b"}, "env": {"WHO": "me"}, "idle_ms": 60_000, "max_executions": 9});
    let id = server.sandbox(&request).unwrap();
    let path = |rest: &str| format!("/v1/sandboxes/{id}{rest}");
    let shown = server.send("GET", &path(""), None).unwrap().json().unwrap();
    assert_eq!(
        (&shown["state"], &shown["metadata"]["a"]),
        (&json!("running"), &json!("b"))
    );
    assert_eq!((&shown["max_executions"], &shown["reason"]), (&json!(9), &Value::Null));
    let run = |code: &str| server.json("POST", &path("/run"), &json!({"code": code})).unwrap();
    run("import os; x = os.environ['WHO']");
    assert_eq!(run("print(x)").json().unwrap()["stdout"], "me\n");
    assert_eq!(
        server.send("POST", &path("/pause"), None).unwrap().json().unwrap()["state"],
        "paused"
    );
    assert_eq!(
        code(&server.send("POST", &path("/pause"), None).unwrap()),
        (409, "conflict".into())
    );
    assert_eq!(code(&run("1")), (409, "conflict".into()));
    let paused = server
        .send("GET", "/v1/sandboxes?state=paused", None)
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(paused["sandboxes"][0]["id"], json!(id));
    assert_eq!(
        server.send("POST", &path("/resume"), None).unwrap().json().unwrap()["state"],
        "running"
    );
    assert_eq!(run("print(x)").json().unwrap()["stdout"], "me\n");
    let ends = |answer: Answer| answer.json().unwrap()["ends_at"].as_str().unwrap().to_owned();
    let before = ends(server.send("GET", &path(""), None).unwrap());
    let after = ends(server.json("POST", &path("/extend"), &json!({"ms": 600_000})).unwrap());
    assert!(after > before, "{before} {after}");
    let ended = server.send("DELETE", &path(""), None).unwrap().json().unwrap();
    assert_eq!(
        (&ended["state"], &ended["reason"]),
        (&json!("ended"), &json!("killed_by_tenant"))
    );
    let shown = server.send("GET", &path(""), None).unwrap().json().unwrap();
    assert_eq!(
        (&shown["reason"], &shown["executions"]),
        (&json!("killed_by_tenant"), &json!(3))
    );
    let late = run("1");
    assert_eq!(code(&late), (410, "ended".into()));
    assert!(late.text().contains("killed_by_tenant"), "{}", late.text());
}

#[test]
fn code_whose_sandbox_ends_under_it_hears_why() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let code = json!({"code": "import time\nprint('begun', flush=True)\nwhile True: time.sleep(1)", "limits": {"wall_ms": 300_000}});
    let ended_within = |lifetime_ms: u64| {
        let id = server.sandbox(&json!({"lifetime_ms": lifetime_ms})).ok()?;
        let run = server.json("POST", &format!("/v1/sandboxes/{id}/run"), &code).ok()?;
        run.json().ok().filter(|told| told["stdout"] == "begun\n")
    };
    // On a busy host a short life may end before the code begins.
    let told = [3_000, 12_000, 48_000].into_iter().find_map(ended_within).unwrap();
    assert_eq!(
        (&told["outcome"], &told["stdout"]),
        (&json!("killed"), &json!("begun\n")),
        "{told}"
    );
    let why = "the sandbox has ended: expired_lifetime";
    assert_eq!(
        told["error"],
        json!({"name": "SandboxEnded", "value": why, "traceback": []})
    );
    assert_eq!(told["hint"]["rule"], why);
}

#[test]
fn ends_have_reasons_and_the_reason_outlives_the_server() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &[]).unwrap();
    let idle = server.sandbox(&json!({"idle_ms": 1000})).unwrap();
    let last = server.sandbox(&json!({"max_executions": 1})).unwrap();
    let stays = server.sandbox(&json!({})).unwrap();
    server
        .json("POST", &format!("/v1/sandboxes/{last}/run"), &json!({"code": "1"}))
        .unwrap();
    let reason = |server: &Server, key: &str, id: &str| {
        let shown = server
            .send_as(key, "GET", &format!("/v1/sandboxes/{id}"), None)
            .unwrap();
        shown.json().unwrap()["reason"].clone()
    };
    let key = server.key.clone();
    eventually("the idle one ends", || reason(&server, &key, &idle) == "expired_idle").unwrap();
    assert_eq!(reason(&server, &key, &last), "max_executions");
    server.signal(Signal::TERM).unwrap();
    assert!(server.wait().unwrap().success());
    let again = Server::start(home.path(), &[]).unwrap();
    for (id, why) in [
        (&idle, "expired_idle"),
        (&last, "max_executions"),
        (&stays, "node_shutdown"),
    ] {
        assert_eq!(reason(&again, &key, id), why);
    }
    let late = again
        .send_as(&key, "POST", &format!("/v1/sandboxes/{stays}/pause"), None)
        .unwrap();
    assert_eq!(code(&late), (410, "ended".into()));
}

#[test]
fn lists_come_in_pages_newest_first() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let mut made: Vec<String> = (0..5).map(|_| server.sandbox(&json!({})).unwrap()).collect();
    server
        .send("DELETE", &format!("/v1/sandboxes/{}", made[1]), None)
        .unwrap();
    made.reverse();
    let page = |query: &str| {
        server
            .send("GET", &format!("/v1/sandboxes{query}"), None)
            .unwrap()
            .json()
            .unwrap()
    };
    let ids = |page: &Value| -> Vec<String> {
        let sandboxes = page["sandboxes"].as_array().unwrap();
        sandboxes
            .iter()
            .map(|one| one["id"].as_str().unwrap().to_owned())
            .collect()
    };
    let (mut seen, mut query) = (Vec::new(), "?limit=2".to_owned());
    loop {
        let one = page(&query);
        seen.extend(ids(&one));
        let Some(next) = one["next"].as_str() else { break };
        query = format!("?limit=2&after={next}");
    }
    assert_eq!(seen, made);
    assert_eq!(ids(&page("?state=ended")), [made[3].clone()]);
    assert_eq!(ids(&page("?state=running&limit=4")).len(), 4);
}

#[test]
fn templates_are_listed_and_shown() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let listed = server.send("GET", "/v1/templates", None).unwrap().json().unwrap();
    let names: Vec<&Value> = listed["templates"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["name"])
        .collect();
    assert!(names.contains(&&json!("python-min")), "{listed}");
    let shown = server.send("GET", "/v1/templates/python-min", None).unwrap();
    assert!(shown.json().unwrap()["packages"].is_array());
    assert!(!shown.text().contains(home.path().to_str().unwrap()));
    for unknown in ["nothing", "..%2f..%2fetc", "%00"] {
        let refused = server.send("GET", &format!("/v1/templates/{unknown}"), None).unwrap();
        assert_eq!(code(&refused), (404, "not_found".into()), "{unknown}");
    }
}
