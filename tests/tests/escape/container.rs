//! The tier `container`: everything that is tried on the jail is tried on containers of crun and runc, by the same probes
//! with the same controls (T02).

use crate::lab::{bench, held};
use anyhow::{Context, Result, ensure};
use atoll_attack::bench::Bench;
use atoll_attack::{Report, Verdict, attack, attack_only};
use atoll_core::Tier;
use atoll_engine::{RuntimeKind, Wall, Walls};

const SILENT: fn(&str) = |_| {};

fn of(runtime: RuntimeKind) -> Result<Bench> {
    let mut bench = bench()?;
    bench.config.tier = Tier::Container;
    bench.config.settings.runtime = Some(runtime);
    Ok(bench)
}

#[tokio::test]
async fn containers_of_crun_hold_what_the_jail_holds() -> Result<()> {
    let report: Report = attack(&of(RuntimeKind::Crun)?, &SILENT).await?;
    ensure!(report.tier == Tier::Container.as_str());
    held(&report.findings)
}

#[tokio::test]
async fn containers_of_runc_hold_what_the_jail_holds() -> Result<()> {
    let report: Report = attack(&of(RuntimeKind::Runc)?, &SILENT).await?;
    ensure!(report.receipt.layers["runtime"]["name"] == "runc");
    held(&report.findings)
}

/// Without the lists of calls, ours and the runtime's, the same probes breach: they can fail.
#[tokio::test]
async fn a_container_without_filters_is_breached() -> Result<()> {
    let mut weak = of(RuntimeKind::Crun)?;
    weak.config.walls = Walls::default().without(Wall::Seccomp, "the attack must see it");
    let ids = ["P01", "P05", "F19"];
    let report = attack_only(&weak, &ids, &SILENT).await?;
    for id in ids {
        let finding = report.findings.iter().find(|finding| finding.id == id).context(id)?;
        assert_eq!(finding.verdict, Verdict::Breached, "{finding:?}");
    }
    Ok(())
}
