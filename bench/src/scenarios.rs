//! The scenarios. Each returns rows: what was measured, beside its baseline.

use crate::series::{Row, Series};
use crate::{baseline, http, policy};
use anyhow::{Context, Result, ensure};
use atoll_core::Limits;
use atoll_core::{Language, Outcome};
use atoll_engine::template::Template;
use atoll_engine::{Engine, Output, Pool, PoolSize, Sandbox, SandboxSpec, Walls, Warmth};
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

const NAMES: &[&str] = &[
    "first_result",
    "on_demand",
    "one_plus_one",
    "one_shot",
    "cpu_overhead",
    "idle_memory",
    "throughput",
    "many_live",
    "audit",
    "trust",
    "guard",
    "tiers",
    "auto",
    "clients",
    "policy",
    "http_first",
    "http_throughput",
    "http_burst",
    "http_files",
    "burst",
];
/// Only when they are named.
const ON_REQUEST: &[&str] = &["http_sdk", "load", "soak"];

pub(crate) const GROUPBY: &str =
    "import pandas as pd\npd.DataFrame({'k': ['a', 'b'] * 150, 'v': range(300)}).groupby('k').v.sum()";
const COUNT: usize = 100;
/// A measurement and its baseline take turns, so that other work on the machine is there for both.
const ROUNDS: usize = 10;
const PER_ROUND: usize = COUNT / ROUNDS;

/// Those that were named, else all that need nothing and end soon.
pub(crate) fn chosen(wanted: &[String]) -> impl Iterator<Item = &'static str> {
    let named = |name: &&&str| wanted.iter().any(|word| word == **name);
    let usual = NAMES.iter().filter(move |name| wanted.is_empty() || named(name));
    usual.chain(ON_REQUEST.iter().filter(named)).copied()
}

pub(crate) async fn run(name: &str) -> Result<Vec<Row>> {
    match name {
        "first_result" => first_result().await,
        "on_demand" => on_demand().await,
        "one_plus_one" => one_plus_one().await,
        "one_shot" => one_shot(),
        "cpu_overhead" => cpu_overhead().await,
        "idle_memory" => idle_memory().await,
        "throughput" => throughput().await,
        "audit" => crate::audit::run().await,
        "trust" => crate::trust::run().await,
        "guard" => crate::guard::run().await,
        "tiers" => crate::tiers::run().await,
        "auto" => aside(crate::auto::long_loop).await,
        "clients" => aside(crate::clients::run).await,
        "policy" => aside(policy::review_source).await,
        "http_first" => aside(http::first).await,
        "http_throughput" => aside(http::throughput).await,
        "http_burst" => aside(http::burst).await,
        "http_files" => aside(http::files).await,
        "burst" => aside(http::large_bodies).await,
        "http_sdk" => aside(http::sdk).await,
        "load" => aside(http::load).await,
        "soak" => aside(http::soak).await,
        _ => many_live().await,
    }
}

/// The clients of these wait for their answers.
async fn aside(work: fn() -> Result<Vec<Row>>) -> Result<Vec<Row>> {
    tokio::task::spawn_blocking(work).await?
}

/// A sandbox whose Python context starts with it.
fn with_python() -> SandboxSpec {
    SandboxSpec {
        start: Some(Language::Python),
        ..SandboxSpec::default()
    }
}

async fn warm_engine() -> Result<Arc<Engine>> {
    let engine = atoll_tests::engine("python-data", Warmth::Warm, Walls::default()).await?;
    engine.ready().await?;
    Ok(engine)
}

pub(crate) fn since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

pub(crate) async fn ok(sandbox: &mut Sandbox, code: &str) -> Result<()> {
    let mut sink = |_: Output<'_>| {};
    let execution = sandbox
        .run(Language::Python, code, Arc::new(Notify::new()), &mut sink)
        .await?;
    ensure!(
        execution.outcome == Outcome::Ok,
        "the code failed: {:?}",
        execution.error
    );
    Ok(())
}

/// Claims from a full pool in turns with raw forks: both series.
async fn claims_and_forks(engine: &Arc<Engine>, code: &str) -> Result<(Series, Series)> {
    let pool = Pool::start(Arc::clone(engine), PoolSize::exactly(4), Limits::default()).await?;
    let (mut claimed, mut forked) = (Series::default(), Series::default());
    for _ in 0..ROUNDS {
        claims(&pool, code, 4, &mut claimed).await?;
        let forks = baseline::raw_fork(template_of(engine)?, code, PER_ROUND)?;
        forked.values.extend(forks);
    }
    Ok((claimed, forked))
}

/// Claims from a full pool, one after the other; each sandbox is ended before the next claim.
async fn claims(pool: &Pool, code: &str, size: usize, series: &mut Series) -> Result<()> {
    for _ in 0..PER_ROUND {
        while pool.depth() < size {
            tokio::task::yield_now().await;
        }
        let began = Instant::now();
        let mut sandbox = pool.claim(SandboxSpec::default()).await?;
        match ok(&mut sandbox, code).await {
            Ok(()) => series.values.push(since(began)),
            Err(_) => series.failures += 1,
        }
        sandbox.end().await?;
    }
    Ok(())
}

async fn first_result() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let (claimed, forked) = claims_and_forks(&engine, GROUPBY).await?;
    let floor = forked.p50();
    let cold = Series::of(baseline::bwrap_cold(template_of(&engine)?, GROUPBY, 10)?).p50();
    let mut faster = claimed.row(
        "first_result",
        "claim -> groupby, warm",
        "ms",
        ("bwrap cold", cold),
        ">= 40x faster",
    );
    faster.ratio = cold / claimed.p50();
    Ok(vec![
        claimed.row(
            "first_result",
            "claim -> groupby, warm",
            "ms",
            ("raw fork", floor),
            "<= 1.0",
        ),
        faster,
    ])
}

async fn on_demand() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let (mut series, mut forked) = (Series::default(), Series::default());
    for _ in 0..ROUNDS {
        creates(&engine, &mut series).await?;
        let forks = baseline::raw_fork(template_of(&engine)?, GROUPBY, PER_ROUND)?;
        forked.values.extend(forks);
    }
    Ok(vec![series.row(
        "on_demand",
        "create -> groupby, empty pool",
        "ms",
        ("raw fork", forked.p50()),
        "<= 1.6",
    )])
}

/// Sandboxes made when they are asked for, one after the other.
async fn creates(engine: &Engine, series: &mut Series) -> Result<()> {
    for _ in 0..PER_ROUND {
        let began = Instant::now();
        let mut sandbox = engine.create(with_python()).await?;
        match ok(&mut sandbox, GROUPBY).await {
            Ok(()) => series.values.push(since(began)),
            Err(_) => series.failures += 1,
        }
        sandbox.end().await?;
    }
    Ok(())
}

async fn one_plus_one() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let (series, forked) = claims_and_forks(&engine, "1+1").await?;
    let floor = forked.p50();
    Ok(vec![series.row(
        "one_plus_one",
        "claim -> 1+1, warm",
        "ms",
        ("raw fork", floor),
        "<= 1.0",
    )])
}

/// `atoll run` without a server, as whole processes.
fn one_shot() -> Result<Vec<Row>> {
    let template = atoll_tests::template("python-data")?;
    let time = |args: &[&str]| baseline::whole(atoll_tests::atoll().args(args));
    let print = (0..20)
        .map(|_| time(&["run", "-c", "print(1)"]))
        .collect::<Result<Vec<_>>>()?;
    let pandas = (0..20)
        .map(|_| time(&["run", "-c", GROUPBY]))
        .collect::<Result<Vec<_>>>()?;
    let ipython = Series::of(baseline::bwrap_cold(&template, "import IPython", 20)?).p50();
    let cold = Series::of(baseline::bwrap_cold(&template, GROUPBY, 20)?).p50();
    Ok(vec![
        Series::of(print).row(
            "one_shot",
            "atoll run print(1)",
            "ms",
            ("python -c 'import IPython'", ipython),
            "<= 1.5",
        ),
        Series::of(pandas).row(
            "one_shot",
            "atoll run groupby",
            "ms",
            ("the same, cold", cold),
            "<= 1.3",
        ),
    ])
}

/// The loop of `baseline.py cpu`, timed inside by the processor time it used.
pub(crate) const CPU_LOOP: &str = "import time\nbegan = time.process_time()\ntotal = 0\ndef f():\n    total = 0\n    for i in range(6_000_000):\n        total += i * i % 7\nf()\nprint((time.process_time() - began) * 1000)";

async fn cpu_overhead() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let mut series = Series::default();
    let mut base = Vec::new();
    for _ in 0..4 {
        let mut sandbox = engine.create(with_python()).await?;
        for _ in 0..5 {
            let execution = atoll_tests::python(&mut sandbox, CPU_LOOP).await?;
            series.values.push(execution.stdout.trim().parse()?);
        }
        sandbox.end().await?;
        base.extend(baseline::cpu(template_of(&engine)?)?);
    }
    let base = Series::of(base).p50();
    Ok(vec![series.row(
        "cpu_overhead",
        "6 million loop turns, processor time",
        "ms",
        ("the same outside", base),
        "<= 1.03",
    )])
}

/// Proportional memory of ready sandboxes: agent and context, pre-touched as the pool keeps them.
async fn idle_memory() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let before = pss_of_descendants(engine.jailer_pid());
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(COUNT), Limits::default()).await?;
    let after = pss_of_descendants(engine.jailer_pid());
    let each = after.saturating_sub(before) as f64 / COUNT as f64 / 1024.0;
    drop(pool);
    Ok(vec![Series::of(vec![each]).row(
        "idle_memory",
        "ready sandbox, pandas imported, of 100",
        "MiB",
        ("aim", 4.0),
        "<= 4 MiB",
    )])
}

/// Kibibytes of proportional memory of all processes below `root`.
pub(crate) fn pss_of_descendants(root: u32) -> u64 {
    let children = std::fs::read_to_string(format!("/proc/{root}/task/{root}/children")).unwrap_or_default();
    let own = std::fs::read_to_string(format!("/proc/{root}/smaps_rollup")).unwrap_or_default();
    let pss = own.lines().find_map(|line| {
        line.strip_prefix("Pss:")?
            .split_whitespace()
            .next()?
            .parse::<u64>()
            .ok()
    });
    let below: u64 = children
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .map(pss_of_descendants)
        .sum();
    pss.unwrap_or(0) + below
}

/// Create, groupby, destroy: four in flight, against forks of the zygote one after the other on each core.
async fn throughput() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let began = Instant::now();
    let mut workers = Vec::new();
    for _ in 0..4 {
        let engine = Arc::clone(&engine);
        workers.push(tokio::spawn(async move {
            for _ in 0..COUNT {
                let mut sandbox = engine.create(with_python()).await?;
                ok(&mut sandbox, GROUPBY).await?;
                sandbox.end().await?;
            }
            anyhow::Ok(())
        }));
    }
    for worker in workers {
        worker.await??;
    }
    let rate = (4 * COUNT) as f64 / began.elapsed().as_secs_f64();
    let floor = baseline::raw_fork(template_of(&engine)?, GROUPBY, 2 * COUNT)?;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let floor_rate = cores as f64 * 1000.0 / Series::of(floor).p50();
    Ok(vec![Series::of(vec![rate]).row(
        "throughput",
        "create+groupby+destroy per second",
        "1/s",
        ("raw forks", floor_rate),
        ">= 0.7",
    )])
}

/// How much slower a fork becomes while many sandboxes live.
async fn many_live() -> Result<Vec<Row>> {
    let engine = warm_engine().await?;
    let few = Series::of(create_times(&engine, 40).await?).p50();
    let mut live = Vec::new();
    for _ in 0..300 {
        live.push(create_one(&engine).await?.1);
    }
    let many = Series::of(create_times(&engine, 40).await?);
    drop(live);
    Ok(vec![many.row(
        "many_live",
        "create -> 1+1 with 300 live",
        "ms",
        ("with none live", few),
        "<= 1.5",
    )])
}

async fn create_times(engine: &Engine, count: usize) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    for _ in 0..count {
        let (time, sandbox) = create_one(engine).await?;
        times.push(time);
        sandbox.end().await?;
    }
    Ok(times)
}

async fn create_one(engine: &Engine) -> Result<(f64, Sandbox)> {
    let began = Instant::now();
    let mut sandbox = engine.create(with_python()).await?;
    ok(&mut sandbox, "1+1").await?;
    Ok((since(began), sandbox))
}

fn template_of(engine: &Engine) -> Result<&Template> {
    engine.template().context("the engine has no template")
}
