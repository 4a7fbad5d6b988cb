//! Walls that a host may be unable to build: their names, how to get them, which failure belongs to which.

use crate::plan::FromJailer;
use crate::step::{StepError, chain};
use rustix::io::Errno;
use std::error::Error;

const IN_CONTAINER: &str = "run outside a container, or in one that allows it (Docker: `--privileged`)";

/// Every wall and how to get it. The place in the list is told by exit codes of commands that could not be locked down.
const LAYERS: &[(&str, &str)] = &[
    (
        "user_namespaces",
        "sysctl -w user.max_user_namespaces=10000, and allow them for unprivileged users; or run as root",
    ),
    ("namespaces", IN_CONTAINER),
    (
        "ids",
        "allow the setresuid, setresgid and setgroups syscalls; as root, keep the capabilities SETUID and SETGID",
    ),
    ("mounts", IN_CONTAINER),
    ("proc", "mount an unmasked /proc"),
    (
        "cgroups",
        "mount the cgroup file system writable, with the memory, cpu and pids controllers",
    ),
    (
        "rlimits",
        "start Atoll with higher resource limits (`ulimit -a` lists them)",
    ),
    ("capabilities", "allow the capset and prctl syscalls"),
    ("keyring", "allow the keyctl syscall"),
    (
        "landlock",
        "use Linux 6.2 or later with `landlock` in the `lsm=` boot parameter, and allow the landlock syscalls",
    ),
    (
        "seccomp",
        "use a kernel built with CONFIG_SECCOMP_FILTER, and allow the seccomp syscall",
    ),
    (
        "scratch",
        "install mkfs.ext4 (apt-get install e2fsprogs) and allow loop devices, or use a profile with a smaller scratch disk",
    ),
    ("no_new_privs", "allow the prctl syscall"),
    (
        "runtime",
        "install crun (apt-get install crun), or use tier `jail`, which needs no container runtime",
    ),
    (
        "vm",
        "check the output of QEMU and the guest kernel in the error, or use tier `jail`, which needs neither",
    ),
    (
        "gvisor",
        "install another release of runsc, or use tier `jail`, which does not need runsc",
    ),
];
/// A command that could not be locked down ends with this code and the number of the wall added.
const EXIT_BASE: i32 = 200;

/// A wall that this host cannot build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NoWall {
    pub layer: String,
    pub message: String,
    pub fix: String,
}

impl NoWall {
    pub(crate) fn new(layer: &str, message: impl Into<String>) -> Self {
        Self {
            layer: layer.to_owned(),
            message: message.into(),
            fix: fix(layer).to_owned(),
        }
    }

    pub(crate) fn answer(self) -> FromJailer {
        FromJailer::NoWall {
            layer: self.layer,
            message: self.message,
            fix: self.fix,
        }
    }

    /// The wall whose step has failed somewhere in this error's causes.
    pub(crate) fn in_error(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(cause) = next {
            if let Some(no_wall) = cause.downcast_ref::<Self>() {
                return Some(no_wall.clone());
            }
            let step = cause.downcast_ref::<StepError>().filter(|step| is_refusal(step.errno));
            if let Some(layer) = step.and_then(|step| step.layer) {
                return Some(Self::new(layer, chain(error)));
            }
            next = cause.source();
        }
        None
    }
}

/// A machine that is short of something for the moment can still build its walls.
fn is_refusal(errno: Errno) -> bool {
    !matches!(
        errno,
        Errno::MFILE | Errno::NFILE | Errno::NOMEM | Errno::AGAIN | Errno::INTR | Errno::PIPE | Errno::SRCH
    )
}

/// Whether this is the name of an isolation layer, and not of a program or feature that a tier needs.
pub fn is_layer(name: &str) -> bool {
    LAYERS.iter().any(|(layer, _)| *layer == name)
}

pub(crate) fn fix(layer: &str) -> &'static str {
    let known = LAYERS.iter().find(|(name, _)| *name == layer);
    known.map_or("run `atoll doctor` to see what this host supports", |(_, fix)| fix)
}

/// The wall that a numbered step on the way into a sandbox builds.
pub(crate) fn layer_of_step(step: u32) -> Option<&'static str> {
    match step {
        14 => Some("cgroups"),
        15 => Some("namespaces"),
        16 => Some("ids"),
        20 => Some("rlimits"),
        21 | 24 => Some("capabilities"),
        22 => Some("keyring"),
        25 | 26 => Some("landlock"),
        27 => Some("seccomp"),
        28 => Some("proc"),
        _ => None,
    }
}

/// The wall that a failed step of a lock-down belongs to.
pub fn of_step(step: u32, errno: i32) -> Option<NoWall> {
    let errno = Errno::from_raw_os_error(errno);
    let layer = layer_of_step(step).filter(|_| is_refusal(errno))?;
    Some(NoWall::new(layer, format!("lockdown step {step} failed: {errno}")))
}

/// How a command ends that could not be locked down.
pub(crate) fn exit_code(layer: Option<&str>) -> i32 {
    let at = LAYERS.iter().position(|(name, _)| Some(*name) == layer);
    at.and_then(|at| i32::try_from(at).ok())
        .map_or(127, |at| EXIT_BASE + at)
}

/// The wall that such an exit code tells of.
pub fn of_exit(code: i32, message: &str) -> Option<NoWall> {
    let at = usize::try_from(code.checked_sub(EXIT_BASE)?).ok()?;
    LAYERS.get(at).map(|(layer, _)| NoWall::new(layer, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(layer: Option<&'static str>, errno: Errno) -> StepError {
        let what = "build it".to_owned();
        StepError { what, errno, layer }
    }

    #[test]
    fn a_refused_step_names_its_wall_and_a_short_machine_does_not() {
        let refused = failed(Some("mounts"), Errno::PERM);
        let found = NoWall::in_error(&refused).unwrap();
        assert_eq!(
            (found.layer.as_str(), found.message.as_str()),
            ("mounts", "cannot build it: Operation not permitted (os error 1)")
        );
        assert!(!found.fix.is_empty());
        assert_eq!(NoWall::in_error(&failed(Some("mounts"), Errno::MFILE)), None);
        assert_eq!(NoWall::in_error(&failed(None, Errno::PERM)), None);
    }

    #[test]
    fn every_step_has_a_known_wall_and_exit_codes_come_back() {
        for layer in (0..40).filter_map(layer_of_step) {
            assert!(LAYERS.iter().any(|(name, _)| *name == layer), "{layer}");
            let code = exit_code(Some(layer));
            assert_eq!(of_exit(code, "x").map(|wall| wall.layer).as_deref(), Some(layer));
        }
        assert_eq!((exit_code(None), of_exit(127, ""), of_exit(1, "")), (127, None, None));
        assert_eq!(of_step(27, 1).map(|wall| wall.layer).as_deref(), Some("seccomp"));
        assert_eq!(of_step(17, 9), None);
    }
}
