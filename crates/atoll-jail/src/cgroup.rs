//! Control groups of sandboxes: version 1, version 2 and the hybrid of both, by one module.
//!
//! A host has one place per controller. We make `<place>/atoll/<instance>/<sandbox>` and touch nothing else. Where the
//! place is a delegated group that we are in ourselves, we also make a leaf there and stay in it for the time.

mod delegated;
mod disk;
mod layout;
mod limit;
mod stat;
#[cfg(test)]
mod tests;

use delegated::Aside;
pub use disk::Disk;
pub use layout::Layout;
pub use stat::{StatKind, read_stat};

use crate::step::{Step, StepError};
use atoll_core::Limits;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// How often a group is asked for again when somebody else removes its parent at the same moment.
const TRIES: u32 = 100;
/// Where our own processes stand aside, beside `atoll`.
const LEAF: &str = "atoll-own";

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Controller {
    Memory,
    Cpu,
    Cpuacct,
    Pids,
    Io,
    Freezer,
}

impl Controller {
    fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Cpuacct => "cpuacct",
            Self::Pids => "pids",
            Self::Io => "io",
            Self::Freezer => "freezer",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// One hierarchy that holds some of our controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    pub version: Version,
    /// The group below which we make ours.
    pub parent: PathBuf,
    pub controllers: Vec<Controller>,
}

impl Hierarchy {
    /// The same hierarchy, mounted twice: the kernel has each controller of a version once.
    fn is_same(&self, other: &Self) -> bool {
        self.version == other.version && self.controllers.iter().any(|c| other.controllers.contains(c))
    }
}

/// The group `atoll/<instance>` in every hierarchy.
#[derive(Debug)]
pub struct InstanceGroups {
    layout: Layout,
    dirs: Vec<PathBuf>,
    asides: Vec<Aside>,
}

impl InstanceGroups {
    /// `ours` are the processes that may be moved aside. If a step fails, nothing of it stays.
    pub fn create(layout: Layout, instance: &str, ours: &[u32]) -> Result<Self, StepError> {
        let mut groups = Self {
            layout,
            dirs: Vec::new(),
            asides: Vec::new(),
        };
        for hierarchy in groups.layout.hierarchies.clone() {
            if let Err(error) = groups.add(&hierarchy, instance, ours) {
                groups.remove();
                return Err(error);
            }
        }
        Ok(groups)
    }

    fn add(&mut self, hierarchy: &Hierarchy, instance: &str, ours: &[u32]) -> Result<(), StepError> {
        self.asides.extend(Aside::step(hierarchy, ours)?);
        self.dirs.push(hierarchy.parent.join("atoll").join(instance));
        make_instance_dir(hierarchy, instance)
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes the groups of one sandbox and sets its limits. If a step fails, nothing of it stays.
    pub fn create_sandbox(&self, name: &str, limits: &Limits, disk: Option<Disk>) -> Result<SandboxGroups, StepError> {
        let mut groups = SandboxGroups {
            members: Vec::new(),
            disk,
        };
        match self.fill(&mut groups, name, limits) {
            Ok(()) => Ok(groups),
            Err(error) => {
                groups.remove();
                Err(error)
            }
        }
    }

    fn fill(&self, groups: &mut SandboxGroups, name: &str, limits: &Limits) -> Result<(), StepError> {
        for (hierarchy, dir) in self.layout.hierarchies.iter().zip(&self.dirs) {
            let dir = dir.join(name);
            fs::create_dir(&dir).step(&format!("create the cgroup {}", dir.display()))?;
            groups.members.push((hierarchy.clone(), dir));
        }
        groups.set_limits(limits)
    }

    /// Removes the instance's groups, which must be empty.
    pub fn remove(&self) {
        for dir in &self.dirs {
            remove_dir(dir);
            if let Some(ours) = dir.parent() {
                fs::remove_dir(ours).ok();
            }
        }
        self.asides.iter().for_each(Aside::step_back);
    }
}

/// Groups of one sandbox, one per hierarchy.
#[derive(Debug)]
pub struct SandboxGroups {
    members: Vec<(Hierarchy, PathBuf)>,
    /// The disk whose use is limited.
    disk: Option<Disk>,
}

impl SandboxGroups {
    pub fn set_limits(&self, limits: &Limits) -> Result<(), StepError> {
        for (hierarchy, dir) in &self.members {
            for controller in &hierarchy.controllers {
                limit::set_limit(dir, *controller, hierarchy.version, limits, self.disk.as_ref())?;
            }
        }
        Ok(())
    }

    /// Files that move the writer into the groups when `0` is written. Opened here, by who may.
    pub fn membership_files(&self) -> Result<Vec<OwnedFd>, StepError> {
        let open = |(hierarchy, dir): &(Hierarchy, PathBuf)| {
            let name = if hierarchy.version == Version::V1 {
                "tasks"
            } else {
                "cgroup.procs"
            };
            fs::OpenOptions::new()
                .write(true)
                .open(dir.join(name))
                .map(OwnedFd::from)
                .step("open a cgroup")
        };
        self.members.iter().map(open).collect()
    }

    /// Open control files that tell what the sandbox used. One that the kernel does not have is left out.
    pub fn stat_files(&self) -> Result<Vec<(StatKind, OwnedFd)>, StepError> {
        let mut files = Vec::new();
        for (hierarchy, dir) in &self.members {
            for controller in &hierarchy.controllers {
                for (kind, name) in stat::stat_names(*controller, hierarchy.version) {
                    match fs::File::open(dir.join(name)) {
                        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                        file => files.push((*kind, file.step(&format!("open {name}"))?.into())),
                    }
                }
            }
        }
        Ok(files)
    }

    /// What the kernel says the limits are: for the receipt.
    pub fn read_back(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut facts = serde_json::Map::new();
        for (hierarchy, dir) in &self.members {
            limit::read_back(hierarchy, dir, self.disk.as_ref(), &mut facts);
        }
        for name in ["io", "cpu_quota_us"] {
            facts
                .entry(name)
                .or_insert_with(|| "not limited: no cgroup controller available".into());
        }
        facts
    }

    /// The processes in it, by their numbers here.
    pub(crate) fn processes(&self) -> Result<Vec<i32>, StepError> {
        let mut all = Vec::new();
        for (_, dir) in self.members.iter().take(1) {
            let text = fs::read_to_string(dir.join("cgroup.procs")).step("list the processes in a cgroup")?;
            all.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()));
        }
        Ok(all)
    }

    pub fn remove(&self) {
        for (_, dir) in &self.members {
            remove_dir(dir);
        }
    }
}

/// Makes `atoll/<instance>`. Another instance that ends at this moment may remove `atoll` between two steps of ours;
/// then we begin again.
fn make_instance_dir(hierarchy: &Hierarchy, instance: &str) -> Result<(), StepError> {
    let mut made = try_make_instance_dir(hierarchy, instance);
    for _ in 1..TRIES {
        match made {
            Err(error) if error.errno == Errno::NOENT => made = try_make_instance_dir(hierarchy, instance),
            // A group of version 1 or 2 that is just being removed refuses children.
            Err(error) if error.errno == Errno::NODEV => made = try_make_instance_dir(hierarchy, instance),
            _ => break,
        }
    }
    made
}

fn try_make_instance_dir(hierarchy: &Hierarchy, instance: &str) -> Result<(), StepError> {
    let ours = hierarchy.parent.join("atoll");
    let dir = ours.join(instance);
    delegate(&hierarchy.parent, hierarchy)?;
    make_dir(&ours)?;
    delegate(&ours, hierarchy)?;
    make_dir(&dir)?;
    delegate(&dir, hierarchy)
}

fn make_dir(dir: &Path) -> Result<(), StepError> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.step(&format!("create the cgroup {}", dir.display())),
    }
}

/// Version 2: lets the children of `dir` have the controllers.
fn delegate(dir: &Path, hierarchy: &Hierarchy) -> Result<(), StepError> {
    for name in missing_controllers(dir, hierarchy) {
        limit::write(dir, "cgroup.subtree_control", &format!("+{name}")).map_err(|error| explain(error, dir))?;
    }
    Ok(())
}

/// What the children of `dir` do not have yet. One that is on already is not asked for again: the kernel refuses that,
/// too, where `dir` itself holds processes.
fn missing_controllers(dir: &Path, hierarchy: &Hierarchy) -> Vec<&'static str> {
    if hierarchy.version == Version::V1 {
        return Vec::new();
    }
    let on = fs::read_to_string(dir.join("cgroup.subtree_control")).unwrap_or_default();
    let is_off = |name: &&str| !on.split_whitespace().any(|one| one == *name);
    hierarchy
        .controllers
        .iter()
        .filter_map(name_v2)
        .filter(is_off)
        .collect()
}

/// The kernel's bare "busy" means one thing here.
fn explain(error: StepError, dir: &Path) -> StepError {
    match error.errno {
        Errno::BUSY => StepError {
            what: format!(
                "enable cgroup controllers below {}, because that cgroup contains processes; start Atoll in its own cgroup (`systemd-run --property=Delegate=yes`), or move the container's processes into a child cgroup",
                dir.display()
            ),
            errno: Errno::BUSY,
            layer: Some("cgroups"),
        },
        _ => error,
    }
}

/// The controllers by the names that the kernel uses, for messages.
pub(crate) fn names(controllers: &[Controller]) -> String {
    let names: Vec<&str> = controllers.iter().copied().map(Controller::as_str).collect();
    names.join(", ")
}

fn name_v2(controller: &Controller) -> Option<&'static str> {
    match controller {
        Controller::Memory => Some("memory"),
        Controller::Cpu => Some("cpu"),
        Controller::Pids => Some("pids"),
        Controller::Io => Some("io"),
        Controller::Cpuacct | Controller::Freezer => None,
    }
}

/// Removes a group. The last process may still be on its way out, so the kernel is asked a few times.
fn remove_dir(dir: &Path) {
    for _ in 0..200 {
        match fs::remove_dir(dir) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            _ => return,
        }
    }
}

/// Removes what dead instances left: empty groups below `atoll/` whose instance is not alive.
pub fn sweep(layout: &Layout, is_alive: &dyn Fn(&str) -> bool) -> usize {
    let mut swept = 0;
    for hierarchy in &layout.hierarchies {
        let Ok(instances) = fs::read_dir(hierarchy.parent.join("atoll")) else {
            continue;
        };
        for instance in instances.flatten().filter(|entry| entry.path().is_dir()) {
            if is_alive(&instance.file_name().to_string_lossy()) {
                continue;
            }
            for sandbox in fs::read_dir(instance.path()).into_iter().flatten().flatten() {
                if sandbox.path().is_dir() {
                    remove_dir(&sandbox.path());
                }
            }
            remove_dir(&instance.path());
            swept += 1;
        }
        fs::remove_dir(hierarchy.parent.join("atoll")).ok();
    }
    swept
}
