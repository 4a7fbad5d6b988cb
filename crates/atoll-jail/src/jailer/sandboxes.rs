//! What the jailer knows of each sandbox, and what it does for one: groups, claims, facts, the end.

use super::{Fault, Jailer, Template};
use crate::cgroup::SandboxGroups;
use crate::channel::ChannelError;
use crate::input::take_input;
use crate::plan::{FromJailer, InputPlan, RuntimeKind, VmStart, Wall};
use crate::receipt::Known;
use crate::spawner::ToSpawner;
use crate::step::{OfWall, Step, StepError, chain};
use crate::walls::NoWall;
use atoll_core::quantity::{MemoryBytes, ProcessCount};
use atoll_core::{Limits, SandboxId};
use rustix::fd::{AsFd, OwnedFd};

pub(super) struct Sandbox {
    pub(super) template: u32,
    /// Its user in the template's user namespace.
    pub(super) host_id: u32,
    pub(super) groups: Option<SandboxGroups>,
    pub(super) limits: Limits,
    /// Who makes it, if not we ourselves.
    runtime: Option<RuntimeKind>,
    /// How much memory its virtual machine has, if it has one.
    ram_bytes: Option<u64>,
    /// The process of its virtual machine.
    machine: Option<OwnedFd>,
}

/// What the engine asks for with a new sandbox.
pub(super) struct Wanted {
    pub(super) template: u32,
    pub(super) limits: Limits,
    pub(super) watched: bool,
    /// The engine talks to its keeper.
    pub(super) keeper: bool,
    /// A context that starts with it.
    pub(super) context: Option<u32>,
    pub(super) vm: Option<VmStart>,
}

/// QEMU needs memory besides the guest's, and threads; what the sandbox itself may have is the guest's business. A page of the
/// guest that nobody touched before counts twice: in the saved memory, which has a hole there, and as the guest's own.
fn around_machine(limits: Limits, ram_bytes: u64) -> Result<Limits, Fault> {
    Ok(Limits {
        memory: MemoryBytes::try_from(2 * ram_bytes + MACHINE_BYTES)?,
        processes: Limits::SMALL.processes,
        ..limits
    })
}

/// What gVisor's kernel needs at most besides the sandbox's processes, and for each of them.
const KERNEL_TASKS: u64 = 256;
const KERNEL_TASKS_PER_PROCESS: u64 = 8;
const KERNEL_MEMORY: u64 = 64 << 20;

/// A runtime is in the sandbox's groups while it makes it, and needs more than the least of sandboxes.
fn roomy(limits: Limits) -> Limits {
    Limits {
        memory: limits.memory.max(Limits::SMALL.memory),
        processes: limits.processes.max(Limits::SMALL.processes),
        ..limits
    }
}

/// The limits of a sandbox's groups. Under gVisor the groups count the processes of gVisor's kernel, several for each of the
/// sandbox; that kernel counts the sandbox's own. They also count the kernel's memory, which is none of the sandbox's.
fn of_groups(limits: Limits, runtime: Option<RuntimeKind>) -> Limits {
    if runtime != Some(RuntimeKind::Runsc) {
        return limits;
    }
    let wanted = limits.processes.get() * KERNEL_TASKS_PER_PROCESS + KERNEL_TASKS;
    Limits {
        processes: ProcessCount::try_from(wanted).unwrap_or(ProcessCount::MAX),
        memory: MemoryBytes::try_from(limits.memory.get() + KERNEL_MEMORY).unwrap_or(limits.memory),
        ..limits
    }
}

/// What QEMU may have for itself: its code, its heap, and what it translates the guest's code to.
const MACHINE_BYTES: u64 = 256 << 20;

impl Sandbox {
    /// The limits of its groups on this machine.
    fn outer(&self) -> Result<Limits, Fault> {
        match self.ram_bytes {
            None => Ok(of_groups(self.limits, self.runtime)),
            Some(bytes) => around_machine(self.limits, bytes),
        }
    }
}

impl Jailer {
    /// The spawner begins at once, and the groups are made meanwhile; the shell joins them before it builds anything.
    pub(super) fn create_sandbox(
        &mut self,
        id: &SandboxId,
        wanted: &Wanted,
        beside: Vec<OwnedFd>,
    ) -> Result<(), Fault> {
        crate::rlimits::check(&wanted.limits, self.mode)?;
        self.reopen(wanted.template)?;
        let template = self
            .templates
            .get_mut(&wanted.template)
            .ok_or("the sandbox's template is not open")?;
        let host_id = template.take_host_id()?;
        let sandbox = Sandbox {
            template: wanted.template,
            host_id,
            groups: None,
            limits: wanted.limits,
            runtime: template.plan.runtime.as_ref().map(|runtime| runtime.kind),
            ram_bytes: wanted.vm.as_ref().map(|vm| vm.ram_bytes),
            machine: None,
        };
        let outer = sandbox.outer()?;
        self.sandboxes.insert(id.clone(), sandbox);
        let scratch = match wanted.vm {
            None => template.scratch(&wanted.limits, host_id)?,
            Some(_) => None,
        };
        let order = ToSpawner::Sandbox {
            sandbox: id.clone(),
            host_id,
            limits: wanted.limits,
            scratch: scratch.is_some(),
            grouped: self.groups.is_some() && !template.plan.walls.is_off(Wall::Cgroups),
            watched: wanted.watched,
            keeper: wanted.keeper,
            context: wanted.context,
            vm: wanted.vm.clone(),
        };
        let mut beside = beside.into_iter();
        let mut fds: Vec<OwnedFd> = beside.by_ref().take(1).collect();
        fds.extend(scratch.into_iter().chain(beside));
        match template.post(&order, fds) {
            Err(ChannelError::Closed) => return self.hear_last_words(wanted.template),
            posted => posted?,
        }
        match self.make_groups(id, wanted.template, outer) {
            Ok(members) => self.post_groups(id, wanted.template, members),
            Err(error) => {
                // Its groups, as far as they are made, go when its last process has. A spawner that is gone has ended it.
                self.order(id, &ToSpawner::End { sandbox: id.clone() }, Vec::new()).ok();
                self.tell_failed(id.clone(), &error)
            }
        }
    }

    /// The sandbox's groups, as far as it has some, and the files by which it joins them.
    fn make_groups(&mut self, id: &SandboxId, template: u32, outer: Limits) -> Result<Vec<OwnedFd>, StepError> {
        let template = self.templates.get(&template);
        let grouped = template.filter(|template| !template.plan.walls.is_off(Wall::Cgroups));
        let (Some(all), Some(template)) = (&self.groups, grouped) else {
            return Ok(Vec::new());
        };
        let limits = match template.plan.runtime {
            None => outer,
            Some(_) => roomy(outer),
        };
        let groups = all.create_sandbox(id.as_str(), &limits, template.disk.clone());
        let groups = groups.wall("cgroups")?;
        let members = groups.membership_files().wall("cgroups");
        self.sandboxes
            .entry(id.clone())
            .and_modify(|sandbox| sandbox.groups = Some(groups));
        members
    }

    fn post_groups(&mut self, id: &SandboxId, number: u32, members: Vec<OwnedFd>) -> Result<(), Fault> {
        let order = ToSpawner::Groups { sandbox: id.clone() };
        match self
            .templates
            .get_mut(&number)
            .map(|template| template.post(&order, members))
        {
            Some(Err(ChannelError::Closed)) => self.hear_last_words(number),
            Some(posted) => Ok(posted?),
            None => Ok(()),
        }
    }

    /// A spawner has ended. What it said of it comes first; then its sandboxes are told to have ended.
    pub(super) fn hear_last_words(&mut self, number: u32) -> Result<(), Fault> {
        while self.templates.contains_key(&number) {
            self.hear_spawner(number)?;
        }
        Ok(())
    }

    /// A template whose spawner has ended gets another one. One of it has stood: if this one ends before it stands, or cannot
    /// be started, the next sandbox gets another.
    fn reopen(&mut self, number: u32) -> Result<(), Fault> {
        let Some(plan) = self.lost.get(&number) else {
            return Ok(());
        };
        let mut opened = Template::open(plan.clone(), self.mode, &self.instance)?;
        opened.is_up = true;
        self.lost.remove(&number);
        self.templates.insert(number, opened);
        Ok(())
    }

    /// Beside it came the process of its virtual machine, if it has one.
    pub(super) fn sandbox_is_ready(&mut self, id: SandboxId, beside: Vec<OwnedFd>) -> Result<(), Fault> {
        self.sandboxes
            .entry(id.clone())
            .and_modify(|sandbox| sandbox.machine = beside.into_iter().next());
        let sandbox = self.sandboxes.get(&id);
        let limited = |sandbox: &Sandbox| {
            let groups = sandbox.groups.as_ref()?;
            match sandbox.runtime {
                None => Some(groups.stat_files()),
                Some(_) => {
                    let set = groups.set_limits(&of_groups(sandbox.limits, sandbox.runtime));
                    Some(set.and_then(|()| groups.stat_files()))
                }
            }
        };
        let files = match sandbox.and_then(limited).transpose() {
            Ok(files) => files.unwrap_or_default(),
            // What cannot be watched cannot be limited. Its groups go when its last process has.
            Err(error) => {
                // A spawner that is gone has ended it already.
                self.order(&id, &ToSpawner::End { sandbox: id.clone() }, Vec::new())
                    .ok();
                return self.tell_failed(id, &error);
            }
        };
        let (stats, files): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        self.tell_with(&FromJailer::SandboxReady { sandbox: id, stats }, files)
    }

    /// Applies what is personal: limits now, inputs by the spawner.
    pub(super) fn claim(
        &mut self,
        id: &SandboxId,
        limits: Limits,
        inputs: &[InputPlan],
        proofs: &[OwnedFd],
    ) -> Result<(), Fault> {
        let sandbox = self.sandboxes.get_mut(id).ok_or("the sandbox does not exist")?;
        if let Some(groups) = sandbox.groups.as_ref().filter(|_| sandbox.limits != limits) {
            let before = std::mem::replace(&mut sandbox.limits, limits);
            if let Err(error) = sandbox.outer().and_then(|outer| Ok(groups.set_limits(&outer)?)) {
                sandbox.limits = before;
                return Err(error);
            }
        }
        sandbox.limits = limits;
        let mut trees = Vec::new();
        for (input, proof) in inputs.iter().zip(proofs) {
            trees.push(take_input(&input.path, proof, &self.instance.empty_dir()?)?);
        }
        let names = inputs.iter().map(|input| input.name.clone()).collect();
        self.order(
            id,
            &ToSpawner::Attach {
                sandbox: id.clone(),
                limits,
                names,
            },
            trees,
        )
    }

    /// Whose walls are read: those of a virtual machine's process, where there is one; else of the one that is named. Under
    /// gVisor a context has no process here.
    pub(super) fn whom(&self, id: &SandboxId, beside: Vec<OwnedFd>) -> Option<OwnedFd> {
        let machine = self.sandboxes.get(id).and_then(|sandbox| sandbox.machine.as_ref());
        match machine {
            Some(machine) => machine.try_clone().ok(),
            None => beside.into_iter().next(),
        }
    }

    pub(super) fn inspect(&mut self, id: SandboxId, pidfd: Option<OwnedFd>) -> Result<(), Fault> {
        let sandbox = self.sandboxes.get(&id);
        let template = sandbox.and_then(|sandbox| self.templates.get(&sandbox.template));
        let (Some(sandbox), Some(template)) = (sandbox, template) else {
            let message = "the sandbox has ended".to_owned();
            return self.tell(&FromJailer::InspectFailed { sandbox: id, message });
        };
        let known = Known {
            mode: self.mode,
            groups: sandbox.groups.as_ref(),
            no_groups: self.no_groups.as_deref(),
            limits: &sandbox.limits,
            walls: &template.plan.walls,
            filters: &self.filters,
            runtime: sandbox.runtime,
            machine: sandbox.machine.is_some(),
        };
        let inspected = match (&pidfd, known.runtime) {
            (_, Some(RuntimeKind::Runsc)) => crate::receipt::gvisor::inspect(known),
            (Some(pidfd), _) => crate::receipt::inspect(pidfd.as_fd(), known),
            (None, _) => Err(rustix::io::Errno::MFILE).step("receive the context's pidfd"),
        };
        match inspected {
            Ok(layers) => self.tell(&FromJailer::Inspected { sandbox: id, layers }),
            Err(error) => {
                if let Some(no_wall) = NoWall::in_error(&error) {
                    self.tell(&no_wall.answer())?;
                }
                let message = chain(&error);
                self.tell(&FromJailer::InspectFailed { sandbox: id, message })
            }
        }
    }

    pub(super) fn end_sandbox(&mut self, id: SandboxId) -> Result<(), Fault> {
        let order = ToSpawner::End { sandbox: id.clone() };
        if self.order(&id, &order, Vec::new()).is_err() {
            self.forget(&id);
            self.tell(&FromJailer::Ended {
                sandbox: id,
                with_spawner: false,
            })?;
        }
        Ok(())
    }

    pub(super) fn tell_failed(
        &mut self,
        sandbox: SandboxId,
        error: &(dyn std::error::Error + 'static),
    ) -> Result<(), Fault> {
        self.tell_no_wall(error)?;
        let message = chain(error);
        self.tell(&FromJailer::SandboxFailed { sandbox, message })
    }
}
