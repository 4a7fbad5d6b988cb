//! What exists on this machine that is Atoll's: processes, mounts, namespaces, cgroups, lock files, descriptors, ids.
//!
//! [`Census`] counts what belongs to one engine, so that other engines on the machine do not matter; before and after
//! must be equal. [`leftovers`] are things of no living engine: there must be none that were not there before.

use crate::process::{Process, all, descendants, eventually, parent};
use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// First host id of sandboxes; nobody else on a machine uses ids above it.
const FIRST_HOST_ID: u32 = 0x7000_0000;

/// What one engine has now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Census {
    /// The jailer and all below it.
    pub processes: BTreeSet<Process>,
    /// Namespaces that they are in.
    pub namespaces: BTreeSet<String>,
    /// Mounts that each of them, and this process, sees.
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
            mounts: counted()
                .map(|pid| (pid, lines_of(&format!("/proc/{pid}/mountinfo"))))
                .collect(),
            cgroups: cgroups().into_iter().filter(|dir| belongs(dir, &instance)).collect(),
            run_files: run_files_of(jailer_pid, &instance),
            ids: pids.iter().filter_map(|pid| uid_of(*pid)).collect(),
            descriptors: counted()
                .map(|pid| (pid, entries_of(&format!("/proc/{pid}/fd"))))
                .collect(),
            processes,
        })
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

/// Things of engines that do not live any more: processes without a jailer above them, control groups and files
/// whose lock nobody holds.
pub fn leftovers() -> BTreeSet<String> {
    let alive = living_instances();
    let orphans = all()
        .into_iter()
        .filter(|process| process.is_alive() && is_ours(*process) && !has_jailer(process.pid));
    let mut found: BTreeSet<String> = orphans
        .map(|process| format!("process {} {}", process.pid, process.command()))
        .collect();
    let dead = |dir: &PathBuf| !alive.iter().any(|name| belongs(dir, name));
    found.extend(
        cgroups()
            .into_iter()
            .filter(dead)
            .map(|dir| format!("cgroup {}", dir.display())),
    );
    let locked = locked_inodes();
    for path in files_below(&run_dir()) {
        let held = fs::metadata(&path).map(|meta| locked.contains(&meta.ino()));
        let of_living = alive.iter().any(|name| belongs(&path, name));
        if matches!(held, Ok(false)) && !of_living {
            found.insert(format!("file {}", path.display()));
        }
    }
    found
}

/// Polls until nothing is left over that was not there before.
pub fn nothing_left_since(before: &BTreeSet<String>) -> Result<()> {
    let mut left = BTreeSet::new();
    let clean = eventually("nothing left over", || {
        left = leftovers().difference(before).cloned().collect();
        left.is_empty()
    });
    clean.with_context(|| format!("{left:#?}"))
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

fn is_ours(process: Process) -> bool {
    let command = process.command();
    uid_of(process.pid).is_some_and(|uid| uid >= FIRST_HOST_ID) || command.starts_with("atoll __spawner")
}

fn has_jailer(pid: u32) -> bool {
    let mut pid = pid;
    while let Some(above) = parent(pid).filter(|above| *above > 1) {
        if Process::of(above).is_some_and(|process| process.command().trim_end().ends_with("__jailer")) {
            return true;
        }
        pid = above;
    }
    false
}

/// Names of instances whose lock is held.
fn living_instances() -> BTreeSet<String> {
    let locked = locked_inodes();
    let held = |path: &PathBuf| fs::metadata(path).is_ok_and(|meta| locked.contains(&meta.ino()));
    let files = files_below(&run_dir())
        .into_iter()
        .filter(|path| path.parent() == Some(&run_dir()));
    files
        .filter(held)
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect()
}

/// Inodes with a lock on them, as the kernel lists them; looking takes no lock.
fn locked_inodes() -> BTreeSet<u64> {
    let text = fs::read_to_string("/proc/locks").unwrap_or_default();
    let inode = |line: &str| line.split_whitespace().nth(5)?.rsplit(':').next()?.parse().ok();
    text.lines()
        .filter(|line| line.contains("FLOCK"))
        .filter_map(inode)
        .collect()
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

fn lines_of(path: &str) -> usize {
    fs::read_to_string(path).unwrap_or_default().lines().count()
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
