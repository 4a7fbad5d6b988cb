//! What the jailer knows of each sandbox, and what it does for one: groups, claims, facts, the end.

use super::{Fault, Jailer, Template, tell};
use crate::cgroup::SandboxGroups;
use crate::channel;
use crate::input::take_input;
use crate::plan::{FromJailer, InputPlan, Wall};
use crate::spawner::ToSpawner;
use crate::step::chain;
use atoll_core::{Limits, SandboxId};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};

pub(super) struct Sandbox {
    pub(super) template: u32,
    pub(super) groups: Option<SandboxGroups>,
    pub(super) limits: Limits,
}

impl Jailer {
    pub(super) fn create_sandbox(
        &mut self,
        id: &SandboxId,
        number: u32,
        limits: Limits,
        agent: &OwnedFd,
    ) -> Result<(), Fault> {
        self.reopen(number)?;
        let template = self.templates.get_mut(&number).ok_or("its template is not open")?;
        let host_id = template.next_host_id();
        let scratch = template.scratch(&limits, host_id)?;
        let with_groups = self
            .groups
            .as_ref()
            .filter(|_| !template.plan.walls.is_off(Wall::Cgroups));
        let groups = with_groups
            .map(|all| all.create_sandbox(id.as_str(), &limits, template.disk.clone()))
            .transpose()?;
        let members = groups.as_ref().map(SandboxGroups::membership_files).transpose();
        self.sandboxes.insert(
            id.clone(),
            Sandbox {
                template: number,
                groups,
                limits,
            },
        );
        let members = members?.unwrap_or_default();
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(agent)
            .chain(&scratch)
            .chain(&members)
            .map(AsFd::as_fd)
            .collect();
        let order = ToSpawner::Sandbox {
            sandbox: id.clone(),
            host_id,
            limits,
            scratch: scratch.is_some(),
        };
        Ok(channel::send(&template.channel, &order, &fds)?)
    }

    /// A template whose spawner has ended gets another one.
    fn reopen(&mut self, number: u32) -> Result<(), Fault> {
        if let Some(plan) = self.lost.remove(&number) {
            self.templates
                .insert(number, Template::open(plan, self.mode, &self.instance)?);
        }
        Ok(())
    }

    pub(super) fn sandbox_is_ready(&mut self, id: SandboxId, _shell: Vec<OwnedFd>) -> Result<(), Fault> {
        let groups = self.sandboxes.get(&id).and_then(|sandbox| sandbox.groups.as_ref());
        let files = match groups.map(SandboxGroups::stat_files).transpose() {
            Ok(files) => files.unwrap_or_default(),
            // What cannot be watched cannot be limited. Its groups go when its last process has.
            Err(error) => {
                let order = ToSpawner::End { sandbox: id.clone() };
                self.to_spawner(&id, &order, &[])?;
                return tell(
                    &FromJailer::SandboxFailed {
                        sandbox: id,
                        message: chain(&error),
                    },
                    &[],
                );
            }
        };
        let (stats, files): (Vec<_>, Vec<_>) = files.into_iter().unzip();
        let fds: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
        tell(&FromJailer::SandboxReady { sandbox: id, stats }, &fds)
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
        let fds: Vec<BorrowedFd<'_>> = trees.iter().map(AsFd::as_fd).collect();
        self.to_spawner(
            id,
            &ToSpawner::Attach {
                sandbox: id.clone(),
                limits,
                names,
            },
            &fds,
        )
    }

    pub(super) fn inspect(&mut self, id: SandboxId, pidfd: &OwnedFd) -> Result<(), Fault> {
        let sandbox = self.sandboxes.get(&id);
        let template = sandbox.and_then(|sandbox| self.templates.get(&sandbox.template));
        let (Some(sandbox), Some(template)) = (sandbox, template) else {
            let message = "the sandbox has ended".to_owned();
            return tell(&FromJailer::InspectFailed { sandbox: id, message }, &[]);
        };
        match crate::receipt::inspect(pidfd.as_fd(), sandbox.groups.as_ref(), self.mode, &template.plan.walls) {
            Ok(layers) => tell(&FromJailer::Inspected { sandbox: id, layers }, &[]),
            Err(error) => tell(
                &FromJailer::InspectFailed {
                    sandbox: id,
                    message: chain(&error),
                },
                &[],
            ),
        }
    }

    pub(super) fn end_sandbox(&mut self, id: SandboxId) -> Result<(), Fault> {
        if self
            .to_spawner(&id, &ToSpawner::End { sandbox: id.clone() }, &[])
            .is_err()
        {
            self.forget(&id);
            tell(&FromJailer::Ended { sandbox: id }, &[])?;
        }
        Ok(())
    }
}
