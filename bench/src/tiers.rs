//! Every tier that this host can build, with the same work: cold start, made on demand, warm claim, first results, memory,
//! processor time. Beside it the same work by the tools alone, cold.
//!
//! The numbers in the README's table of tiers are made from this run ([`crate::readme`]).

use crate::baseline;
use crate::bundle;
use crate::scenarios::{CPU_LOOP, GROUPBY, ok, pss_of_descendants, since};
use crate::series::{Row, Series};
use anyhow::{Context, Result};
use atoll_core::{Limits, Tier};
use atoll_engine::routing::ORDER;
use atoll_engine::template::Template;
use atoll_engine::{Engine, EngineConfig, Pool, PoolSize, SandboxSpec, TierSettings, Walls, Warmth, missing_tiers};
use atoll_tests::{NO_AUDIT, binary, home, template};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const COLD: usize = 3;
const ON_DEMAND: usize = 8;
const CLAIMS: usize = 20;
const POOL: usize = 4;
const ONE: &str = "1+1";

pub(crate) const COLD_START: &str = "cold start to groupby";
const COLD_ALONE: &str = "cold start";
pub(crate) const DEMAND: &str = "made on demand";
pub(crate) const WARM_CLAIM: &str = "warm claim";
pub(crate) const FIRST: &str = "claim to 1+1";
pub(crate) const PANDAS: &str = "claim to groupby";
pub(crate) const LOOP: &str = "6 million loop turns";
pub(crate) const MEMORY: &str = "memory of a ready sandbox, of 4";

/// What the tools alone take, cold: the baselines.
struct Tools {
    bwrap: f64,
    /// Processor time of the loop outside of all walls.
    plain: f64,
}

pub(crate) async fn run() -> Result<Vec<Row>> {
    let missing = missing_tiers(&TierSettings::from_environment(), |_| true);
    let data = template("python-data")?;
    let bwrap = Series::of(baseline::bwrap_cold(&data, GROUPBY, 5)?);
    let tools = Tools {
        bwrap: bwrap.p50(),
        plain: Series::of(baseline::cpu(&data)?).p50(),
    };
    let mut rows = vec![tool(&bwrap, "bwrap", &tools)];
    for (name, words) in bundle::RUNTIMES {
        let cold = Series::of(bundle::cold(&data, (name, words), GROUPBY, COLD)?);
        rows.push(tool(&cold, name, &tools));
    }
    for tier in ORDER.into_iter().filter(|tier| !missing.contains_key(tier)) {
        let of_tier = of_tier(tier, &data, &tools).await;
        rows.extend(of_tier.with_context(|| format!("the tier {tier}"))?);
    }
    Ok(rows)
}

fn tool(cold: &Series, name: &str, tools: &Tools) -> Row {
    let mut row = cold.row("tiers", "", "ms", ("bwrap cold, groupby", tools.bwrap), "-");
    row.what = format!("{name} alone: {COLD_START}");
    row
}

/// Plain Python has no pandas in WebAssembly.
fn work(tier: Tier) -> &'static str {
    if tier == Tier::Wasm { ONE } else { GROUPBY }
}

async fn of_tier(tier: Tier, data: &Template, tools: &Tools) -> Result<Vec<Row>> {
    let row = |series: &Series, what: &str, unit, baseline, aim| {
        let mut row = series.row("tiers", "", unit, baseline, aim);
        row.what = format!("{tier}: {what}");
        row
    };
    let bwrap = ("bwrap cold, groupby", tools.bwrap);
    let cold = cold(tier, data).await?;
    let engine = engine(tier, data, Warmth::Warm).await?;
    engine.ready().await?;
    let demand = on_demand(tier, &engine).await?;
    let before = pss_of_descendants(std::process::id());
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(POOL), Limits::default()).await?;
    let each = pss_of_descendants(std::process::id()).saturating_sub(before) as f64 / POOL as f64 / 1024.0;
    let (claim, first) = claims(tier, &pool, ONE).await?;
    let its_cold = |of: &Series| ("its cold start", of.p50());
    let (cold_what, demand_what) = match tier {
        Tier::Wasm => ("cold start to 1+1", "made on demand to 1+1"),
        _ => (COLD_START, "made on demand to groupby"),
    };
    let mut rows = vec![
        row(&cold.ready, COLD_ALONE, "ms", bwrap, "-"),
        row(&cold.result, cold_what, "ms", bwrap, "-"),
        row(&demand.ready, DEMAND, "ms", its_cold(&cold.ready), clone_aim(tier)),
        row(
            &demand.result,
            demand_what,
            "ms",
            its_cold(&cold.result),
            restore_aim(tier),
        ),
        row(&claim, WARM_CLAIM, "ms", bwrap, "<= 5 ms"),
        row(&first, FIRST, "ms", bwrap, first_aim(tier)),
        row(
            &Series::of(vec![each]),
            MEMORY,
            "MiB",
            ("50 MiB", 50.0),
            memory_aim(tier),
        ),
    ];
    if tier != Tier::Wasm {
        let (_, pandas) = claims(tier, &pool, GROUPBY).await?;
        rows.push(row(&pandas, PANDAS, "ms", bwrap, "-"));
    }
    let cpu = cpu(tier, &pool).await?;
    let outside = ("the same outside", tools.plain);
    rows.push(row(&cpu, LOOP, "ms", outside, loop_aim(tier)));
    drop(pool);
    engine.stop().await;
    Ok(rows)
}

/// How much of its boot a guest may take that is made from what was saved.
fn clone_aim(tier: Tier) -> &'static str {
    if tier == Tier::Microvm { "<= 0.05" } else { "-" }
}

fn memory_aim(tier: Tier) -> &'static str {
    match tier {
        Tier::Microvm => "<= 50 MiB",
        Tier::Wasm => "<= 12 MiB",
        _ => "-",
    }
}

/// Limit for a result in a sandbox made on demand. For `gvisor`, a share of its cold start with pandas.
fn restore_aim(tier: Tier) -> &'static str {
    match tier {
        Tier::Gvisor => "<= 0.33",
        Tier::Wasm => "<= 18 ms",
        _ => "-",
    }
}

fn first_aim(tier: Tier) -> &'static str {
    if tier == Tier::Wasm { "<= 2 ms" } else { "-" }
}

/// Limit for the CPU time of the loop, as a multiple of the same loop outside.
fn loop_aim(tier: Tier) -> &'static str {
    if tier == Tier::Wasm { "<= 5" } else { "-" }
}

async fn engine(tier: Tier, data: &Template, warmth: Warmth) -> Result<Arc<Engine>> {
    let config = EngineConfig {
        tier,
        settings: TierSettings::from_environment(),
        home: home(),
        program: binary(),
        warmth,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    let template = (tier != Tier::Wasm).then(|| data.clone());
    Ok(Arc::new(Engine::start(config, template).await?))
}

/// From the beginning to a sandbox that takes code, and to its first result.
#[derive(Default)]
struct Made {
    ready: Series,
    result: Series,
}

/// An engine, a sandbox and a result from nothing: what others have saved is removed before. A guest is booted and saved.
async fn cold(tier: Tier, data: &Template) -> Result<Made> {
    let mut made = Made::default();
    for _ in 0..COLD {
        forget(data)?;
        let began = Instant::now();
        let engine = engine(tier, data, Warmth::Cold).await?;
        let mut sandbox = engine.create(spec(tier)).await?;
        made.ready.values.push(since(began));
        ok(&mut sandbox, work(tier)).await?;
        made.result.values.push(since(began));
        sandbox.end().await?;
        engine.stop().await;
    }
    Ok(made)
}

/// Saved sandboxes are made again by whoever needs them.
fn forget(data: &Template) -> Result<()> {
    let beside: PathBuf = data.tree.with_file_name("gvisor");
    for dir in [beside, home().join("microvm/saved")] {
        if dir.is_dir() {
            std::fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
        }
    }
    Ok(())
}

/// Without a pool: forked, restored, or started, whatever the tier is warm by. The first one pays for what all share.
async fn on_demand(tier: Tier, engine: &Engine) -> Result<Made> {
    let mut made = Made::default();
    for turn in 0..=ON_DEMAND {
        let began = Instant::now();
        let mut sandbox = engine.create(spec(tier)).await?;
        let ready = since(began);
        ok(&mut sandbox, work(tier)).await?;
        if turn > 0 {
            made.ready.values.push(ready);
            made.result.values.push(since(began));
        }
        sandbox.end().await?;
    }
    Ok(made)
}

fn spec(tier: Tier) -> SandboxSpec {
    SandboxSpec {
        tier,
        start: Some(atoll_core::Language::Python),
        ..SandboxSpec::default()
    }
}

/// The claims alone, and claims with a result.
async fn claims(tier: Tier, pool: &Pool, code: &str) -> Result<(Series, Series)> {
    let (mut claim, mut first) = (Series::default(), Series::default());
    for _ in 0..CLAIMS {
        full(pool).await;
        let began = Instant::now();
        let mut sandbox = pool.claim(spec(tier)).await?;
        claim.values.push(since(began));
        match ok(&mut sandbox, code).await {
            Ok(()) => first.values.push(since(began)),
            Err(_) => first.failures += 1,
        }
        sandbox.end().await?;
    }
    Ok((claim, first))
}

/// Nothing is made any more: nobody else needs the processor.
async fn full(pool: &Pool) {
    while pool.depth() < POOL {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// While the pool is full again.
async fn cpu(tier: Tier, pool: &Pool) -> Result<Series> {
    let mut series = Series::default();
    let mut sandbox = pool.claim(spec(tier)).await?;
    full(pool).await;
    for _ in 0..3 {
        let execution = atoll_tests::python(&mut sandbox, CPU_LOOP).await?;
        series.values.push(execution.stdout.trim().parse()?);
    }
    sandbox.end().await?;
    Ok(series)
}
