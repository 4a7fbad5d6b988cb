//! What a jailer and its spawner say to each other. Data only.

use crate::plan::{Mode, TemplatePlan};
use crate::root::Part;
use atoll_core::{Limits, SandboxId};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum ToSpawner {
    /// Beside it: one tree per `Part::Mount`.
    Start {
        plan: Box<TemplatePlan>,
        parts: Vec<Part>,
        mode: Mode,
    },
    /// Beside it: the agent's channel, the scratch file system if there is one, then control socket, stdout and stderr
    /// of the context that starts with it, if one does.
    Sandbox {
        sandbox: SandboxId,
        host_id: u32,
        limits: Limits,
        scratch: bool,
        /// `Groups` will bring cgroups.
        grouped: bool,
        watched: bool,
        context: Option<u32>,
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
