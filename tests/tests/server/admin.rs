//! Health, readiness, metrics and the description of the API.

use anyhow::Result;
use atoll_tests::e2b::create;
use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server, connect};
use serde_json::json;
use std::io::Write;

fn ask(server: &Server, path: &str) -> Result<Answer> {
    let mut connection = connect(server.admin)?;
    connection.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").as_bytes())?;
    Answer::read(&mut connection)
}

#[test]
fn metrics_are_for_operators_and_keys_are_not_there() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    server.send("GET", "/v1/keys?secret=hidden", None).unwrap();
    server.send("GET", "/somewhere/hidden", None).unwrap();
    let metrics = ask(&server, "/metrics").unwrap().text();
    for line in [
        r#"atoll_requests_total{method="GET",route="/v1/keys",status="200"} 1"#,
        r#"atoll_requests_total{method="GET",route="unknown",status="404"} 1"#,
        "atoll_ready 1",
        "atoll_sandboxes_live 0",
        r#"atoll_executions_total{outcome="timeout"} 0"#,
        r#"atoll_limits_hit_total{limit="capacity"} 0"#,
        r#"atoll_sandboxes_ended_total{reason="expired_idle"} 0"#,
        "# TYPE atoll_sandbox_memory_bytes gauge",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    assert!(metrics.ends_with("# EOF\n") && !metrics.contains("hidden"), "{metrics}");
    assert_eq!(
        server.send("GET", "/metrics", None).unwrap().status,
        404,
        "not on the public port"
    );
    assert_eq!(
        ask(&server, "/v1/keys").unwrap().status,
        404,
        "not on the operators' port"
    );
}

#[test]
fn pool_data_keeps_a_sandbox_of_that_profile_ready() {
    let home = tempfile::tempdir().unwrap();
    let pool = ["--pool-min", "0", "--pool-max", "0", "--pool-data", "1"];
    let flags = [&["--template", "python-min"][..], &pool].concat();
    let server = Server::start_as_it_is(home.path(), &flags).unwrap();
    let line = r#"atoll_pool_depth{template="python-min",tier="jail"} 1"#;
    let is_ready = || ask(&server, "/metrics").is_ok_and(|metrics| metrics.text().contains(line));
    eventually("a prepared sandbox", is_ready).unwrap();
}

#[test]
fn denials_are_counted_by_policy_and_rule() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--policy-default", "strict"]).unwrap();
    let denials = |of: &str| -> u32 {
        let metrics = ask(&server, "/metrics").unwrap().text();
        let lines = metrics.lines().filter(|line| line.starts_with(of));
        lines
            .filter_map(|line| line.rsplit(' ').next()?.parse::<u32>().ok())
            .sum()
    };
    assert_eq!(denials("atoll_denials_total{"), 0);
    for policy in [json!(null), json!({"inherit": "strict"})] {
        let call = json!({"code": "import zipfile", "policy": policy});
        let denied = server.json("POST", "/v1/run", &call).unwrap().json().unwrap();
        assert_eq!(denied["outcome"], "denied", "{denied}");
    }
    assert_eq!(
        denials(r#"atoll_denials_total{policy="strict",rule="import.module"}"#),
        1
    );
    assert_eq!(denials("atoll_denials_total{"), 2);
    // A command is counted like code.
    let held = create(&server, &server.key, json!({})).unwrap();
    let command = json!({"process": {"cmd": "ls"}});
    let said = held.call(&server, "/process.Process/Start", &command).unwrap();
    assert!(said.body.contains("permission_denied"), "{}", said.body);
    assert_eq!(denials(r#"atoll_denials_total{policy="strict","#), 2);
    assert_eq!(denials("atoll_denials_total{"), 3);
}

#[test]
fn health_and_readiness_are_on_both_ports() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    eventually("a warm interpreter", || {
        ask(&server, "/readyz").is_ok_and(|answer| answer.status == 200)
    })
    .unwrap();
    for (path, status) in [("/healthz", "ok"), ("/readyz", "ready")] {
        for answer in [ask(&server, path), server.send_as("", "GET", path, None)] {
            assert_eq!(answer.unwrap().json().unwrap()["status"], status, "{path}");
        }
    }
}

#[test]
fn the_description_that_is_served_is_the_one_in_the_documents() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
    let kept: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(kept).unwrap()).unwrap();
    assert_eq!(
        server
            .send_as("", "GET", "/openapi.json", None)
            .unwrap()
            .json()
            .unwrap(),
        kept
    );
    let page = server.send_as("", "GET", "/docs", None).unwrap();
    assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
}

#[test]
fn memory_and_cut_output_are_in_the_metrics() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let sandbox = create(&server, &server.key, json!({})).unwrap();
    sandbox.run(&server, "x = b'x' * (200 << 20)").unwrap();
    sandbox.run(&server, "print('x' * (20 << 20))").unwrap();
    let number = |name: &str| {
        let metrics = ask(&server, "/metrics").unwrap().text();
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        let value = line.rsplit(' ').next().unwrap_or_default();
        value.parse::<f64>().unwrap_or_default()
    };
    assert!(number("atoll_limits_hit_total{limit=\"output\"}") > 0.0);
    let bytes = f64::from(200 << 20);
    eventually("the memory is told", || number("atoll_sandbox_memory_bytes") > bytes).unwrap();
}

/// Until so many creates and resumes are in the queue.
pub(super) fn wait_for_waiting(server: &Server, count: usize) -> anyhow::Result<()> {
    let line = format!("\natoll_creates_waiting {count}\n");
    eventually("creates wait", || {
        ask(server, "/metrics").is_ok_and(|metrics| metrics.text().contains(&line))
    })
}

#[test]
fn a_create_on_a_full_server_waits_and_is_in_the_metrics() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--max-sandboxes", "1", "--queue-timeout", "5m"]).unwrap();
    let first = server.sandbox(&json!({})).unwrap();
    let mut leaves = connect(server.api).unwrap();
    let head = format!(
        "POST /v1/sandboxes HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 2\r\n\r\n{{}}",
        server.api, server.key
    );
    leaves.write_all(head.as_bytes()).unwrap();
    wait_for_waiting(&server, 1).unwrap();
    drop(leaves);
    wait_for_waiting(&server, 0).unwrap();
    std::thread::scope(|scope| {
        let next = scope.spawn(|| server.sandbox(&json!({})));
        wait_for_waiting(&server, 1).unwrap();
        let path = format!("/v1/sandboxes/{first}");
        assert_eq!(server.send("DELETE", &path, None).unwrap().status, 200);
        next.join().unwrap().unwrap();
    });
    // Of all three creates: one did not wait, one left, one was admitted.
    let line = "\natoll_create_wait_seconds_count 3\n";
    let is_counted = || ask(&server, "/metrics").is_ok_and(|metrics| metrics.text().contains(line));
    eventually("the wait of each create is counted", is_counted).unwrap();
}

/// The sandboxes that fill the server are of another tier: only creates that wait are demand for the pool of `jail`.
#[test]
fn the_pool_grows_with_the_queue() {
    let home = tempfile::tempdir().unwrap();
    let sandboxes = ["--max-sandboxes", "2", "--max-tenant-sandboxes", "2"];
    let flags = [&sandboxes[..], &["--queue-timeout", "5m", "--pool-max", "4"]].concat();
    let server = Server::start_with_wasm(home.path(), &flags).unwrap();
    let is_ready = || ask(&server, "/readyz").is_ok_and(|answer| answer.status == 200);
    eventually("the pool", is_ready).unwrap();
    let live = [(); 2].map(|()| server.sandbox(&json!({"tier": "wasm"})).unwrap());
    std::thread::scope(|scope| {
        let waiting = [(); 2].map(|()| scope.spawn(|| server.sandbox(&json!({}))));
        let line = r#"atoll_pool_depth{template="python-min",tier="jail"} 2"#;
        let has_grown = || ask(&server, "/metrics").is_ok_and(|metrics| metrics.text().contains(line));
        let grown = eventually("a prepared sandbox for each create that waits", has_grown);
        for id in &live {
            server.send("DELETE", &format!("/v1/sandboxes/{id}"), None).unwrap();
        }
        for create in waiting {
            create.join().unwrap().unwrap();
        }
        grown.unwrap();
    });
}
