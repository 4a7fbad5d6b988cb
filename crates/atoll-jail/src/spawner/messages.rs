//! What a jailer and its spawner say to each other. Data only.

use crate::plan::{Mode, TemplatePlan, VmStart};
use crate::root::Part;
use atoll_core::{Limits, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToSpawner {
    /// Beside it: one tree per `Part::Mount`, first those of the parts, then those of the workshop.
    Start {
        plan: Box<TemplatePlan>,
        parts: Vec<Part>,
        /// Where an OCI runtime works, if one makes the sandboxes.
        workshop: Vec<Part>,
        mode: Mode,
    },
    /// Beside it: the agent's channel, the scratch file system if there is one, the keeper's channel if it has one, then
    /// control socket, stdout and stderr of the context that starts with it, if one does.
    Sandbox {
        sandbox: SandboxId,
        host_id: u32,
        limits: Limits,
        scratch: bool,
        /// `Groups` will bring cgroups.
        grouped: bool,
        watched: bool,
        keeper: bool,
        context: Option<u32>,
        /// Beside it, after the scratch file system: what its virtual machine is made of.
        vm: Option<VmStart>,
    },
    /// The sandbox's cgroups are made, and it may join them. Beside it: their membership files; none where there are none.
    Groups {
        sandbox: SandboxId,
    },
    /// Beside it: control socket, stdout, stderr.
    Context {
        sandbox: SandboxId,
        context: u32,
    },
    /// Beside it: one tree per name.
    Attach {
        sandbox: SandboxId,
        limits: Limits,
        names: Vec<String>,
    },
    End {
        sandbox: SandboxId,
    },
    Rotate,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FromSpawner {
    Up,
    /// Told before a failure: it was a wall that this host cannot build.
    NoWall {
        layer: String,
        message: String,
    },
    /// The spawner cannot go on; its sandboxes end with it.
    Broken {
        message: String,
    },
    ZygoteReady {
        facts: Map<String, Value>,
    },
    ZygoteDown {
        message: String,
    },
    /// Beside it: the machine's process as a pidfd, if it has a virtual machine.
    SandboxReady {
        sandbox: SandboxId,
    },
    /// `Ended` follows.
    SandboxFailed {
        sandbox: SandboxId,
        message: String,
    },
    /// Beside it: the context as a pidfd.
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
    Attached {
        sandbox: SandboxId,
    },
    AttachFailed {
        sandbox: SandboxId,
        message: String,
    },
    Ended {
        sandbox: SandboxId,
    },
}
