//! Floors of policies in sandboxes that live already: in each call, and when a paused one comes back.

use super::pauses::{shown, turned};
use super::snapshots::{code, gvisor, python};
use anyhow::{Context, Result, ensure};
use atoll_tests::e2b::create;
use atoll_tests::process::eventually;
use atoll_tests::server::Server;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::Path;

const SHELL: &str = "import os; os.system('uname -r'); print('ran')";

/// A server whose policy this is.
fn under(home: &Path, policy: &str) -> Result<Server> {
    let dir = home.join("own-policies");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("high.toml"), format!("inherit = \"standard\"\n{policy}"))?;
    let place = dir.to_str().context("no text")?;
    Server::start(home, &["--policy-dir", place, "--policy-default", "high"])
}

fn run(server: &Server, id: &str, call: &Value) -> Result<Value> {
    let answer = server.json("POST", &format!("/v1/sandboxes/{id}/run"), call)?;
    ensure!(answer.status == 200, "{}", answer.text());
    answer.json()
}

fn is_denied(told: &Value, rule: &str) {
    assert_eq!(
        (&told["outcome"], &told["error"]["name"], &told["stdout"]),
        (&json!("denied"), &json!("PolicyDenied"), &json!("")),
        "{told}"
    );
    assert_eq!(told["tier"], "jail", "{told}");
    assert!(
        told["hint"]["rule"].as_str().is_some_and(|said| said.contains(rule)),
        "{told}"
    );
}

/// How often the audit log tells of such a denial.
fn denials(server: &Server, action: &str) -> Result<usize> {
    let entries = server.send("GET", "/v1/audit?limit=100", None)?.json()?;
    let all = entries["entries"].as_array().context("no entries")?;
    let is_one = |one: &&Value| one["action"] == action && one["outcome"] == "denied";
    Ok(all.iter().filter(is_one).count())
}

/// An entry is closed a moment after the answer.
fn is_written(server: &Server, action: &str, count: usize) -> Result<()> {
    eventually("the denials in the audit log", || {
        denials(server, action).is_ok_and(|found| found == count)
    })
}

#[test]
fn a_finding_with_a_floor_is_denied_in_a_live_sandbox_below_it() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = under(home.path(), "[tiers.rules]\n\"process\" = \"gvisor\"\n")?;
    let id = server.sandbox(&json!({}))?;
    let high = "of policy high requires at least gvisor";
    is_denied(&run(&server, &id, &json!({"code": SHELL}))?, high);
    is_denied(
        &run(&server, &id, &json!({"code": "uname -r", "language": "bash"}))?,
        high,
    );
    assert_eq!(python(&server, &id, "print(6 * 7)")?, "42\n");
    is_written(&server, "execute", 2)?;
    Ok(())
}

#[test]
fn commands_and_terminals_keep_floors_too() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = under(home.path(), "[tiers.rules]\n\"process\" = \"gvisor\"\n")?;
    let sandbox = create(&server, &server.key, json!({}))?;
    let terminal = json!({
        "process": {"cmd": "/bin/bash", "args": ["-i", "-l"]}, "pty": {"size": {"cols": 80, "rows": 24}},
    });
    let command = json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", "uname -r"]}, "stdin": false});
    for call in [command, terminal] {
        let said = sandbox.call(&server, "/process.Process/Start", &call)?.body;
        assert!(
            said.contains("permission_denied") && said.contains("at least gvisor"),
            "{said}"
        );
    }
    is_written(&server, "command", 2)?;
    Ok(())
}

#[test]
fn a_floor_of_a_calls_own_policy_holds_for_that_call() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let id = server.sandbox(&json!({}))?;
    let at_least =
        |tier: &str| json!({"code": "print(1)", "policy": {"inherit": "standard", "tiers": {"floor": tier}}});
    is_denied(&run(&server, &id, &at_least("gvisor"))?, "requires at least gvisor");
    let fine = run(&server, &id, &at_least("jail"))?;
    assert_eq!((&fine["outcome"], &fine["stdout"]), (&json!("ok"), &json!("1\n")));
    assert!(python(&server, &id, SHELL)?.contains("ran"));
    Ok(())
}

#[test]
fn clients_of_e2b_choose_a_tier_but_none_below_a_floor() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = under(home.path(), "[tiers]\nfloor = \"gvisor\"\n")?;
    let create = |tier: &str| {
        let call = json!({"templateID": "base", "timeout": 300, "metadata": {"atoll.tier": tier}});
        server.json("POST", "/v2/sandboxes", &call)
    };
    let denied = create("jail")?;
    assert_eq!(denied.status, 403, "{}", denied.text());
    assert!(denied.text().contains("requires at least gvisor"), "{}", denied.text());
    let unknown = create("moat")?;
    assert_eq!(unknown.status, 400, "{}", unknown.text());
    assert!(unknown.text().contains("`atoll.tier`"), "{}", unknown.text());
    Ok(())
}

/// A call cannot take away what its sandbox has.
#[test]
fn a_call_that_keeps_more_from_code_than_its_sandbox_is_denied() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start_with_wasm(home.path(), &[])?;
    let id = server.sandbox(&json!({"tier": "wasm"}))?;
    let keeps =
        |what: &str| json!({"code": "print(1)", "policy": {"inherit": "standard", "tiers": {"wasm": {what: false}}}});
    for what in ["clock", "random"] {
        let told = run(&server, &id, &keeps(what))?;
        assert_eq!(
            (&told["outcome"], &told["stdout"]),
            (&json!("denied"), &json!("")),
            "{told}"
        );
        let rule = told["hint"]["rule"].as_str().context("no rule")?;
        assert!(rule.contains(&format!("tiers.wasm.{what}")), "{told}");
    }
    assert_eq!(python(&server, &id, "print(6 * 7)")?, "42\n");
    Ok(())
}

#[test]
fn a_paused_sandbox_does_not_come_back_below_a_new_floor() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let id = gvisor(&server)?;
    python(&server, &id, "x = 41")?;
    assert_eq!(turned(&server, &id, "pause")?["paused_to"], "disk");
    let key = server.key.clone();
    server.signal(Signal::TERM)?;
    server.wait()?;
    let mut server = under(home.path(), "[tiers]\nfloor = \"microvm\"\n")?;
    server.key.clone_from(&key);
    let refused = server.send("POST", &format!("/v1/sandboxes/{id}/resume"), None)?;
    assert_eq!((refused.status, code(&refused)?), (403, json!("policy_denied")));
    let told = shown(&server, &id)?;
    assert_eq!((&told["state"], &told["paused_to"]), (&json!("paused"), &json!("disk")));
    is_written(&server, "sandbox.resume", 1)?;
    server.signal(Signal::TERM)?;
    server.wait()?;
    // What was saved is whole.
    let mut server = Server::start(home.path(), &[])?;
    server.key = key;
    turned(&server, &id, "resume")?;
    assert_eq!(python(&server, &id, "print(x + 1)")?, "42\n");
    Ok(())
}
