//! Parts of a virtual machine that are killed: their sandbox ends, no other does, and nothing is left.

use super::{BOUND, Run, TEMPLATE, says};
use anyhow::{Context, Result, ensure};
use atoll_core::Outcome;
use atoll_engine::Engine;
use atoll_tests::census::{Census, leftovers, nothing_left_since};
use atoll_tests::process::{Process, children, descendants, eventually};
use atoll_tests::{microvm_engine, python, sandbox, stop};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};
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
    let before = Census::of(engine.jailer_pid())?;
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

/// The youngest of so many below the jailer, or the engine itself: a spawner, a keeper, a machine that begins, and one that
/// is restored, runs, or ends, by then or some moments later.
#[test]
fn whatever_is_killed_at_any_moment_nothing_is_left() -> Result<()> {
    let before = leftovers();
    let mut hit = BTreeSet::new();
    for round in 0..16u64 {
        let mut run = Run::start("while True: pass")?;
        let mut jailer = None;
        eventually("a jailer", || {
            jailer = run.jailer();
            jailer.is_some()
        })?;
        let jailer = jailer.context("no jailer")?;
        let mut found: Vec<Process> = Vec::new();
        let wanted = usize::try_from(round % 4)?;
        eventually("processes below the jailer", || {
            found = descendants(jailer.pid);
            found.len() >= wanted || run.0.try_wait().ok().flatten().is_some()
        })?;
        // Another moment of a machine's life each time.
        let moment = Instant::now() + Duration::from_millis(round * 377 % 1200);
        eventually("the moment", || Instant::now() >= moment)?;
        match (wanted, found.last()) {
            (0, _) | (_, None) => run.0.kill()?,
            (_, Some(last)) => {
                hit.insert(last.command().split(' ').take(2).collect::<String>());
                last.signal(Signal::KILL).ok();
            }
        }
        run.0.kill().ok();
        run.0.wait()?;
        eventually("the end of all below", || {
            !jailer.is_alive() && !found.iter().any(|process| process.is_alive())
        })?;
    }
    ensure!(hit.iter().any(|word| word.starts_with("qemu")), "only hit {hit:?}");
    nothing_left_since(&before)
}
