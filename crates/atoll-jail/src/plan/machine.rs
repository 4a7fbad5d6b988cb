//! What a virtual machine is to the jailer. Data only.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The program that runs a template's virtual machines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmPlan {
    /// QEMU, where the host has it: below `/usr`.
    pub program: PathBuf,
    pub accelerator: Accelerator,
}

/// Who runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Accelerator {
    /// The processor, behind a wall of its own.
    Kvm,
    /// QEMU itself, in software: works everywhere, and is no wall.
    Tcg,
}

impl Accelerator {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }

    /// Whether the machine keeps hostile code in.
    pub fn is_wall(self) -> bool {
        self == Self::Kvm
    }
}

/// How one virtual machine begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VmStart {
    pub ram_bytes: u64,
    pub way: VmWay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum VmWay {
    /// From a kernel. The processor's clock is told to a kernel that cannot measure it.
    Boot { tsc_khz: u64 },
    /// From a saved machine.
    Restore,
}
