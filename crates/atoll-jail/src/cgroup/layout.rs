//! Where this machine has its control groups: read from text, so that every kind of machine is tested on any machine.

use super::{Controller, Hierarchy, Version};
use crate::step::{Step, StepError};
use std::fs;
use std::path::{Path, PathBuf};

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

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    pub hierarchies: Vec<Hierarchy>,
}

impl Layout {
    /// The layout of this machine, seen from this process.
    pub fn detect() -> Result<Self, StepError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").step("read the mount table (/proc/self/mountinfo)")?;
        let groups = fs::read_to_string("/proc/self/cgroup").step("read this process's cgroups (/proc/self/cgroup)")?;
        Ok(Self::read(&mounts, &groups, &|dir| {
            fs::read_to_string(dir.join("cgroup.controllers")).unwrap_or_default()
        }))
    }

    /// The same, from text: `/proc/self/mountinfo`, `/proc/self/cgroup` and a way to read `cgroup.controllers`.
    ///
    /// A hierarchy may be mounted in several places (a chroot, a container's own view): the first one counts.
    pub fn read(mounts: &str, groups: &str, controllers: &dyn Fn(&Path) -> String) -> Self {
        // A group of version 2 that holds processes cannot hold limited groups: ours goes to the top of the view.
        Self::find(mounts, |root, at, v1_options| match v1_options {
            None => unified(at, controllers),
            Some(options) => v1(root, at, options, groups),
        })
    }

    /// The own group of version 2, wherever it lies.
    pub fn read_own(mounts: &str, groups: &str, controllers: &dyn Fn(&Path) -> String) -> Self {
        let own = groups.lines().find_map(|line| line.strip_prefix("0::"));
        Self::find(mounts, |root, at, v1_options| match (v1_options, own) {
            (None, Some(own)) => {
                // Through its parts, so that the top has no stroke at its end.
                let group: PathBuf = at.join(below(root, own)).components().collect();
                unified(&group, controllers).map(counting)
            }
            _ => None,
        })
    }

    /// Asks for a hierarchy at each mount: the root that is mounted, where, and the options of version 1.
    fn find(mounts: &str, hierarchy: impl Fn(&str, &Path, Option<&str>) -> Option<Hierarchy>) -> Self {
        let mut hierarchies: Vec<Hierarchy> = Vec::new();
        for line in mounts.lines() {
            let Some((front, back)) = line.split_once(" - ") else {
                continue;
            };
            let (Some(root), Some(at)) = (front.split(' ').nth(3), front.split(' ').nth(4)) else {
                continue;
            };
            let at = unescape(at);
            let mut back = back.split(' ');
            let found = match (back.next(), back.nth(1)) {
                (Some("cgroup2"), _) => hierarchy(root, &at, None),
                (Some("cgroup"), Some(options)) => hierarchy(root, &at, Some(options)),
                _ => None,
            };
            let known = |one: &Hierarchy| hierarchies.iter().any(|h| h.is_same(one));
            hierarchies.extend(found.filter(|one| !known(one)));
        }
        Self { hierarchies }
    }

    pub fn missing(&self) -> Vec<Controller> {
        self.missing_of(REQUIRED)
    }

    pub(super) fn missing_of(&self, required: &[Controller]) -> Vec<Controller> {
        let have = |c: &Controller| self.hierarchies.iter().any(|h| h.controllers.contains(c));
        required.iter().copied().filter(|c| !have(c)).collect()
    }

    /// The groups below which ours are made, for people.
    pub fn places(&self) -> String {
        let places: Vec<String> = self
            .hierarchies
            .iter()
            .map(|h| h.parent.display().to_string())
            .collect();
        places.join(", ")
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

fn unified(parent: &Path, controllers: &dyn Fn(&Path) -> String) -> Option<Hierarchy> {
    let have = controllers(parent);
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
    Some(Hierarchy {
        version: Version::V2,
        parent: parent.to_owned(),
        controllers,
    })
}

/// Every group of version 2 counts processor time; nobody else does where there is nothing of version 1.
fn counting(mut hierarchy: Hierarchy) -> Hierarchy {
    if !hierarchy.controllers.contains(&Controller::Cpuacct) {
        hierarchy.controllers.push(Controller::Cpuacct);
    }
    hierarchy
}

fn v1(root: &str, at: &Path, options: &str, groups: &str) -> Option<Hierarchy> {
    let names: Vec<&str> = options.split(',').collect();
    let controllers: Vec<_> = V1_NAMES
        .iter()
        .filter(|(n, _)| names.contains(n))
        .map(|(_, c)| *c)
        .collect();
    let first = V1_NAMES.iter().find(|(_, c)| Some(c) == controllers.first())?.0;
    let own = groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let listed = fields.next()?.split(',').any(|name| name == first);
        fields.next().filter(|_| listed)
    })?;
    Some(Hierarchy {
        version: Version::V1,
        parent: at.join(below(root, own)),
        controllers,
    })
}

/// The own group relative to the mount, which may show only a part of the hierarchy. A group that the mount does not
/// show (a container's mount with the host's path in `/proc/self/cgroup`) is the top of what can be seen.
fn below(root: &str, own: &str) -> PathBuf {
    let rest = Path::new(own)
        .strip_prefix(root)
        .map(Path::to_owned)
        .unwrap_or_default();
    let climbs = rest.components().any(|part| part == std::path::Component::ParentDir);
    if climbs { PathBuf::new() } else { rest }
}

/// Blanks in a path of `mountinfo` are written in octal.
fn unescape(path: &str) -> PathBuf {
    let plain = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    PathBuf::from(
        plain
            .iter()
            .fold(path.to_owned(), |text, (code, blank)| text.replace(code, blank)),
    )
}
