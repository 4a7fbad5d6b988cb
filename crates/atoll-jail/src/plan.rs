//! What the engine asks of a jailer, and what a jailer answers. Data only.
//!
//! A plan says everything: a field that is absent means the thing is not given. `Walls` is always whole in the
//! product; a test that must see a breach names the wall it takes away and why, and the receipt repeats it.

mod machine;

use crate::sys::lockdown::Off;
use atoll_core::{Limits, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub use machine::{Accelerator, VmPlan, VmStart, VmWay};

/// The generation of these messages; both ends come from one binary and refuse another generation.
pub const GENERATION: u32 = 8;

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

impl Wall {
    /// What is read back of it. The kernel tells nobody about keyrings; the agent's memory is not a context's wall.
    fn layer(self) -> Option<Layer> {
        match self {
            Self::Landlock => Some(Layer::Landlock),
            Self::Seccomp => Some(Layer::Seccomp),
            Self::Capabilities => Some(Layer::Capabilities),
            Self::NoNewPrivs => Some(Layer::NoNewPrivs),
            Self::Rlimits => Some(Layer::Rlimits),
            Self::Cgroups => Some(Layer::Cgroups),
            Self::ProcMask => Some(Layer::Proc),
            Self::Keyring | Self::Undumpable => None,
        }
    }
}

impl std::fmt::Display for Wall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Landlock => "landlock",
            Self::Seccomp => "seccomp",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no_new_privs",
            Self::Rlimits => "rlimits",
            Self::Keyring => "keyring",
            Self::Cgroups => "cgroups",
            Self::ProcMask => "proc",
            Self::Undumpable => "undumpable",
        })
    }
}

/// A wall as it is read back from the kernel, by the name that receipts, settings and `doctor` use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    Namespaces,
    Ids,
    Capabilities,
    NoNewPrivs,
    Seccomp,
    Landlock,
    Rlimits,
    Proc,
    Mounts,
    Cgroups,
}

impl Layer {
    pub const ALL: [Self; 10] = [
        Self::Namespaces,
        Self::Ids,
        Self::Capabilities,
        Self::NoNewPrivs,
        Self::Seccomp,
        Self::Landlock,
        Self::Rlimits,
        Self::Proc,
        Self::Mounts,
        Self::Cgroups,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Namespaces => "namespaces",
            Self::Ids => "ids",
            Self::Capabilities => "capabilities",
            Self::NoNewPrivs => "no_new_privs",
            Self::Seccomp => "seccomp",
            Self::Landlock => "landlock",
            Self::Rlimits => "rlimits",
            Self::Proc => "proc",
            Self::Mounts => "mounts",
            Self::Cgroups => "cgroups",
        }
    }
}

impl std::str::FromStr for Layer {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|layer| layer.as_str() == name);
        found.ok_or_else(|| {
            format!(
                "unknown layer `{name}`; expected one of {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}

impl std::fmt::Display for Layer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Every wall that is switched off, with the reason, and every wall without which no context starts. Nothing off is the
/// product.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Walls {
    pub off: BTreeMap<Wall, String>,
    pub required: BTreeSet<Layer>,
}

impl Default for Walls {
    /// All but cgroups, which an ordinary user may not have: then rlimits and a watcher stand in, and the receipt says so.
    fn default() -> Self {
        let required = Layer::ALL.into_iter().filter(|layer| *layer != Layer::Cgroups);
        Self {
            off: BTreeMap::new(),
            required: required.collect(),
        }
    }
}

impl Walls {
    /// Switches a wall off and does not miss it.
    pub fn without(mut self, wall: Wall, because: &str) -> Self {
        if let Some(layer) = wall.layer() {
            self.required.remove(&layer);
        }
        self.broken(wall, because)
    }

    /// Switches a wall off that may still be required: then nothing starts.
    pub fn broken(mut self, wall: Wall, because: &str) -> Self {
        self.off.insert(wall, because.to_owned());
        self
    }

    pub fn requiring(mut self, layer: Layer) -> Self {
        self.required.insert(layer);
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
    /// A root of its own, with the [frame](crate::frame) laid into it; absent: the host's `/usr` and what belongs to it.
    pub root: Option<PathBuf>,
    /// Becomes `/opt/atoll/kernel`, so that a new binary needs no new template.
    pub kernel: PathBuf,
    /// Links that each new home directory starts with: path below the home, target.
    pub links: Vec<(String, String)>,
    pub env: BTreeMap<String, String>,
    pub zygote: Option<ZygotePlan>,
    /// Who makes the sandboxes; absent: we ourselves.
    pub runtime: Option<RuntimePlan>,
    /// Each sandbox is in a virtual machine of its own.
    pub vm: Option<VmPlan>,
    pub walls: Walls,
}

/// An OCI runtime that makes each sandbox of a template. All paths are the host's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuntimePlan {
    pub kind: RuntimeKind,
    pub program: PathBuf,
    /// The `atoll` binary, which is the first process of each container.
    pub agent: PathBuf,
    /// A directory with the loader (`ld.so`) and the libraries (`lib/`) that the agent runs with, whatever root it is in,
    /// and an empty file `atoll` where the binary is shown.
    pub libraries: PathBuf,
    /// Words for the runtime itself, before its command.
    pub options: Vec<String>,
    /// Where saved sandboxes of the template lie, for a runtime that can restore them.
    pub saved: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeKind {
    Crun,
    /// Maps root as well, so it needs a second id, which an ordinary user does not have.
    Runc,
    /// Virtual machines behind the same command line. Only ever taken by name.
    Kata,
    /// gVisor: its own kernel instead of the host's.
    Runsc,
}

impl RuntimeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Crun => "crun",
            Self::Runc => "runc",
            Self::Kata => "kata-runtime",
            Self::Runsc => "runsc",
        }
    }

    /// It maps a root into each container, besides the user.
    pub(crate) fn maps_root(self) -> bool {
        matches!(self, Self::Runc | Self::Kata)
    }
}

impl std::fmt::Display for RuntimeKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The runtimes of containers, by name. gVisor is a tier of its own.
impl std::str::FromStr for RuntimeKind {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = [Self::Crun, Self::Runc, Self::Kata];
        let found = known.into_iter().find(|kind| kind.as_str() == name);
        found.ok_or_else(|| {
            format!(
                "unknown container runtime `{name}`; expected one of {}",
                known.map(Self::as_str).join(", ")
            )
        })
    }
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
    /// Beside it: the agent's end of its channel; if its keeper is talked to, the keeper's end of that; if a context starts
    /// with it, or is in it already, its control socket, stdout and stderr.
    CreateSandbox {
        sandbox: SandboxId,
        template: u32,
        limits: Limits,
        /// Its contexts hand over a listener before they run anything: the first byte of the control socket has it beside.
        watched: bool,
        keeper: bool,
        context: Option<u32>,
        /// Its virtual machine, if it has one. Beside it then, after the keeper's channel: control and monitor sockets, memory,
        /// images; kernel and initial file system, or the saved state.
        vm: Option<VmStart>,
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
    /// Read the walls of a context back from the kernel. Beside it: the context's pidfd, if it has one.
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
        /// Its spawner has ended, and all sandboxes of that one.
        with_spawner: bool,
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
