//! Rollbacks in the tier `gvisor`: a sandbox goes back to a snapshot of it under its own name, and to nobody else's.

use super::pauses::{shown, turned};
use super::snapshots::{code, gvisor, place, prints, python, saved};
use anyhow::{Context, Result, ensure};
use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server};
use serde_json::{Value, json};
use std::fs;

fn roll_back(server: &Server, id: &str, snapshot: &str) -> Result<Answer> {
    server.json(
        "POST",
        &format!("/v1/sandboxes/{id}/rollback"),
        &json!({"snapshot": snapshot}),
    )
}

pub(super) fn rolled_back(server: &Server, id: &str, snapshot: &str) -> Result<Value> {
    let answer = roll_back(server, id, snapshot)?;
    ensure!(answer.status == 200, "{}", answer.text());
    answer.json()
}

#[test]
fn a_sandbox_goes_back_to_its_snapshot_under_its_own_name() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let id = gvisor(&server)?;
    python(
        &server,
        &id,
        "x = 41\ndef more(): return x + 1\nopen('note', 'w').write('kept')",
    )?;
    prints(&server, &id, "bash", "y=shell")?;
    let snapshot = saved(&server, &id)?;
    let contexts = || {
        server
            .send("GET", &format!("/v1/sandboxes/{id}/contexts"), None)?
            .json()
    };
    let named = contexts()?;
    let spoil = "x = 0\ndel more\nimport os\nos.remove('note')\nopen('new', 'w').close()";
    let looks = "import os\nprint(more(), open('note').read(), os.path.exists('new'))";
    for _ in 0..2 {
        python(&server, &id, spoil)?;
        let told = rolled_back(&server, &id, &snapshot)?;
        assert_eq!((&told["id"], &told["state"]), (&json!(id), &json!("running")));
        assert_eq!(python(&server, &id, looks)?, "42 kept False\n");
        assert_eq!(prints(&server, &id, "bash", "echo $y")?, "shell\n");
        assert_eq!(contexts()?, named);
    }
    // What runs ends, and hears why.
    let endless = json!({"code": "open('began', 'w').close()\nwhile True: pass"});
    let told = std::thread::scope(|scope| -> Result<Value> {
        let running = scope.spawn(|| {
            server
                .json("POST", &format!("/v1/sandboxes/{id}/run"), &endless)?
                .json()
        });
        let path = format!("/v1/sandboxes/{id}/files?path=/home/user/began");
        eventually("the code", || {
            server.send("GET", &path, None).is_ok_and(|answer| answer.status == 200)
        })?;
        rolled_back(&server, &id, &snapshot)?;
        running
            .join()
            .map_err(|_| anyhow::anyhow!("the code's thread failed"))?
    })?;
    assert_eq!(
        (&told["outcome"], &told["error"]["name"]),
        (&json!("killed"), &json!("SandboxRolledBack")),
        "{told}"
    );
    assert_eq!(python(&server, &id, looks)?, "42 kept False\n");
    // A pause and its return change nothing of that.
    assert_eq!(turned(&server, &id, "pause")?["paused_to"], "disk");
    assert_eq!(code(&roll_back(&server, &id, &snapshot)?)?, json!("conflict"));
    turned(&server, &id, "resume")?;
    python(&server, &id, spoil)?;
    rolled_back(&server, &id, &snapshot)?;
    assert_eq!(python(&server, &id, looks)?, "42 kept False\n");
    let entries = server.send("GET", "/v1/audit?limit=100", None)?.json()?;
    let actions = entries["entries"].as_array().context("no entries")?.iter();
    let actions: Vec<&str> = actions.filter_map(|one| one["action"].as_str()).collect();
    let count = |action: &str| actions.iter().filter(|one| **one == action).count();
    assert_eq!(
        ["sandbox.create", "sandbox.rollback", "sandbox.end"].map(count),
        [1, 4, 0]
    );
    Ok(())
}

#[test]
fn snapshots_and_rollbacks_count_as_creates() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let id = gvisor(&server)?;
    let snapshot = saved(&server, &id)?;
    for (path, call) in [("rollback", json!({"snapshot": snapshot})), ("snapshots", json!({}))] {
        let key = server.new_key(&json!({"name": "n", "quotas": {"creates_per_minute": 1}}))?;
        let path = format!("/v1/sandboxes/{id}/{path}");
        let send = || server.send_as(&key, "POST", &path, Some(&call.to_string()));
        let mut last = send()?;
        ensure!(last.status < 300, "{path}: {}", last.text());
        // The bucket of the key gets one more in a minute: on a busy host that may be before the next call.
        eventually("a call too many", || {
            send().is_ok_and(|answer| {
                last = answer;
                last.status >= 300
            })
        })?;
        assert_eq!((last.status, code(&last)?), (429, json!("rate_limited")), "{path}");
    }
    assert_eq!(python(&server, &id, "print(6 * 7)")?, "42\n");
    Ok(())
}

#[test]
fn what_is_no_snapshot_of_it_is_refused_and_it_goes_on() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let (id, other) = (gvisor(&server)?, gvisor(&server)?);
    python(&server, &id, "x = 41")?;
    let (own, of_other) = (saved(&server, &id)?, saved(&server, &other)?);
    let refused = |answer: Answer| anyhow::Ok((answer.status, code(&answer)?));
    assert_eq!(refused(roll_back(&server, &id, &of_other)?)?, (409, json!("conflict")));
    let unknown = "snpaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(refused(roll_back(&server, &id, unknown)?)?, (404, json!("not_found")));
    // Somebody else's sandbox, and somebody else's snapshot.
    let stranger = server.new_key(&json!({"name": "s", "tenant": "stranger", "scopes": ["run", "read"]}))?;
    let send = |path: &str, body: Value| server.send_as(&stranger, "POST", path, Some(&body.to_string()));
    let own_call = json!({"snapshot": own});
    assert_eq!(
        send(&format!("/v1/sandboxes/{id}/rollback"), own_call.clone())?.status,
        404
    );
    let theirs = send("/v1/sandboxes", json!({"tier": "gvisor"}))?.json()?;
    let theirs = theirs["id"].as_str().context("no id")?;
    assert_eq!(send(&format!("/v1/sandboxes/{theirs}/rollback"), own_call)?.status, 404);
    let jail = server.sandbox(&json!({}))?;
    let answer = roll_back(&server, &jail, &own)?;
    assert!(
        answer.text().contains("jail") && answer.text().contains("gvisor"),
        "{}",
        answer.text()
    );
    assert_eq!(refused(answer)?, (409, json!("not_in_tier")));
    // One that is damaged costs nothing.
    assert_eq!(
        server
            .send("DELETE", &format!("/v1/snapshots/{of_other}"), None)?
            .status,
        204
    );
    fs::write(place(home.path())?.join("files"), b"x")?;
    assert_eq!(refused(roll_back(&server, &id, &own)?)?, (409, json!("conflict")));
    assert_eq!(python(&server, &id, "print(x + 1)")?, "42\n");
    assert_eq!(shown(&server, &id)?["state"], "running");
    Ok(())
}
