//! A group of version 2 that belongs to us without being the machine's top: one that a service manager delegated to a
//! user, or a container's own.
//!
//! Such a group may hold processes or give controllers to groups below it, never both. So whoever is in it and is ours
//! steps aside into a leaf, and steps back at the end.

use super::{Controller, Hierarchy, LEAF, Layout, Version, limit, missing_controllers, remove_dir};
use crate::step::{Step, StepError};
use rustix::fs::Access;
use std::fs;
use std::path::{Path, PathBuf};

/// Without these two a group is no better than what a process alone has.
const REQUIRED: &[Controller] = &[Controller::Memory, Controller::Pids];

impl Layout {
    /// The group of this process, if it is ours to use; else why not. `ours` may be in it, nobody else.
    pub fn delegated(ours: &[u32]) -> Result<Self, String> {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let layout = Self::read_own(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"), &|dir| {
            fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default()
        });
        check(&layout, ours)?;
        Ok(layout)
    }
}

pub(super) fn check(layout: &Layout, ours: &[u32]) -> Result<(), String> {
    let Some(hierarchy) = layout.hierarchies.first() else {
        return Err("this process is not in a cgroup v2 hierarchy with controllers".to_owned());
    };
    let (group, missing) = (hierarchy.parent.display(), layout.missing_of(REQUIRED));
    if !missing.is_empty() {
        let missing = super::names(&missing);
        return Err(format!("the cgroup {group} lacks these controllers: {missing}"));
    }
    let may_write = |name: &str| rustix::fs::access(hierarchy.parent.join(name), Access::WRITE_OK).is_ok();
    if !["", "cgroup.procs", "cgroup.subtree_control"]
        .into_iter()
        .all(may_write)
    {
        return Err(format!("the cgroup {group} is not delegated to this user"));
    }
    if processes(&hierarchy.parent).iter().any(|pid| !ours.contains(pid)) {
        return Err(format!("the cgroup {group} contains processes other than Atoll's"));
    }
    Ok(())
}

fn processes(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Our processes stand in a leaf of `group` instead of in itself.
#[derive(Debug)]
pub(super) struct Aside {
    group: PathBuf,
    moved: Vec<u32>,
    /// Controllers that were off before.
    turned_on: Vec<&'static str>,
}

impl Aside {
    /// Steps aside where that is needed and nobody else is in the group. `None` where there is nothing to do, and
    /// where it would not help: then turning on the controllers says why.
    pub(super) fn step(hierarchy: &Hierarchy, ours: &[u32]) -> Result<Option<Self>, StepError> {
        let group = &hierarchy.parent;
        // The machine's top has no type, and may hold both.
        let free = hierarchy.version == Version::V1 || !group.join("cgroup.type").exists();
        let (inside, turned_on) = (processes(group), missing_controllers(group, hierarchy));
        if free || turned_on.is_empty() || inside.is_empty() || inside.iter().any(|pid| !ours.contains(pid)) {
            return Ok(None);
        }
        let aside = Self {
            group: group.clone(),
            moved: inside,
            turned_on,
        };
        match aside.go() {
            Ok(()) => Ok(Some(aside)),
            Err(error) => {
                aside.step_back();
                Err(error)
            }
        }
    }

    fn go(&self) -> Result<(), StepError> {
        let leaf = self.group.join(LEAF);
        super::make_dir(&leaf)?;
        for pid in &self.moved {
            fs::write(leaf.join("cgroup.procs"), pid.to_string())
                .step(&format!("move a process to the cgroup {}", leaf.display()))?;
        }
        Ok(())
    }

    /// As it was before. Another instance in the same group keeps it as it is: then the kernel refuses the first step.
    pub(super) fn step_back(&self) {
        for name in &self.turned_on {
            if limit::write(&self.group, "cgroup.subtree_control", &format!("-{name}")).is_err() {
                return;
            }
        }
        for pid in &self.moved {
            // One that has ended needs no place.
            limit::write(&self.group, "cgroup.procs", &pid.to_string()).ok();
        }
        remove_dir(&self.group.join(LEAF));
    }
}
