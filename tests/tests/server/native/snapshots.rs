//! Snapshots and forks in the tier `gvisor`: state goes on in each copy, copies are apart, and what is on disk is checked.

use anyhow::{Context, Result, ensure};
use atoll_tests::server::{Answer, Server};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

pub(super) fn gvisor(server: &Server) -> Result<String> {
    server.sandbox(&json!({"tier": "gvisor"}))
}

/// What the code prints; it must work.
pub(super) fn prints(server: &Server, id: &str, language: &str, code: &str) -> Result<String> {
    let body = json!({"code": code, "language": language});
    let told = server.json("POST", &format!("/v1/sandboxes/{id}/run"), &body)?.json()?;
    ensure!(told["outcome"] == "ok", "{told}");
    Ok(told["stdout"].as_str().context("no stdout")?.to_owned())
}

pub(super) fn python(server: &Server, id: &str, code: &str) -> Result<String> {
    prints(server, id, "python", code)
}

fn save(server: &Server, id: &str) -> Result<Answer> {
    server.json(
        "POST",
        &format!("/v1/sandboxes/{id}/snapshots"),
        &json!({"name": "mine"}),
    )
}

pub(super) fn saved(server: &Server, id: &str) -> Result<String> {
    let answer = save(server, id)?;
    ensure!(answer.status == 201, "{}", answer.text());
    Ok(answer.json()?["id"].as_str().context("no id")?.to_owned())
}

pub(super) fn code(answer: &Answer) -> Result<Value> {
    Ok(answer.json()?["error"]["code"].clone())
}

const STATE: &str = "import random, os, threading, time\nx = 41\nrandom.seed(7)\nopen('note', 'w').write('kept')\n\
                     log = open('/tmp/log', 'w')\nlog.write('a'); log.flush()\nticks = [0]\n\
                     def tick():\n    while True:\n        ticks[0] += 1\n        time.sleep(.01)\n\
                     threading.Thread(target=tick, daemon=True).start()";
const SHOWN: &str = "log.write('b'); log.flush()\nbefore = ticks[0]\ntime.sleep(.2)\n\
                     print(x + 1, open('note').read(), open('/tmp/log').read(), ticks[0] > before)";

#[test]
fn a_snapshot_carries_the_state_and_its_copies_are_apart() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let first = gvisor(&server)?;
    python(&server, &first, STATE)?;
    prints(&server, &first, "bash", "y=shell; cd /tmp")?;
    let snapshot = saved(&server, &first)?;
    // It has not noticed: memory, an open file and a thread go on.
    assert_eq!(python(&server, &first, SHOWN)?, "42 kept ab True\n");
    assert_eq!(prints(&server, &first, "bash", "echo $y $PWD")?, "shell /tmp\n");
    python(&server, &first, "x = 0; open('note', 'w').write('changed')")?;
    let copies = [0, 1].map(|_| server.sandbox(&json!({"snapshot": snapshot})));
    let [one, other] = copies;
    let (one, other) = (one?, other?);
    for copy in [&one, &other] {
        assert_eq!(python(&server, copy, SHOWN)?, "42 kept ab True\n");
        assert_eq!(prints(&server, copy, "bash", "echo $y $PWD")?, "shell /tmp\n");
    }
    python(&server, &one, "x = 1; open('note', 'w').write('one')")?;
    assert_eq!(python(&server, &other, "print(x, open('note').read())")?, "41 kept\n");
    assert_eq!(python(&server, &first, "print(x, open('note').read())")?, "0 changed\n");
    let draws = "import uuid\nprint(random.random(), uuid.uuid4(), os.urandom(8).hex())";
    let drawn = [&one, &other].map(|copy| python(&server, copy, draws));
    let [a, b] = drawn;
    let (a, b) = (a?, b?);
    for (one, other) in a.split(' ').zip(b.split(' ')) {
        assert_ne!(one, other);
    }
    let shells = [&one, &other].map(|copy| prints(&server, copy, "bash", "echo $RANDOM $RANDOM $RANDOM"));
    let [a, b] = shells;
    assert_ne!(a?, b?);
    Ok(())
}

#[test]
fn forks_go_on_from_where_a_sandbox_is_and_leave_nothing_on_disk() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let first = gvisor(&server)?;
    python(&server, &first, "x = 41")?;
    let path = format!("/v1/sandboxes/{first}/fork");
    let answer = server.json("POST", &path, &json!({"count": 2}))?;
    assert_eq!(answer.status, 201, "{}", answer.text());
    let told = answer.json()?;
    let ids: BTreeSet<&str> = told["sandboxes"]
        .as_array()
        .context("no list")?
        .iter()
        .filter_map(|one| one["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 2);
    assert!(!ids.contains(first.as_str()));
    for id in ids {
        assert_eq!(python(&server, id, "x += 1; print(x)")?, "42\n");
    }
    assert_eq!(python(&server, &first, "print(x)")?, "41\n");
    assert_eq!(fs::read_dir(home.path().join("snapshots"))?.count(), 0);
    assert_eq!(server.json("POST", &path, &json!({"count": 21}))?.status, 400);
    Ok(())
}

#[test]
fn a_snapshot_is_its_tenants_own_and_ends_with_its_removal() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let first = gvisor(&server)?;
    let snapshot = saved(&server, &first)?;
    let listed = server.send("GET", "/v1/snapshots", None)?.json()?;
    assert_eq!(listed["snapshots"][0]["id"], snapshot);
    assert_eq!(listed["snapshots"][0]["name"], "mine");
    let stranger = server.new_key(&json!({"name": "s", "tenant": "stranger", "scopes": ["run", "read"]}))?;
    let body = json!({"snapshot": snapshot}).to_string();
    let place = format!("/v1/snapshots/{snapshot}");
    assert_eq!(
        server.send_as(&stranger, "POST", "/v1/sandboxes", Some(&body))?.status,
        404
    );
    assert_eq!(server.send_as(&stranger, "DELETE", &place, None)?.status, 404);
    let listed = server.send_as(&stranger, "GET", "/v1/snapshots", None)?.json()?;
    assert_eq!(listed["snapshots"], json!([]));
    assert_eq!(server.send("DELETE", &place, None)?.status, 204);
    assert_eq!(server.send("DELETE", &place, None)?.status, 404);
    assert_eq!(fs::read_dir(home.path().join("snapshots"))?.count(), 0);
    Ok(())
}

/// The place on disk of the only snapshot that there is.
pub(super) fn place(home: &tempfile::TempDir) -> Result<PathBuf> {
    let mut all = fs::read_dir(home.path().join("snapshots"))?;
    Ok(all.next().context("no snapshot")??.path())
}

#[test]
fn a_damaged_snapshot_is_refused_and_a_whole_one_survives_the_server() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let key = server.key.clone();
    let first = gvisor(&server)?;
    python(&server, &first, "x = 41")?;
    let snapshot = saved(&server, &first)?;
    // As if another one had been in the making.
    let unfinished = home.path().join("snapshots/.part-snpaaaaaaaaaaaaaaaaaaaaaaaaaa");
    fs::create_dir(&unfinished)?;
    server.signal(rustix::process::Signal::KILL)?;
    server.wait()?;
    let mut server = Server::start(home.path(), &[])?;
    server.key = key;
    assert!(!unfinished.exists());
    let request = json!({"snapshot": snapshot});
    let copy = server.sandbox(&request)?;
    assert_eq!(python(&server, &copy, "print(x + 1)")?, "42\n");
    for name in ["files", "memory"] {
        let path = place(&home)?.join(name);
        let whole = fs::read(&path)?;
        fs::write(&path, [&whole[..], b"x"].concat())?;
        let answer = server.json("POST", "/v1/sandboxes", &request)?;
        assert_eq!(
            (answer.status, code(&answer)?),
            (409, json!("conflict")),
            "{}",
            answer.text()
        );
        fs::write(&path, whole)?;
    }
    assert_eq!(server.json("POST", "/v1/sandboxes", &request)?.status, 201);
    Ok(())
}

#[test]
fn what_cannot_be_saved_is_refused_and_goes_on() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    for tier in ["jail", "container"] {
        let id = server.sandbox(&json!({"tier": tier}))?;
        for path in ["snapshots", "fork"] {
            let answer = server.json("POST", &format!("/v1/sandboxes/{id}/{path}"), &json!({}))?;
            assert_eq!(
                (answer.status, code(&answer)?),
                (409, json!("not_in_tier")),
                "{tier} {path}"
            );
            let words = answer.text();
            assert!(words.contains(tier) && words.contains("gvisor"), "{words}");
        }
    }
    let secret = server.sandbox(&json!({"tier": "gvisor", "secrets": {"TOKEN": "a long secret value"}}))?;
    assert_eq!(save(&server, &secret)?.status, 409);
    // gVisor cannot save a file that was removed and is open.
    let first = gvisor(&server)?;
    python(&server, &first, "import tempfile\nf = tempfile.TemporaryFile()\nx = 41")?;
    let answer = save(&server, &first)?;
    assert_eq!(answer.status, 409, "{}", answer.text());
    assert!(answer.text().contains("removed"), "{}", answer.text());
    assert_eq!(python(&server, &first, "f.close(); print(x + 1)")?, "42\n");
    saved(&server, &first)?;
    assert_eq!(python(&server, &first, "print(x + 1)")?, "42\n");
    for with in [
        json!({"tier": "gvisor"}),
        json!({"profile": "data"}),
        json!({"template": "python-min"}),
    ] {
        let mut request = with;
        request["snapshot"] = json!("snpaaaaaaaaaaaaaaaaaaaaaaaaaa");
        assert_eq!(server.json("POST", "/v1/sandboxes", &request)?.status, 400, "{request}");
    }
    assert_eq!(fs::read_dir(home.path().join("snapshots"))?.count(), 1);
    Ok(())
}

/// It is taken between executions, never in the middle of one.
#[test]
fn a_snapshot_waits_for_code_that_runs() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let first = gvisor(&server)?;
    python(&server, &first, "x = 0")?;
    let slow = "open('began', 'w').close()\nimport time\nwhile x < 20:\n    x += 1\n    time.sleep(.1)\nprint(x)";
    let snapshot = std::thread::scope(|scope| -> Result<String> {
        let running = scope.spawn(|| python(&server, &first, slow));
        atoll_tests::process::eventually("the code", || {
            let path = format!("/v1/sandboxes/{first}/files?path=/home/user/began");
            server.send("GET", &path, None).is_ok_and(|answer| answer.status == 200)
        })?;
        let snapshot = saved(&server, &first)?;
        let ran = running
            .join()
            .map_err(|_| anyhow::anyhow!("the code's thread failed"))?;
        assert_eq!(ran?, "20\n");
        Ok(snapshot)
    })?;
    let copy = server.sandbox(&json!({"snapshot": snapshot}))?;
    assert_eq!(python(&server, &copy, "print(x)")?, "20\n");
    Ok(())
}

/// E2B's clients name no tier: a policy's floor puts their sandboxes into this one.
#[test]
fn e2bs_calls_do_the_same() -> Result<()> {
    let home = tempfile::tempdir()?;
    let policies = tempfile::tempdir()?;
    let floor = "inherit = \"standard\"\n[tiers]\nfloor = \"gvisor\"\n";
    fs::write(policies.path().join("gvisor.toml"), floor)?;
    let dir = policies.path().to_str().context("a path")?;
    let server = Server::start(home.path(), &["--policy-default", "gvisor", "--policy-dir", dir])?;
    let made = |answer: Answer| -> Result<String> {
        ensure!(answer.status == 201, "{}", answer.text());
        Ok(answer.json()?["sandboxID"].as_str().context("no id")?.to_owned())
    };
    let create = |template: &str| {
        let call = json!({"templateID": template, "timeout": 300});
        made(server.json("POST", "/v2/sandboxes", &call)?)
    };
    let first = create("base")?;
    python(&server, &first, "x = 41")?;
    let told = server.json("POST", &format!("/sandboxes/{first}/snapshots"), &json!({"name": "n"}))?;
    assert_eq!(told.status, 201, "{}", told.text());
    let told = told.json()?;
    assert_eq!(told["names"], json!(["n"]));
    let snapshot = told["snapshotID"].as_str().context("no id")?;
    let listed = server
        .send("GET", &format!("/snapshots?sandboxID={first}"), None)?
        .json()?;
    assert_eq!(listed, json!([told]));
    assert_eq!(server.send("GET", "/snapshots?name=other", None)?.json()?, json!([]));
    let copy = create(snapshot)?;
    assert_eq!(python(&server, &copy, "x += 1; print(x)")?, "42\n");
    let call = json!({"count": 2, "timeout": 100});
    let forks = server.json("POST", &format!("/sandboxes/{copy}/fork"), &call)?;
    assert_eq!(forks.status, 201, "{}", forks.text());
    for fork in forks.json()?.as_array().context("no list")? {
        let id = fork["sandbox"]["sandboxID"].as_str().context("no sandbox")?;
        assert_eq!(python(&server, id, "print(x)")?, "42\n");
    }
    let place = format!("/templates/{snapshot}");
    assert_eq!(server.send("DELETE", &place, None)?.status, 204);
    assert_eq!(server.send("DELETE", &place, None)?.status, 404);
    assert!(create(snapshot).is_err());
    Ok(())
}
