//! Loads that meet their limit, while a neighbour in the same engine keeps answering. All are bounded by themselves.

use crate::lab::{engine_without, facts_of, shown, with_args};
use crate::load_table::LOADS;
use crate::probe::Expect;
use crate::rootless;
use anyhow::{Result, ensure};
use atoll_core::{Execution, Limits, Outcome};
use atoll_engine::{Engine, Sandbox, SandboxSpec, Wall};
use atoll_tests::python;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) id: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) code: &'static str,
    pub(crate) limits: Limits,
    pub(crate) ends: &'static [Outcome],
    /// Facts of a load that reports; one that is stopped from outside has none.
    pub(crate) expect: &'static [Expect],
    pub(crate) control: Roomier,
}

/// Where the same load, bounded by itself, runs to its end.
#[derive(Debug)]
pub(crate) struct Roomier {
    pub(crate) walls: &'static [Wall],
    pub(crate) limits: Limits,
    pub(crate) breach: &'static [(&'static str, &'static str)],
    pub(crate) safe: &'static str,
}

/// The longest that a neighbour may wait for `x + 1` while loads run beside it on the same two processors.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many loads run beside each other.
const AT_ONCE: usize = 3;

#[tokio::test]
async fn loads_meet_their_limits() {
    let engine = engine_without(&[]).await.unwrap();
    let loads = LOADS.iter().filter(|load| !rootless::leaves_out(load.id));
    let faults = all(&engine, loads, |engine, load| async move {
        meets_its_limit(&engine, load).await
    })
    .await;
    atoll_tests::stop(engine).await.unwrap();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test]
async fn without_the_limit_loads_run_to_their_end() {
    let mut faults = Vec::new();
    let mut sets: Vec<&[Wall]> = LOADS.iter().map(|load| load.control.walls).collect();
    sets.sort_unstable();
    sets.dedup();
    for set in sets {
        let engine = engine_without(set).await.unwrap();
        let loads = LOADS
            .iter()
            .filter(|load| load.control.walls == set && !rootless::leaves_out_control(load.id));
        faults.extend(
            all(&engine, loads, |engine, load| async move {
                runs_to_its_end(&engine, load).await
            })
            .await,
        );
        atoll_tests::stop(engine).await.unwrap();
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// Runs the loads, a few at a time. What went wrong, in sentences.
async fn all<F>(
    engine: &Arc<Engine>,
    loads: impl Iterator<Item = &'static Load>,
    one: impl Fn(Arc<Engine>, &'static Load) -> F,
) -> Vec<String>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let (room, mut running) = (Arc::new(Semaphore::new(AT_ONCE)), JoinSet::new());
    for load in loads {
        let (run, room) = (one(Arc::clone(engine), load), Arc::clone(&room));
        running.spawn(async move {
            let _turn = room.acquire_owned().await;
            run.await.err().map(|error| format!("{}: {error:#}", load.id))
        });
    }
    running.join_all().await.into_iter().flatten().collect()
}

async fn meets_its_limit(engine: &Engine, load: &Load) -> Result<()> {
    let mut neighbour = atoll_tests::sandbox(engine).await?;
    python(&mut neighbour, "x = 41").await?;
    let mut sandbox = create(engine, load.limits).await?;
    let (execution, beats) = beside(&mut sandbox, load, &mut neighbour).await?;
    ensure!(
        load.ends.contains(&execution.outcome),
        "ended {:?}: {:?} {}",
        execution.outcome,
        execution.error,
        execution.stdout
    );
    if let Ok(facts) = facts_of(&execution) {
        let mut faults = facts.unmet(load.expect);
        faults.extend(facts.dead_twins());
        ensure!(faults.is_empty(), "{}", faults.join(", "));
    } else {
        ensure!(execution.outcome != Outcome::Ok, "no facts: {execution:?}");
    }
    ensure!(beats > 0, "the neighbour was never asked");
    ensure!(
        shown(&python(&mut sandbox, "6*7").await?) == "42",
        "the twin is dead: the same sandbox does not compute"
    );
    sandbox.end().await?;
    Ok(neighbour.end().await?)
}

/// Runs the load and asks the neighbour again and again until it has ended.
async fn beside(sandbox: &mut Sandbox, load: &Load, neighbour: &mut Sandbox) -> Result<(Execution, u32)> {
    let code = with_args(&Map::<String, Value>::new(), load.code);
    let run = python(sandbox, &code);
    tokio::pin!(run);
    let mut beats = 0;
    loop {
        let beat = async {
            let begun = Instant::now();
            let answer = python(neighbour, "x + 1").await?;
            ensure!(shown(&answer) == "42", "the neighbour answered {:?}", answer.error);
            ensure!(begun.elapsed() < PATIENCE, "the neighbour waited {:?}", begun.elapsed());
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(())
        };
        tokio::pin!(beat);
        let ended = tokio::select! {
            ended = &mut run => Some(ended),
            beaten = &mut beat => { beaten?; None }
        };
        if let Some(ended) = ended {
            beat.await?;
            return Ok((ended?, beats + 1));
        }
        beats += 1;
    }
}

async fn runs_to_its_end(engine: &Engine, load: &Load) -> Result<()> {
    let mut sandbox = create(engine, load.control.limits).await?;
    let execution = python(&mut sandbox, &with_args(&Map::new(), load.code)).await?;
    sandbox.end().await?;
    let missing = facts_of(&execution)?.missing(load.control.breach);
    ensure!(missing.is_empty(), "{}", missing.join(", "));
    Ok(())
}

async fn create(engine: &Engine, limits: Limits) -> Result<Sandbox> {
    Ok(engine
        .create(SandboxSpec {
            limits,
            ..SandboxSpec::default()
        })
        .await?)
}
