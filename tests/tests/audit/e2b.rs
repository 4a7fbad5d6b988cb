//! What clients of E2B do has entries as well, and a log that cannot be written is told as what it is.

use super::{check, exported, word};
use anyhow::{Context, Result};
use atoll_tests::e2b::{Sandbox, create, read_until};
use atoll_tests::process::eventually;
use atoll_tests::server::{Server, connect};
use serde_json::{Value, json};
use std::io::Write;

/// A server inside that answers each request with two bytes.
const ANSWERS: &str = r"
import socket, threading
listener = socket.create_server(('127.0.0.1', 8000))
def serve():
    while True:
        one, _ = listener.accept()
        one.recv(4096)
        one.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi')
        one.close()
threading.Thread(target=serve, daemon=True).start()
";

fn of<'a>(entries: &'a [Value], action: &str) -> Vec<&'a Value> {
    entries.iter().filter(|entry| word(entry, "action") == action).collect()
}

fn start(cmd: &str, args: &[&str]) -> Value {
    json!({"process": {"cmd": cmd, "args": args}})
}

fn pid_in(text: &str) -> Result<u64> {
    let (_, rest) = text.split_once("\"pid\":").context("no pid")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

fn upload(sandbox: &Sandbox, server: &Server, body: &str) -> Result<u16> {
    let mut connection = connect(server.api)?;
    let head = format!(
        "POST /files?path=a HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {}\r\n\r\n{body}",
        server.api,
        sandbox.id,
        sandbox.token,
        body.len()
    );
    connection.write_all(head.as_bytes())?;
    Ok(atoll_tests::e2b::Raw::read(&mut connection)?.status)
}

#[test]
fn commands_their_signals_and_listeners_uploads_and_longer_lives_have_entries() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let sandbox = create(&server, &server.key, json!({}))?;
    let mut running = sandbox.begin_call(&server, "/process.Process/Start", &start("/bin/cat", &["-u"]))?;
    let pid = pid_in(&read_until(&mut running, "\"pid\":")?)?;
    let selector = json!({"process": {"pid": pid}});
    let mut attached = sandbox.begin_call(&server, "/process.Process/Connect", &selector)?;
    read_until(&mut attached, "\"pid\":")?;
    let kill = json!({"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"}).to_string();
    let killed = sandbox.send(&server, "POST", "/process.Process/SendSignal", kill.as_bytes())?;
    assert_eq!(killed.status, 200, "{killed:?}");
    assert_eq!(upload(&sandbox, &server, "abc")?, 200);
    let timeout = format!("/sandboxes/{}/timeout", sandbox.id);
    assert_eq!(server.json("POST", &timeout, &json!({"timeout": 100}))?.status, 204);
    let ended =
        || exported(home.path()).is_ok_and(|all| of(&all, "command").iter().all(|one| !one["outcome"].is_null()));
    eventually("the end of the command is written", ended)?;
    let all = exported(home.path())?;
    let command = of(&all, "command")[0];
    assert_eq!(command["command"], json!(["/bin/cat", "-u"]));
    assert_eq!(
        (word(command, "outcome"), word(command, "sandbox")),
        ("killed", sandbox.id.as_str())
    );
    assert_eq!(of(&all, "command.attach")[0]["command"], json!(["/bin/cat", "-u"]));
    assert_eq!(
        of(&all, "command.signal")[0]["command"],
        json!(["kill", "-9", pid.to_string()])
    );
    let written = of(&all, "file.write")[0];
    let digest = atoll_engine::audit::Digest::of(b"abc").to_string();
    assert_eq!(written["inputs"], json!([{"size": 3, "sha256": digest}]));
    assert_eq!(word(of(&all, "sandbox.extend")[0], "reason"), "100000 ms");
    for action in [
        "command",
        "command.attach",
        "command.signal",
        "file.write",
        "sandbox.extend",
    ] {
        assert_eq!(of(&all, action).len(), 1, "{action}");
        assert!(word(of(&all, action)[0], "key").starts_with("key_"), "{action}");
    }
    server.signal(rustix::process::Signal::TERM)?;
    server.wait()?;
    assert!(check(&home.path().join("audit"))?.is_clean());
    Ok(())
}

#[test]
fn strangers_at_a_public_port_are_one_entry_with_a_count() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let sandbox = create(&server, &server.key, json!({}))?;
    sandbox.run(&server, ANSWERS)?;
    for _ in 0..30 {
        assert_eq!(sandbox.port(&server, 8000, "")?.status, 200);
    }
    assert_eq!(sandbox.port(&server, 8001, "")?.status, 502);
    let token = format!("X-Access-Token: {}\r\n", sandbox.token);
    assert_eq!(sandbox.port(&server, 8000, &token)?.status, 200);
    let end = format!("/sandboxes/{}", sandbox.id);
    assert_eq!(server.send("DELETE", &end, None)?.status, 204);
    let ended = || exported(home.path()).is_ok_and(|all| of(&all, "port").iter().all(|one| !one["outcome"].is_null()));
    eventually("the end of all visits is written", ended)?;
    let all = exported(home.path())?;
    let ports = of(&all, "port");
    assert_eq!(ports.len(), 3, "{ports:?}");
    let (many, none, known) = (ports[0], ports[1], ports[2]);
    assert_eq!(
        (&many["port"], &many["traffic"]["requests"]),
        (&json!(8000), &json!(30))
    );
    assert!(many["key"].is_null() && word(many, "address") == "127.0.0.1");
    assert!(many["traffic"]["bytes_out"].as_u64() >= Some(60), "{many}");
    assert_eq!((&none["port"], &none["traffic"]["refused"]), (&json!(8001), &json!(1)));
    assert_eq!(word(none, "outcome"), "failed");
    assert!(word(known, "key").starts_with("key_"), "{known}");
    server.signal(rustix::process::Signal::TERM)?;
    server.wait()?;
    assert!(check(&home.path().join("audit"))?.is_clean());
    Ok(())
}

#[test]
fn a_used_up_audit_quota_has_its_time_in_these_words_too() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--audit-key-bytes-per-day=32KiB"])?;
    let sandbox = create(&server, &server.key, json!({}))?;
    let read = || sandbox.send(&server, "GET", "/files?path=missing", b"");
    let mut refused = read()?;
    for _ in 0..500 {
        if refused.status == 429 {
            break;
        }
        refused = read()?;
    }
    let context = |body: &str| sandbox.send(&server, "POST", "/contexts", body.as_bytes());
    for answer in [
        refused,
        sandbox.run(&server, "1")?,
        context("{}")?,
        context(r#"{"cwd": "/tmp/d"}"#)?,
    ] {
        let has_time = answer.head.contains("\r\nretry-after: ");
        assert!(
            answer.status == 429 && has_time && answer.body.contains("audit log quota"),
            "{answer:?}"
        );
    }
    Ok(())
}

#[test]
fn a_log_that_cannot_be_written_is_a_fault_of_the_server_in_these_words_too() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let sandbox = create(&server, &server.key, json!({}))?;
    sandbox.run(&server, ANSWERS)?;
    let (segment, aside) = (home.path().join("audit/000001.jsonl"), home.path().join("aside"));
    std::fs::rename(&segment, &aside)?;
    let run = sandbox.run(&server, "print('ran')")?;
    assert_eq!(run.status, 503, "{run:?}");
    assert!(
        run.body.contains("audit log") && !run.body.contains("\"type\""),
        "{run:?}"
    );
    let context = sandbox.send(&server, "POST", "/contexts", b"{}")?;
    assert_eq!(context.status, 503, "{context:?}");
    let port = sandbox.port(&server, 8000, "")?;
    assert!(port.status == 503 && port.body.contains("audit log"), "{port:?}");
    let command = sandbox.call(&server, "/process.Process/Start", &start("/bin/true", &[]))?;
    assert!(command.body.contains("\"internal\""), "{command:?}");
    let dir = sandbox.send(
        &server,
        "POST",
        "/filesystem.Filesystem/MakeDir",
        json!({"path": "/tmp/d"}).to_string().as_bytes(),
    )?;
    assert!(dir.status == 503 && dir.body.contains("\"internal\""), "{dir:?}");
    assert_eq!(upload(&sandbox, &server, "abc")?, 503);
    for path in ["timeout", "pause", "connect"] {
        let answer = server.json(
            "POST",
            &format!("/sandboxes/{}/{path}", sandbox.id),
            &json!({"timeout": 60}),
        )?;
        assert_eq!((answer.status, &answer.json()?["code"]), (503, &json!(503)), "{path}");
    }
    std::fs::rename(&aside, &segment)?;
    assert_eq!(sandbox.run(&server, "print('ran')")?.status, 200);
    Ok(())
}
