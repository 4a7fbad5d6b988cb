//! What this host gives the jail, layer by layer; a required layer that is missing stops the start.

use crate::cgroup::Layout;
use crate::paths::{MIN_ABI, kernel_abi};
use crate::plan::{Mode, RuntimeKind};
use crate::step::{Step, StepError};
use crate::walls::{NoWall, fix};
use std::fs;

/// The packages have the profile in `share/`, the source tree in `packaging/`.
const INSTALL_PROFILE: &str = "as root, copy the AppArmor profile `share/atoll/apparmor/atoll` of the package \
    (`packaging/apparmor/atoll` in the source tree) to /etc/apparmor.d/atoll, change the path in it unless this binary \
    is /usr/local/bin/atoll or /usr/bin/atoll, and run `apparmor_parser -r /etc/apparmor.d/atoll`; \
    or run Atoll as root";

/// One layer of the jail on this host: is it there, what is known of it, how to get it.
#[derive(Clone, Debug)]
pub struct Layer {
    pub name: &'static str,
    pub available: bool,
    pub required: bool,
    pub detail: String,
    pub fix: Option<String>,
}

/// Root mode needs the real root with all ids; a root of a container's user namespace works like an ordinary user.
pub(super) fn mode() -> Mode {
    // A root that cannot read its map has no /proc, which is told as what it is.
    let all_ids = fs::read_to_string("/proc/self/uid_map")
        .map_or(true, |map| map.split_whitespace().eq(["0", "0", "4294967295"]));
    if rustix::process::geteuid().is_root() && all_ids {
        Mode::Root
    } else {
        Mode::Rootless
    }
}

/// Whether the caller has the user IDs that a runtime's sandboxes need.
pub fn runtime_ids(kind: RuntimeKind) -> Result<(), NoWall> {
    check_ids(kind, mode())
}

pub(super) fn check_ids(kind: RuntimeKind, mode: Mode) -> Result<(), NoWall> {
    let message = match (kind, mode) {
        (RuntimeKind::Runc | RuntimeKind::Kata, Mode::Rootless) => {
            "this runtime maps two user IDs into a container, and an unprivileged user has only one; use crun, which needs one"
        }
        (RuntimeKind::Runsc, Mode::Rootless) => {
            "gVisor needs separate user IDs for itself and for the sandbox's files, and an unprivileged user has only one"
        }
        _ => return Ok(()),
    };
    Err(NoWall {
        layer: "ids".to_owned(),
        message: message.to_owned(),
        fix: "run Atoll as root, or use tier `jail`, which needs one user ID".to_owned(),
    })
}

/// What `atoll doctor` tells.
#[derive(Clone, Debug)]
pub struct Probe {
    pub mode: Mode,
    pub layers: Vec<Layer>,
    /// What the mode lacks on this host against the strongest one.
    pub weaker: Vec<String>,
}

/// Every layer, as a process of its own finds it.
pub fn probe() -> Probe {
    let mode = mode();
    let groups = groups(mode, &[std::process::id()]);
    Probe {
        mode,
        layers: layers(mode, &groups),
        weaker: crate::receipt::weaker_points(mode, groups.as_ref().err().map(String::as_str)),
    }
}

/// Stops at the first required layer that is missing. The groups may be missing where they are not required.
pub(super) fn check(mode: Mode, ours: &[u32]) -> Result<Result<Layout, String>, NoWall> {
    let groups = groups(mode, ours);
    let missing = |layer: &Layer| layer.required && !layer.available;
    match layers(mode, &groups).into_iter().find(missing) {
        Some(layer) => Err(NoWall {
            layer: layer.name.to_owned(),
            message: layer.detail,
            fix: layer.fix.unwrap_or_default(),
        }),
        None => Ok(groups),
    }
}

fn layers(mode: Mode, groups: &Result<Layout, String>) -> Vec<Layer> {
    vec![
        proc_visible(),
        user_namespaces(rustix::process::geteuid().is_root(), |path| {
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        }),
        seccomp(),
        landlock(),
        cgroups(mode, groups),
    ]
}

/// `read` gives the trimmed text of a file below /proc.
fn user_namespaces(root: bool, read: impl Fn(&str) -> Option<String>) -> Layer {
    let max = read("/proc/sys/user/max_user_namespaces").and_then(|text| text.parse::<u64>().ok());
    let switch = |path: &str, off: &str| !root && read(path).as_deref() == Some(off);
    // A process with a profile has its name and mode here, any other the word `unconfined`.
    let has_profile = || read("/proc/self/attr/apparmor/current").is_some_and(|label| label.ends_with(" (unconfined)"));
    let (available, detail, fix) = if max.unwrap_or(0) == 0 {
        (
            false,
            "user namespaces are disabled".to_owned(),
            Some("sysctl -w user.max_user_namespaces=10000".to_owned()),
        )
    } else if switch("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        (
            false,
            "user namespaces are restricted to root".to_owned(),
            Some("sysctl -w kernel.unprivileged_userns_clone=1, or run as root".to_owned()),
        )
    } else if switch("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1") && !has_profile() {
        (
            false,
            "AppArmor restricts user namespaces for unprivileged users".to_owned(),
            Some(INSTALL_PROFILE.to_owned()),
        )
    } else {
        (true, format!("allowed, at most {} at a time", max.unwrap_or(0)), None)
    };
    Layer {
        name: "user_namespaces",
        available,
        required: true,
        detail,
        fix,
    }
}

fn seccomp() -> Layer {
    let actions = fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail").unwrap_or_default();
    let available = actions.contains("errno") && actions.contains("kill_process");
    let detail = if available {
        "filters with errno and kill actions".to_owned()
    } else {
        "the kernel does not support seccomp filters".to_owned()
    };
    let fix = (!available).then(|| "use a kernel built with CONFIG_SECCOMP_FILTER".to_owned());
    Layer {
        name: "seccomp",
        available,
        required: true,
        detail,
        fix,
    }
}

fn landlock() -> Layer {
    let abi = kernel_abi();
    let available = abi >= MIN_ABI;
    let detail = if available {
        format!("ABI version {abi}")
    } else {
        format!("Landlock ABI version {abi} is below the required version {MIN_ABI}")
    };
    let fix = (!available).then(|| "use Linux 6.2 or later with `landlock` in the `lsm=` boot parameter".to_owned());
    Layer {
        name: "landlock",
        available,
        required: true,
        detail,
        fix,
    }
}

/// Where the limits go, or why nowhere. `ours` may be in a group that was delegated to us.
fn groups(mode: Mode, ours: &[u32]) -> Result<Layout, String> {
    if mode == Mode::Rootless {
        return Layout::delegated(ours);
    }
    let layout = Layout::detect().map_err(|error| crate::step::chain(&error))?;
    let missing = layout.missing();
    if missing.is_empty() {
        Ok(layout)
    } else {
        let missing = crate::cgroup::names(&missing);
        Err(format!("missing cgroup controllers: {missing}"))
    }
}

fn cgroups(mode: Mode, groups: &Result<Layout, String>) -> Layer {
    let required = mode == Mode::Root;
    let detail = match (groups, required) {
        (Ok(layout), true) => layout.kind().to_owned(),
        (Ok(layout), false) => format!("{}, delegated: {}", layout.kind(), layout.places()),
        (Err(why), true) => why.clone(),
        (Err(why), false) => {
            format!("{why}; limits are enforced by rlimits and a memory watcher, which is weaker than cgroups")
        }
    };
    let fix = if required {
        "enable the memory, cpu and pids cgroup controllers"
    } else {
        "run as root, or in a delegated cgroup: `systemd-run --user --scope --property=Delegate=yes atoll ...`"
    };
    Layer {
        name: "cgroups",
        available: groups.is_ok(),
        required,
        detail,
        fix: groups.is_err().then(|| fix.to_owned()),
    }
}

/// The kernel lets a user namespace mount /proc only where the host's is not covered by other mounts.
fn proc_visible() -> Layer {
    if fs::read_to_string("/proc/self/uid_map").is_err() {
        return Layer {
            name: "proc",
            available: false,
            required: true,
            detail: "/proc is not mounted".to_owned(),
            fix: Some(fix("proc").to_owned()),
        };
    }
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let covered = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .any(|at| at.starts_with("/proc/"));
    let detail = if covered {
        "parts of /proc are masked by mounts".to_owned()
    } else {
        "not masked".to_owned()
    };
    let fix = covered.then(|| "run outside a container, or in one with an unmasked /proc".to_owned());
    Layer {
        name: "proc",
        available: !covered,
        required: false,
        detail,
        fix,
    }
}

/// An ordinary user becomes root of an own user namespace with own mounts, and sees the host as before.
pub(super) fn become_namespace_root() -> Result<(), StepError> {
    use nix::sched::CloneFlags;
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    nix::sched::unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS).step("create a user namespace")?;
    fs::write("/proc/self/setgroups", "deny").step("disable setgroups")?;
    fs::write("/proc/self/gid_map", format!("0 {gid} 1")).step("write the gid map")?;
    fs::write("/proc/self/uid_map", format!("0 {uid} 1")).step("write the uid map")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = include_str!("../../../../packaging/apparmor/atoll");

    /// An Ubuntu host, on which this process has the given label.
    fn on_ubuntu(root: bool, label: Option<&str>) -> Layer {
        user_namespaces(root, |path| match path {
            "/proc/sys/user/max_user_namespaces" => Some("15000".to_owned()),
            "/proc/sys/kernel/unprivileged_userns_clone" | "/proc/sys/kernel/apparmor_restrict_unprivileged_userns" => {
                Some("1".to_owned())
            }
            "/proc/self/attr/apparmor/current" => label.map(str::to_owned),
            _ => None,
        })
    }

    #[test]
    fn a_restriction_by_apparmor_is_answered_by_the_profile() {
        for label in [None, Some("unconfined"), Some("docker-default (enforce)")] {
            let layer = on_ubuntu(false, label);
            assert!(!layer.available && layer.required, "{layer:?}");
            let fix = layer.fix.unwrap();
            assert!(fix.contains("share/atoll/apparmor/atoll"), "{fix}");
            assert!(!fix.contains("sysctl"), "{fix}");
            let command = "apparmor_parser -r /etc/apparmor.d/atoll";
            assert!(fix.contains(command) && PROFILE.contains(command), "{fix}");
        }
    }

    #[test]
    fn a_process_with_the_profile_and_root_are_not_restricted() {
        assert!(PROFILE.contains("\nprofile atoll "));
        for (root, label) in [(false, Some("atoll (unconfined)")), (true, Some("unconfined"))] {
            let layer = on_ubuntu(root, label);
            assert!(layer.available && layer.fix.is_none(), "{layer:?}");
        }
    }
}
