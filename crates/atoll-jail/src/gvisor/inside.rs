//! The first process of a sandbox under gVisor: makes the ferry a process of its own, then becomes the agent.
//!
//! Standard input and output are the line to the host. The ferry is another user than the code's, so nothing inside can
//! signal it or look into it. gVisor has no Landlock and no keyrings: those walls are left out, and the receipt says so.

use crate::channel;
use crate::ferry::{self, Ferry, Side};
use crate::filter::Filters;
use crate::oci::inside::AgentPlan;
use crate::plan::Wall;
use crate::shell::{AgentMain, AgentStart, Kernel, ask_ahead, be_silent, become_user, lock_agent};
use crate::step::{Step, StepError, chain};
use crate::sys::lockdown::drop_bounding_set;
use crate::sys::process::{Started, close_from, exit_now, start_child};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Gid, Uid};
use std::rc::Rc;

/// The ferry's user inside. No file is its own.
const FERRY_ID: u32 = 2;

/// Why walls of the host's kernel are not there.
const NOT_IN_GVISOR: &str = "not available in gVisor's kernel";

/// Runs until the engine goes; the sandbox ends with it.
pub fn main(agent: AgentMain, plan: &str) -> i32 {
    match start(plan) {
        Ok(start) => agent(start),
        Err(error) => {
            let line = format!("the agent failed to start: {}\n", chain(&error));
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            1
        }
    }
}

fn start(plan: &str) -> Result<AgentStart, StepError> {
    close_from(3, u32::MAX)?;
    let plan: AgentPlan = serde_json::from_str(plan)
        .map_err(std::io::Error::from)
        .step("parse the agent's configuration")?;
    let walls = plan
        .walls
        .without(Wall::Landlock, NOT_IN_GVISOR)
        .without(Wall::Keyring, NOT_IN_GVISOR);
    let filters = Filters::compile(plan.mode)
        .map_err(|_| Errno::INVAL)
        .step("compile the seccomp filters")?;
    let filters = Rc::new(filters);
    let (channel, carried) = channel::pair().map_err(|_| Errno::MFILE).step("create a channel")?;
    match start_child().step("fork the relay process")? {
        Started::Parent { .. } => drop(carried),
        Started::Child => {
            drop(channel);
            carry(carried, || {
                drop_bounds()?;
                become_ferry()?;
                lock_agent(&walls, &filters)
            })
        }
    }
    ask_ahead();
    drop_bounds()?;
    become_user()?;
    lock_agent(&walls, &filters)?;
    be_silent()?;
    let mut start = AgentStart {
        channel,
        ruleset: None,
        env: plan.env.into_iter().collect(),
        scratch: None,
        off: walls.bits(),
        alone: true,
        kernel: Kernel::Gvisor,
        rlimits: Vec::new(),
        filters,
        watched: false,
    };
    start.set_limits(&plan.limits);
    Ok(start)
}

/// In the ferry's process. Never returns.
fn carry(channel: OwnedFd, lock: impl FnOnce() -> Result<(), StepError>) -> ! {
    let run = || -> Result<ferry::Ended, StepError> {
        let copy = |fd| rustix::io::fcntl_dupfd_cloexec(fd, 3).step("duplicate the relay's descriptors");
        let (reads_from, writes_to) = (copy(rustix::stdio::stdin())?, copy(rustix::stdio::stdout())?);
        lock()?;
        be_silent()?;
        Ok(ferry::run(Ferry {
            side: Side::Guest,
            channels: vec![channel],
            reads_from,
            writes_to,
            adopted: Vec::new(),
            patient: false,
            holds: ferry::Holds::default(),
        }))
    };
    match run() {
        Ok(_) => exit_now(0),
        Err(error) => {
            let line = format!("the relay process failed to start: {}\n", chain(&error));
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            exit_now(1)
        }
    }
}

/// While there is the capability for it.
fn drop_bounds() -> Result<(), StepError> {
    drop_bounding_set()
        .map_err(Errno::from_raw_os_error)
        .step("drop capabilities")
}

fn become_ferry() -> Result<(), StepError> {
    let (uid, gid) = (Uid::from_raw(FERRY_ID), Gid::from_raw(FERRY_ID));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("switch to the relay's group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("switch to the relay's user")
}
