//! The census must be able to fail: what is put there by hand is found.

use anyhow::{Context, Result, ensure};
use atoll_tests::census::{Census, leftovers, run_dir};
use atoll_tests::process::Process;
use atoll_tests::{engine, python, sandbox, stop};
use rustix::process::Signal;
use std::os::unix::process::CommandExt;
use std::process::Command;

#[test]
fn a_stray_process_of_our_ids_is_found() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let mut stray = Command::new("sleep").arg("1000").uid(0x7fff_0001).spawn()?;
    let name = format!("process {} sleep 1000 ", stray.id());
    let found = leftovers().contains(&name);
    stray.kill()?;
    stray.wait()?;
    ensure!(found, "{name} was not found");
    ensure!(!leftovers().contains(&name));
    Ok(())
}

#[test]
fn a_stray_lock_file_is_found() -> Result<()> {
    std::fs::create_dir_all(run_dir())?;
    let path = run_dir().join(format!("stray-{}.lock", std::process::id()));
    std::fs::write(&path, "")?;
    let found = leftovers();
    std::fs::remove_file(&path)?;
    ensure!(found.contains(&format!("file {}", path.display())), "{found:?}");
    Ok(())
}

/// A sandbox that lives shows up in every column.
#[tokio::test(flavor = "multi_thread")]
async fn a_living_sandbox_is_counted() -> Result<()> {
    let engine = engine("python-min", atoll_engine::Warmth::Warm, atoll_engine::Walls::default()).await?;
    engine.ready().await?;
    let before = Census::of(engine.jailer_pid())?;
    let mut one = sandbox(&engine).await?;
    python(&mut one, "1").await?;
    let during = Census::of(engine.jailer_pid())?;
    assert_eq!(during.processes.len(), before.processes.len() + 2, "agent and context");
    assert_eq!(during.ids.len(), before.ids.len() + 1);
    assert_eq!(during.namespaces.len(), before.namespaces.len() + 7);
    assert_eq!(during.cgroups.is_empty(), !rustix::process::geteuid().is_root());
    let own = std::process::id();
    ensure!(during.descriptors[&own] > before.descriptors[&own]);
    one.end().await?;
    let jailer = Process::of(engine.jailer_pid()).context("no jailer")?;
    stop(engine).await?;
    ensure!(jailer.signal(Signal::KILL).is_err(), "the jailer lives on");
    Ok(())
}
