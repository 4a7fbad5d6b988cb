//! The tier `microvm`: all that is tried on the jail is tried in guests, by the same probes. What is judged otherwise
//! there, and why, is in `crates/atoll-attack/src/elsewhere_table.rs` (T04, T06).
//!
//! It is the attack in parts: emulated guests are slow, and each part has a clock of its own.

use crate::lab::{bench, held, lab};
use crate::rootless::here;
use anyhow::{Context, Result};
use atoll_attack::bench::Bench;
use atoll_attack::{Answers, FILES, Finding, Ground, KERNEL, LOADS, NETWORK, Probe, ROWS, RowControl, Verdict, ZYGOTE};
use atoll_attack::{cases, loads, nothing_left, probes};
use atoll_core::Tier;
use atoll_engine::{Wall, Walls};

const SILENT: fn(&str) = |_| {};

fn of_guests() -> Result<Bench> {
    let mut bench = bench()?;
    bench.config.tier = Tier::Microvm;
    bench.ground = Ground::Guest;
    Ok(bench)
}

async fn tried(bench: &Bench, list: &[&'static Probe]) -> Result<Vec<Finding>> {
    let lab = lab()?;
    let mut findings = probes(bench, &lab, here(), list, &SILENT).await?;
    findings.push(lab.machine());
    Ok(findings)
}

/// Every probe of one piece of code of these lists.
async fn hold(lists: &[&'static [Probe]]) -> Result<()> {
    let list: Vec<_> = lists.iter().copied().flatten().collect();
    held(&tried(&of_guests()?, &list).await?)
}

#[tokio::test]
async fn a_guest_holds_its_files() -> Result<()> {
    hold(&[FILES]).await
}

#[tokio::test]
async fn a_guest_holds_its_kernel() -> Result<()> {
    hold(&[KERNEL]).await
}

#[tokio::test]
async fn a_guest_holds_its_interpreter_and_its_network() -> Result<()> {
    hold(&[ZYGOTE, NETWORK]).await
}

/// The loads by their place in the list: one test has not the time for all.
async fn meet(part: std::ops::Range<usize>) -> Result<()> {
    let list: Vec<_> = LOADS.iter().skip(part.start).take(part.len()).collect();
    held(&loads(&of_guests()?, here(), &list, &SILENT).await?)
}

#[tokio::test]
async fn the_first_loads_meet_their_limits_in_a_guest() -> Result<()> {
    meet(0..LOADS.len() / 2).await
}

#[tokio::test]
async fn the_other_loads_meet_their_limits_in_a_guest() -> Result<()> {
    meet(LOADS.len() / 2..LOADS.len()).await
}

/// Without the list of calls the same probes breach: they can fail in a guest, too.
#[tokio::test]
async fn a_guest_without_filters_is_breached() -> Result<()> {
    let mut weak = of_guests()?;
    weak.config.walls = Walls::default().without(Wall::Seccomp, "the attack must see it");
    let ids = ["P01", "P05"];
    let list: Vec<_> = KERNEL.iter().filter(|probe| ids.contains(&probe.id)).collect();
    let findings = tried(&weak, &list).await?;
    for id in ids {
        let finding = findings.iter().find(|finding| finding.id == id).context(id)?;
        assert_eq!(finding.verdict, Verdict::Breached, "{finding:?}");
    }
    Ok(())
}

#[tokio::test]
async fn every_row_is_answered_by_the_filter_in_a_guest() -> Result<()> {
    let answers = Answers::ask(&of_guests()?, &SILENT).await?;
    let asked = ROWS.iter().filter(|row| row.control != RowControl::AsRoot);
    held(&answers.findings(&asked.collect::<Vec<_>>()))
}

#[tokio::test]
async fn guests_are_strangers_to_each_other_and_leave_nothing() -> Result<()> {
    let (bench, lab) = (of_guests()?, lab()?);
    let mut findings = Vec::new();
    for case in cases().filter(|case| bench.ground.asks(case.id)) {
        findings.push(case.finding(&bench, &lab, here()).await);
    }
    findings.push(nothing_left(&bench).await);
    held(&findings)
}
