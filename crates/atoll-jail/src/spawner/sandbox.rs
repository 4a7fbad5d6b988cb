//! One live sandbox as its spawner sees it: the shell process, its Landlock rules, its cgroups.

use super::Fault;
use crate::channel;
use crate::filter::Filters;
use crate::plan::{Mode, TemplatePlan};
use crate::root::attach;
use crate::shell::{AgentMain, Failed, FromShell, SANDBOX_ID, ShellPlan, seal_inputs, unseal_inputs};
use crate::step::{OfWall, Step, StepError};
use crate::sys::process::{Forked, OWN_NAMESPACES, exit_now, fork_with, join_namespaces};
use atoll_core::Limits;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::mount::{MountFlags, mount_remount};
use std::fs;
use std::path::Path;

pub(super) struct Sandbox {
    pub(super) pid: i32,
    pub(super) shell: OwnedFd,
    pub(super) ruleset: Option<OwnedFd>,
    pub(super) cgroups: Vec<OwnedFd>,
    pub(super) limits: Limits,
}

/// What a new sandbox is made of.
pub(super) struct Order {
    /// The id in this user namespace that becomes the sandbox's only user.
    pub(super) host_id: u32,
    pub(super) limits: Limits,
    pub(super) agent: OwnedFd,
    pub(super) cgroups: Vec<OwnedFd>,
    pub(super) scratch: Option<OwnedFd>,
    pub(super) main: AgentMain,
    pub(super) mode: Mode,
}

impl Sandbox {
    pub(super) fn create(order: Order, plan: &TemplatePlan, filters: &Filters) -> Result<Self, Fault> {
        let (ours, theirs) = channel::pair()?;
        let shell_plan = ShellPlan {
            limits: order.limits,
            walls: plan.walls.clone(),
            mode: order.mode,
            links: plan.links.clone(),
            env: plan.env.clone().into_iter().collect(),
            cgroups: order.cgroups,
            scratch: order.scratch,
            agent: order.agent,
            sync: theirs,
            filters: filters.clone(),
            main: order.main,
        };
        let (pid, shell) = match fork_with(OWN_NAMESPACES)
            .step("make the sandbox's namespaces")
            .wall("namespaces")?
        {
            Forked::Child => crate::shell::run(shell_plan),
            Forked::Parent { pid, pidfd } => (pid, pidfd),
        };
        let cgroups = shell_plan.cgroups;
        drop((shell_plan.sync, shell_plan.agent, shell_plan.scratch));
        let ruleset = map_and_wait(pid, order.host_id, &ours);
        if ruleset.is_err() {
            rustix::process::pidfd_send_signal(&shell, rustix::process::Signal::KILL).ok();
        }
        Ok(Self {
            pid,
            shell,
            ruleset: ruleset?,
            cgroups,
            limits: order.limits,
        })
    }

    /// Applies what is personal to a prepared sandbox: room for files, and the inputs.
    pub(super) fn attach(&mut self, limits: Limits, names: &[String], trees: &[OwnedFd]) -> Result<(), Fault> {
        let resize = (limits.scratch, limits.scratch_inodes) != (self.limits.scratch, self.limits.scratch_inodes);
        self.limits = limits;
        if !resize && names.is_empty() {
            return Ok(());
        }
        let (ours, theirs) = channel::pair()?;
        let shell = self.shell.as_fd();
        match fork_with(0).step("fork a helper")? {
            Forked::Child => {
                let done = join_and_attach(shell, resize.then_some(&limits), names, trees);
                let failed = done.err().map(|error| Failed::of(&error));
                channel::send(&theirs, &failed, &[]).ok();
                exit_now(0)
            }
            Forked::Parent { pid, .. } => {
                drop(theirs);
                let answer = channel::receive::<Option<Failed>>(&ours);
                nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).ok();
                match answer?.0 {
                    None => Ok(()),
                    Some(failed) => Err(failed.into_fault()),
                }
            }
        }
    }
}

/// Gives the shell its one id, lets it go, and waits until it stands.
fn map_and_wait(pid: i32, host_id: u32, sync: &OwnedFd) -> Result<Option<OwnedFd>, Fault> {
    let let_go = map_ids(pid, &format!("{SANDBOX_ID} {host_id} 1")).wall("ids");
    let let_go = let_go
        .map_err(Fault::from)
        .and_then(|()| Ok(channel::send_bytes(sync, b"go", &[])?));
    // A shell that has failed before is gone by now; why it failed is what matters, not that it cannot be reached.
    if let Err(error) = let_go
        && !has_spoken(sync)
    {
        return Err(error);
    }
    let (answer, fds) = channel::receive_to_the_end::<FromShell>(sync)?;
    match answer {
        FromShell::Ready => Ok(fds.into_iter().next()),
        FromShell::Failed(failed) => Err(failed.into_fault()),
    }
}

fn has_spoken(sync: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(sync, PollFlags::IN)];
    poll(&mut fds, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

fn map_ids(pid: i32, map: &str) -> Result<(), StepError> {
    fs::write(format!("/proc/{pid}/setgroups"), "deny").step("forbid setgroups")?;
    fs::write(format!("/proc/{pid}/gid_map"), map).step("map the group")?;
    fs::write(format!("/proc/{pid}/uid_map"), map).step("map the user")
}

/// In a helper: from the spawner into the sandbox's mounts. The sandbox itself has no power to mount any more.
fn join_and_attach(
    shell: rustix::fd::BorrowedFd<'_>,
    resize: Option<&Limits>,
    names: &[String],
    trees: &[OwnedFd],
) -> Result<(), StepError> {
    join_namespaces(shell, libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
        .step("join the sandbox")
        .wall("namespaces")?;
    crate::shell::become_user()?;
    if let Some(limits) = resize {
        let options = format!(
            "size={},nr_inodes={}",
            limits.scratch.get(),
            limits.scratch_inodes.get()
        );
        mount_remount("/home/user", MountFlags::NOSUID | MountFlags::NODEV, options)
            .step("resize the scratch files")?;
    }
    unseal_inputs()?;
    for (name, tree) in names.iter().zip(trees) {
        let place = Path::new("/data/input").join(name);
        fs::write(&place, "").step(&format!("make room for the input {name}"))?;
        attach(tree.as_fd(), &place).step(&format!("mount the input {name}"))?;
    }
    seal_inputs()
}
