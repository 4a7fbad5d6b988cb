//! What happens to a sandbox, as events: from the beginning, after a break, and after too long a break.

use atoll_tests::events::{Event, Events};
use atoll_tests::server::Server;
use serde_json::json;

fn names(seen: &[Event]) -> Vec<&str> {
    seen.iter().map(|event| event.name.as_str()).collect()
}

#[test]
fn events_are_numbered_and_who_comes_back_misses_none() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/events");
    let mut live = Events::open(&server, "GET", &path, "", None).unwrap();
    server
        .json("POST", &format!("/v1/sandboxes/{id}/run"), &json!({"code": "1 / 0"}))
        .unwrap();
    let seen = live.until("execution_ended").unwrap();
    assert_eq!(names(&seen), ["created", "execution_started", "execution_ended"]);
    assert_eq!(seen[2].data["outcome"], "error");
    drop(live);
    server.send("POST", &format!("/v1/sandboxes/{id}/pause"), None).unwrap();
    server.send("DELETE", &format!("/v1/sandboxes/{id}"), None).unwrap();
    let mut again = Events::open(&server, "GET", &path, "Last-Event-ID: 3\r\n", None).unwrap();
    let rest = again.rest().unwrap();
    assert_eq!(names(&rest), ["paused", "ended"]);
    assert_eq!(
        (rest[0].id, &rest[1].data["reason"]),
        (Some(4), &json!("killed_by_tenant"))
    );
    for bad in ["x", "-1", "99"] {
        let header = format!("Last-Event-ID: {bad}\r\n");
        let refused = Events::open(&server, "GET", &path, &header, None)
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains(" 400 ") && refused.contains("Last-Event-ID"),
            "{refused}"
        );
    }
}

#[test]
fn what_is_gone_from_the_ring_is_said() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    for _ in 0..1_004 {
        let extended = server
            .json("POST", &format!("/v1/sandboxes/{id}/extend"), &json!({"ms": 1000}))
            .unwrap();
        assert_eq!(extended.status, 200);
    }
    let path = format!("/v1/sandboxes/{id}/events");
    let mut late = Events::open(&server, "GET", &path, "Last-Event-ID: 2\r\n", None).unwrap();
    let lost = late.read().unwrap().unwrap();
    assert_eq!(
        (lost.name.as_str(), &lost.data["first"], &lost.data["last"]),
        ("lost", &json!(3), &json!(5))
    );
    assert_eq!(late.read().unwrap().unwrap().id, Some(6));
}

#[test]
fn a_stream_does_not_hold_the_end_of_the_server() {
    let home = tempfile::tempdir().unwrap();
    let mut server = Server::start(home.path(), &["--drain-timeout", "10min"]).unwrap();
    let id = server.sandbox(&json!({})).unwrap();
    let path = format!("/v1/sandboxes/{id}/events");
    let mut live = Events::open(&server, "GET", &path, "", None).unwrap();
    live.until("created").unwrap();
    server.signal(rustix::process::Signal::TERM).unwrap();
    assert!(live.rest().unwrap().is_empty());
    assert!(server.wait().unwrap().success());
    assert!(!server.log().contains("were closed before"), "{}", server.log());
}
