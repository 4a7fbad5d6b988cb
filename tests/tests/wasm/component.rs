//! The component in the data directory is code: what is not what was built is never loaded.

use crate::{engine_in, sandbox};
use anyhow::{Context, Result};
use atoll_tests::{home, python};
use std::path::{Path, PathBuf};

fn component_of(home: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(home.join("wasm"))?.flatten();
    let mut found = entries.map(|entry| entry.path().join("component.cwasm"));
    found.find(|path| path.is_file()).context("no component is built")
}

/// A data directory with a component of its own, made from the tests' one.
async fn own_home() -> Result<(tempfile::TempDir, PathBuf)> {
    engine_in(&home()).await?.stop().await;
    let built = component_of(&home())?;
    let dir = tempfile::tempdir()?;
    let from = built.parent().context("a directory")?;
    let to = dir.path().join("wasm").join(from.file_name().context("a name")?);
    std::fs::create_dir_all(&to)?;
    for name in ["component.cwasm", "digest"] {
        std::fs::copy(from.join(name), to.join(name))?;
    }
    std::os::unix::fs::symlink(from.join("stdlib"), to.join("stdlib"))?;
    let component = to.join("component.cwasm");
    Ok((dir, component))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_is_built_again_and_never_loaded() -> Result<()> {
    let (home, component) = own_home().await?;
    let whole = std::fs::read(&component)?;
    let mut changed = whole.clone();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    std::fs::write(&component, &changed)?;
    let engine = engine_in(home.path()).await?;
    assert_ne!(std::fs::read(&component)?, changed);
    let mut one = sandbox(&engine).await?;
    assert_eq!(python(&mut one, "print(6 * 7)").await?.stdout, "42\n");
    engine.stop().await;
    Ok(())
}

/// The file may change under a running engine: it has its own copy, which was checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_behind_the_check_changes_nothing() -> Result<()> {
    let (home, component) = own_home().await?;
    let engine = engine_in(home.path()).await?;
    std::fs::write(&component, b"not a component")?;
    let mut one = sandbox(&engine).await?;
    assert_eq!(python(&mut one, "print(6 * 7)").await?.stdout, "42\n");
    engine.stop().await;
    Ok(())
}
