//! The audit log around real processes: killed writers, a full disk, the commands, a server.

mod commands;
mod e2b;
mod kill;
mod notebook;
mod report;
mod server;
mod settings;

use anyhow::{Context, Result};
use atoll_engine::audit::{PublicKey, Report, verify};
use atoll_tests::server::atoll_in;
use atoll_tests::{Ran, home, run_command};
use std::path::Path;

fn check(dir: &Path) -> Result<Report> {
    Ok(verify(dir, &PublicKey::beside(dir)?, None)?)
}

/// A data directory of its own that has the templates of the tests.
fn fresh_home() -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    for name in ["templates", "kernels"] {
        std::os::unix::fs::symlink(home().join(name), dir.path().join(name))?;
    }
    Ok(dir)
}

fn atoll(home: &Path, words: &[&str]) -> Result<Ran> {
    run_command(atoll_in(home).args(words))
}

/// All entries, as `atoll audit export` tells them.
fn exported(home: &Path) -> Result<Vec<serde_json::Value>> {
    let ran = atoll(home, &["audit", "export"])?;
    let lines = ran.stdout.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().context("not JSON")
}

fn word<'a>(entry: &'a serde_json::Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or_default()
}
