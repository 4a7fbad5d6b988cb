//! What the jailer knows of each sandbox, and what it does for one: groups, claims, facts, the end.

use super::{Fault, Jailer, Template};
use crate::cgroup::SandboxGroups;
use crate::channel::ChannelError;
use crate::input::take_input;
use crate::plan::{FromJailer, InputPlan, Wall};
use crate::receipt::Known;
use crate::spawner::ToSpawner;
use crate::step::{OfWall, StepError, chain};
use crate::walls::NoWall;
use atoll_core::{Limits, SandboxId};
use rustix::fd::{AsFd, OwnedFd};

pub(super) struct Sandbox {
    pub(super) template: u32,
    /// Its user in the template's user namespace.
    pub(super) host_id: u32,
    pub(super) groups: Option<SandboxGroups>,
    pub(super) limits: Limits,
}

/// What the engine asks for with a new sandbox.
pub(super) struct Wanted {
    pub(super) template: u32,
    pub(super) limits: Limits,
    pub(super) watched: bool,
    /// A context that starts with it.
    pub(super) context: Option<u32>,
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
            .ok_or("its template is not open")?;
        let host_id = template.take_host_id()?;
        let sandbox = Sandbox {
            template: wanted.template,
            host_id,
            groups: None,
            limits: wanted.limits,
        };
        self.sandboxes.insert(id.clone(), sandbox);
        let scratch = template.scratch(&wanted.limits, host_id)?;
        let order = ToSpawner::Sandbox {
            sandbox: id.clone(),
            host_id,
            limits: wanted.limits,
            scratch: scratch.is_some(),
            grouped: self.groups.is_some() && !template.plan.walls.is_off(Wall::Cgroups),
            watched: wanted.watched,
            context: wanted.context,
        };
        let mut beside = beside.into_iter();
        let mut fds: Vec<OwnedFd> = beside.by_ref().take(1).collect();
        fds.extend(scratch.into_iter().chain(beside));
        match template.post(&order, fds) {
            Err(ChannelError::Closed) => return self.hear_last_words(wanted.template),
            posted => posted?,
        }
        match self.make_groups(id, wanted) {
            Ok(members) => self.post_groups(id, wanted.template, members),
            Err(error) => {
                // Its groups, as far as they are made, go when its last process has. A spawner that is gone has ended it.
                self.order(id, &ToSpawner::End { sandbox: id.clone() }, Vec::new()).ok();
                self.tell_failed(id.clone(), &error)
            }
        }
    }

    /// The sandbox's groups, as far as it has some, and the files by which it joins them.
    fn make_groups(&mut self, id: &SandboxId, wanted: &Wanted) -> Result<Vec<OwnedFd>, StepError> {
        let template = self.templates.get(&wanted.template);
        let grouped = template.filter(|template| !template.plan.walls.is_off(Wall::Cgroups));
        let (Some(all), Some(template)) = (&self.groups, grouped) else {
            return Ok(Vec::new());
        };
        let groups = all.create_sandbox(id.as_str(), &wanted.limits, template.disk.clone());
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
    fn hear_last_words(&mut self, number: u32) -> Result<(), Fault> {
        while self.templates.contains_key(&number) {
            self.hear_spawner(number)?;
        }
        Ok(())
    }

    /// A template whose spawner has ended gets another one.
    fn reopen(&mut self, number: u32) -> Result<(), Fault> {
        if let Some(plan) = self.lost.remove(&number) {
            self.templates
                .insert(number, Template::open(plan, self.mode, &self.instance)?);
        }
        Ok(())
    }

    pub(super) fn sandbox_is_ready(&mut self, id: SandboxId) -> Result<(), Fault> {
        let groups = self.sandboxes.get(&id).and_then(|sandbox| sandbox.groups.as_ref());
        let files = match groups.map(SandboxGroups::stat_files).transpose() {
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
        let sandbox = self.sandboxes.get_mut(id).ok_or("there is no such sandbox")?;
        if let Some(groups) = sandbox.groups.as_ref().filter(|_| sandbox.limits != limits) {
            groups.set_limits(&limits)?;
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

    pub(super) fn inspect(&mut self, id: SandboxId, pidfd: &OwnedFd) -> Result<(), Fault> {
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
        };
        match crate::receipt::inspect(pidfd.as_fd(), known) {
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
            self.tell(&FromJailer::Ended { sandbox: id })?;
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
