//! One open template: its spawner process and its range of host ids.

use super::Fault;
use super::host_ids::HostIds;
use crate::cgroup::Disk;
use crate::channel::{self, ChannelError};
use crate::instance::{IDS_PER_SLOT, Instance, Slot};
use crate::oci::workshop::{take_agent, take_workshop};
use crate::outbox::Outbox;
use crate::plan::{Mode, RuntimePlan, TemplatePlan};
use crate::root::{Part, take_parts};
use crate::spawner::{FromSpawner, ToSpawner};
use crate::step::{OfWall, Step, StepError, chain};
use crate::sys::process::{Forked, OWN_NAMESPACES, exit_now, fork_with, lay_stdin};
use crate::walls::NoWall;
use atoll_core::Limits;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Gid, Signal, Uid, WaitId, WaitIdOptions, pidfd_send_signal, waitid};
use std::ffi::CString;
use std::fs;
use std::path::Path;

pub(super) struct Template {
    pub(super) channel: OwnedFd,
    pub(super) outbox: Outbox,
    pub(super) plan: TemplatePlan,
    spawner: OwnedFd,
    host_ids: HostIds,
    /// The disk that the template's files are read from, where there is one.
    pub(super) disk: Option<Disk>,
    /// The spawner, or one before it, has built its root and started its zygote.
    pub(super) is_up: bool,
    /// Held as long as a process may have one of its ids.
    slot: Option<Slot>,
}

impl Template {
    pub(super) fn open(plan: TemplatePlan, mode: Mode, instance: &Instance) -> Result<Self, Fault> {
        let slot = if mode == Mode::Root {
            Some(instance.take_slot()?)
        } else {
            None
        };
        let empty = instance.empty_dir()?;
        let taken = match &plan.vm {
            None => take_parts(&plan, &empty),
            // The template is in the guest.
            Some(vm) => crate::vm::workshop::take(vm),
        };
        let (mut parts, mut trees) = taken.wall("mounts")?;
        let workshop = match &plan.runtime {
            None => Vec::new(),
            Some(runtime) => take_runtime((&mut parts, &mut trees), runtime, mode, &empty)?,
        };
        let (ours, theirs) = channel::pair()?;
        let (go, wait) = channel::pair()?;
        let spawner = match fork_with(OWN_NAMESPACES)
            .step("create the template's namespaces")
            .wall("namespaces")?
        {
            Forked::Child => {
                drop((ours, go));
                let report = theirs.try_clone();
                let failed = become_spawner(&wait, theirs);
                report.map(|report| tell_failure(&report, &failed)).ok();
                exit_now(127)
            }
            Forked::Parent { pid, pidfd } => {
                map_ids(pid, slot.as_ref(), plan.runtime.as_ref()).wall("ids")?;
                pidfd
            }
        };
        drop((theirs, wait));
        channel::send_bytes(&go, b"go", &[])?;
        let start = ToSpawner::Start {
            plan: Box::new(plan.clone()),
            parts,
            workshop,
            mode,
        };
        let fds: Vec<BorrowedFd<'_>> = trees.iter().map(AsFd::as_fd).collect();
        match channel::send(&ours, &start, &fds) {
            Err(ChannelError::Closed) => return Err(last_words(&ours)),
            sent => sent?,
        }
        let disk = Disk::of(&plan.tree);
        let runtime = plan.runtime.as_ref().map(|runtime| runtime.kind);
        Ok(Self {
            channel: ours,
            outbox: Outbox::default(),
            plan,
            disk,
            is_up: false,
            spawner,
            host_ids: HostIds::new(mode, runtime),
            slot,
        })
    }

    /// Sends an order to the spawner; one that finds no room waits.
    pub(super) fn post(&mut self, order: &ToSpawner, fds: Vec<OwnedFd>) -> Result<(), ChannelError> {
        self.outbox.post(&self.channel, order, fds)
    }

    /// An id of the template's user namespace that no living sandbox has.
    pub(super) fn take_host_id(&mut self) -> Result<u32, StepError> {
        self.host_ids.take()
    }

    /// Nothing of the sandbox that had it is left.
    pub(super) fn return_host_id(&mut self, id: u32) {
        self.host_ids.give_back(id);
    }

    /// A file system on disk for scratch files, where the limits ask for one and there is the power to make it.
    pub(super) fn scratch(&self, limits: &Limits, host_id: u32) -> Result<Option<OwnedFd>, StepError> {
        let (Some(slot), true) = (&self.slot, crate::scratch::is_on_disk(limits)) else {
            return Ok(None);
        };
        let dir = self.plan.tree.parent().unwrap_or(&self.plan.tree);
        crate::scratch::make(dir, limits, slot.first_host_id + host_id).map(Some)
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        pidfd_send_signal(&self.spawner, Signal::KILL).ok();
        waitid(WaitId::PidFd(self.spawner.as_fd()), WaitIdOptions::EXITED).ok();
    }
}

/// What a runtime and its containers need besides the template.
fn take_runtime(
    (parts, trees): (&mut Vec<Part>, &mut Vec<OwnedFd>),
    runtime: &RuntimePlan,
    mode: Mode,
    empty: &Path,
) -> Result<Vec<Part>, Fault> {
    super::host::check_ids(runtime.kind, mode)?;
    let (agent, agent_trees) = take_agent(runtime, empty).wall("mounts")?;
    parts.extend(agent);
    trees.extend(agent_trees);
    let (workshop, workshop_trees) = take_workshop(runtime).wall("mounts")?;
    trees.extend(workshop_trees);
    Ok(workshop)
}

fn map_ids(pid: i32, slot: Option<&Slot>, runtime: Option<&RuntimePlan>) -> Result<(), StepError> {
    let map = match slot {
        Some(slot) => format!("0 {} {IDS_PER_SLOT}", slot.first_host_id),
        None => "0 0 1".to_owned(),
    };
    // All namespaces below inherit it. Only runc cannot do without; nobody in its containers has the capability for it.
    if runtime.is_none_or(|runtime| !runtime.kind.maps_root()) {
        fs::write(format!("/proc/{pid}/setgroups"), "deny").step("disable setgroups")?;
    }
    fs::write(format!("/proc/{pid}/gid_map"), &map).step("write the template's gid map")?;
    fs::write(format!("/proc/{pid}/uid_map"), &map).step("write the template's uid map")
}

/// In a child that could not become the spawner: why, for the jailer.
fn tell_failure(report: &OwnedFd, failed: &StepError) {
    if let Some(NoWall { layer, message, .. }) = NoWall::in_error(failed) {
        channel::send(report, &FromSpawner::NoWall { layer, message }, &[]).ok();
    }
    let message = chain(failed);
    channel::send(report, &FromSpawner::Broken { message }, &[]).ok();
}

/// What a spawner that has ended at once said of it.
fn last_words(channel: &OwnedFd) -> Fault {
    match channel::receive_to_the_end::<FromSpawner>(channel) {
        Ok((FromSpawner::NoWall { layer, message }, _)) => NoWall::new(&layer, message).into(),
        Ok((FromSpawner::Broken { message }, _)) => message.into(),
        Ok(_) | Err(_) => "the spawner exited immediately".into(),
    }
}

fn become_spawner(wait: &OwnedFd, channel: OwnedFd) -> StepError {
    match try_become_spawner(wait, channel) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// In the child: root of the new user namespace, then this program again, so that its memory belongs there too.
fn try_become_spawner(wait: &OwnedFd, channel: OwnedFd) -> Result<std::convert::Infallible, StepError> {
    channel::receive_bytes(wait)
        .map_err(|_| rustix::io::Errno::PIPE)
        .step("receive a message from the jailer")?;
    rustix::thread::set_thread_res_gid(Gid::ROOT, Gid::ROOT, Gid::ROOT)
        .step("switch to the namespace's root group")
        .wall("ids")?;
    rustix::thread::set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT)
        .step("switch to the namespace's root user")
        .wall("ids")?;
    lay_stdin(channel)?;
    let argv = [c"atoll".to_owned(), c"__spawner".to_owned()];
    let env: [CString; 0] = [];
    nix::unistd::execve(c"/proc/self/exe", &argv, &env).step("start the spawner")
}
