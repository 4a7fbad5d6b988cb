//! Control groups of sandboxes: version 1, version 2 and the hybrid of both, by one module.
//!
//! A host has one place per controller. We make `<place>/atoll/<instance>/<sandbox>` and touch nothing else.
//! The layout is read from text that the caller brings, so that all three kinds are tested on any machine.

use crate::step::{Step, StepError};
use atoll_core::Limits;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

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

const V1_NAMES: &[(&str, Controller)] = &[
    ("memory", Controller::Memory),
    ("cpu", Controller::Cpu),
    ("cpuacct", Controller::Cpuacct),
    ("pids", Controller::Pids),
    ("blkio", Controller::Io),
    ("freezer", Controller::Freezer),
];

/// Without these three a sandbox would have no ceiling.
const REQUIRED: &[Controller] = &[Controller::Memory, Controller::Cpu, Controller::Pids];

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub hierarchies: Vec<Hierarchy>,
}

impl Layout {
    /// The layout of this machine, seen from this process.
    pub fn detect() -> Result<Self, StepError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").step("read the mounts")?;
        let groups = fs::read_to_string("/proc/self/cgroup").step("read the own cgroups")?;
        Ok(Self::read(&mounts, &groups, &|dir| {
            fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default()
        }))
    }

    /// The same, from text: `/proc/self/mountinfo`, `/proc/self/cgroup` and a way to read `cgroup.controllers`.
    pub fn read(mounts: &str, groups: &str, controllers: &dyn Fn(&Path) -> String) -> Self {
        let mut hierarchies = Vec::new();
        for line in mounts.lines() {
            let Some((front, back)) = line.split_once(" - ") else { continue };
            let (Some(root), Some(at)) = (front.split(' ').nth(3), front.split(' ').nth(4)) else { continue };
            let mut back = back.split(' ');
            let found = match (back.next(), back.nth(1)) {
                (Some("cgroup2"), _) => unified(at, controllers),
                (Some("cgroup"), Some(options)) => v1(root, at, options, groups),
                _ => None,
            };
            hierarchies.extend(found);
        }
        Self { hierarchies }
    }

    pub fn missing(&self) -> Vec<Controller> {
        let have = |c: &Controller| self.hierarchies.iter().any(|h| h.controllers.contains(c));
        REQUIRED.iter().copied().filter(|c| !have(c)).collect()
    }

    /// Both versions hold some of our controllers, or one does.
    pub fn kind(&self) -> &'static str {
        let any = |v| self.hierarchies.iter().any(|h| h.version == v);
        match (any(Version::V1), any(Version::V2)) {
            (true, true) => "hybrid",
            (true, false) => "v1",
            (false, true) => "v2",
            (false, false) => "none",
        }
    }
}

fn unified(at: &str, controllers: &dyn Fn(&Path) -> String) -> Option<Hierarchy> {
    let top = Path::new(at);
    let have = controllers(top);
    let known = |name: &str| match name {
        "memory" => Some(Controller::Memory),
        "cpu" => Some(Controller::Cpu),
        "pids" => Some(Controller::Pids),
        "io" => Some(Controller::Io),
        _ => None,
    };
    let mut controllers: Vec<_> = have.split_whitespace().filter_map(known).collect();
    if controllers.is_empty() {
        return None;
    }
    controllers.push(Controller::Freezer);
    if controllers.contains(&Controller::Cpu) {
        controllers.push(Controller::Cpuacct);
    }
    // A group of version 2 that holds processes cannot hold limited groups: ours goes to the top of the view.
    Some(Hierarchy { version: Version::V2, parent: top.to_owned(), controllers })
}

fn v1(root: &str, at: &str, options: &str, groups: &str) -> Option<Hierarchy> {
    let names: Vec<&str> = options.split(',').collect();
    let controllers: Vec<_> = V1_NAMES.iter().filter(|(n, _)| names.contains(n)).map(|(_, c)| *c).collect();
    let first = V1_NAMES.iter().find(|(_, c)| Some(c) == controllers.first())?.0;
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let listed = fields.next()?.split(',').any(|name| name == first);
        fields.next().filter(|_| listed)
    })?;
    let parent = Path::new(at).join(below(root, own));
    Some(Hierarchy { version: Version::V1, parent, controllers })
}

/// The own group as a path relative to the mount, which may show only a part of the hierarchy.
fn below(root: &str, own: &str) -> String {
    let rest = own.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    rest.trim_start_matches('/').to_owned()
}

/// The group `atoll/<instance>` in every hierarchy.
#[derive(Debug)]
pub struct InstanceGroups {
    layout: Layout,
    dirs: Vec<PathBuf>,
}

impl InstanceGroups {
    pub fn create(layout: Layout, instance: &str) -> Result<Self, StepError> {
        let mut dirs = Vec::new();
        for hierarchy in &layout.hierarchies {
            let ours = hierarchy.parent.join("atoll");
            let dir = ours.join(instance);
            if hierarchy.version == Version::V2 {
                delegate(&hierarchy.parent, &hierarchy.controllers)?;
            }
            make_dir(&ours)?;
            if hierarchy.version == Version::V2 {
                delegate(&ours, &hierarchy.controllers)?;
            }
            make_dir(&dir)?;
            if hierarchy.version == Version::V2 {
                delegate(&dir, &hierarchy.controllers)?;
            }
            dirs.push(dir);
        }
        Ok(Self { layout, dirs })
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Makes the groups of one sandbox and sets its limits.
    pub fn create_sandbox(&self, name: &str, limits: &Limits) -> Result<SandboxGroups, StepError> {
        let dirs: Vec<PathBuf> = self.dirs.iter().map(|dir| dir.join(name)).collect();
        let groups = SandboxGroups {
            members: self.layout.hierarchies.iter().cloned().zip(dirs).collect(),
        };
        for (_, dir) in &groups.members {
            fs::create_dir(dir).step(&format!("make the cgroup {}", dir.display()))?;
        }
        groups.set_limits(limits)?;
        Ok(groups)
    }

    /// Removes the instance's groups, which must be empty.
    pub fn remove(&self) {
        for dir in &self.dirs {
            remove_dir(dir);
            if let Some(ours) = dir.parent() {
                fs::remove_dir(ours).ok();
            }
        }
    }
}

/// Groups of one sandbox, one per hierarchy.
#[derive(Debug)]
pub struct SandboxGroups {
    members: Vec<(Hierarchy, PathBuf)>,
}

/// Which fact a descriptor of a control file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatKind {
    /// Nanoseconds of processor time (version 1).
    CpuNanos,
    /// `usage_usec …` (version 2).
    CpuStat,
    PeakBytes,
    /// `oom_kill N` among other lines.
    OomKills,
    /// `max N`: how often a process was refused.
    PidsEvents,
}

impl SandboxGroups {
    pub fn set_limits(&self, limits: &Limits) -> Result<(), StepError> {
        for (hierarchy, dir) in &self.members {
            for controller in &hierarchy.controllers {
                set_limit(dir, *controller, hierarchy.version, limits)?;
            }
        }
        Ok(())
    }

    /// Files that move the writer into the groups when `0` is written. Opened here, by who may.
    pub fn membership_files(&self) -> Result<Vec<OwnedFd>, StepError> {
        let open = |(hierarchy, dir): &(Hierarchy, PathBuf)| {
            let name = if hierarchy.version == Version::V1 { "tasks" } else { "cgroup.procs" };
            fs::OpenOptions::new().write(true).open(dir.join(name)).map(OwnedFd::from).step("open a cgroup")
        };
        self.members.iter().map(open).collect()
    }

    /// Open control files that tell what the sandbox used.
    pub fn stat_files(&self) -> Vec<(StatKind, OwnedFd)> {
        let mut files = Vec::new();
        for (hierarchy, dir) in &self.members {
            for controller in &hierarchy.controllers {
                for (kind, name) in stat_names(*controller, hierarchy.version) {
                    if let Ok(file) = fs::File::open(dir.join(name)) {
                        files.push((*kind, OwnedFd::from(file)));
                    }
                }
            }
        }
        files
    }

    /// What the kernel says the limits are: for the receipt.
    pub fn read_back(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut facts = serde_json::Map::new();
        for (hierarchy, dir) in &self.members {
            for (name, file) in limit_names(hierarchy) {
                if let Ok(text) = fs::read_to_string(dir.join(file)) {
                    facts.insert((*name).to_owned(), text.trim().into());
                }
            }
        }
        facts
    }

    pub fn remove(&self) {
        for (_, dir) in &self.members {
            remove_dir(dir);
        }
    }
}

fn limit_names(hierarchy: &Hierarchy) -> Vec<(&'static str, &'static str)> {
    let v1 = hierarchy.version == Version::V1;
    let name = |c: &Controller| match c {
        Controller::Memory if v1 => Some(("memory_bytes", "memory.limit_in_bytes")),
        Controller::Memory => Some(("memory_bytes", "memory.max")),
        Controller::Cpu if v1 => Some(("cpu_quota_us", "cpu.cfs_quota_us")),
        Controller::Cpu => Some(("cpu_quota_us", "cpu.max")),
        Controller::Pids => Some(("processes", "pids.max")),
        Controller::Cpuacct | Controller::Io | Controller::Freezer => None,
    };
    hierarchy.controllers.iter().filter_map(name).collect()
}

fn stat_names(controller: Controller, version: Version) -> &'static [(StatKind, &'static str)] {
    match (controller, version) {
        (Controller::Memory, Version::V1) => {
            &[(StatKind::PeakBytes, "memory.max_usage_in_bytes"), (StatKind::OomKills, "memory.oom_control")]
        }
        (Controller::Memory, Version::V2) => {
            &[(StatKind::PeakBytes, "memory.peak"), (StatKind::OomKills, "memory.events")]
        }
        (Controller::Cpuacct, Version::V1) => &[(StatKind::CpuNanos, "cpuacct.usage")],
        (Controller::Cpu, Version::V2) => &[(StatKind::CpuStat, "cpu.stat")],
        (Controller::Pids, _) => &[(StatKind::PidsEvents, "pids.events")],
        _ => &[],
    }
}

const CPU_PERIOD_US: u64 = 100_000;

fn set_limit(dir: &Path, controller: Controller, version: Version, limits: &Limits) -> Result<(), StepError> {
    let memory = limits.memory.get();
    let quota = limits.cpus.get() * CPU_PERIOD_US / 1000;
    match (controller, version) {
        (Controller::Memory, Version::V1) => {
            set_memory_v1(dir, memory)?;
            write_optional(dir, "memory.swappiness", "0")?;
            // TCP buffers are not counted in limit_in_bytes.
            write_optional(dir, "memory.kmem.tcp.limit_in_bytes", &(memory / 8).to_string())
        }
        (Controller::Memory, Version::V2) => {
            write_optional(dir, "memory.swap.max", "0")?;
            write(dir, "memory.max", &memory.to_string())
        }
        (Controller::Cpu, Version::V1) => {
            write(dir, "cpu.cfs_period_us", &CPU_PERIOD_US.to_string())?;
            write(dir, "cpu.cfs_quota_us", &quota.to_string())
        }
        (Controller::Cpu, Version::V2) => write(dir, "cpu.max", &format!("{quota} {CPU_PERIOD_US}")),
        // One more for the agent, which is a process of the group but not the user's.
        (Controller::Pids, _) => write(dir, "pids.max", &(limits.processes.get() + 1).to_string()),
        (Controller::Cpuacct | Controller::Io | Controller::Freezer, _) => Ok(()),
    }
}

/// Memory and memory+swap must move in an order in which the first never exceeds the second.
fn set_memory_v1(dir: &Path, memory: u64) -> Result<(), StepError> {
    let value = memory.to_string();
    if write(dir, "memory.limit_in_bytes", &value).is_ok() {
        return write_optional(dir, "memory.memsw.limit_in_bytes", &value);
    }
    write_optional(dir, "memory.memsw.limit_in_bytes", &value)?;
    write(dir, "memory.limit_in_bytes", &value)
}

fn write(dir: &Path, name: &str, value: &str) -> Result<(), StepError> {
    fs::write(dir.join(name), value).step(&format!("set {name} to {value} in {}", dir.display()))
}

/// For files that a kernel may be built without: absent is fine, refused is not.
fn write_optional(dir: &Path, name: &str, value: &str) -> Result<(), StepError> {
    if dir.join(name).exists() { write(dir, name, value) } else { Ok(()) }
}

fn make_dir(dir: &Path) -> Result<(), StepError> {
    match fs::create_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        other => other.step(&format!("make the cgroup {}", dir.display())),
    }
}

/// Version 2: lets the children of `dir` have the controllers.
fn delegate(dir: &Path, controllers: &[Controller]) -> Result<(), StepError> {
    let name = |c: &Controller| match c {
        Controller::Memory => Some("+memory"),
        Controller::Cpu => Some("+cpu"),
        Controller::Pids => Some("+pids"),
        Controller::Io => Some("+io"),
        Controller::Cpuacct | Controller::Freezer => None,
    };
    for word in controllers.iter().filter_map(name) {
        write(dir, "cgroup.subtree_control", word)?;
    }
    Ok(())
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

/// Reads a number out of a control file's text.
pub fn read_stat(kind: StatKind, text: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    match kind {
        StatKind::CpuNanos | StatKind::PeakBytes => text.trim().parse().ok(),
        StatKind::CpuStat => field("usage_usec").map(|us| us * 1000),
        StatKind::OomKills => field("oom_kill"),
        StatKind::PidsEvents => field("max"),
    }
}

/// Removes what dead instances left: empty groups below `atoll/` whose instance is not alive.
pub fn sweep(layout: &Layout, is_alive: &dyn Fn(&str) -> bool) -> usize {
    let mut swept = 0;
    for hierarchy in &layout.hierarchies {
        let Ok(instances) = fs::read_dir(hierarchy.parent.join("atoll")) else { continue };
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
