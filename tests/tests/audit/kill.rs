//! SIGKILL at any moment, and a disk without room: what was acknowledged is there, what was not is refused or lost and told.

use super::check;
use anyhow::{Context, Result, bail, ensure};
use atoll_core::service::RecordLevel;
use atoll_engine::audit::{Action, Actor, AuditError, AuditLog, AuditOptions, Closing, Ending, Opening};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Set for copies of this test binary that write and get killed, or that fill a disk.
const WRITE_TO: &str = "AUDIT_TEST_WRITE_TO";
const FILL: &str = "AUDIT_TEST_FILL";
const ROUNDS: usize = 12;

fn options(dir: &Path) -> AuditOptions {
    AuditOptions {
        record: RecordLevel::Code,
        // Many rolls, so that some are hit.
        segment_bytes: 6_000,
        ..AuditOptions::new(dir.to_owned())
    }
}

fn say(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout();
    stdout.write_all(format!("\n{text}\n").as_bytes())?;
    Ok(stdout.flush()?)
}

#[test]
fn child_that_writes_until_it_is_killed() -> Result<()> {
    let Some(dir) = std::env::var_os(WRITE_TO) else {
        return Ok(());
    };
    let log = AuditLog::open(options(Path::new(&dir)))?;
    let actor = Actor::local();
    loop {
        let opening = Opening {
            code: Some("print(1)"),
            ..Opening::new(Action::Execute, &actor)
        };
        let entry = log.begin(opening)?;
        let seq = entry.seq;
        say(&format!("opened {seq}"))?;
        entry.close(Closing::of(Ending::Ok));
        say(&format!("closed {seq}"))?;
    }
}

fn copy_of_this(test: &str) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--exact", test, "--nocapture"]);
    Ok(command)
}

fn writer(dir: &Path) -> Result<Child> {
    let mut command = copy_of_this("kill::child_that_writes_until_it_is_killed")?;
    Ok(command
        .env(WRITE_TO, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?)
}

/// What a writer said that it did, after so many words it is killed.
fn kill_after(mut child: Child, words: usize) -> Result<Vec<(bool, u64)>> {
    let stdout = BufReader::new(child.stdout.take().context("no stdout")?);
    let mut said = Vec::new();
    for line in stdout.lines() {
        let line = line?;
        let done = line
            .strip_prefix("opened ")
            .map(|seq| (false, seq))
            .or_else(|| line.strip_prefix("closed ").map(|seq| (true, seq)));
        if let Some((closed, seq)) = done {
            said.push((closed, seq.parse()?));
        }
        if said.len() == words {
            child.kill()?;
        }
    }
    child.wait()?;
    Ok(said)
}

#[test]
fn what_was_acknowledged_survives_sigkill_of_two_writers() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut said = Vec::new();
    for round in 0..ROUNDS {
        let (one, two) = (writer(dir.path())?, writer(dir.path())?);
        let other = std::thread::spawn(move || kill_after(two, 2 + 3 * round));
        said.extend(kill_after(one, 3 + 5 * round)?);
        match other.join() {
            Ok(heard) => said.extend(heard?),
            Err(_) => bail!("a thread failed"),
        }
    }
    drop(AuditLog::open(options(dir.path()))?);
    let report = check(dir.path())?;
    ensure!(report.is_clean() && report.unsigned == 0, "{report:?}");
    let mut index = atoll_engine::audit::Index::open(dir.path())?;
    index.update()?;
    for (closed, seq) in said {
        let outcome = index.find(seq)?.outcome.context("an entry of a dead process is open")?;
        ensure!(!closed || outcome == Ending::Ok, "{seq} was closed, and is {outcome}");
    }
    Ok(())
}

#[test]
fn child_on_a_small_disk() -> Result<()> {
    let Some(dir) = std::env::var_os(FILL) else {
        return Ok(());
    };
    let dir = Path::new(&dir);
    let filler = dir.join("filler");
    std::fs::write(&filler, vec![0; 384 << 10])?;
    let log = AuditLog::open(options(dir))?;
    let actor = Actor::local();
    // What is left of a disk that is nearly full is not for strangers.
    let stranger = Actor {
        address: Some("192.0.2.1".to_owned()),
        ..Actor::local()
    };
    let refused = log.begin(Opening::new(Action::Port, &stranger)).map(drop);
    ensure!(matches!(refused, Err(AuditError::Reserved)), "{refused:?}");
    let mut open = Vec::new();
    let refused = loop {
        match log.begin(Opening::new(Action::Execute, &actor)) {
            Ok(entry) => open.push(entry),
            Err(error) => break error,
        }
        ensure!(open.len() < 10_000, "the disk has no end");
    };
    ensure!(matches!(refused, AuditError::Write(_)), "{refused}");
    // Ends that cannot be written wait until there is room again.
    let entries: Vec<u64> = open.iter().map(|entry| entry.seq).collect();
    open.into_iter().for_each(|entry| entry.close(Closing::of(Ending::Ok)));
    std::fs::remove_file(&filler)?;
    log.begin(Opening::new(Action::Execute, &actor))?
        .close(Closing::of(Ending::Ok));
    drop(log);
    let report = check(dir)?;
    ensure!(report.is_clean(), "{report:?}");
    let mut index = atoll_engine::audit::Index::open(dir)?;
    index.update()?;
    for seq in entries {
        ensure!(index.find(seq)?.outcome == Some(Ending::Ok), "{seq} is not closed");
    }
    say("whole")
}

#[test]
fn a_full_disk_refuses_entries_and_breaks_nothing() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let child = copy_of_this("kill::child_on_a_small_disk")?;
    let mut words: Vec<String> = vec![child.get_program().to_string_lossy().into_owned()];
    words.extend(child.get_args().map(|word| word.to_string_lossy().into_owned()));
    let mut command = Command::new("unshare");
    let script = r#"mount -t tmpfs -o size=512k none "$AUDIT_TEST_FILL" && exec "$@""#;
    command
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .args(words);
    let ran = command.env(FILL, dir.path()).output()?;
    let text = String::from_utf8_lossy(&ran.stdout);
    ensure!(
        ran.status.success() && text.lines().any(|line| line == "whole"),
        "{ran:?}"
    );
    Ok(())
}
