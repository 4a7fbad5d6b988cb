//! What a server writes: who asked, from where, for what; and that it does nothing that it cannot write.

use super::{check, exported, word};
use anyhow::{Context, Result};
use atoll_tests::server::Server;
use serde_json::json;

#[test]
fn each_dispatch_of_a_server_is_written_down_with_its_caller() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &["--audit-keep-code=true"])?;
    let key = server.new_key(&json!({"name": "n", "tenant": "team", "scopes": ["run", "read"]}))?;
    let send = |method: &str, path: &str, body: Option<serde_json::Value>| {
        server.send_as(&key, method, path, body.map(|body| body.to_string()).as_deref())
    };
    let made = send("POST", "/v1/sandboxes", Some(json!({})))?.json()?;
    let sandbox = format!("/v1/sandboxes/{}", made["id"].as_str().context("no id")?);
    assert_eq!(
        send("POST", &format!("{sandbox}/run"), Some(json!({"code": "print(7)"})))?.status,
        200
    );
    let dir = Some(json!({"path": "/tmp/d"}));
    assert_eq!(send("POST", &format!("{sandbox}/files/directory"), dir)?.status, 201);
    assert_eq!(send("DELETE", &sandbox, None)?.status, 200);
    let entries = exported(home.path())?;
    let told: Vec<(&str, &str)> = entries
        .iter()
        .map(|entry| (word(entry, "action"), word(entry, "tenant")))
        .collect();
    let wanted = [
        ("key.create", "default"),
        ("sandbox.create", "team"),
        ("execute", "team"),
        ("file.change", "team"),
        ("sandbox.end", "team"),
    ];
    assert_eq!(told, wanted);
    assert!(
        entries
            .iter()
            .all(|entry| word(entry, "address") == "127.0.0.1" && word(entry, "key").starts_with("key_"))
    );
    assert_eq!(
        (word(&entries[2], "code"), word(&entries[4], "reason")),
        ("print(7)", "killed_by_tenant")
    );
    let page = |query: &str| anyhow::Ok(server.send("GET", &format!("/v1/audit?{query}"), None)?.json()?);
    let first = page("tenant=team&limit=3")?;
    let rest = page(&format!("tenant=team&before={}", first["next"]))?;
    let ids = |page: &serde_json::Value| {
        page["entries"]
            .as_array()
            .map(|all| all.iter().map(|one| one["id"].clone()).collect::<Vec<_>>())
    };
    let mut all = [ids(&first).context("no page")?, ids(&rest).context("no page")?].concat();
    all.reverse();
    assert_eq!(
        all,
        entries[1..].iter().map(|entry| entry["id"].clone()).collect::<Vec<_>>()
    );
    assert_eq!(
        (page("")?["entries"][0]["action"].as_str(), rest["next"].is_null()),
        (Some("key.create"), true)
    );
    assert_eq!(send("GET", "/v1/audit", None)?.status, 403);
    server.signal(rustix::process::Signal::TERM)?;
    server.wait()?;
    let report = check(&home.path().join("audit"))?;
    assert!(report.is_clean() && report.unsigned == 0, "{report:?}");
    Ok(())
}

#[test]
fn a_server_whose_log_is_gone_refuses_work_and_says_why() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let sandbox = server.sandbox(&json!({}))?;
    std::fs::remove_file(home.path().join("audit/000001.jsonl"))?;
    let run = format!("/v1/sandboxes/{sandbox}/run");
    for (path, body) in [
        (run.as_str(), json!({"code": "1"})),
        ("/v1/sandboxes", json!({})),
        ("/v1/run", json!({"code": "1"})),
    ] {
        let refused = server.json("POST", path, &body)?;
        assert_eq!(
            (refused.status, word(&refused.json()?["error"], "code")),
            (503, "audit_unavailable"),
            "{path}"
        );
    }
    // An end is never refused.
    assert_eq!(
        server.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), None)?.status,
        200
    );
    Ok(())
}

#[test]
fn what_a_killed_server_was_doing_is_told_as_lost() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let sandbox = server.sandbox(&json!({}))?;
    let body = json!({"code": "import time; print('on', flush=True); time.sleep(600)"}).to_string();
    let head = format!(
        "POST /v1/sandboxes/{sandbox}/run HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\nAccept: text/event-stream\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.api,
        server.key,
        body.len()
    );
    let mut stream = std::net::TcpStream::connect(server.api)?;
    std::io::Write::write_all(&mut stream, head.as_bytes())?;
    let mut seen = Vec::new();
    while !String::from_utf8_lossy(&seen).contains("on") || !String::from_utf8_lossy(&seen).contains("stdout") {
        let mut piece = [0; 1024];
        let count = std::io::Read::read(&mut stream, &mut piece)?;
        anyhow::ensure!(count > 0, "the server has gone: {}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&piece[..count]);
    }
    server.signal(rustix::process::Signal::KILL)?;
    server.wait()?;
    drop(server);
    let mut next = Server::start(home.path(), &[])?;
    let entries = exported(home.path())?;
    let execute = entries
        .iter()
        .find(|entry| word(entry, "action") == "execute")
        .context("no execution")?;
    assert_eq!(word(execute, "outcome"), "lost");
    next.signal(rustix::process::Signal::TERM)?;
    next.wait()?;
    assert!(check(&home.path().join("audit"))?.is_clean());
    Ok(())
}
