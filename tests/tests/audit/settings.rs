//! Commands find the log where a server would, and show what was asked for.

use super::{atoll, check, fresh_home, word};
use anyhow::{Context, Result};
use atoll_tests::run_command;
use atoll_tests::server::atoll_in;
use serde_json::Value;
use std::path::Path;

const RUN: [&str; 6] = ["run", "--template", "python-min", "--json", "-c", "print(1)"];

fn shown(home: &Path, id: &str) -> Result<Vec<Value>> {
    let ran = atoll(home, &["audit", "show", "--json", id])?;
    let lines = ran.stdout.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().with_context(|| format!("{ran:?}"))
}

fn actions(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| word(entry, "action")).collect()
}

#[test]
fn all_entries_of_a_sandbox_or_an_execution_are_shown_by_its_id() -> Result<()> {
    let home = fresh_home()?;
    let ran = atoll(home.path(), &RUN)?;
    let answer: Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))?;
    let of_sandbox = shown(home.path(), word(&answer, "sandbox_id"))?;
    assert_eq!(
        actions(&of_sandbox),
        ["sandbox.create", "execute", "files.collect", "sandbox.end"]
    );
    assert_eq!(
        actions(&shown(home.path(), word(&answer, "execution_id"))?),
        ["execute"]
    );
    for unknown in ["sbx", "exec_aaaaaaaaaaaaaaaaaaaaaaaaaa", "9999"] {
        assert_eq!(
            atoll(home.path(), &["audit", "show", unknown])?.code,
            Some(2),
            "{unknown}"
        );
    }
    Ok(())
}

#[test]
fn the_directory_of_the_settings_holds_for_commands_too() -> Result<()> {
    let (home, by_variable, by_file) = (fresh_home()?, tempfile::tempdir()?, tempfile::tempdir()?);
    let dir = by_variable.path().join("log");
    let with_variable = |words: &[&str]| run_command(atoll_in(home.path()).env("ATOLL_AUDIT_DIR", &dir).args(words));
    assert_eq!(with_variable(&RUN)?.code, Some(0));
    assert_eq!(with_variable(&["audit", "tail"])?.stdout.lines().count(), 4);
    let file = by_file.path().join("log");
    let text = format!(
        "listen = \"nonsense of the server\"\n[audit]\ndir = \"{}\"\n",
        file.display()
    );
    std::fs::write(home.path().join("atoll.toml"), text)?;
    assert_eq!(atoll(home.path(), &["keys", "create", "--name", "n"])?.code, Some(0));
    assert_eq!(atoll(home.path(), &["audit", "tail"])?.stdout.lines().count(), 1);
    assert!(!home.path().join("audit").exists());
    assert!(check(&dir)?.is_clean() && check(&file)?.is_clean());
    std::fs::write(home.path().join("atoll.toml"), "[audit]\ndir = \"not from the root\"\n")?;
    assert_eq!(atoll(home.path(), &RUN)?.code, Some(2));
    Ok(())
}

#[test]
fn code_that_is_refused_before_anything_starts_is_written_down() -> Result<()> {
    let home = fresh_home()?;
    let code = "import os";
    let ran = atoll(home.path(), &["run", "--policy", "strict", "--json", "-c", code])?;
    let answer: Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))?;
    assert_eq!(word(&answer, "outcome"), "denied");
    let entries = shown(home.path(), word(&answer, "execution_id"))?;
    let [entry] = entries.as_slice() else {
        anyhow::bail!("{entries:?}")
    };
    assert_eq!((word(entry, "outcome"), word(entry, "verdict")), ("denied", "deny"));
    let digest = atoll_engine::audit::Digest::of(code.as_bytes()).to_string();
    assert_eq!(word(entry, "code_sha256"), digest);
    assert!(!entry["findings"].as_array().context("no findings")?.is_empty());
    Ok(())
}

#[test]
fn a_key_can_be_revoked_where_the_log_cannot_be_written() -> Result<()> {
    let home = fresh_home()?;
    let made = atoll(home.path(), &["keys", "create", "--json", "--name", "n"])?;
    let made: Value = serde_json::from_str(&made.stdout)?;
    std::fs::remove_dir_all(home.path().join("audit"))?;
    std::fs::write(home.path().join("audit"), "in the way")?;
    assert_eq!(atoll(home.path(), &["keys", "create", "--name", "m"])?.code, Some(6));
    let revoked = atoll(home.path(), &["keys", "revoke", word(&made, "id")])?;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert!(revoked.stderr.contains("not recorded"), "{revoked:?}");
    assert!(atoll(home.path(), &["keys", "list"])?.stdout.contains("revoked"));
    for taken in ["system", "local"] {
        let refused = atoll(home.path(), &["keys", "create", "--name", "m", "--tenant", taken])?;
        assert_eq!(refused.code, Some(2), "{refused:?}");
    }
    Ok(())
}

#[test]
fn a_log_that_flushes_each_record_is_whole() -> Result<()> {
    let home = fresh_home()?;
    let ran = run_command(atoll_in(home.path()).env("ATOLL_AUDIT_SYNC", "true").args(RUN))?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let entries = super::exported(home.path())?;
    assert_eq!(entries.len(), 4);
    assert!(
        entries.iter().all(|entry| word(entry, "outcome") == "ok"),
        "{entries:?}"
    );
    assert!(check(&home.path().join("audit"))?.is_clean());
    Ok(())
}
