//! The tier `gvisor`: everything that is tried on the jail is tried under gVisor's kernel, by the same probes; what is judged
//! otherwise there, and why, is in `crates/atoll-attack/src/elsewhere_table.rs` (T01, T06). What stands around that kernel is
//! looked at from outside.

use crate::lab::{bench, held, lab};
use crate::probe::cases;
use crate::rootless::here;
use anyhow::{Context, Result, ensure};
use atoll_attack::bench::{Bench, end, python, sandbox, say};
use atoll_attack::{Ground, KERNEL, Verdict, attack, probes};
use atoll_core::{Outcome, Tier};
use atoll_engine::{Wall, Walls};
use atoll_tests::process::{Process, descendants, eventually};
use std::collections::BTreeSet;

const SILENT: fn(&str) = |_| {};

fn gvisor() -> Result<Bench> {
    let mut bench = bench()?;
    bench.config.tier = Tier::Gvisor;
    bench.ground = Ground::Gvisor;
    Ok(bench)
}

#[tokio::test]
async fn sandboxes_under_gvisor_hold_what_the_jail_holds() -> Result<()> {
    let report = attack(&gvisor()?, &SILENT).await?;
    ensure!(report.tier == Tier::Gvisor.as_str());
    held(&report.findings)
}

/// Without the filter inside, the same probes breach in this tier: they can fail.
#[tokio::test]
async fn a_sandbox_under_gvisor_without_a_filter_is_breached() -> Result<()> {
    let mut weak = gvisor()?;
    weak.config.walls = Walls::default().without(Wall::Seccomp, "the attack must see it");
    let list: Vec<_> = KERNEL
        .iter()
        .filter(|probe| ["P01", "P06", "P15"].contains(&probe.id))
        .collect();
    for finding in probes(&weak, &lab()?, here(), &list, &SILENT).await? {
        assert_eq!(finding.verdict, Verdict::Breached, "{finding:?}");
    }
    Ok(())
}

/// The processes that are kernels of sandboxes.
fn kernels(jailer: u32) -> Vec<Process> {
    let all = descendants(jailer).into_iter();
    all.filter(|process| process.command().starts_with("runsc-sandbox"))
        .collect()
}

/// What the host's kernel says of one process.
#[derive(Debug)]
struct Seen {
    root: BTreeSet<String>,
    interfaces: BTreeSet<String>,
    namespaces: Vec<String>,
    status: String,
    uid_map: String,
}

impl Seen {
    fn of(pid: u32) -> Result<Self> {
        let at = |name: &str| format!("/proc/{pid}/{name}");
        let read = |name: &str| std::fs::read_to_string(at(name)).with_context(|| at(name));
        let names = std::fs::read_dir(at("root"))?.flatten();
        let interfaces = read("net/dev")?;
        let interfaces = interfaces.lines().filter_map(|line| line.split_once(':'));
        let link = |name: &&str| std::fs::read_link(at(&format!("ns/{name}")));
        let namespaces = ["pid", "mnt", "net", "ipc"].iter().map(link);
        Ok(Self {
            root: names
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect(),
            interfaces: interfaces.map(|(name, _)| name.trim().to_owned()).collect(),
            namespaces: namespaces
                .map(|link| Ok(link?.to_string_lossy().into_owned()))
                .collect::<Result<_>>()?,
            status: read("status")?,
            uid_map: read("uid_map")?,
        })
    }

    fn field(&self, name: &str) -> &str {
        let line = self
            .status
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_default().trim()
    }

    /// No files, no network, few calls, no way to more.
    fn is_bare(&self) -> bool {
        self.root
            .iter()
            .all(|name| ["proc", "sys", "etc", "dev"].contains(&name.as_str()))
            && self.interfaces.iter().all(|name| name == "lo")
            && (self.field("Seccomp"), self.field("NoNewPrivs")) == ("2", "1")
            && self.uid_map.split_whitespace().nth(1) != Some("0")
    }
}

cases! { CASES:
    t01_around_the_kernel {
        id: "T01b",
        claim: "Whoever leaves gVisor's kernel stands in a process without files, network and other sandboxes",
        expected: "an empty root, the loopback only, a filter, no ids of the host, namespaces that no other sandbox has",
        oracle: "/proc of the host, for the kernels of two sandboxes",
        twin: "both sandboxes compute",
        control: "the same look at this test's own process finds files and ids of the host",
    } {
        let (engine, mut a, mut b) = gvisor()?.two(&[]).await?;
        for one in [&mut a, &mut b] {
            ensure!(say(one, "6*7").await? == "42", "the twin is dead");
        }
        let kernels = kernels(engine.jailer_pid());
        ensure!(kernels.len() == 2, "{kernels:?}");
        for kernel in &kernels {
            let words = kernel.command();
            // It is told what is not usual; sockets of the host are not given usually.
            ensure!(words.contains("--network=none") && !words.contains("host-uds"), "{words}");
        }
        let [first, second] = [Seen::of(kernels[0].pid)?, Seen::of(kernels[1].pid)?];
        for seen in [&first, &second] {
            ensure!(seen.is_bare(), "{seen:?}");
        }
        let shared: Vec<_> = first.namespaces.iter().filter(|one| second.namespaces.contains(one)).collect();
        ensure!(shared.is_empty(), "both are in {shared:?}");
        ensure!(!Seen::of(std::process::id())?.is_bare(), "the control did not breach");
        end(&engine, [a, b]).await?;
    }
    p04_the_first_process_is_killed {
        id: "P04b",
        claim: "Code that kills the first process of its sandbox ends that sandbox and nothing else",
        expected: "the execution does not end well, the sandbox's kernel is gone, the neighbour keeps its state",
        oracle: "the host's process list, and the neighbour's answer",
        twin: "the sandbox computes before",
        control: "the kernel that was there before is gone: the signal did arrive",
    } {
        let (engine, mut a, mut b) = gvisor()?.two(&[]).await?;
        say(&mut b, "x = 41").await?;
        ensure!(say(&mut a, "6*7").await? == "42", "the twin is dead");
        let before = kernels(engine.jailer_pid());
        let killed = python(&mut a, "import os, time\nos.kill(1, 9)\ntime.sleep(60)").await;
        ensure!(!killed.is_ok_and(|execution| execution.outcome == Outcome::Ok), "it lives on");
        eventually("the end of one kernel", || before.iter().filter(|kernel| kernel.is_alive()).count() == 1)?;
        ensure!(say(&mut b, "x + 1").await? == "42", "the neighbour suffered");
        let mut next = sandbox(&engine).await?;
        ensure!(say(&mut next, "6*7").await? == "42", "no next sandbox");
        a.end().await.ok();
        end(&engine, [b, next]).await?;
    }
}
