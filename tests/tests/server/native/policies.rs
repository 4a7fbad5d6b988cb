//! Policies over HTTP: who has which, what a request can add to it, and that nothing loosens it. Commands of E2B's dialect too.

use atoll_tests::e2b::{create, key_of};
use atoll_tests::run_command;
use atoll_tests::server::{Server, atoll_in, serve};
use serde_json::{Value, json};

const SHELL: &str = "import os\nos.system('true')\nprint('ran')";

fn outcome(server: &Server, key: &str, path: &str, call: &Value) -> (String, Value) {
    let answer = server.send_as(key, "POST", path, Some(&call.to_string())).unwrap();
    assert_eq!(answer.status, 200, "{}", answer.text());
    let ran = answer.json().unwrap();
    (ran["outcome"].as_str().unwrap().to_owned(), ran)
}

#[test]
fn a_tenants_policy_holds_and_a_request_cannot_loosen_it() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--policy-tenants", "acme=strict"]).unwrap();
    let (acme, _) = key_of(&server, "acme", &[]).unwrap();
    let run = |key: &str, policy: Value| outcome(&server, key, "/v1/run", &json!({"code": SHELL, "policy": policy}));
    assert_eq!(run(&server.key, Value::Null).0, "ok");
    for policy in [Value::Null, json!("open"), json!({"code": {"default": "allow"}})] {
        let (outcome, denied) = run(&acme, policy.clone());
        assert_eq!(outcome, "denied", "{policy}");
        let rule = denied["hint"]["rule"].as_str().unwrap();
        assert!(rule.starts_with("policy strict") && rule.ends_with("= deny"), "{rule}");
        assert_eq!(denied["stdout"], "");
    }
    // A sandbox and each call in it likewise.
    let made = server
        .send_as(&acme, "POST", "/v1/sandboxes", Some(r#"{"policy": "open"}"#))
        .unwrap()
        .json()
        .unwrap();
    assert_eq!(made["policy"]["name"], "strict+open");
    let path = format!("/v1/sandboxes/{}/run", made["id"].as_str().unwrap());
    for policy in [Value::Null, json!("open")] {
        let call = json!({"code": SHELL, "policy": policy});
        assert_eq!(outcome(&server, &acme, &path, &call).0, "denied");
    }
    assert_eq!(outcome(&server, &acme, &path, &json!({"code": "1 + 1"})).0, "ok");
}

#[test]
fn a_request_can_tighten_by_a_name_or_by_a_policy_of_its_own() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let own = json!({"inherit": "standard", "code": {"rules": {"process": "deny"}}});
    for policy in [json!("strict"), own.clone()] {
        let call = json!({"code": SHELL, "policy": policy});
        assert_eq!(outcome(&server, &server.key, "/v1/run", &call).0, "denied");
    }
    let id = server.sandbox(&json!({"policy": own})).unwrap();
    let shown = server.send("GET", &format!("/v1/sandboxes/{id}"), None).unwrap();
    assert_eq!(shown.json().unwrap()["policy"]["name"], "standard+inline");
    let path = format!("/v1/sandboxes/{id}/run");
    let ask =
        |code: &str, policy: Value| outcome(&server, &server.key, &path, &json!({"code": code, "policy": policy}));
    assert_eq!(ask(SHELL, Value::Null).0, "denied");
    let (fine, ran) = ask("import zipfile", Value::Null);
    assert_eq!(
        (fine.as_str(), &ran["receipt"]["policy"]),
        ("ok", &shown.json().unwrap()["policy"]["digest"])
    );
    assert_eq!(ask("import zipfile", json!("strict")).0, "denied");
    for bad in [
        json!("lax"),
        json!({"inherit": "/etc/passwd"}),
        json!({"code": {}}),
        json!(1),
        json!([]),
    ] {
        for path in ["/v1/run", "/v1/sandboxes", &path] {
            let call = match path {
                "/v1/sandboxes" => json!({"policy": bad}),
                _ => json!({"code": "1", "policy": bad}),
            };
            let refused = server.json("POST", path, &call).unwrap();
            assert_eq!(
                (refused.status, refused.code().unwrap().as_str()),
                (400, "invalid_request"),
                "{path} {bad}"
            );
        }
    }
}

#[test]
fn policies_are_listed_with_their_digests_and_the_operators_own_are_among_them() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("lab.toml"),
        "description = \"ours\"\ninherit = \"guarded\"\n",
    )
    .unwrap();
    let place = dir.path().to_str().unwrap();
    let server = Server::start(home.path(), &["--policy-dir", place, "--policy-default", "lab"]).unwrap();
    let list = server.send("GET", "/v1/policies", None).unwrap().json().unwrap();
    let names: Vec<&str> = list["policies"]
        .as_array()
        .unwrap()
        .iter()
        .map(|policy| policy["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        (names, &list["own"]),
        (vec!["guarded", "lab", "open", "standard", "strict"], &json!("lab"))
    );
    assert!(!list.to_string().contains(place), "{list}");
    let show = |name: &str| server.send("GET", &format!("/v1/policies/{name}"), None).unwrap();
    let (lab, guarded) = (show("lab").json().unwrap(), show("guarded").json().unwrap());
    assert_eq!(
        (&lab["digest"], &lab["description"]),
        (&guarded["digest"], &json!("ours"))
    );
    assert_eq!(lab["code"]["rules"]["network.use"], "ask");
    assert_eq!(show("nobody").status, 404);
}

#[test]
fn a_policy_that_cannot_be_used_keeps_the_server_from_starting() {
    let home = tempfile::tempdir().unwrap();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("bad.toml"),
        "inherit = \"strict\"\n[code.rules]\n\"no.such\" = \"deny\"\n",
    )
    .unwrap();
    for (flags, words) in [
        (
            ["--policy-default", "lax"],
            "unknown policy `lax` in the setting policy.default",
        ),
        (
            ["--policy-tenants", "acme=lax"],
            "unknown policy `lax` in the setting policy.tenants.acme",
        ),
        (["--policy-tenants", "acme"], "expected TENANT=NAME"),
        (
            ["--policy-dir", dir.path().to_str().unwrap()],
            "unknown rule or rule group `no.such`",
        ),
    ] {
        let flags = [&["--template", "python-min"][..], &flags].concat();
        let ran = run_command(&mut serve(home.path(), &flags)).unwrap();
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(ran.stderr.contains(words), "{ran:?}");
    }
}

#[test]
fn a_run_on_a_server_takes_a_policy_by_name_and_from_files() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &[]).unwrap();
    let url = format!("http://{}", server.api);
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("base.toml"),
        "inherit = \"standard\"\n[code.rules]\n\"process\" = \"deny\"\n",
    )
    .unwrap();
    std::fs::write(dir.path().join("own.toml"), "inherit = \"base.toml\"\n").unwrap();
    for policy in ["strict", "own.toml"] {
        let mut command = atoll_in(home.path());
        command.args(["run", "--server", &url, "--policy", policy, "-c", SHELL]);
        let ran = run_command(command.current_dir(dir.path())).unwrap();
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), ""), "{ran:?}");
        assert!(ran.stderr.contains("deny: line"), "{ran:?}");
    }
    let mut command = atoll_in(home.path());
    command.args(["run", "--server", &url, "--policy", "open", "-c", SHELL]);
    let ran = run_command(command.current_dir(dir.path())).unwrap();
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "ran\n"), "{ran:?}");
}

#[test]
fn commands_and_terminals_of_e2b_pass_the_gate() {
    let home = tempfile::tempdir().unwrap();
    let server = Server::start(home.path(), &["--policy-tenants", "acme=strict"]).unwrap();
    let (acme, _) = key_of(&server, "acme", &[]).unwrap();
    let shell = |code: &str| json!({"process": {"cmd": "/bin/bash", "args": ["-l", "-c", code]}, "stdin": false});
    let terminal = json!({
        "process": {"cmd": "/bin/bash", "args": ["-i", "-l"]}, "pty": {"size": {"cols": 80, "rows": 24}},
    });
    let free = create(&server, &server.key, json!({})).unwrap();
    let said = free
        .call(&server, "/process.Process/Start", &shell("echo $((6 * 7))"))
        .unwrap();
    assert!(said.body.contains("NDIK"), "{}", said.body);
    let held = create(&server, &acme, json!({})).unwrap();
    for call in [shell("echo $((6 * 7))"), json!({"process": {"cmd": "ls"}}), terminal] {
        let said = held.call(&server, "/process.Process/Start", &call).unwrap();
        assert!(
            said.body.contains("permission_denied") && said.body.contains("policy strict"),
            "{}",
            said.body
        );
        assert!(!said.body.contains("NDIK"), "{}", said.body);
    }
    // And code, without anybody saying so.
    let body = json!({"code": SHELL}).to_string();
    let said = held.send(&server, "POST", "/execute", body.as_bytes()).unwrap();
    assert!(
        said.body.contains("PolicyDenied") && !said.body.contains("ran"),
        "{}",
        said.body
    );
}
