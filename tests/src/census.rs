//! What exists on this machine that could be ours: processes, mounts, namespaces, cgroups, lock files, descriptors.
//!
//! A census before and after must be equal. Only things that belong to Atoll are counted, so that other programs on
//! the machine do not matter.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Census {
    /// Processes with a uid of our range, or whose program is one of our helpers.
    pub processes: BTreeSet<String>,
    /// Mounts in this process's namespace.
    pub mounts: BTreeSet<String>,
    /// Namespaces that live processes hold.
    pub namespaces: BTreeSet<String>,
    /// Directories below any `atoll` control group.
    pub cgroups: BTreeSet<String>,
    /// Lock files and spools of instances.
    pub run_files: BTreeSet<String>,
    /// Open descriptors of this process.
    pub descriptors: usize,
}

/// First host id of sandboxes; nobody else on a machine uses ids above it.
const FIRST_HOST_ID: u32 = 0x7000_0000;

impl Census {
    pub fn take(run_dir: &Path) -> Self {
        Self {
            processes: processes(),
            mounts: lines("/proc/self/mountinfo"),
            namespaces: namespaces(),
            cgroups: cgroups(),
            run_files: files(run_dir),
            descriptors: fs::read_dir("/proc/self/fd").map_or(0, Iterator::count),
        }
    }
}

fn pids() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn processes() -> BTreeSet<String> {
    pids().into_iter().filter_map(ours).collect()
}

fn ours(pid: u32) -> Option<String> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let uid: u32 = status.lines().find_map(|l| l.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()?;
    let command = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
    let helper = command.contains("\0__jailer") || command.contains("\0__spawner");
    (uid >= FIRST_HOST_ID || helper).then(|| format!("{pid} {}", command.replace('\0', " ")))
}

fn namespaces() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for pid in pids() {
        for name in ["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"] {
            let link = fs::read_link(format!("/proc/{pid}/ns/{name}"));
            found.extend(link.ok().map(|link| link.to_string_lossy().into_owned()));
        }
    }
    found
}

fn lines(path: &str) -> BTreeSet<String> {
    fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn cgroups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    walk(Path::new("/sys/fs/cgroup"), false, &mut found, 0);
    found
}

/// Directories at or below one that is called `atoll`.
fn walk(dir: &Path, inside: bool, found: &mut BTreeSet<String>, depth: usize) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if depth > 6 || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        let inside = inside || entry.file_name() == "atoll";
        if inside {
            found.insert(entry.path().to_string_lossy().into_owned());
        }
        walk(&entry.path(), inside, found, depth + 1);
    }
}

fn files(dir: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        found.insert(entry.path().to_string_lossy().into_owned());
        if entry.path().is_dir() {
            found.extend(files(&entry.path()));
        }
    }
    found
}
