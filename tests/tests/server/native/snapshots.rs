//! Snapshots and forks in the tiers that have them: state goes on in each copy, copies are apart, and what is on disk is checked.

mod disk;
mod kill;
mod state;
mod words;

use anyhow::{Context, Result, ensure};
use atoll_tests::process::eventually;
use atoll_tests::server::{Answer, Server, connect, lend_guest_images};
use serde_json::{Value, json};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The same tests in each tier.
macro_rules! in_each_tier {
    ($($module:ident::$name:ident),* $(,)?) => {
        mod gvisor {
            $(#[test]
            fn $name() -> anyhow::Result<()> {
                super::$module::$name("gvisor")
            })*
        }
        mod microvm {
            $(#[test]
            fn $name() -> anyhow::Result<()> {
                super::$module::$name("microvm")
            })*
        }
    };
}

in_each_tier! {
    state::a_snapshot_carries_the_state_and_its_copies_are_apart,
    state::forks_go_on_from_where_a_sandbox_is_and_leave_nothing_on_disk,
    state::a_snapshot_waits_for_code_that_runs,
    state::a_copy_of_a_copy_goes_on,
    state::it_goes_back_and_lies_on_disk_under_its_own_name,
    disk::a_damaged_snapshot_is_refused_and_a_whole_one_survives_the_server,
    words::e2bs_calls_do_the_same,
}

#[test]
fn first_use_of_microvm_is_logged_phase_by_phase() -> Result<()> {
    let home = tempfile::tempdir()?;
    lend_guest_images(home.path())?;
    let server = start(home.path(), "microvm")?;
    of(&server, "microvm")?;
    let log = server.log();
    let mut rest = log.as_str();
    for phase in [
        "booting a microvm guest",
        "starting Python in the microvm guest",
        "saving the microvm guest",
    ] {
        let line = format!("building template python-min: {phase}");
        let (_, after) = rest
            .split_once(line.as_str())
            .with_context(|| format!("no `{line}` in {log}"))?;
        rest = after;
    }
    Ok(())
}

/// A server that has the tier.
struct Lab {
    server: Server,
    home: tempfile::TempDir,
}

impl Lab {
    fn start(tier: &str) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let server = start(home.path(), tier)?;
        Ok(Self { home, server })
    }

    /// Killed, and started again.
    fn start_again(self, tier: &str) -> Result<Self> {
        let Self { home, mut server } = self;
        let key = server.key.clone();
        server.signal(rustix::process::Signal::KILL)?;
        server.wait()?;
        let mut server = start(home.path(), tier)?;
        server.key = key;
        Ok(Self { home, server })
    }

    fn snapshots_on_disk(&self) -> Result<usize> {
        Ok(std::fs::read_dir(self.home.path().join("snapshots"))?.count())
    }
}

fn start(home: &Path, tier: &str) -> Result<Server> {
    match tier {
        "microvm" => Server::start_with_guests(home),
        _ => Server::start(home, &[]),
    }
}

fn of(server: &Server, tier: &str) -> Result<String> {
    server.sandbox(&json!({"tier": tier}))
}

pub(super) fn gvisor(server: &Server) -> Result<String> {
    of(server, "gvisor")
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

/// The place on disk of the only snapshot that there is.
pub(super) fn place(home: &Path) -> Result<PathBuf> {
    let mut all = std::fs::read_dir(home.join("snapshots"))?;
    Ok(all.next().context("no snapshot")??.path())
}

/// Whoever asks for forks and goes away gets none, and what they were made from is gone.
#[test]
fn forks_that_nobody_hears_of_end_and_leave_nothing() -> Result<()> {
    let lab = Lab::start("gvisor")?;
    let first = gvisor(&lab.server)?;
    let body = r#"{"count":3}"#;
    let head = format!(
        "POST /v1/sandboxes/{first}/fork HTTP/1.1\r\nHost: {}\r\nX-API-KEY: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        lab.server.api,
        lab.server.key,
        body.len()
    );
    let mut connection = connect(lab.server.api)?;
    connection.write_all(head.as_bytes())?;
    eventually("something is saved", || {
        lab.snapshots_on_disk().is_ok_and(|count| count > 0)
    })?;
    drop(connection);
    eventually("nothing is saved any more", || {
        lab.snapshots_on_disk().is_ok_and(|count| count == 0)
    })?;
    let live = || -> Result<usize> {
        let all = lab.server.send("GET", "/v1/sandboxes?state=running", None)?.json()?;
        Ok(all["sandboxes"].as_array().context("no list")?.len())
    };
    eventually("only the first one lives", || live().is_ok_and(|count| count == 1))?;
    assert_eq!(python(&lab.server, &first, "print(6 * 7)")?, "42\n");
    Ok(())
}
