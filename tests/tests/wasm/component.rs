//! The component in the data directory is code: what is not what was built is never loaded.

use crate::source::{run_wasm, without_index};
use crate::{engine_in, sandbox};
use anyhow::{Result, ensure};
use atoll_tests::{Ran, atoll, binary, home, python, run_command};
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

fn lines_with(ran: &Ran, text: &str) -> usize {
    ran.stderr.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn two_starters_build_once_and_old_components_are_removed() -> Result<()> {
    let home = tempfile::tempdir()?;
    let old = home.path().join("wasm/0123456789abcdef");
    std::fs::create_dir_all(old.join("stdlib"))?;
    let start = || {
        let mut command = atoll();
        command.env("ATOLL_HOME", home.path());
        run_wasm(command)
    };
    let ran = std::thread::scope(|scope| {
        let starters = [(); 2].map(|()| scope.spawn(start));
        starters.map(|starter| starter.join().unwrap())
    });
    let [first, second] = ran;
    let ran = [first?, second?];
    for one in &ran {
        ensure!(one.stdout == "42\n", "{one:?}");
    }
    for (step, times) in [
        ("installing componentize-py", 1),
        ("compiling", 1),
        ("computing the digests", 1),
    ] {
        let told: usize = ran.iter().map(|one| lines_with(one, step)).sum();
        ensure!(told == times, "{step}: {ran:?}");
    }
    ensure!(!old.exists());
    Ok(())
}

/// As `cargo xtask dist` installs them, in the layout of a prefix.
#[test]
fn ready_made_files_need_no_index() -> Result<()> {
    let prefix = tempfile::tempdir()?;
    let program = prefix.path().join("bin/atoll");
    std::fs::create_dir_all(prefix.path().join("bin"))?;
    std::fs::copy(binary(), &program)?;
    let files = prefix.path().join("share/atoll/wasm");
    let packed = run_command(atoll().arg("__wasm-pack").arg(&files))?;
    ensure!(packed.code == Some(0), "{packed:?}");
    let home = tempfile::tempdir()?;
    let ran = run_wasm(without_index(Command::new(&program), home.path()))?;
    ensure!(ran.stdout == "42\n", "{ran:?}");
    ensure!(
        lines_with(&ran, "unpacking the ready-made files") == 1 && lines_with(&ran, "componentize-py") == 0,
        "{ran:?}"
    );
    std::fs::write(files.join("stdlib.tar.gz"), "changed")?;
    let home = tempfile::tempdir()?;
    let refused = run_wasm(without_index(Command::new(&program), home.path()))?;
    ensure!(
        refused.code == Some(5) && refused.stderr.contains("does not match its digest"),
        "{refused:?}"
    );
    Ok(())
}
