//! What the engine asks of a jailer, and what a jailer answers. Data only.
//!
//! A plan says everything: a field that is absent means the thing is not given. `Walls` is always whole in the
//! product; a test that must see a breach names the wall it takes away and why, and the receipt repeats it.

use crate::sys::lockdown::Off;
use atoll_core::{Limits, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The generation of these messages; both ends come from one binary and refuse another generation.
pub const GENERATION: u32 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wall {
    Landlock,
    Seccomp,
    Capabilities,
    NoNewPrivs,
    Rlimits,
    Keyring,
    Cgroups,
    /// `/proc` with the own processes only, and nothing of the machine.
    ProcMask,
    /// The memory of PID 1, which nobody may look into.
    Undumpable,
}

/// Every wall that is switched off, with the reason. Empty is the product.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walls {
    pub off: BTreeMap<Wall, String>,
}

impl Walls {
    pub fn without(mut self, wall: Wall, because: &str) -> Self {
        self.off.insert(wall, because.to_owned());
        self
    }

    pub fn is_off(&self, wall: Wall) -> bool {
        self.off.contains_key(&wall)
    }

    pub(crate) fn bits(&self) -> Off {
        let bit = |wall: &Wall| match wall {
            Wall::Landlock => Off::LANDLOCK,
            Wall::Seccomp => Off::SECCOMP,
            Wall::Capabilities => Off::CAPABILITIES,
            Wall::NoNewPrivs => Off::NO_NEW_PRIVS,
            Wall::Rlimits => Off::RLIMITS,
            Wall::Keyring => Off::KEYRING,
            Wall::Cgroups | Wall::ProcMask | Wall::Undumpable => 0,
        };
        Off(self.off.keys().map(bit).fold(0, |bits, bit| bits | bit))
    }
}

/// What a template is to the jail: a directory that becomes `/opt/atoll`, and how its interpreter is warmed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TemplatePlan {
    pub tree: PathBuf,
    /// Becomes `/opt/atoll/kernel`, so that a new binary needs no new template.
    pub kernel: PathBuf,
    /// Links that each new home directory starts with: path below the home, target.
    pub links: Vec<(String, String)>,
    pub env: BTreeMap<String, String>,
    pub zygote: Option<ZygotePlan>,
    pub walls: Walls,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZygotePlan {
    /// The program and its arguments, as seen inside.
    pub argv: Vec<String>,
    /// Handed to the interpreter as its first message.
    pub config: Map<String, Value>,
    pub rotation: Rotation,
}

/// When a zygote makes room for a fresh one. The forks of the former go on living.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rotation {
    /// One that is not ready after so long is ended.
    pub start_seconds: u64,
    pub max_age_seconds: u64,
    /// In its whole life.
    pub max_forks: u64,
    /// Each living fork shares the zygote's pages, and each makes the next fork a little dearer.
    pub max_living_forks: u64,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            start_seconds: 120,
            max_age_seconds: 6 * 3600,
            max_forks: 20_000,
            max_living_forks: 300,
        }
    }
}

/// A file of the host that appears read-only below `/data/input`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputPlan {
    pub name: String,
    pub path: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToJailer {
    Hello {
        generation: u32,
        instance: String,
        run_dir: PathBuf,
    },
    OpenTemplate {
        template: u32,
        plan: Box<TemplatePlan>,
    },
    /// Beside it: the agent's end of its channel; if a context starts with it, its control socket, stdout and stderr.
    CreateSandbox {
        sandbox: SandboxId,
        template: u32,
        limits: Limits,
        context: Option<u32>,
    },
    /// Beside it: control socket, stdout, stderr.
    StartContext {
        sandbox: SandboxId,
        context: u32,
    },
    /// Beside it: one open descriptor per input, to prove that the path still names the same file.
    Claim {
        sandbox: SandboxId,
        limits: Limits,
        inputs: Vec<InputPlan>,
    },
    /// Read the walls of a context back from the kernel. Beside it: the context's pidfd.
    Inspect {
        sandbox: SandboxId,
    },
    EndSandbox {
        sandbox: SandboxId,
    },
    /// Restart the template's zygote (rotation).
    RotateZygote {
        template: u32,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum FromJailer {
    Hello {
        host: HostFacts,
    },
    /// The host cannot build a required wall: which one, and how to get it.
    NoWall {
        layer: String,
        message: String,
        fix: String,
    },
    ZygoteReady {
        template: u32,
        facts: Map<String, Value>,
    },
    ZygoteDown {
        template: u32,
        message: String,
    },
    /// Beside it: one descriptor per entry of `stats`.
    SandboxReady {
        sandbox: SandboxId,
        stats: Vec<crate::cgroup::StatKind>,
    },
    SandboxFailed {
        sandbox: SandboxId,
        message: String,
    },
    /// Beside it: a pidfd.
    ContextStarted {
        sandbox: SandboxId,
        context: u32,
    },
    ContextFailed {
        sandbox: SandboxId,
        context: u32,
        message: String,
    },
    ContextExited {
        sandbox: SandboxId,
        context: u32,
        code: Option<i32>,
        signal: Option<i32>,
    },
    Inspected {
        sandbox: SandboxId,
        layers: Map<String, Value>,
    },
    InspectFailed {
        sandbox: SandboxId,
        message: String,
    },
    Claimed {
        sandbox: SandboxId,
    },
    ClaimFailed {
        sandbox: SandboxId,
        message: String,
    },
    Ended {
        sandbox: SandboxId,
    },
}

/// What this host gives the jail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostFacts {
    pub mode: Mode,
    pub landlock_abi: u32,
    /// The kind of their layout, or `none`.
    pub cgroups: String,
}

impl HostFacts {
    pub fn has_cgroups(&self) -> bool {
        self.cgroups != "none"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Real root: a unique host uid per sandbox, cgroup limits.
    Root,
    /// An ordinary user with user namespaces: one shared host uid; cgroup limits where a group is delegated, else by rlimits and
    /// a watcher.
    Rootless,
}
