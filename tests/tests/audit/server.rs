//! What a server writes: who asked, from where, for what; and that it does nothing that it cannot write.

use super::{check, exported, word};
use anyhow::{Context, Result};
use atoll_tests::server::Server;
use serde_json::json;

#[test]
fn each_dispatch_of_a_server_is_written_down_with_its_caller() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &["--audit-record=code"])?;
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
        ("key.create", "system"),
        ("key.create", "default"),
        ("sandbox.create", "team"),
        ("execute", "team"),
        ("file.change", "team"),
        ("sandbox.end", "team"),
    ];
    assert_eq!(told, wanted);
    let about = |entry: &serde_json::Value| {
        let key = &entry["about_key"];
        (word(key, "tenant").to_owned(), key["scopes"].clone())
    };
    assert_eq!(
        about(&entries[0]),
        ("default".to_owned(), json!(["run", "read", "approve", "admin"]))
    );
    assert_eq!(about(&entries[1]), ("team".to_owned(), json!(["run", "read"])));
    assert_eq!(word(&entries[1]["about_key"], "id"), word(&entries[2], "key"));
    let entries = entries[1..].to_vec();
    assert!(
        entries
            .iter()
            .all(|entry| word(entry, "address") == "127.0.0.1" && word(entry, "key").starts_with("key_"))
    );
    assert!(entries[1..].iter().all(|entry| {
        (word(entry, "key_name"), word(entry, "tier"), word(entry, "policy")) == ("n", "jail", "standard")
    }));
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
fn a_key_that_fills_the_audit_log_is_refused_until_the_day_ends() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--audit-key-bytes-per-day=64KiB"])?;
    let key = server.new_key(&json!({"name": "n", "scopes": ["run", "read"]}))?;
    let made = server.send_as(&key, "POST", "/v1/sandboxes", Some("{}"))?.json()?;
    let sandbox = format!("/v1/sandboxes/{}", word(&made, "id"));
    let read = || server.send_as(&key, "GET", &format!("{sandbox}/files?path={}", "a".repeat(200)), None);
    let mut refused = read()?;
    for _ in 0..500 {
        if refused.status == 429 {
            break;
        }
        assert_eq!(refused.status, 404, "{}", refused.text());
        refused = read()?;
    }
    assert_eq!((refused.status, refused.code()?.as_str()), (429, "audit_quota"));
    let seconds: u64 = refused.header("retry-after").context("no retry-after")?.parse()?;
    assert!((1..=86_400).contains(&seconds));
    let run = Some(r#"{"code": "1"}"#);
    assert_eq!(server.send_as(&key, "POST", "/v1/run", run)?.code()?, "audit_quota");
    // Other keys go on, and an end is never refused.
    assert_eq!(server.send("POST", "/v1/run", run)?.status, 200);
    assert_eq!(server.send_as(&key, "DELETE", &sandbox, None)?.status, 200);
    let entries = exported(home.path())?;
    let noted: Vec<_> = entries
        .iter()
        .filter(|entry| word(entry, "action") == "audit.quota")
        .collect();
    assert_eq!(noted.len(), 1, "{noted:?}");
    assert_eq!(word(noted[0], "outcome"), "denied");
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

#[test]
fn ends_and_revoked_keys_are_written_when_the_log_can_be_again() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let made = server
        .json("POST", "/v1/keys", &json!({"name": "n", "tenant": "team"}))?
        .json()?;
    let (id, key) = (word(&made, "id"), word(&made, "key"));
    let sandbox = server.sandbox(&json!({}))?;
    let (segment, aside) = (home.path().join("audit/000001.jsonl"), home.path().join("aside"));
    std::fs::rename(&segment, &aside)?;
    assert_eq!(server.json("POST", "/v1/keys", &json!({"name": "m"}))?.status, 503);
    assert_eq!(server.send("DELETE", &format!("/v1/keys/{id}"), None)?.status, 200);
    assert_eq!(server.send_as(key, "GET", "/v1/sandboxes", None)?.status, 401);
    assert_eq!(
        server.send("DELETE", &format!("/v1/sandboxes/{sandbox}"), None)?.status,
        200
    );
    assert!(server.log().contains("written later"), "{}", server.log());
    std::fs::rename(&aside, &segment)?;
    assert_eq!(server.json("POST", "/v1/run", &json!({"code": "1"}))?.status, 200);
    let entries = exported(home.path())?;
    let late: Vec<&serde_json::Value> = entries.iter().filter(|entry| !entry["late"].is_null()).collect();
    let told: Vec<(&str, &str)> = late
        .iter()
        .map(|entry| (word(entry, "action"), word(entry, "outcome")))
        .collect();
    assert_eq!(told, [("key.revoke", "ok"), ("sandbox.end", "ok")]);
    assert_eq!(word(&late[0]["about_key"], "id"), id);
    assert_eq!(word(late[1], "sandbox"), sandbox);
    server.signal(rustix::process::Signal::TERM)?;
    server.wait()?;
    assert!(check(&home.path().join("audit"))?.is_clean());
    Ok(())
}

#[test]
fn a_server_answers_others_while_another_process_has_the_log() -> Result<()> {
    use rustix::fs::{FlockOperation, flock};
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let sandbox = server.sandbox(&json!({}))?;
    let lock = std::fs::File::open(home.path().join("audit/lock"))?;
    flock(&lock, FlockOperation::LockExclusive)?;
    // More than a machine has threads.
    let run = || server.json("POST", &format!("/v1/sandboxes/{sandbox}/run"), &json!({"code": "1"}));
    std::thread::scope(|scope| -> Result<()> {
        let runs: Vec<_> = (0..64).map(|_| scope.spawn(run)).collect();
        for _ in 0..50 {
            assert_eq!(server.send("GET", "/healthz", None)?.status, 200);
            assert_eq!(server.send("GET", "/v1/sandboxes", None)?.status, 200);
        }
        assert!(runs.iter().all(|run| !run.is_finished()));
        drop(lock);
        for run in runs {
            let answer = run.join().map_err(|_| anyhow::anyhow!("a thread failed"))??;
            assert_eq!(answer.status, 200, "{}", answer.text());
        }
        Ok(())
    })
}

#[test]
fn a_log_that_is_followed_shows_what_comes() -> Result<()> {
    use std::io::BufRead;
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--audit-sync=true"])?;
    let sandbox = server.sandbox(&json!({}))?;
    let mut command = server.atoll();
    command.args(["audit", "tail", "-n", "1", "--follow", "--json"]);
    let mut following = command.stdout(std::process::Stdio::piped()).spawn()?;
    let mut lines = std::io::BufReader::new(following.stdout.take().context("no stdout")?).lines();
    let mut next = || -> Result<serde_json::Value> { Ok(serde_json::from_str(&lines.next().context("no line")??)?) };
    assert_eq!(word(&next()?, "action"), "sandbox.create");
    assert_eq!(
        server
            .json("POST", &format!("/v1/sandboxes/{sandbox}/run"), &json!({"code": "1"}))?
            .status,
        200
    );
    let mut seen = next()?;
    while seen["outcome"].is_null() {
        assert_eq!(word(&seen, "action"), "execute");
        seen = next()?;
    }
    assert_eq!((word(&seen, "action"), word(&seen, "outcome")), ("execute", "ok"));
    following.kill()?;
    following.wait()?;
    Ok(())
}

#[test]
fn a_resume_that_cannot_be_written_leaves_the_sandbox_paused() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let path = format!("/v1/sandboxes/{}", server.sandbox(&json!({}))?);
    let post = |what: &str, body| anyhow::Ok(server.json("POST", &format!("{path}/{what}"), &body)?.status);
    assert_eq!(post("pause", json!({}))?, 200);
    let (segment, aside) = (home.path().join("audit/000001.jsonl"), home.path().join("aside"));
    std::fs::rename(&segment, &aside)?;
    assert_eq!(post("resume", json!({}))?, 503);
    std::fs::rename(&aside, &segment)?;
    assert_eq!(post("resume", json!({}))?, 200);
    assert_eq!(post("run", json!({"code": "1"}))?, 200);
    Ok(())
}
