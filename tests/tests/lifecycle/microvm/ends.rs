//! Parts of a virtual machine that are killed: their sandbox ends, no other does, and nothing is left.

use super::{BOUND, TEMPLATE, command, says};
use crate::parts::{Run, kill_parts};
use anyhow::{Context, Result, ensure};
use atoll_core::Outcome;
use atoll_engine::Engine;
use atoll_tests::census::{Census, Watch};
use atoll_tests::process::{Process, children, eventually};
use atoll_tests::{microvm_engine, python, run_command, sandbox, stop};
use rustix::process::Signal;
use std::time::Duration;
use tokio::time::timeout;

/// Machines and their keepers below an engine.
fn machines(engine: &Engine) -> Vec<(Process, Process)> {
    let spawners = children(engine.jailer_pid()).into_iter();
    let keepers = spawners.flat_map(|spawner| children(spawner.pid));
    let is_machine = |process: &Process| process.command().starts_with("qemu");
    let pair = |keeper: Process| Some((keeper, children(keeper.pid).into_iter().find(is_machine)?));
    keepers.filter_map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_part_ends_its_sandbox_and_no_other() -> Result<()> {
    let engine = microvm_engine(TEMPLATE).await?;
    let mut other = sandbox(&engine).await?;
    says(&mut other, "x = 1").await?;
    let before = Census::settled(engine.jailer_pid())?;
    for part in ["keeper", "machine"] {
        let known = machines(&engine);
        let mut one = sandbox(&engine).await?;
        says(&mut one, "1").await?;
        let now = machines(&engine);
        let new = now.iter().find(|pair| !known.contains(pair));
        let (keeper, machine) = *new.context("no machine")?;
        match part {
            "keeper" => keeper.signal(Signal::KILL)?,
            _ => machine.signal(Signal::KILL)?,
        }
        eventually("the end of both", || !keeper.is_alive() && !machine.is_alive())?;
        let after = timeout(BOUND, python(&mut one, "1")).await.context("no answer")?;
        let still = after.as_ref().is_ok_and(|execution| execution.outcome == Outcome::Ok);
        ensure!(!still, "{part}: {after:?}");
        one.end().await?;
        assert_eq!(says(&mut other, "print(x)").await?, "1\n", "{part}");
    }
    before.is_again(engine.jailer_pid())?;
    other.end().await?;
    stop(engine).await
}

/// The engine, a spawner, a keeper, and a VM that begins, is restored, runs, or ends.
#[test]
fn whatever_is_killed_at_any_moment_nothing_is_left() -> Result<()> {
    let watch = Watch::start()?;
    // The image and the saved guest are made once, which may take longer than a part is waited for.
    assert_eq!(run_command(&mut command("1"))?.code, Some(0));
    kill_parts(16, Duration::from_millis(1200), || {
        Run::start(&mut command("while True: pass"))
    })?;
    watch.nothing_left()
}
