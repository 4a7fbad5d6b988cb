//! The component in the data directory is code: what is not what was built is never loaded.

use crate::{engine_in, sandbox};
use anyhow::{Result, ensure};
use atoll_tests::{home, python};
use atoll_wasm::component;
use std::path::PathBuf;
use std::process::Command;

/// A data directory with a component of its own, made from the tests' one.
async fn own_home() -> Result<(tempfile::TempDir, PathBuf)> {
    engine_in(&home()).await?.stop().await;
    let dir = tempfile::tempdir()?;
    let (from, to) = (component::dir(&home()), component::dir(dir.path()));
    std::fs::create_dir_all(dir.path().join("wasm"))?;
    let copied = Command::new("cp").arg("-r").args([&from, &to]).status()?;
    ensure!(copied.success(), "{} was not copied", from.display());
    let component = to.join("component.cwasm");
    Ok((dir, component))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_is_built_again_and_never_loaded() -> Result<()> {
    let (home, component) = own_home().await?;
    let mut changed = std::fs::read(&component)?;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_library_is_built_again_and_never_used() -> Result<()> {
    let (home, component) = own_home().await?;
    let module = component.with_file_name("stdlib").join("fractions.py");
    std::fs::write(&module, "planted = True")?;
    let engine = engine_in(home.path()).await?;
    let mut one = sandbox(&engine).await?;
    let code = "import fractions; print(hasattr(fractions, 'planted'), fractions.Fraction(1, 2))";
    assert_eq!(python(&mut one, code).await?.stdout, "False 1/2\n");
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
