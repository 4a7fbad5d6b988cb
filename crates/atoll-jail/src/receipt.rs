//! Facts about a context, read back from the kernel after it was locked down and before it reads code.

use crate::cgroup::SandboxGroups;
use crate::plan::{Mode, Walls};
use crate::step::{Step, StepError};
use rustix::fd::{AsRawFd, BorrowedFd};
use serde_json::{Map, Value, json};
use std::fs;

const NAMESPACES: &[&str] = &["user", "pid", "mnt", "net", "ipc", "uts", "cgroup"];

/// Reads the walls of the process behind `pidfd`. A required wall that is not up is an error. `host` is the mode, and
/// why there are no cgroups where there are none.
pub(crate) fn inspect(
    pidfd: BorrowedFd<'_>,
    groups: Option<&SandboxGroups>,
    host: (Mode, Option<&str>),
    walls: &Walls,
) -> Result<Map<String, Value>, StepError> {
    let pid = pid_of(pidfd)?;
    let status = fs::read_to_string(format!("/proc/{pid}/status")).step("read the context's status")?;
    let field = |name: &str| line(&status, name).unwrap_or_default();
    let mut layers = Map::new();
    layers.insert("mode".into(), json!(host.0));
    layers.insert("namespaces".into(), json!(own_namespaces(pid)?));
    layers.insert("uid_map".into(), json!(uid_map(pid)?));
    layers.insert(
        "seccomp".into(),
        json!({"mode": field("Seccomp"), "filters": field("Seccomp_filters")}),
    );
    layers.insert("no_new_privs".into(), json!(field("NoNewPrivs") == "1"));
    layers.insert("capabilities".into(), json!(capabilities(&status)));
    // The fork proves it before it answers: a file that only Landlock keeps from it could not be opened.
    layers.insert(
        "landlock".into(),
        json!({"abi": crate::paths::kernel_abi(), "proven": !walls.is_off(crate::plan::Wall::Landlock)}),
    );
    layers.insert(
        "cgroups".into(),
        groups.map_or(Value::Null, |groups| Value::Object(groups.read_back())),
    );
    layers.insert("weaker".into(), json!(weaker(host, walls)));
    require(&layers, walls)?;
    Ok(layers)
}

/// What is missing, in words. Empty in root mode with every wall up.
fn weaker((mode, no_groups): (Mode, Option<&str>), walls: &Walls) -> Vec<String> {
    let mut weaker: Vec<String> = walls
        .off
        .iter()
        .map(|(wall, why)| format!("{wall:?} is off: {why}"))
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
            "no cgroup, because {why}: memory is limited per process (RLIMIT_DATA) and for all together by a watcher that looks every 50 ms; the share of processors is not limited"
        )
    });
    let uncounted = alone
        .as_ref()
        .map(|_| "what the kernel holds for pipes, sockets and page tables is not counted as memory".to_owned());
    let refused = "memory that is shared without a file (memfd, shared anonymous mappings) is refused";
    let shared = "one host user for all sandboxes: file ownership does not separate them, only mounts do";
    let always = [refused, shared].map(str::to_owned);
    alone.into_iter().chain(uncounted).chain(always).collect()
}

fn require(layers: &Map<String, Value>, walls: &Walls) -> Result<(), StepError> {
    use crate::plan::Wall;
    let up = |wall: Wall, holds: bool, what: &str| {
        if holds || walls.is_off(wall) {
            Ok(())
        } else {
            Err(rustix::io::Errno::PERM).step(&format!("find the wall `{what}` up"))
        }
    };
    up(Wall::Seccomp, layers["seccomp"]["mode"] == "2", "seccomp")?;
    up(Wall::NoNewPrivs, layers["no_new_privs"] == true, "no_new_privs")?;
    up(Wall::Capabilities, layers["capabilities"] == "none", "capabilities")?;
    let separate = layers["namespaces"]
        .as_array()
        .is_some_and(|list| list.len() == NAMESPACES.len());
    if separate {
        Ok(())
    } else {
        Err(rustix::io::Errno::PERM).step("find all namespaces separate")
    }
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
        let theirs = fs::read_link(format!("/proc/{pid}/ns/{name}")).step("read a namespace")?;
        if Some(theirs) != fs::read_link(format!("/proc/self/ns/{name}")).ok() {
            own.push(*name);
        }
    }
    Ok(own)
}

fn uid_map(pid: i32) -> Result<String, StepError> {
    let text = fs::read_to_string(format!("/proc/{pid}/uid_map")).step("read the uid map")?;
    Ok(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn line(status: &str, name: &str) -> Option<String> {
    let found = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    found.map(|value| value.trim().to_owned())
}

fn pid_of(pidfd: BorrowedFd<'_>) -> Result<i32, StepError> {
    let info = fs::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).step("read a pidfd")?;
    let pid = line(&info, "Pid")
        .and_then(|pid| pid.parse().ok())
        .filter(|pid| *pid > 0);
    pid.ok_or(rustix::io::Errno::SRCH).step("find the context")
}
