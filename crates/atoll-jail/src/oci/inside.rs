//! The first process of a container: reads what it is for, gives up what the runtime left it, becomes the agent.
//!
//! Descriptor 3 is its channel, 4 holds its plan, 5 is the root of the scratch file system. The runtime has taken every
//! capability and put its filter on before; the rest is as in the jail's own shell.

use crate::filter::Filters;
use crate::plan::{Mode, Wall, Walls};
use crate::shell::{AgentMain, AgentStart, Kernel, ShellPlan, ask_ahead, be_silent, lock_agent, ruleset};
use crate::step::{Step, StepError, chain};
use crate::sys::process::{close_from, join_own_keyring, take_descriptor};
use atoll_core::Limits;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::rc::Rc;

/// What an agent is told before its first message.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentPlan {
    pub(crate) limits: Limits,
    pub(crate) mode: Mode,
    /// An ordinary user's sandbox without cgroups.
    pub(crate) alone: bool,
    pub(crate) watched: bool,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) walls: Walls,
    /// Its root is the template's own.
    pub(crate) image: bool,
}

impl AgentPlan {
    pub(crate) fn of(plan: &ShellPlan) -> Self {
        Self {
            limits: plan.limits,
            mode: plan.mode,
            alone: plan.alone,
            watched: plan.watched,
            env: plan.template.env.clone(),
            walls: plan.template.walls.clone(),
            image: plan.template.root.is_some(),
        }
    }
}

/// Runs until the engine goes; the container ends with it.
pub fn main(agent: AgentMain) -> i32 {
    match start() {
        Ok(start) => agent(start),
        Err(error) => {
            let line = format!("the agent failed to start: {}\n", chain(&error));
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            1
        }
    }
}

fn start() -> Result<AgentStart, StepError> {
    let [channel, plan, scratch] = [take_descriptor(3)?, take_descriptor(4)?, take_descriptor(5)?];
    close_from(6, u32::MAX)?;
    let plan = read(plan)?;
    join_own_keyring();
    let ruleset = match plan.walls.is_off(Wall::Landlock) {
        true => None,
        false => Some(ruleset(plan.mode, plan.image)?),
    };
    let filters = Filters::compile(plan.mode)
        .map_err(|_| Errno::INVAL)
        .step("compile the seccomp filters")?;
    let filters = Rc::new(filters);
    ask_ahead();
    lock_agent(&plan.walls, &filters)?;
    // Last: until here the runtime's pipe takes what went wrong.
    be_silent()?;
    Ok(AgentStart {
        channel,
        ruleset,
        env: plan.env.into_iter().collect(),
        scratch: Some(scratch),
        off: plan.walls.bits(),
        alone: plan.alone,
        kernel: Kernel::Linux,
        rlimits: crate::rlimits::of(&plan.limits, plan.alone),
        filters,
        watched: plan.watched,
    })
}

fn read(plan: OwnedFd) -> Result<AgentPlan, StepError> {
    let what = "read the agent's configuration";
    let mut text = String::new();
    std::fs::File::from(plan).read_to_string(&mut text).step(what)?;
    serde_json::from_str(&text).map_err(std::io::Error::from).step(what)
}
