//! What the audit log costs: one entry alone, and a warm execution with and without it.

use crate::series::{Row, Series};
use anyhow::{Result, ensure};
use atoll_core::{Language, Outcome};
use atoll_engine::audit::{Action, Actor, AuditLog, AuditOptions, Closing, Ending, Opening};
use atoll_engine::{Audit, Output, Sandbox, SandboxSpec, Walls, Warmth};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

const ENTRIES: usize = 2_000;
const ROUNDS: usize = 20;
const PER_ROUND: usize = 20;
/// Of the two lines of an entry, about.
const LINES: usize = 1_200;

fn since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

pub(crate) async fn run() -> Result<Vec<Row>> {
    let dir = tempfile::tempdir()?;
    let log = AuditLog::open(AuditOptions::new(dir.path().join("audit")))?;
    let (opened, written) = (entries(&log)?, writes(dir.path())?);
    let (with, without) = executions(log).await?;
    Ok(vec![
        opened.row(
            "audit",
            "an entry is opened",
            "ms",
            ("plain append", written.p50()),
            "<= 0.3 ms",
        ),
        with.row(
            "audit",
            "1+1 in a live sandbox, audited",
            "ms",
            ("not audited", without.p50()),
            "<= 1 ms more",
        ),
    ])
}

fn entries(log: &Arc<AuditLog>) -> Result<Series> {
    let (mut series, actor) = (Series::default(), Actor::local());
    for _ in 0..ENTRIES {
        let opening = Opening {
            code: Some("1+1"),
            ..Opening::new(Action::Execute, &actor)
        };
        let began = Instant::now();
        let entry = log.begin(opening)?;
        series.values.push(since(began));
        entry.close(Closing::of(Ending::Ok));
    }
    Ok(series)
}

fn writes(dir: &std::path::Path) -> Result<Series> {
    let mut file = std::fs::File::create(dir.join("plain"))?;
    let mut series = Series::default();
    for _ in 0..ENTRIES {
        let began = Instant::now();
        file.write_all(&[b'x'; LINES / 2])?;
        series.values.push(since(began));
    }
    Ok(series)
}

/// In turns, so that other work on the machine is there for both.
async fn executions(log: Arc<AuditLog>) -> Result<(Series, Series)> {
    let audited = atoll_tests::engine_with("python-data", Warmth::Warm, Walls::default(), Audit::Log(log)).await?;
    let plain = atoll_tests::engine("python-data", Warmth::Warm, Walls::default()).await?;
    let (one, other) = (audited.create(spec()).await?, plain.create(spec()).await?);
    let (mut with, mut without) = (Series::default(), Series::default());
    for _ in 0..ROUNDS {
        for _ in 0..PER_ROUND {
            with.values.push(execute(&one, "1+1").await?);
            without.values.push(execute(&other, "1+1").await?);
        }
    }
    one.end().await?;
    other.end().await?;
    drop((one, other));
    atoll_tests::stop(audited).await?;
    atoll_tests::stop(plain).await?;
    Ok((with, without))
}

fn spec() -> SandboxSpec {
    SandboxSpec {
        start: Some(Language::Python),
        ..SandboxSpec::default()
    }
}

pub(crate) async fn execute(sandbox: &Sandbox, code: &str) -> Result<f64> {
    let mut sink = |_: Output<'_>| {};
    let began = Instant::now();
    let done = sandbox
        .run(Language::Python, code, Arc::new(Notify::new()), &mut sink)
        .await?;
    ensure!(done.outcome == Outcome::Ok, "the code failed: {:?}", done.error);
    Ok(since(began))
}
