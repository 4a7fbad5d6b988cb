//! Where the component comes from on a host without a package index.

use anyhow::{Result, ensure};
use atoll_tests::{Ran, atoll, run_command};
use std::path::Path;
use std::process::Command;

/// A command with an empty data directory and no package index.
pub(crate) fn without_index(mut command: Command, home: &Path) -> Command {
    command.env("ATOLL_HOME", home).current_dir(home);
    command
        .env("PIP_NO_INDEX", "1")
        .env("PIP_CONFIG_FILE", "/dev/null")
        .env_remove("PIP_FIND_LINKS");
    command
        .env("UV_NO_INDEX", "1")
        .env("UV_NO_CONFIG", "1")
        .env_remove("UV_FIND_LINKS");
    command
}

pub(crate) fn run_wasm(mut command: Command) -> Result<Ran> {
    run_command(command.args(["run", "--tier", "wasm", "-c", "print(6 * 7)"]))
}

#[test]
fn without_index_and_files_one_sentence_names_both_ways() -> Result<()> {
    let home = tempfile::tempdir()?;
    let ran = run_wasm(without_index(atoll(), home.path()))?;
    ensure!(ran.code == Some(5) && ran.stdout.is_empty(), "{ran:?}");
    let error = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("error: "))
        .unwrap_or_default();
    for word in ["package index", "PIP_INDEX_URL", "cargo xtask dist", "share/atoll/wasm"] {
        ensure!(error.contains(word), "{word}: {ran:?}");
    }
    let left: Vec<_> = std::fs::read_dir(home.path().join("wasm"))?
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    ensure!(left == ["python.lock"], "{left:?}");
    Ok(())
}
