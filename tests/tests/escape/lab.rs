//! Where the suite makes its tries: the small template, engines without walls for controls, and the shipped probes judged.

use crate::rootless::here;
use anyhow::{Result, ensure};
use atoll_attack::bench::Bench;
pub(crate) use atoll_attack::bench::{facts_of, shown, with_args};
pub(crate) use atoll_attack::processes::{host_id, processes_of};
use atoll_attack::{Case, Finding, Ground, Lab, Verdict};
use atoll_core::Tier;
use atoll_engine::{Engine, EngineConfig, TierSettings, Wall, Walls, Warmth};
use std::sync::Arc;

pub(crate) const SECRET: &str = "canary of the host: 9f4be2";

pub(crate) fn bench() -> Result<Bench> {
    Ok(Bench {
        config: EngineConfig {
            tier: Tier::Jail,
            settings: TierSettings::from_environment(),
            home: atoll_tests::home(),
            program: atoll_tests::binary(),
            warmth: Warmth::Cold,
            walls: Walls::default(),
            audit: atoll_tests::NO_AUDIT,
        },
        template: atoll_tests::template("python-min")?,
        ground: Ground::default(),
    })
}

/// With words of the tests' own environment among those that no sandbox may hold.
pub(crate) fn lab() -> Result<Lab> {
    let mut lab = Lab::open(&atoll_tests::home())?;
    for (name, variable) in [
        ("manifest directory", "CARGO_MANIFEST_DIR"),
        ("run id", "NEXTEST_RUN_ID"),
    ] {
        let word = std::env::var(variable).ok().filter(|word| !word.is_empty());
        let word = word.unwrap_or_else(|| "no such variable 5e1c".to_owned());
        lab.needles.insert(name.to_owned(), word);
    }
    Ok(lab)
}

pub(crate) async fn engine_without(walls: &[Wall]) -> Result<Arc<Engine>> {
    Ok(bench()?.engine(walls).await?)
}

/// All were contained, and their controls breached, but for what this machine leaves out.
pub(crate) fn held(findings: &[Finding]) -> Result<()> {
    let faulty = findings.iter().filter(|finding| match finding.verdict {
        Verdict::Contained => false,
        Verdict::Inconclusive => here().leaves_out_control(&finding.id).is_none() || finding.why.len() != 1,
        Verdict::Breached => true,
    });
    let faults: Vec<String> = faulty
        .map(|finding| {
            format!(
                "{} {}: {}",
                finding.id,
                finding.verdict.as_str(),
                finding.why.join("; ")
            )
        })
        .collect();
    ensure!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
    Ok(())
}

pub(crate) async fn case_holds(case: &Case) -> Result<()> {
    held(&[case.finding(&bench()?, &lab()?, here()).await])
}
