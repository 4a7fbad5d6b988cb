//! The tier `microvm`: probes of the jail, made in a guest.

use crate::lab::{bench, held, lab};
use crate::rootless::here;
use anyhow::{Context, Result};
use atoll_attack::bench::Bench;
use atoll_attack::{FILES, KERNEL, NETWORK, Probe, Verdict, ZYGOTE, probes};
use atoll_core::Tier;
use atoll_engine::{TierSettings, Wall, Walls};

const SILENT: fn(&str) = |_| {};

fn of_guests() -> Result<Bench> {
    let mut bench = bench()?;
    bench.config.tier = Tier::Microvm;
    bench.config.settings = TierSettings::from_environment();
    Ok(bench)
}

/// What a probe finds in a guest against its claim, and why that is no way out.
const JUDGED: [(&str, &str, &str); 2] = [
    (
        "F19",
        "the control did not breach: `set user.x` should breach with ok, answered ENOTSUP",
        "scratch files of kernels before 6.6 have no such attributes at all; the filter refuses the call before that is asked",
    ),
    (
        "P15b",
        "the control did not breach: `stream` should breach with ok, answered not loaded",
        "the guest has no driver for sockets to its host, and no module can be loaded from inside",
    ),
];

/// Files, tracing, namespaces, attributes, sockets and the network: one of each kind. The whole list takes many minutes under
/// emulation; the walls are the jail's own code, whose suite makes every probe.
const MADE: [&str; 7] = ["F01", "F05", "F19", "P01", "P05", "P15b", "N01"];

fn of(ids: &[&str]) -> Vec<&'static Probe> {
    let all = [FILES, KERNEL, ZYGOTE, NETWORK].into_iter().flatten();
    all.filter(|probe| ids.contains(&probe.id)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_holds_what_the_jail_holds() -> Result<()> {
    let mut findings = probes(&of_guests()?, &lab()?, here(), &of(&MADE), &SILENT).await?;
    assert_eq!(findings.len(), MADE.len());
    for (id, told, reason) in JUDGED {
        let judged = findings.iter().find(|finding| finding.id == id).context(id)?;
        assert_eq!(judged.why, [told], "{reason}");
    }
    findings.retain(|finding| JUDGED.iter().all(|(id, _, _)| finding.id != *id));
    held(&findings)
}

/// Without the list of calls the same probes breach: they can fail in a guest, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_guest_without_filters_is_breached() -> Result<()> {
    let mut weak = of_guests()?;
    weak.config.walls = Walls::default().without(Wall::Seccomp, "the attack must see it");
    let ids = ["P01", "P05"];
    let findings = probes(&weak, &lab()?, here(), &of(&ids), &SILENT).await?;
    for id in ids {
        let finding = findings.iter().find(|finding| finding.id == id).context(id)?;
        assert_eq!(finding.verdict, Verdict::Breached, "{finding:?}");
    }
    Ok(())
}
