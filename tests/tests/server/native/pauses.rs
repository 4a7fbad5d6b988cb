//! Pauses in the tier `gvisor`: the sandbox lies on disk, takes nothing meanwhile, outlives the server, and goes on under its
//! own name. What cannot be saved is paused in memory, and says so.

use super::snapshots::{code, gvisor, place, prints, python};
use crate::admin::wait_for_waiting;
use anyhow::{Context, Result, ensure};
use atoll_tests::process::{Process, eventually};
use atoll_tests::server::{Answer, Server};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(super) fn turned(server: &Server, id: &str, how: &str) -> Result<Value> {
    let answer = server.send("POST", &format!("/v1/sandboxes/{id}/{how}"), None)?;
    ensure!(answer.status == 200, "{}", answer.text());
    answer.json()
}

pub(super) fn shown(server: &Server, id: &str) -> Result<Value> {
    server.send("GET", &format!("/v1/sandboxes/{id}"), None)?.json()
}

fn end(server: &Server, id: &str) -> Result<Value> {
    server.send("DELETE", &format!("/v1/sandboxes/{id}"), None)?.json()
}

/// Control groups of the wall that a sandbox was made with: they have its name.
fn groups(id: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), id, 0, &mut found);
    found
}

fn walk(dir: &Path, name: &str, depth: usize, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if depth > 8 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if entry.file_name() == name {
            found.push(entry.path());
        }
        walk(&entry.path(), name, depth + 1, found);
    }
}

fn processes(groups: &[PathBuf]) -> Vec<Process> {
    let texts = groups
        .iter()
        .filter_map(|dir| fs::read_to_string(dir.join("cgroup.procs")).ok());
    let pids: Vec<u32> = texts
        .flat_map(|text| text.lines().filter_map(|line| line.parse().ok()).collect::<Vec<_>>())
        .collect();
    pids.into_iter().filter_map(Process::of).collect()
}

fn files(home: &tempfile::TempDir) -> usize {
    fs::read_dir(home.path().join("snapshots")).map_or(0, Iterator::count)
}

const STATE: &str = "import os, threading, time\nx = 41\ndef more(by):\n    global x\n    x += by\n    return x\n\
                     open('note', 'w').write('kept ' + os.environ['WHO'])\nticks = [0]\n\
                     def tick():\n    while True:\n        ticks[0] += 1\n        time.sleep(.01)\n\
                     threading.Thread(target=tick, daemon=True).start()";
/// The thread goes on, or this never ends.
const SHOWN: &str = "before = ticks[0]\nwhile ticks[0] == before: time.sleep(.01)\n\
                     print(more(1), open('note').read(), ticks[0] > before, os.environ['WHO'])";

fn made(server: &Server) -> Result<String> {
    let limits = json!({"memory_bytes": 600 << 20});
    let request = json!({"tier": "gvisor", "metadata": {"a": "b"}, "env": {"WHO": "me"}, "limits": limits,
                         "max_executions": 99, "policy": "open"});
    let id = server.sandbox(&request)?;
    python(server, &id, STATE)?;
    prints(server, &id, "bash", "y=shell; cd /tmp")?;
    prints(server, &id, "javascript", "let z = 7")?;
    Ok(id)
}

fn is_as_it_was(server: &Server, id: &str, x: u32) -> Result<()> {
    assert_eq!(python(server, id, SHOWN)?, format!("{x} kept me True me\n"));
    assert_eq!(prints(server, id, "bash", "echo $y $PWD")?, "shell /tmp\n");
    assert_eq!(prints(server, id, "javascript", "console.log(z)")?, "7\n");
    Ok(())
}

#[test]
fn a_paused_sandbox_lies_on_disk_takes_nothing_and_goes_on_where_it_was() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let id = made(&server)?;
    let groups = groups(&id);
    let before = processes(&groups);
    assert!(before.len() > 2, "{before:?}");
    let contexts = |server: &Server| {
        server
            .send("GET", &format!("/v1/sandboxes/{id}/contexts"), None)?
            .json()
    };
    let named = contexts(&server)?;
    let told = turned(&server, &id, "pause")?;
    assert_eq!(
        (&told["state"], &told["paused_to"], &told["ends_at"]),
        (&json!("paused"), &json!("disk"), &Value::Null)
    );
    // Memory and processor: nobody of it is left, nor a group that could hold somebody.
    assert!(!before.iter().any(|process| process.is_alive()), "{before:?}");
    assert!(!groups.iter().any(|dir| dir.exists()), "{groups:?}");
    let mode = |path: &Path| fs::metadata(path).map(|meta| meta.permissions().mode() & 0o777);
    let dir = place(home.path())?;
    assert_eq!(
        (
            mode(&dir)?,
            mode(&dir.join("memory"))?,
            mode(&dir.join("snapshot.json"))?
        ),
        (0o700, 0o600, 0o600)
    );
    assert_eq!(contexts(&server)?, named);
    // It is no snapshot: nobody sees, uses or removes it as one.
    let name = dir.file_name().and_then(|name| name.to_str()).context("a name")?;
    assert_eq!(
        server.send("GET", "/v1/snapshots", None)?.json()?["snapshots"],
        json!([])
    );
    assert_eq!(
        server.json("POST", "/v1/sandboxes", &json!({"snapshot": name}))?.status,
        404
    );
    assert_eq!(
        server.send("DELETE", &format!("/v1/snapshots/{name}"), None)?.status,
        404
    );
    for how in ["pause", "snapshots", "fork"] {
        assert_eq!(
            server
                .json("POST", &format!("/v1/sandboxes/{id}/{how}"), &json!({}))?
                .status,
            409,
            "{how}"
        );
    }
    let run = server.json("POST", &format!("/v1/sandboxes/{id}/run"), &json!({"code": "1"}))?;
    assert_eq!((run.status, code(&run)?), (409, json!("conflict")));
    let told = turned(&server, &id, "resume")?;
    assert_eq!(
        (&told["state"], &told["paused_to"], &told["id"]),
        (&json!("running"), &Value::Null, &json!(id))
    );
    is_as_it_was(&server, &id, 42)?;
    assert_eq!((contexts(&server)?, files(&home)), (named, 0));
    // Again, and then its end: nothing stays.
    assert_eq!(turned(&server, &id, "pause")?["paused_to"], "disk");
    turned(&server, &id, "resume")?;
    is_as_it_was(&server, &id, 43)?;
    turned(&server, &id, "pause")?;
    assert_eq!(end(&server, &id)?["reason"], "killed_by_tenant");
    assert_eq!(files(&home), 0);
    let entries = server.send("GET", "/v1/audit?limit=100", None)?.json()?;
    let actions: Vec<&str> = entries["entries"]
        .as_array()
        .context("no entries")?
        .iter()
        .filter_map(|one| one["action"].as_str())
        .collect();
    let count = |action: &str| actions.iter().filter(|one| **one == action).count();
    assert_eq!(
        ["sandbox.create", "sandbox.pause", "sandbox.resume", "sandbox.end"].map(count),
        [1, 3, 2, 1]
    );
    Ok(())
}

#[test]
fn what_cannot_be_saved_is_paused_in_memory_and_says_so() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let secrets = json!({"tier": "gvisor", "secrets": {"TOKEN": "a long secret value"}});
    for request in [json!({}), secrets] {
        let id = server.sandbox(&request)?;
        python(&server, &id, "x = 41")?;
        assert_eq!(turned(&server, &id, "pause")?["paused_to"], "memory", "{request}");
        assert_eq!(files(&home), 0);
        turned(&server, &id, "resume")?;
        assert_eq!(python(&server, &id, "print(x + 1)")?, "42\n");
    }
    // Something that gVisor cannot save, and code that runs: it goes on where it stood.
    let id = gvisor(&server)?;
    python(&server, &id, "import tempfile\nf = tempfile.TemporaryFile()\nx = 41")?;
    assert_eq!(turned(&server, &id, "pause")?["paused_to"], "memory");
    turned(&server, &id, "resume")?;
    let slow = "f.close()\nopen('began', 'w').close()\nimport os, time\nwhile not os.path.exists('go'): time.sleep(.05)\nprint(x + 1)";
    std::thread::scope(|scope| -> Result<()> {
        let running = scope.spawn(|| python(&server, &id, slow));
        let path = format!("/v1/sandboxes/{id}/files?path=/home/user/began");
        eventually("the code", || {
            server.send("GET", &path, None).is_ok_and(|answer| answer.status == 200)
        })?;
        assert_eq!(turned(&server, &id, "pause")?["paused_to"], "memory");
        turned(&server, &id, "resume")?;
        let go = format!("/v1/sandboxes/{id}/files?path=/home/user/go");
        assert_eq!(
            server.bytes("PUT", &go, "application/octet-stream", b"")?.status / 100,
            2
        );
        let ran = running
            .join()
            .map_err(|_| anyhow::anyhow!("the code's thread failed"))?;
        assert_eq!(ran?, "42\n");
        Ok(())
    })?;
    assert_eq!(turned(&server, &id, "pause")?["paused_to"], "disk");
    turned(&server, &id, "resume")?;
    assert_eq!(python(&server, &id, "print(x + 1)")?, "42\n");
    Ok(())
}

#[test]
fn on_disk_it_holds_no_place_and_needs_one_to_come_back() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--max-sandboxes", "2"])?;
    let key = server.new_key(&json!({"name": "n", "quotas": {"live_sandboxes": 1}}))?;
    let send = |method: &str, path: &str, body: Option<Value>| {
        server.send_as(&key, method, path, body.map(|body| body.to_string()).as_deref())
    };
    let request = json!({"tier": "gvisor", "idle_ms": 3000, "pause_when_idle": true});
    let made = send("POST", "/v1/sandboxes", Some(request))?.json()?;
    let path = format!("/v1/sandboxes/{}", made["id"].as_str().context("no id")?);
    // Its idle time brings it to disk, too.
    eventually("the pause", || {
        send("GET", &path, None).is_ok_and(|answer| answer.json().is_ok_and(|told| told["paused_to"] == "disk"))
    })?;
    // Awake again it has more time than this test takes.
    assert_eq!(
        send("POST", &format!("{path}/extend"), Some(json!({"ms": 600_000})))?.status,
        200
    );
    let other = send("POST", "/v1/sandboxes", Some(json!({})))?;
    assert_eq!(other.status, 201, "{}", other.text());
    let refused = send("POST", &format!("{path}/resume"), None)?;
    assert_eq!(
        (refused.status, code(&refused)?),
        (429, json!("quota_exceeded")),
        "{}",
        refused.text()
    );
    let told = send("GET", &path, None)?.json()?;
    assert_eq!((&told["state"], &told["paused_to"]), (&json!("paused"), &json!("disk")));
    let other = format!("/v1/sandboxes/{}", other.json()?["id"].as_str().context("no id")?);
    assert_eq!(send("DELETE", &other, None)?.status, 200);
    let back = send("POST", &format!("{path}/resume"), None)?;
    assert_eq!(back.status, 200, "{}", back.text());
    let full = send("POST", "/v1/sandboxes", Some(json!({})))?;
    assert_eq!((full.status, code(&full)?), (429, json!("quota_exceeded")));
    Ok(())
}

#[test]
fn a_resume_on_a_full_server_waits_for_its_turn() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &["--max-sandboxes", "1", "--queue-timeout", "5m"])?;
    let id = gvisor(&server)?;
    python(&server, &id, "x = 41")?;
    assert_eq!(turned(&server, &id, "pause")?["paused_to"], "disk");
    let other = server.sandbox(&json!({}))?;
    std::thread::scope(|scope| -> Result<()> {
        let resume = scope.spawn(|| turned(&server, &id, "resume"));
        wait_for_waiting(&server, 1)?;
        end(&server, &other)?;
        let back = resume
            .join()
            .map_err(|_| anyhow::anyhow!("the resume's thread failed"))?;
        assert_eq!(back?["state"], "running");
        Ok(())
    })?;
    assert_eq!(python(&server, &id, "print(x + 1)")?, "42\n");
    Ok(())
}

/// Ends the server and starts another one.
fn again(mut server: Server, home: &tempfile::TempDir, how: Signal) -> Result<Server> {
    server.signal(how)?;
    server.wait()?;
    let mut next = Server::start(home.path(), &[])?;
    next.key = server.key.clone();
    Ok(next)
}

#[test]
fn a_paused_sandbox_outlives_its_server_however_that_ends() -> Result<()> {
    let home = tempfile::tempdir()?;
    let mut server = Server::start(home.path(), &[])?;
    let stranger = server.new_key(&json!({"name": "s", "tenant": "stranger", "scopes": ["run", "read"]}))?;
    let id = made(&server)?;
    for (turn, (how, reason)) in [(Signal::KILL, "node_lost"), (Signal::TERM, "node_shutdown")]
        .into_iter()
        .enumerate()
    {
        let runs = server.sandbox(&json!({}))?;
        let before = turned(&server, &id, "pause")?;
        let unfinished = home.path().join("snapshots/.part-snpaaaaaaaaaaaaaaaaaaaaaaaaaa");
        fs::create_dir(&unfinished)?;
        server = again(server, &home, how)?;
        assert!(!unfinished.exists());
        assert_eq!(shown(&server, &runs)?["reason"], reason);
        let after = shown(&server, &id)?;
        assert_eq!(after, before, "nothing of what is told has changed");
        assert_eq!(
            (&after["policy"]["name"], &after["metadata"]["a"]),
            (&before["policy"]["name"], &json!("b"))
        );
        let listed = server.send("GET", "/v1/sandboxes?state=paused", None)?.json()?;
        assert_eq!(listed["sandboxes"][0]["id"], json!(id));
        for (method, path) in [("GET", ""), ("POST", "/resume"), ("DELETE", "")] {
            let answer = server.send_as(&stranger, method, &format!("/v1/sandboxes/{id}{path}"), None)?;
            assert_eq!(answer.status, 404, "{method} {path}");
        }
        // The last time as E2B's clients do it.
        match turn {
            0 => assert_eq!(turned(&server, &id, "resume")?["state"], "running"),
            _ => {
                let answer = server.json("POST", &format!("/sandboxes/{id}/connect"), &json!({"timeout": 60}))?;
                assert_eq!(answer.status, 201, "{}", answer.text());
            }
        }
        is_as_it_was(&server, &id, 42 + u32::try_from(turn)?)?;
    }
    // What is not paused any more is lost with its server, and what was saved before is not there to come back from.
    assert_eq!(files(&home), 0);
    let server = again(server, &home, Signal::KILL)?;
    assert_eq!(shown(&server, &id)?["reason"], "node_lost");
    Ok(())
}

#[test]
fn what_is_damaged_is_refused_the_sandbox_says_so_and_can_be_ended() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let id = gvisor(&server)?;
    python(&server, &id, "x = 41")?;
    turned(&server, &id, "pause")?;
    let memory = place(home.path())?.join("memory");
    let whole = fs::read(&memory)?;
    fs::write(&memory, [&whole[..], b"x"].concat())?;
    let resume = format!("/v1/sandboxes/{id}/resume");
    let refused = |answer: Answer| -> Result<()> {
        ensure!(
            (answer.status, code(&answer)?) == (409, json!("conflict")),
            "{}",
            answer.text()
        );
        ensure!(answer.text().contains("damaged"), "{}", answer.text());
        Ok(())
    };
    refused(server.send("POST", &resume, None)?)?;
    let told = shown(&server, &id)?;
    assert_eq!((&told["state"], &told["paused_to"]), (&json!("paused"), &json!("disk")));
    assert!(
        told["problem"].as_str().is_some_and(|words| words.contains("damaged")),
        "{told}"
    );
    let connect = server.json("POST", &format!("/sandboxes/{id}/connect"), &json!({"timeout": 60}))?;
    assert_eq!(connect.status, 409, "{}", connect.text());
    // Whole again, it goes on.
    fs::write(&memory, whole)?;
    assert_eq!(turned(&server, &id, "resume")?["problem"], Value::Null);
    assert_eq!(python(&server, &id, "print(x + 1)")?, "42\n");
    turned(&server, &id, "pause")?;
    let place = place(home.path())?;
    fs::write(place.join("memory"), b"x")?;
    let server = again(server, &home, Signal::KILL)?;
    let answer = server.send("POST", &resume, None)?;
    assert_eq!(
        (answer.status, code(&answer)?),
        (409, json!("conflict")),
        "{}",
        answer.text()
    );
    assert_eq!(end(&server, &id)?["reason"], "killed_by_tenant");
    assert!(!place.exists());
    Ok(())
}

/// As a crash can leave it: the end is written down, and the files are there.
#[test]
fn what_is_left_of_an_ended_one_is_swept() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let id = gvisor(&server)?;
    turned(&server, &id, "pause")?;
    let (dir, aside) = (place(home.path())?, home.path().join("aside"));
    fs::create_dir(&aside)?;
    for name in ["memory", "files", "snapshot.json"] {
        fs::copy(dir.join(name), aside.join(name))?;
    }
    assert_eq!(end(&server, &id)?["reason"], "killed_by_tenant");
    fs::rename(&aside, &dir)?;
    let server = again(server, &home, Signal::TERM)?;
    assert_eq!(shown(&server, &id)?["reason"], "killed_by_tenant");
    assert!(!dir.exists());
    Ok(())
}
