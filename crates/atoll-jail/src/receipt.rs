//! Facts about a context, read back from the kernel after it was locked down and before it reads code.
//!
//! Two facts are not the kernel's word: the digest of the filters (it tells only how many there are) and that Landlock holds
//! (the fork has tried it).

pub(crate) mod gvisor;
mod mounts;
mod required;

use crate::cgroup::SandboxGroups;
use crate::plan::{Mode, RuntimeKind, Wall, Walls};
use crate::step::{Step, StepError};
use atoll_core::Limits;
use rustix::fd::{AsRawFd, BorrowedFd};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;

pub(super) const NAMESPACES: &[&str] = &["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// What is known of a sandbox when one of its contexts is looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) mode: Mode,
    pub(crate) groups: Option<&'a SandboxGroups>,
    /// Why there are no cgroups where there are none.
    pub(crate) no_groups: Option<&'a str>,
    pub(crate) limits: &'a Limits,
    pub(crate) walls: &'a Walls,
    /// Of the seccomp programs that this mode wears.
    pub(crate) filters: &'a str,
    /// Who has made the sandbox, if not we.
    pub(crate) runtime: Option<RuntimeKind>,
    /// It is the process of a virtual machine, whose walls are fewer: the sandbox's own are in the guest.
    pub(crate) machine: bool,
}

/// Reads the walls of the process behind `pidfd`. A required one that is not up is an error.
pub(crate) fn inspect(pidfd: BorrowedFd<'_>, known: Known<'_>) -> Result<Map<String, Value>, StepError> {
    let pid = pid_of(pidfd)?;
    let Known {
        mode,
        groups,
        no_groups,
        limits,
        walls,
        filters,
        runtime,
        machine,
    } = known;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).step("read the context's status")?;
    let field = |name: &str| line(&status, name).unwrap_or_default();
    // The fork proves it before it answers: a file that only Landlock keeps from it could not be opened.
    let proven = !machine && !walls.is_off(Wall::Landlock);
    let landlock = json!({"abi": crate::paths::kernel_abi(), "rights": crate::paths::rights(), "proven": proven});
    let seccomp = json!({"mode": field("Seccomp"), "filters": field("Seccomp_filters"), "digest": filters});
    let mut layers = Map::new();
    layers.insert("kernel".into(), json!(kernel()));
    layers.insert("mode".into(), json!(mode));
    if let Some(runtime) = runtime {
        layers.insert("runtime".into(), json!({"name": runtime.as_str()}));
    }
    layers.insert("namespaces".into(), json!(own_namespaces(pid)?));
    layers.insert("uid_map".into(), json!(uid_map(pid)?));
    layers.insert("seccomp".into(), seccomp);
    layers.insert("no_new_privs".into(), json!(field("NoNewPrivs") == "1"));
    layers.insert("capabilities".into(), json!(capabilities(&status)));
    layers.insert("landlock".into(), landlock);
    let read_back = groups.map_or(Value::Null, |groups| Value::Object(groups.read_back()));
    layers.insert("cgroups".into(), read_back);
    layers.insert("rlimits".into(), rlimits(pid)?);
    layers.insert("mounts".into(), json!(mounts::of(pid)?));
    layers.insert("descriptors".into(), json!(descriptors(pid)?));
    layers.insert("weaker".into(), json!(weaker((mode, no_groups), walls)));
    let required = match machine {
        true => required::around_machine(&walls.required),
        false => walls.required.clone(),
    };
    required::check(&layers, limits, &required)?;
    Ok(layers)
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Hard limits of the process: what it cannot raise.
fn rlimits(pid: i32) -> Result<Value, StepError> {
    const NAMES: &[(&str, &str)] = &[
        ("Max core file size", "core_bytes"),
        ("Max open files", "open_files"),
        ("Max file size", "file_bytes"),
        ("Max processes", "processes"),
        ("Max locked memory", "locked_bytes"),
        ("Max data size", "data_bytes"),
    ];
    let text = fs::read_to_string(format!("/proc/{pid}/limits")).step("read the context's limits")?;
    let hard = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().nth(1).map(str::to_owned)
    };
    Ok(NAMES.iter().map(|(name, ours)| (*ours, hard(name))).collect())
}

/// Every open descriptor and what kind of thing it is.
fn descriptors(pid: i32) -> Result<BTreeMap<String, String>, StepError> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fd"))
        .step("list the context's file descriptors")?
        .flatten()
    {
        // One that is closed meanwhile is none.
        if let Ok(target) = fs::read_link(entry.path()) {
            let target = target.to_string_lossy();
            let kind = target.split_once(":[").map_or(&*target, |(kind, _)| kind);
            all.insert(entry.file_name().to_string_lossy().into_owned(), kind.to_owned());
        }
    }
    Ok(all)
}

/// What is missing, in words. Empty in root mode with every wall up.
fn weaker((mode, no_groups): (Mode, Option<&str>), walls: &Walls) -> Vec<String> {
    let mut weaker: Vec<String> = walls
        .off
        .iter()
        .map(|(wall, why)| format!("layer `{wall}` is disabled: {why}"))
        .collect();
    weaker.extend(weaker_points(mode, no_groups));
    weaker
}

/// What a mode lacks against the strongest one. `no_groups` says why there are no cgroups where there are none.
pub(crate) fn weaker_points(mode: Mode, no_groups: Option<&str>) -> Vec<String> {
    if mode == Mode::Root {
        return Vec::new();
    }
    let alone = no_groups.map(|why| {
        format!(
            "no cgroup ({why}): memory is limited per process (RLIMIT_DATA) and in total by a watcher that polls every 50 ms; CPU share is not limited"
        )
    });
    let uncounted = alone
        .as_ref()
        .map(|_| "kernel memory for pipes, sockets and page tables is not counted".to_owned());
    let refused = "shared memory without a file (memfd, shared anonymous mappings) is not allowed";
    let shared = "all sandboxes run as the same host user: only mounts separate their files, not ownership";
    let always = [refused, shared].map(str::to_owned);
    alone.into_iter().chain(uncounted).chain(always).collect()
}

fn capabilities(status: &str) -> String {
    let sets = ["CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"];
    let none = sets
        .iter()
        .all(|set| line(status, set).is_some_and(|bits| bits.bytes().all(|b| b == b'0')));
    if none {
        "none".to_owned()
    } else {
        line(status, "CapEff").unwrap_or_default()
    }
}

/// The namespaces of `pid` that are not those of this process.
fn own_namespaces(pid: i32) -> Result<Vec<&'static str>, StepError> {
    let mut own = Vec::new();
    for name in NAMESPACES {
        let theirs = fs::read_link(format!("/proc/{pid}/ns/{name}")).step("read the context's namespaces")?;
        if Some(theirs) != fs::read_link(format!("/proc/self/ns/{name}")).ok() {
            own.push(*name);
        }
    }
    Ok(own)
}

fn uid_map(pid: i32) -> Result<String, StepError> {
    let text = fs::read_to_string(format!("/proc/{pid}/uid_map")).step("read the context's uid map")?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn line(status: &str, name: &str) -> Option<String> {
    let found = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

fn pid_of(pidfd: BorrowedFd<'_>) -> Result<i32, StepError> {
    let info =
        fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).step("read the context's pidfd")?;
    let pid = line(&info, "Pid")
        .and_then(|pid| pid.parse().ok())
        .filter(|pid| *pid > 0);
    pid.ok_or(rustix::io::Errno::SRCH).step("find the context's process")
}
