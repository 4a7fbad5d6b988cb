//! One short test for each of `container`, `gvisor` and `microvm`: start, compute, limits, ten escape probes with their
//! controls, cleanup.
//!
//! `cargo xtask test` runs these; the other tests of these tiers run with `--full`. The test of `wasm`, which has no system
//! calls to probe, is in `tests/tests/wasm/smoke.rs`.

use crate::lab::{bench, held};
use anyhow::{Result, ensure};
use atoll_attack::bench::{Bench, end, patient, python_within, sandbox_with, say};
use atoll_attack::{Ground, attack_only};
use atoll_core::quantity::{CpuTimeMillis, MIB, MemoryBytes, WallMillis};
use atoll_core::{Limits, Outcome, Tier};
use atoll_engine::{Engine, RuntimeKind};
use atoll_tests::PATIENT;
use atoll_tests::census::Watch;
use std::collections::BTreeSet;

const SILENT: fn(&str) = |_| {};

/// Every group, every kind of control, and few sandboxes, because emulated guests are slow. The controls of P01, P14 and Z16
/// lack the filter, those of F01, F16, P06, P16 and N01 are plain processes, that of Z04 has a planted item, that of R10 a
/// higher limit.
const PROBES: [&str; 10] = ["F01", "F16", "P01", "P06", "P14", "P16", "Z04", "Z16", "N01", "R10"];
/// The host is unchanged.
const HOST: &str = "P21b";

/// Limits of an execution, and what ends at them.
const ENDS: [(Limits, &str, Outcome); 3] = [
    (
        Limits {
            wall: WallMillis::known(3_000),
            ..PATIENT
        },
        "import time\ntime.sleep(60)",
        Outcome::Timeout,
    ),
    (
        Limits {
            cpu_time: CpuTimeMillis::known(3_000),
            ..PATIENT
        },
        "while True: pass",
        Outcome::CpuLimit,
    ),
    (
        Limits {
            memory: MemoryBytes::known(128 * MIB),
            ..PATIENT
        },
        "held = b'x' * (400 << 20)",
        Outcome::MemoryLimit,
    ),
];

/// A sandbox computes, keeps its state, and is stopped by its limit.
async fn stops_at(engine: &Engine, ground: Ground, (limits, code, outcome): (Limits, &str, Outcome)) -> Result<()> {
    let mut own = sandbox_with(engine, patient(limits)).await?;
    say(&mut own, "x = 41").await?;
    ensure!(say(&mut own, "x + 1").await? == "42");
    let ended = python_within(&mut own, limits, code).await?;
    // A guest at its memory limit may stand still until the deadline (`elsewhere_table.rs`).
    let stands_still = ground == Ground::Guest && outcome == Outcome::MemoryLimit && ended.outcome == Outcome::Timeout;
    ensure!(ended.outcome == outcome || stands_still, "{code}: {ended:?}");
    Ok(own.end().await?)
}

async fn computes_within_its_limits(bench: &Bench, watch: &Watch) -> Result<()> {
    let engine = bench.whole().await?;
    let [time, cpu, memory] = ENDS.map(|end| stops_at(&engine, bench.ground, end));
    tokio::try_join!(time, cpu, memory)?;
    let (processes, paths) = (watch.processes(), watch.paths());
    ensure!(
        !processes.is_empty() && !paths.is_empty(),
        "the cleanup check does not detect a running engine: {processes:?} {paths:?}"
    );
    Ok(end(&engine, []).await?)
}

async fn probes_are_contained(bench: &Bench) -> Result<()> {
    let ids = [&PROBES[..], &[HOST]].concat();
    let report = attack_only(bench, &ids, &SILENT).await?;
    ensure!(report.tier == bench.config.tier.as_str(), "{}", report.tier);
    let found: BTreeSet<&str> = report.findings.iter().map(|finding| finding.id.as_str()).collect();
    ensure!(found == ids.into_iter().collect(), "{found:?}");
    held(&report.findings)
}

async fn smoke(tier: Tier, ground: Ground) -> Result<()> {
    let (mut bench, watch) = (bench()?, Watch::start()?);
    bench.config.tier = tier;
    bench.config.settings.runtime = (tier == Tier::Container).then_some(RuntimeKind::Crun);
    bench.ground = ground;
    computes_within_its_limits(&bench, &watch).await?;
    probes_are_contained(&bench).await?;
    watch.nothing_left()
}

#[tokio::test]
async fn container() -> Result<()> {
    smoke(Tier::Container, Ground::Host).await
}

#[tokio::test]
async fn gvisor() -> Result<()> {
    smoke(Tier::Gvisor, Ground::Gvisor).await
}

#[tokio::test]
async fn microvm() -> Result<()> {
    smoke(Tier::Microvm, Ground::Guest).await
}
