//! What exists on this host and belongs to Atoll: processes, mounts, namespaces, cgroups, lock files, descriptors, ids.
//!
//! [`Census`] counts what belongs to one engine; before and after must be equal. [`Watch`] detects what the engines of one
//! test leave behind. Neither looks at other engines, other tests or other work on the host.

use crate::process::{Process, adopt_orphans, descendants, eventually, other_threads_sleep};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// What one engine has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The jailer and all below it.
    pub processes: BTreeSet<Process>,
    /// Namespaces that they are in.
    pub namespaces: BTreeSet<String>,
    /// Mounts that each of them, and this process, sees; of the host's only those of Atoll.
    pub mounts: BTreeMap<u32, usize>,
    /// Directories of the instance below any `atoll` control group.
    pub cgroups: BTreeSet<PathBuf>,
    /// Lock files and spooled inputs.
    pub run_files: BTreeSet<PathBuf>,
    /// Host ids that the processes have.
    pub ids: BTreeSet<u32>,
    /// Open descriptors of each of them, and of this process.
    pub descriptors: BTreeMap<u32, usize>,
}

impl Census {
    /// Of the engine with this jailer.
    pub fn of(jailer_pid: u32) -> Result<Self> {
        let instance = instance_of(jailer_pid).context("the jailer holds no lock")?;
        let mut processes: BTreeSet<Process> = descendants(jailer_pid).into_iter().collect();
        processes.extend(Process::of(jailer_pid));
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        let counted = || pids.iter().copied().chain([std::process::id()]);
        Ok(Self {
            namespaces: pids.iter().flat_map(|pid| namespaces_of(*pid)).collect(),
            mounts: counted().map(|pid| (pid, mounts_of(pid))).collect(),
            cgroups: cgroups().into_iter().filter(|dir| belongs(dir, &instance)).collect(),
            run_files: run_files_of(jailer_pid, &instance),
            ids: pids.iter().filter_map(|pid| uid_of(*pid)).collect(),
            descriptors: counted()
                .map(|pid| (pid, entries_of(&format!("/proc/{pid}/fd"))))
                .collect(),
            processes,
        })
    }

    /// Of an engine that has no work: its processes and the threads of this one sleep, and two looks agree. One that has just
    /// ended a sandbox may still be closing descriptors.
    pub fn settled(jailer_pid: u32) -> Result<Self> {
        let mut last = None;
        eventually("an engine without work", || {
            let now = Self::of(jailer_pid).ok();
            let now =
                now.filter(|now| other_threads_sleep() && now.processes.iter().all(|process| process.is_asleep()));
            let agree = now.is_some() && now == last;
            last = now;
            agree
        })?;
        last.context("no census")
    }

    /// Polls until the engine has again exactly what it had.
    pub fn is_again(&self, jailer_pid: u32) -> Result<()> {
        let mut last = None;
        let same = eventually("the same census as before", || {
            last = Self::of(jailer_pid).ok();
            last.as_ref() == Some(self)
        });
        same.with_context(|| format!("before: {self:#?}\nafter: {last:#?}"))
    }
}

/// The instance's name, from the lock that its jailer holds.
pub fn instance_of(jailer_pid: u32) -> Option<String> {
    let fds = fs::read_dir(format!("/proc/{jailer_pid}/fd")).ok()?.flatten();
    let mut locks = fds
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|path| !path.starts_with(run_dir().join("slots")));
    let lock = locks.find(|path| path.starts_with(run_dir()) && path.extension().is_some_and(|e| e == "lock"))?;
    Some(lock.file_stem()?.to_str()?.to_owned())
}

/// Where lock files and spooled inputs are.
pub fn run_dir() -> PathBuf {
    if rustix::process::geteuid().is_root() {
        "/run/atoll".into()
    } else {
        crate::home().join("run")
    }
}

/// Detects what the engines of this test leave behind: the processes below this one, and the cgroups and files of
/// instances that processes of its process group have started. nextest gives every test a process group of its own.
#[derive(Debug)]
pub struct Watch {
    before: Owned,
}

/// What belongs to this test at one moment.
#[derive(Debug)]
struct Owned {
    processes: BTreeSet<Process>,
    paths: BTreeSet<PathBuf>,
}

impl Watch {
    /// What exists now is not counted later. From now on orphans stay below this process.
    pub fn start() -> Result<Self> {
        adopt_orphans()?;
        let before = Owned {
            processes: own_processes(),
            paths: own_paths(),
        };
        Ok(Self { before })
    }

    /// Live processes below this one.
    pub fn processes(&self) -> BTreeSet<Process> {
        &own_processes() - &self.before.processes
    }

    /// Cgroups, lock files and spools of own instances, those of live engines included.
    pub fn paths(&self) -> BTreeSet<PathBuf> {
        &own_paths() - &self.before.paths
    }

    /// Waits for the end of every process; then nothing else may be left. There is no second look: a jailer removes its
    /// cgroups and files before it exits, and another engine that starts later may sweep what is left of it.
    pub fn nothing_left(&self) -> Result<()> {
        let (mut alive, mut clean) = (BTreeSet::new(), 0);
        let ended = eventually("the end of every process of this test", || {
            alive = self.processes();
            // One look may miss a process whose parent dies at this moment.
            clean = if alive.is_empty() { clean + 1 } else { 0 };
            clean == 2
        });
        let commands = |alive: &BTreeSet<Process>| -> Vec<String> {
            let alive = alive.iter();
            alive
                .map(|process| format!("{} {}", process.pid, process.command()))
                .collect()
        };
        ended.with_context(|| format!("still alive: {:?}", commands(&alive)))?;
        let paths = self.paths();
        ensure!(paths.is_empty(), "left over: {paths:#?}");
        Ok(())
    }
}

fn own_processes() -> BTreeSet<Process> {
    let below = descendants(std::process::id()).into_iter();
    below.filter(|process| process.is_alive()).collect()
}

/// Names of instances begin with the process group of their engine; the file of a slot contains its holder's name.
fn own_paths() -> BTreeSet<PathBuf> {
    let group = format!("{}-", rustix::process::getpgrp().as_raw_nonzero());
    let is_own = |path: &PathBuf| {
        let mut parts = path.iter().filter_map(|part| part.to_str());
        parts.any(|part| part.starts_with(&group))
            || path.starts_with(run_dir().join("slots"))
                && fs::read_to_string(path).is_ok_and(|holder| holder.starts_with(&group))
    };
    let all = cgroups().into_iter().chain(files_below(&run_dir()));
    all.filter(is_own).collect()
}

/// An engine with these processes and this instance has gone, and everything with it.
pub fn is_gone(seen: &Census, instance: &str) -> Result<()> {
    let alive: Vec<Process> = seen
        .processes
        .iter()
        .copied()
        .filter(|process| process.is_alive())
        .collect();
    ensure!(alive.is_empty(), "still alive: {alive:?}");
    let groups: Vec<PathBuf> = cgroups().into_iter().filter(|dir| belongs(dir, instance)).collect();
    ensure!(groups.is_empty(), "control groups are left: {groups:?}");
    let files: Vec<PathBuf> = files_below(&run_dir())
        .into_iter()
        .filter(|path| belongs(path, instance))
        .collect();
    ensure!(files.is_empty(), "files are left: {files:?}");
    Ok(())
}

/// A path that has the instance's name as a part, or as a part before `.lock` or `.spool`.
fn belongs(path: &Path, instance: &str) -> bool {
    path.iter().any(|part| {
        part.to_str()
            .is_some_and(|part| part.split('.').next() == Some(instance))
    })
}

fn run_files_of(jailer_pid: u32, instance: &str) -> BTreeSet<PathBuf> {
    let own = files_below(&run_dir())
        .into_iter()
        .filter(|path| belongs(path, instance));
    let fds = fs::read_dir(format!("/proc/{jailer_pid}/fd"))
        .into_iter()
        .flatten()
        .flatten();
    let held = fds
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter(|path| path.starts_with(run_dir()));
    own.chain(held).collect()
}

fn uid_of(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

fn namespaces_of(pid: u32) -> Vec<String> {
    let names = ["user", "pid", "pid_for_children", "mnt", "net", "ipc", "uts", "cgroup"];
    let links = names
        .iter()
        .filter_map(|name| fs::read_link(format!("/proc/{pid}/ns/{name}")).ok());
    links.map(|link| link.to_string_lossy().into_owned()).collect()
}

/// In the mount namespace of this process, which is the host's, only mounts at places of Atoll: others mount there, too.
fn mounts_of(pid: u32) -> usize {
    let namespace = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let is_shared = namespace(pid) == namespace(std::process::id());
    let places = [run_dir(), crate::home()];
    let is_own = |line: &&str| {
        let at = Path::new(line.split(' ').nth(4).unwrap_or_default());
        // Roots of templates are put together at `/tmp`.
        !is_shared || at == Path::new("/tmp") || places.iter().any(|place| at.starts_with(place))
    };
    let text = fs::read_to_string(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
    text.lines().filter(is_own).count()
}

fn entries_of(dir: &str) -> usize {
    fs::read_dir(dir).map_or(0, Iterator::count)
}

/// Directories below any control group that is called `atoll`.
fn cgroups() -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    walk(Path::new("/sys/fs/cgroup"), false, &mut found, 0);
    found
}

fn walk(dir: &Path, inside: bool, found: &mut BTreeSet<PathBuf>, depth: usize) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if depth > 6 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        if inside {
            found.insert(entry.path());
        }
        walk(&entry.path(), inside || entry.file_name() == "atoll", found, depth + 1);
    }
}

fn files_below(dir: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if entry.file_name() != "slots" {
                found.insert(entry.path());
            }
            found.extend(files_below(&entry.path()));
        } else {
            found.insert(entry.path());
        }
    }
    found
}
