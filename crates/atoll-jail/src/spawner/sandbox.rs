//! One sandbox as its spawner sees it: the shell process, and from when on forks may enter.

use super::Fault;
use super::attach::{self, Attach};
use crate::channel;
use crate::filter::Filters;
use crate::plan::{Mode, RuntimeKind, TemplatePlan};
use crate::shell::{AgentMain, FromShell, SANDBOX_ID, ShellPlan};
use crate::step::{OfWall, Step, StepError};
use crate::sys::fork_wire::{Enter, MAGIC};
use crate::sys::process::{Forked, GVISOR_KEEPER_NAMESPACES, KEEPER_NAMESPACES, OWN_NAMESPACES, fork_with};
use crate::sys::wire_bytes::bytes_of;
use crate::vm::keeper::VmOrder;
use atoll_core::Limits;
use rustix::fd::{AsFd, OwnedFd};
use std::fs;
use std::rc::Rc;

pub(super) struct Sandbox {
    pub(super) pid: i32,
    pub(super) shell: OwnedFd,
    pub(super) limits: Limits,
    /// An ordinary user's sandbox without cgroups: rlimits stand in for them.
    pub(super) alone: bool,
    pub(super) watched: bool,
    /// Its first process keeps a container: what is personal is laid into the keeper's mounts.
    is_kept: bool,
    /// It is in a virtual machine, into which nothing is laid from here.
    is_vm: bool,
    /// Only while it is being built.
    sync: Option<OwnedFd>,
    cgroups: Vec<OwnedFd>,
    ruleset: Option<OwnedFd>,
    /// Its mounts and rules stand.
    is_open: bool,
    /// Forks that wait to enter.
    gates: Vec<OwnedFd>,
    /// Claims that wait until it is ready.
    pub(super) claims: Vec<Attach>,
}

/// What a new sandbox is made of.
pub(super) struct Order {
    /// The id in this user namespace that becomes the sandbox's only user.
    pub(super) host_id: u32,
    pub(super) limits: Limits,
    pub(super) agent: OwnedFd,
    pub(super) scratch: Option<OwnedFd>,
    pub(super) main: AgentMain,
    pub(super) mode: Mode,
    pub(super) alone: bool,
    pub(super) watched: bool,
    pub(super) vm: Option<VmOrder>,
    /// Where the engine talks to its keeper.
    pub(super) keeper: Option<OwnedFd>,
}

impl Order {
    /// With what its keeper is given, which came beside the order.
    pub(super) fn kept_by(mut self, keeper: bool, fds: &mut std::vec::IntoIter<OwnedFd>) -> Result<Self, Fault> {
        self.keeper = match keeper {
            true => Some(super::next_fd(fds)?),
            false => None,
        };
        Ok(self)
    }
}

/// How far a sandbox has come.
#[derive(Debug)]
pub(super) enum Progress {
    /// Forks have been let in.
    Open,
    /// With the process of its virtual machine, if it has one.
    Ready(Option<OwnedFd>),
    Failed(Fault),
}

impl Sandbox {
    /// Forks the shell into its namespaces, where it waits for its groups. From now on there is a pid namespace to fork
    /// into.
    pub(super) fn begin(order: Order, template: &Rc<TemplatePlan>, filters: &Rc<Filters>) -> Result<Self, Fault> {
        let (ours, theirs) = channel::pair()?;
        let plan = ShellPlan {
            limits: order.limits,
            template: Rc::clone(template),
            mode: order.mode,
            alone: order.alone,
            watched: order.watched,
            scratch: order.scratch,
            agent: order.agent,
            keeper: order.keeper,
            sync: theirs,
            filters: Rc::clone(filters),
            main: order.main,
        };
        let runtime = template.runtime.as_ref();
        let own = match runtime.map(|runtime| runtime.kind) {
            None => OWN_NAMESPACES,
            Some(RuntimeKind::Runsc) => GVISOR_KEEPER_NAMESPACES,
            Some(RuntimeKind::Crun | RuntimeKind::Runc | RuntimeKind::Kata) => KEEPER_NAMESPACES,
        };
        let forked = fork_with(own).step("create the sandbox's namespaces");
        let is_vm = order.vm.is_some();
        let (pid, shell) = match (forked.wall("namespaces")?, runtime) {
            (Forked::Child, None) => match (&template.vm, order.vm) {
                (Some(vm), Some(order)) => crate::vm::keeper::run(plan, vm, order),
                _ => crate::shell::run(plan),
            },
            (Forked::Child, Some(runtime)) if runtime.kind == RuntimeKind::Runsc => {
                crate::gvisor::keeper::run(plan, runtime)
            }
            (Forked::Child, Some(runtime)) => crate::oci::keeper::run(plan, runtime, order.host_id),
            (Forked::Parent { pid, pidfd }, _) => (pid, pidfd),
        };
        let sandbox = Self {
            pid,
            shell,
            limits: order.limits,
            alone: order.alone,
            watched: order.watched,
            is_kept: runtime.is_some(),
            is_vm,
            sync: Some(ours),
            cgroups: Vec::new(),
            ruleset: None,
            is_open: false,
            gates: Vec::new(),
            claims: Vec::new(),
        };
        // A runtime maps the ids of its containers.
        if runtime.is_some() {
            return Ok(sandbox);
        }
        if let Err(error) = map_ids(pid, order.host_id).wall("ids") {
            sandbox.kill();
            return Err(error.into());
        }
        Ok(sandbox)
    }

    /// The channel on which the shell tells how far it is, while it is being built.
    pub(super) fn sync(&self) -> Option<&OwnedFd> {
        self.sync.as_ref()
    }

    /// The groups are made: the shell joins them and builds the rest.
    pub(super) fn go(&mut self, cgroups: Vec<OwnedFd>) -> Result<(), Fault> {
        self.cgroups = cgroups;
        let fds: Vec<_> = self.cgroups.iter().map(AsFd::as_fd).collect();
        match &self.sync {
            Some(sync) => Ok(channel::send_bytes(sync, b"go", &fds)?),
            None => Err("the sandbox already has its cgroups".into()),
        }
    }

    /// What the shell says next. Waits if it has not said it yet.
    pub(super) fn hear(&mut self) -> Progress {
        let Some(sync) = &self.sync else {
            return Progress::Ready(None);
        };
        match channel::receive_to_the_end::<FromShell>(sync) {
            Ok((FromShell::Open, fds)) => {
                self.ruleset = fds.into_iter().next();
                self.is_open = true;
                let gates = std::mem::take(&mut self.gates);
                // A fork that is gone already needs no gate.
                gates.iter().for_each(|gate| drop(self.let_in(gate)));
                Progress::Open
            }
            Ok((FromShell::Ready, fds)) => {
                self.sync = None;
                Progress::Ready(fds.into_iter().next())
            }
            Ok((FromShell::Failed(failed), _)) => Progress::Failed(failed.into_fault()),
            Err(_) => Progress::Failed("its first process exited during setup".into()),
        }
    }

    /// One more gate, for one fork: its end of it.
    pub(super) fn gate(&mut self) -> Result<OwnedFd, StepError> {
        let (ours, theirs) = channel::pair()
            .map_err(|_| rustix::io::Errno::MFILE)
            .step("create the entry channel")?;
        if self.is_open {
            self.let_in(&ours)?;
        } else {
            self.gates.push(ours);
        }
        Ok(theirs)
    }

    fn let_in(&self, gate: &OwnedFd) -> Result<(), StepError> {
        let enter = Enter {
            magic: MAGIC,
            has_ruleset: u32::from(self.ruleset.is_some()),
        };
        let fds: Vec<_> = self.cgroups.iter().chain(&self.ruleset).map(AsFd::as_fd).collect();
        channel::send_bytes(gate, bytes_of(&enter), &fds)
            .map_err(|_| rustix::io::Errno::PIPE)
            .step("open the entry channel")
    }

    /// Applies what is personal to a ready sandbox: room for files, and the inputs.
    pub(super) fn attach(&mut self, asked: &Attach) -> Result<(), Fault> {
        let room = |limits: &Limits| (limits.scratch, limits.scratch_inodes);
        let resize = room(&asked.limits) != room(&self.limits);
        self.limits = asked.limits;
        if !self.is_vm && (resize || !asked.names.is_empty()) {
            attach::run(self.shell.as_fd(), asked, resize, self.is_kept)?;
        }
        Ok(())
    }

    /// It will not be ready: nobody waits for its words any more, and who waits at a gate is sent away.
    pub(super) fn give_up(&mut self) {
        self.kill();
        self.sync = None;
        self.gates.clear();
    }

    /// Ends its first process, and with it all others.
    pub(super) fn kill(&self) {
        // One that is gone already is reaped next.
        rustix::process::pidfd_send_signal(&self.shell, rustix::process::Signal::KILL).ok();
    }
}

/// Gives the shell its one id.
pub(crate) fn map_ids(pid: i32, host_id: u32) -> Result<(), StepError> {
    let map = format!("{SANDBOX_ID} {host_id} 1");
    fs::write(format!("/proc/{pid}/setgroups"), "deny").step("disable setgroups")?;
    fs::write(format!("/proc/{pid}/gid_map"), &map).step("write the gid map")?;
    fs::write(format!("/proc/{pid}/uid_map"), &map).step("write the uid map")
}
