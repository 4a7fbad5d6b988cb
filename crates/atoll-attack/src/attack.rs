//! The whole attack: every shipped probe, one after the other, against one install.

use crate::bench::{Bench, python, sandbox};
use crate::call_table::{ROWS, Row, RowControl};
use crate::calls::Answers;
use crate::case::Case;
use crate::elsewhere::Ground;
use crate::error::AttackError;
use crate::here::Here;
use crate::lab::Lab;
use crate::left::nothing_left;
use crate::load::{Load, loads};
use crate::load_table::LOADS;
use crate::probe::Probe;
use crate::probe_table::{FILES, KERNEL, NETWORK, ZYGOTE};
use crate::report::{HostReport, Report};
use crate::tries::{Progress, probes};
use crate::verdict::Finding;
use crate::{ends, neighbours, network, outputs};
use atoll_core::execution::Receipt;
use std::collections::BTreeSet;
use std::time::Instant;

/// Loads are not made on a machine with less free memory than this: the largest touches 200 MiB, three at a time.
const FREE_FOR_LOADS: u64 = 1 << 30;

/// Ids of the findings that belong to the attack as a whole.
const CLEANUP: &str = "C03b";
const MACHINE: &str = "P21b";

/// All probes that are more than one piece of code.
pub fn cases() -> impl Iterator<Item = &'static Case> {
    [neighbours::ALL, ends::ALL, network::ALL, outputs::ALL]
        .into_iter()
        .flatten()
}

fn single() -> Vec<&'static Probe> {
    [FILES, KERNEL, ZYGOTE, NETWORK].into_iter().flatten().collect()
}

/// Rows whose control needs root of the machine itself are for the suite only.
fn rows() -> Vec<&'static Row> {
    ROWS.iter().filter(|row| row.control != RowControl::AsRoot).collect()
}

/// How often progress is told, about.
pub fn steps() -> u64 {
    // Claim and control of each; system calls and loads in few steps.
    let steps = 2 * single().len() + cases().count() + 2 + 5 + 1;
    u64::try_from(steps).unwrap_or(u64::MAX)
}

/// Tries everything. An error means that nothing could be tried at all.
pub async fn attack(bench: &Bench, progress: &dyn Progress) -> Result<Report, AttackError> {
    selected(bench, &|_| true, progress).await
}

/// Runs only the probes with these ids; the ids of system calls end with `s`. An unknown id is an error.
pub async fn attack_only(bench: &Bench, ids: &[&str], progress: &dyn Progress) -> Result<Report, AttackError> {
    let known = known_ids();
    if let Some(unknown) = ids.iter().find(|id| !known.contains(**id)) {
        return Err(AttackError::Words(format!("no probe has the id {unknown}")));
    }
    selected(bench, &|id| ids.contains(&id), progress).await
}

fn known_ids() -> BTreeSet<String> {
    let single = single().into_iter().map(|probe| probe.id.to_owned());
    let loads = LOADS.iter().map(|load| load.id.to_owned());
    let cases = cases().map(|case| case.id.to_owned());
    let rows = rows().into_iter().map(Row::finding_id);
    let whole = [CLEANUP, MACHINE].map(str::to_owned);
    single.chain(loads).chain(cases).chain(rows).chain(whole).collect()
}

async fn selected(
    bench: &Bench,
    is_wanted: &dyn Fn(&str) -> bool,
    progress: &dyn Progress,
) -> Result<Report, AttackError> {
    // The probes know the numbers of one architecture; elsewhere a number is another call.
    if !cfg!(target_arch = "x86_64") {
        return Err(AttackError::Words("the attack probes support x86-64 only".to_owned()));
    }
    let begun = Instant::now();
    let lab = Lab::open(&bench.config.home)?;
    let (host, receipt) = first_look(bench).await?;
    let (here, ground) = (host.here(), Ground::of(&receipt));
    let bench = &Bench {
        ground,
        ..bench.clone()
    };
    let wanted: Vec<&Probe> = single().into_iter().filter(|probe| is_wanted(probe.id)).collect();
    let mut findings = probes(bench, &lab, here, &wanted, progress).await?;
    let wanted: Vec<&Row> = rows().into_iter().filter(|row| is_wanted(&row.finding_id())).collect();
    if !wanted.is_empty() {
        findings.extend(Answers::ask(bench, progress).await?.findings(&wanted));
    }
    let wanted: Vec<&Load> = LOADS.iter().filter(|load| is_wanted(load.id)).collect();
    findings.extend(bounded_loads(bench, here, &wanted, progress).await?);
    for case in cases().filter(|case| ground.asks(case.id) && is_wanted(case.id)) {
        progress.next(case.id);
        findings.push(case.finding(bench, &lab, here).await);
    }
    if is_wanted(CLEANUP) {
        progress.next("cleanup check");
        findings.push(nothing_left(bench).await);
    }
    if is_wanted(MACHINE) {
        findings.push(lab.machine());
    }
    findings.sort_by(|one, other| place(&one.id).cmp(&place(&other.id)));
    Ok(Report::new(bench, host, receipt, findings, begun.elapsed()))
}

/// What this host gives, and a receipt of an ordinary execution.
async fn first_look(bench: &Bench) -> Result<(HostReport, Receipt), AttackError> {
    let engine = bench.engine(&[]).await?;
    let host = engine.host().map(HostReport::of);
    let host = host.ok_or_else(|| AttackError::Words("attack probes do not support tier `wasm`".to_owned()))?;
    let mut own = sandbox(&engine).await?;
    let receipt = python(&mut own, "6*7").await?.receipt;
    own.end().await?;
    engine.stop().await;
    Ok((host, receipt))
}

async fn bounded_loads(
    bench: &Bench,
    here: Here,
    wanted: &[&'static Load],
    progress: &dyn Progress,
) -> Result<Vec<Finding>, AttackError> {
    if free_memory().is_some_and(|free| free >= FREE_FOR_LOADS) {
        return loads(bench, here, wanted, progress).await;
    }
    let why = "not run: less than 1 GiB of memory is free on this host";
    Ok(wanted
        .iter()
        .map(|load| Finding::left_out(load.id, load.claim, why))
        .collect())
}

fn free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

/// The order of groups in a report: files, processes, zygote, resources, network, clean-up.
fn place(id: &str) -> (usize, &str) {
    let group = id.chars().next().unwrap_or('?');
    let at = ['F', 'P', 'Z', 'R', 'D', 'N', 'C']
        .iter()
        .position(|known| *known == group);
    (at.unwrap_or(usize::MAX), id)
}
