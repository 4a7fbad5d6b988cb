//! The wall of one guest: the jailer's work around it, the guest's own first process in it, and a receipt of both.

use super::live::Ways;
use crate::backend::agent::Agent;
use crate::backend::context::Context;
use crate::backend::oci::PythonStart;
use crate::backend::start::Inspected;
use crate::backend::{BareSandbox, Files, Later, Layers, OpenInput, TierError, Wall};
use crate::stat::Stats;
use atoll_core::Limits;
use atoll_core::dry_run::Attempts;
use atoll_jail::cgroup::StatKind;
use atoll_jail::vm::control::Counted;
use rustix::fd::OwnedFd;
use rustix::fs::MemfdFlags;
use serde_json::Value;
use std::sync::Arc;

/// What is told of the walls around a machine's process: nothing that names a place of the host.
const OF_PROCESS: [&str; 9] = [
    "capabilities",
    "cgroups",
    "kernel",
    "mode",
    "namespaces",
    "no_new_privs",
    "rlimits",
    "seccomp",
    "uid_map",
];

#[derive(Debug)]
pub(super) struct MicrovmWall {
    pub(super) inner: Box<dyn Wall>,
    pub(super) ways: Arc<Ways>,
    pub(super) python: Arc<PythonStart>,
    /// What is known of the machine: accelerator, QEMU, kernel.
    pub(super) facts: Value,
    /// The most memory that a sandbox of this guest can have.
    pub(super) most_memory: u64,
    pub(super) counts: Counts,
}

impl Wall for MicrovmWall {
    fn claim<'a>(
        &'a self,
        agent: &'a Agent,
        limits: Limits,
        inputs: Vec<OpenInput>,
    ) -> Later<'a, Result<(), TierError>> {
        Box::pin(async move {
            if limits.memory.get() > self.most_memory {
                let most = self.most_memory >> 20;
                return Err(TierError::Claim(format!(
                    "the requested memory exceeds the guest's {most} MiB"
                )));
            }
            self.inner.claim(agent, limits, Vec::new()).await?;
            self.ways.control.limit(limits).await?;
            for (plan, file) in inputs {
                self.ways.control.put(&plan.name, file).await?;
            }
            Ok(())
        })
    }

    fn start_python<'a>(&'a self, sandbox: &'a BareSandbox) -> Later<'a, Result<Inspected, TierError>> {
        Box::pin(self.python.start(sandbox))
    }

    fn begins<'a>(&'a self, context: &'a mut Context) -> Later<'a, Result<(), TierError>> {
        self.inner.begins(context)
    }

    /// The sandbox's own walls, by the guest's kernel, and those around the machine, by ours.
    fn inspect<'a>(&'a self, context: &'a Context) -> Later<'a, Result<Layers, TierError>> {
        Box::pin(async move {
            let pid = context.inside.ok_or(TierError::Agent)?;
            let mut layers = self.ways.control.inspect(pid).await?;
            let mut vm = self.facts.clone();
            let around = self.inner.inspect(context).await?;
            let told = around
                .into_iter()
                .filter(|(name, _)| OF_PROCESS.contains(&name.as_str()));
            vm["process"] = Value::Object(told.collect());
            layers.insert("vm".to_owned(), vm);
            Ok(layers)
        })
    }

    fn has_cgroups(&self) -> bool {
        true
    }

    fn attempts(&self) -> Option<Attempts> {
        None
    }

    fn save<'a>(&'a self, _: &'a BareSandbox, files: Files, goes_on: bool) -> Later<'a, Result<(), TierError>> {
        Box::pin(self.save_live(files, goes_on))
    }

    fn recount(&self) -> Later<'_, ()> {
        Box::pin(async move {
            if let Ok(counted) = self.ways.control.count().await {
                self.counts.set(counted);
            }
        })
    }

    fn end(&self) -> Later<'_, Result<(), TierError>> {
        self.inner.end()
    }

    fn has_ended(&self) -> bool {
        self.inner.has_ended()
    }

    fn ended(&self) -> Later<'_, ()> {
        self.inner.ended()
    }
}

/// What the guest's kernel has counted, in files that read as the kernel's own do.
#[derive(Debug)]
pub(super) struct Counts {
    oom_kills: OwnedFd,
    refused: OwnedFd,
    peak: OwnedFd,
}

impl Counts {
    /// From now on these files tell it, and not those of the machine's process.
    pub(super) fn put_into(stats: &mut Stats) -> Result<Self, TierError> {
        let counts = Self {
            oom_kills: file()?,
            refused: file()?,
            peak: file()?,
        };
        counts.set(Counted::default());
        let copy = |fd: &OwnedFd| fd.try_clone().map_err(TierError::Start);
        stats.told_by(StatKind::OomKills, copy(&counts.oom_kills)?);
        stats.told_by(StatKind::PidsEvents, copy(&counts.refused)?);
        stats.told_by(StatKind::PeakBytes, copy(&counts.peak)?);
        Ok(counts)
    }

    fn set(&self, counted: Counted) {
        let put = |file: &OwnedFd, text: String| rustix::io::pwrite(file, text.as_bytes(), 0);
        // A write to a file in memory of a few bytes.
        put(&self.oom_kills, format!("oom_kill {:020}\n", counted.oom_kills)).ok();
        put(&self.refused, format!("max {:020}\n", counted.refused)).ok();
        put(&self.peak, format!("{:020}\n", counted.peak_bytes)).ok();
    }
}

fn file() -> Result<OwnedFd, TierError> {
    let made = rustix::fs::memfd_create("counted", MemfdFlags::CLOEXEC);
    made.map_err(|errno| TierError::Start(errno.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guest_has_counted_reads_as_if_the_kernel_had() {
        let mut stats = Stats::default();
        let counts = Counts::put_into(&mut stats).unwrap();
        assert_eq!((stats.oom_kills(), stats.refused_processes()), (0, 0));
        counts.set(Counted {
            oom_kills: 2,
            refused: 3,
            peak_bytes: 4096,
        });
        assert_eq!((stats.oom_kills(), stats.refused_processes()), (2, 3));
        assert_eq!(stats.peak_bytes(), Some(4096));
    }
}
