//! The limits of a sandbox and the two shipped profiles. Data only; the walls enforce them.

use crate::choice::ProfileName;
use crate::quantity::*;
use serde::{Deserialize, Serialize};

/// Everything that bounds one sandbox and each of its executions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    pub memory: MemoryBytes,
    pub cpus: CpuMilli,
    pub cpu_time: CpuTimeMillis,
    pub wall: WallMillis,
    pub scratch: ScratchBytes,
    pub scratch_inodes: ScratchInodes,
    pub processes: ProcessCount,
    pub text_output: OutputBytes,
    pub rich_output: OutputBytes,
    pub open_files: OpenFiles,
    pub io_bandwidth: IoBandwidth,
    pub io_operations: IoOperations,
}

impl Limits {
    pub const SMALL: Self = Self {
        memory: MemoryBytes::known(512 * MIB),
        cpus: CpuMilli::known(1_000),
        cpu_time: CpuTimeMillis::known(30_000),
        wall: WallMillis::known(60_000),
        scratch: ScratchBytes::known(100 * MIB),
        scratch_inodes: ScratchInodes::known(10_000),
        processes: ProcessCount::known(64),
        text_output: OutputBytes::known(MIB),
        rich_output: OutputBytes::known(10 * MIB),
        open_files: OpenFiles::known(1_024),
        io_bandwidth: IoBandwidth::known(100 * MIB),
        io_operations: IoOperations::known(5_000),
    };

    pub const DATA: Self = Self {
        memory: MemoryBytes::known(4 * GIB),
        cpus: CpuMilli::known(2_000),
        cpu_time: CpuTimeMillis::known(120_000),
        wall: WallMillis::known(300_000),
        scratch: ScratchBytes::known(5 * GIB),
        scratch_inodes: ScratchInodes::known(100_000),
        processes: ProcessCount::known(128),
        text_output: OutputBytes::known(4 * MIB),
        rich_output: OutputBytes::known(50 * MIB),
        open_files: OpenFiles::known(1_024),
        io_bandwidth: IoBandwidth::known(400 * MIB),
        io_operations: IoOperations::known(20_000),
    };

    /// The same walls, with what bounds a single execution taken from `other`.
    pub fn with_execution_of(self, other: &Self) -> Self {
        Self {
            cpu_time: other.cpu_time,
            wall: other.wall,
            text_output: other.text_output,
            rich_output: other.rich_output,
            ..self
        }
    }

    pub fn of(profile: ProfileName) -> Self {
        match profile {
            ProfileName::Small => Self::SMALL,
            ProfileName::Data => Self::DATA,
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::SMALL
    }
}
