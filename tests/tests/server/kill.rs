//! SIGKILL at any moment: every record that was acknowledged is there afterwards.

use anyhow::{Context, Result};
use atoll_core::service::SandboxState;
use atoll_core::{EndReason, KeyId, SandboxId, Tier};
use atoll_server::store::{Page, SandboxRecord, Usage};
use atoll_server::{Store, Timestamp};
use atoll_tests::run_command;
use atoll_tests::server::{Server, atoll_in};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Set for the copy of this test binary that writes and gets killed.
const WRITE_TO: &str = "STORE_TEST_WRITE_TO";
const ROUNDS: usize = 6;

fn record(number: u32) -> SandboxRecord {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    SandboxRecord {
        id: SandboxId::from_random(bytes),
        tenant: "t".to_owned(),
        key_id: KeyId::from_random([0; 16]),
        template: "python-data".to_owned(),
        tier: Tier::Jail,
        state: SandboxState::Running,
        created: Timestamp::now(),
        ended: None,
        reason: None,
        metadata: Default::default(),
        usage: Usage::default(),
    }
}

/// Writes for ever, several at a time, and says what was acknowledged.
async fn write_for_ever(store: Store, first: u32) -> Result<()> {
    for number in (first..).step_by(4) {
        let writes = (number..number + 4).map(|number| write(store.clone(), record(number)));
        let mut running: tokio::task::JoinSet<Result<()>> = writes.collect();
        while let Some(written) = running.join_next().await {
            written??;
        }
    }
    Ok(())
}

async fn write(store: Store, record: SandboxRecord) -> Result<()> {
    store.add_sandbox(record.clone()).await?;
    say(&format!("added {}", record.id))?;
    store
        .end_sandbox(&record.id, EndReason::Closed, Usage::default())
        .await?;
    say(&format!("ended {}", record.id))
}

fn say(line: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(format!("\n{line}\n").as_bytes())?;
    Ok(stdout.flush()?)
}

/// Starts the writer, kills it after so many lines, and gives back all that it said.
fn killed_writer(path: &Path, lines: usize, first: u32) -> Result<Vec<String>> {
    let mut writer = Command::new(std::env::current_exe()?)
        .args(["--exact", "kill::every_acknowledged_record_survives", "--nocapture"])
        .env(WRITE_TO, path)
        .env("STORE_TEST_FIRST", first.to_string())
        .stdout(Stdio::piped())
        .spawn()?;
    let stdout = BufReader::new(writer.stdout.take().context("no stdout")?);
    let mut said = Vec::new();
    for line in stdout.lines() {
        let line = line?;
        if line.starts_with("added ") || line.starts_with("ended ") {
            said.push(line);
        }
        if said.len() == lines {
            writer.kill()?;
        }
    }
    writer.wait()?;
    Ok(said)
}

#[tokio::test]
async fn every_acknowledged_record_survives() {
    if let Some(path) = std::env::var_os(WRITE_TO) {
        let first = std::env::var("STORE_TEST_FIRST").unwrap().parse().unwrap();
        return write_for_ever(Store::open(Path::new(&path)).unwrap(), first)
            .await
            .unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let path = Store::path(dir.path());
    let mut said = Vec::new();
    for round in 0..ROUNDS {
        let first = u32::try_from(round).unwrap() * 1_000_000;
        let more = killed_writer(&path, 10 + 37 * round, first).unwrap();
        assert!(more.len() >= 10 + 37 * round, "the writer wrote");
        said.extend(more);
        let store = Store::open(&path).unwrap();
        let all = store
            .list_sandboxes(
                "t",
                Page {
                    limit: u32::MAX,
                    ..Page::default()
                },
            )
            .await
            .unwrap();
        let added: BTreeSet<&str> = all.iter().map(|record| record.id.as_str()).collect();
        let ended: BTreeSet<&str> = all
            .iter()
            .filter(|record| record.reason == Some(EndReason::Closed))
            .map(|record| record.id.as_str())
            .collect();
        for line in &said {
            let (what, id) = line.split_once(' ').unwrap();
            let found = if what == "added" { &added } else { &ended };
            assert!(found.contains(id), "acknowledged and lost: {line}");
        }
    }
}

#[test]
fn keys_that_a_killed_server_acknowledged_are_there() {
    let home = tempfile::tempdir().unwrap();
    let mut made = BTreeSet::new();
    let mut key = String::new();
    for round in 0..3 {
        let mut server = Server::start(home.path(), &[]).unwrap();
        if round == 0 {
            key.clone_from(&server.key);
        }
        for _ in 0..5 {
            let answer = server
                .send_as(&key, "POST", "/v1/keys", Some(r#"{"name":"n"}"#))
                .unwrap();
            made.insert(answer.json().unwrap()["id"].as_str().unwrap().to_owned());
        }
        server.signal(rustix::process::Signal::KILL).unwrap();
        server.wait().unwrap();
    }
    let listed = run_command(atoll_in(home.path()).args(["keys", "list", "--json"])).unwrap();
    let listed: serde_json::Value = serde_json::from_str(&listed.stdout).unwrap();
    let ids: BTreeSet<String> = listed["keys"]
        .as_array()
        .unwrap()
        .iter()
        .map(|key| key["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!((ids.len(), ids.intersection(&made).count()), (16, 15));
}
