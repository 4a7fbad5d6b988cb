//! Judges whether the memory that a load holds is charged to its sandbox and stays within the sandbox's limit.
//!
//! `load.rs` takes the readings. A load is compared with the same sandbox at rest in the same run, never with a fixed size.

use crate::bench::{python, with_args};
use crate::elsewhere::Ground;
use crate::error::AttackError;
use crate::left::groups_of;
use crate::verdict::Shown;
use atoll_core::{Execution, Outcome};
use atoll_engine::Sandbox;
use serde_json::Map;
use std::path::PathBuf;

/// Precision of a cgroup's memory counter: the kernel charges in batches of 64 pages per CPU, and some allocations may
/// exceed the limit by a few pages.
const PRECISION_BYTES: u64 = 1 << 20;
/// How often the sandbox is measured at rest.
const IDLE_READINGS: usize = 4;
/// Everything that a load does except to hold memory.
const IDLE_CODE: &str = "report()";

/// Where the memory of one sandbox is read.
#[derive(Debug)]
enum MemoryMeter {
    /// A file of the sandbox's cgroup: the bytes charged now.
    Cgroup(PathBuf),
    /// The peak in the execution's usage: the cgroup of a guest is not visible on the host.
    Peak,
}

impl MemoryMeter {
    fn of(sandbox: &Sandbox, ground: Ground) -> Self {
        if ground == Ground::Guest {
            return Self::Peak;
        }
        let names = ["memory.usage_in_bytes", "memory.current"];
        let groups = groups_of(sandbox.id().as_str());
        let mut files = groups.iter().flat_map(|dir| names.map(|name| dir.join(name)));
        files.find(|file| file.exists()).map_or(Self::Peak, Self::Cgroup)
    }

    /// Zero where the sandbox has ended.
    fn read(&self, execution: &Execution) -> u64 {
        match self {
            Self::Cgroup(file) => std::fs::read_to_string(file)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or(0),
            Self::Peak => execution.usage.peak_memory_bytes,
        }
    }
}

/// A sandbox that holds nothing yet.
#[derive(Debug)]
pub(crate) struct IdleMemory {
    meter: MemoryMeter,
    readings_bytes: Vec<u64>,
    peak_bytes: u64,
    /// As the receipt has it, read back from the kernel.
    limit_bytes: Option<u64>,
}

impl IdleMemory {
    /// The first execution loads modules and is not measured.
    pub(crate) async fn measure(own: &mut Sandbox, ground: Ground) -> Result<Self, AttackError> {
        let code = with_args(&Map::new(), IDLE_CODE);
        let first = python(own, &code).await?;
        let mut idle = Self {
            meter: MemoryMeter::of(own, ground),
            readings_bytes: Vec::new(),
            peak_bytes: 0,
            limit_bytes: limit_of(&first),
        };
        for _ in 0..IDLE_READINGS {
            let execution = python(own, &code).await?;
            idle.readings_bytes.push(idle.meter.read(&execution));
            idle.peak_bytes = execution.usage.peak_memory_bytes;
        }
        Ok(idle)
    }

    /// Read while the context still holds what the load made.
    pub(crate) fn under_load(self, execution: &Execution) -> LoadMemory {
        LoadMemory {
            load_bytes: self.meter.read(execution),
            peak_bytes: execution.usage.peak_memory_bytes,
            idle: self,
        }
    }
}

fn limit_of(execution: &Execution) -> Option<u64> {
    let cgroups = execution.receipt.layers.get("cgroups")?;
    cgroups["memory_bytes"].as_str()?.parse().ok()
}

/// The same sandbox with the load.
#[derive(Debug)]
pub(crate) struct LoadMemory {
    idle: IdleMemory,
    load_bytes: u64,
    peak_bytes: u64,
}

impl LoadMemory {
    pub(crate) fn judge(&self, outcome: Outcome, shown: &mut Shown) {
        self.judge_charge(outcome, shown);
        self.judge_limit(shown);
    }

    /// Memory that is not charged to the sandbox leaves its counter where it is at rest.
    fn judge_charge(&self, outcome: Outcome, shown: &mut Shown) {
        if outcome == Outcome::MemoryLimit {
            return shown.saw("the memory limit stopped the load: its memory is charged to the sandbox");
        }
        let readings = &self.idle.readings_bytes;
        let (Some(least), Some(most)) = (readings.iter().min(), readings.iter().max()) else {
            return shown.doubt("the memory of the idle sandbox was not measured");
        };
        let (noise, growth) = (most - least, self.load_bytes.saturating_sub(*most));
        let what = format!(
            "the load added {growth} bytes to the sandbox's memory, expected more than 1 MiB plus twice the idle variation of {noise} bytes"
        );
        shown.holds(growth > 2 * noise + PRECISION_BYTES, what);
    }

    /// A sandbox may be started under a higher limit than it is given: then its peak must not rise any more.
    fn judge_limit(&self, shown: &mut Shown) {
        let Some(limit) = self.idle.limit_bytes else {
            return shown.doubt("the receipt has no memory limit");
        };
        let most = limit.max(self.idle.peak_bytes) + PRECISION_BYTES;
        let what = format!("peak memory is {} bytes, the limit is {limit} bytes", self.peak_bytes);
        shown.holds(self.peak_bytes <= most, what);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    const MIB: u64 = 1 << 20;

    fn memory(idle_mib: &[u64], load_mib: u64, peak_mib: u64) -> LoadMemory {
        LoadMemory {
            idle: IdleMemory {
                meter: MemoryMeter::Peak,
                readings_bytes: idle_mib.iter().map(|mib| mib * MIB).collect(),
                peak_bytes: 50 * MIB,
                limit_bytes: Some(128 * MIB),
            },
            load_bytes: load_mib * MIB,
            peak_bytes: peak_mib * MIB,
        }
    }

    fn verdict(memory: &LoadMemory, outcome: Outcome) -> Verdict {
        let mut shown = Shown::default();
        memory.judge(outcome, &mut shown);
        shown.control(true, "the load runs to completion with more memory");
        shown.judge("X01", "memory is charged").verdict
    }

    #[test]
    fn charged_load_of_any_size_is_contained() {
        for load in [44, 55, 56, 57, 90] {
            let contained = verdict(&memory(&[40, 40, 40, 40], load, load), Outcome::Ok);
            assert_eq!(contained, Verdict::Contained, "{load} MiB");
        }
    }

    #[test]
    fn uncharged_load_is_a_breach() {
        for load in [0, 38, 40, 41] {
            let breached = verdict(&memory(&[40, 40, 40, 40], load, 50), Outcome::Ok);
            assert_eq!(breached, Verdict::Breached, "{load} MiB");
        }
    }

    #[test]
    fn growth_within_the_noise_of_the_sandbox_at_rest_is_a_breach() {
        assert_eq!(
            verdict(&memory(&[40, 44, 41, 43], 50, 50), Outcome::Ok),
            Verdict::Breached
        );
        assert_eq!(
            verdict(&memory(&[40, 44, 41, 43], 54, 54), Outcome::Ok),
            Verdict::Contained
        );
    }

    #[test]
    fn load_that_the_memory_limit_stopped_is_charged() {
        assert_eq!(
            verdict(&memory(&[40, 40], 0, 128), Outcome::MemoryLimit),
            Verdict::Contained
        );
    }

    #[test]
    fn peak_above_the_limit_is_a_breach() {
        assert_eq!(verdict(&memory(&[40, 40], 140, 140), Outcome::Ok), Verdict::Breached);
        assert_eq!(
            verdict(&memory(&[40, 40], 0, 140), Outcome::MemoryLimit),
            Verdict::Breached
        );
    }

    #[test]
    fn peak_from_before_the_limit_was_lowered_must_not_rise() {
        let mut lowered = memory(&[40, 40], 60, 200);
        lowered.idle.peak_bytes = 200 * MIB;
        assert_eq!(verdict(&lowered, Outcome::Ok), Verdict::Contained);
        lowered.peak_bytes = 210 * MIB;
        assert_eq!(verdict(&lowered, Outcome::Ok), Verdict::Breached);
    }

    #[test]
    fn missing_readings_are_inconclusive() {
        assert_eq!(verdict(&memory(&[], 60, 60), Outcome::Ok), Verdict::Inconclusive);
        let mut unlimited = memory(&[40, 40], 60, 60);
        unlimited.idle.limit_bytes = None;
        assert_eq!(verdict(&unlimited, Outcome::Ok), Verdict::Inconclusive);
    }
}
