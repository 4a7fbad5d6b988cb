//! Per-process limits: the second line behind cgroups, and the first where there are none (rootless).

use crate::plan::Mode;
use crate::sys::lockdown::Rlimit;
use crate::walls::NoWall;
use atoll_core::Limits;
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit as Bounds, getrlimit, prlimit, setrlimit};

/// Room for descriptors in the jailer and all below it.
const OPEN_FILES: u64 = 65_536;
/// The stack that programs are used to.
const STACK_BYTES: u64 = 8 << 20;
/// On its way into a sandbox a process lays its descriptors at high numbers first.
const FEWEST_OPEN_FILES: u64 = 256;

/// Lets go of limits that whoever started Atoll happened to have: they are none of the sandbox's. Without the power to
/// raise one, it stays, and [`check`] tells.
pub(crate) fn shed_inherited() {
    let unlimited = [
        Resource::As,
        Resource::Data,
        Resource::Cpu,
        Resource::Fsize,
        Resource::Nproc,
    ];
    for resource in unlimited {
        raise(resource, None, None);
    }
    raise(Resource::Stack, Some(STACK_BYTES), None);
    let most = getrlimit(Resource::Nofile)
        .maximum
        .map_or(OPEN_FILES, |most| most.max(OPEN_FILES));
    raise(Resource::Nofile, Some(most), Some(most));
    // For the sandbox's own: zero, as most sessions have it, could not be raised to one any more.
    raise(Resource::Core, Some(1), Some(1));
}

fn raise(resource: Resource, soft: Option<u64>, hard: Option<u64>) {
    let now = getrlimit(resource);
    let wanted = Bounds {
        current: soft,
        maximum: hard,
    };
    if setrlimit(resource, wanted).is_err() {
        let current = match (soft, now.maximum) {
            (Some(soft), Some(most)) => Some(soft.min(most)),
            (Some(soft), None) => Some(soft),
            (None, most) => most,
        };
        let maximum = now.maximum;
        setrlimit(resource, Bounds { current, maximum }).ok();
    }
}

/// An inherited limit below what the sandbox is promised is refused, not passed on as if it were ours.
pub(crate) fn check(limits: &Limits, mode: Mode) -> Result<(), NoWall> {
    let memory = limits.memory.get();
    let wanted = [
        (
            "-n",
            "open files",
            Resource::Nofile,
            limits.open_files.get().max(FEWEST_OPEN_FILES),
        ),
        ("-v", "address space", Resource::As, memory),
        ("-d", "data", Resource::Data, memory),
        ("-f", "file size", Resource::Fsize, limits.scratch.get()),
        (
            "-u",
            "processes",
            Resource::Nproc,
            processes(limits, mode == Mode::Rootless),
        ),
        ("-t", "CPU seconds", Resource::Cpu, u64::MAX),
    ];
    for (flag, what, resource, least) in wanted {
        if let Some(most) = getrlimit(resource).maximum.filter(|most| *most < least) {
            let message =
                format!("Atoll was started with a limit of {most} on {what} (`ulimit {flag}`), which is too low");
            return Err(NoWall::new("rlimits", message));
        }
    }
    Ok(())
}

/// The limits of one process, never above what the kernel lets us set. `alone`: an ordinary user's sandbox without cgroups,
/// for which they stand in.
pub(crate) fn of(limits: &Limits, alone: bool) -> Vec<Rlimit> {
    of_fork(limits, alone, 0)
}

/// The limits of a fork of a zygote with `inherited_data` bytes of data. The kernel counts them as the fork's, although it
/// shares them or never touches them: some libraries reserve a gigabyte. The limit is for what comes on top.
pub(crate) fn of_fork(limits: &Limits, alone: bool, inherited_data: u64) -> Vec<Rlimit> {
    let mut wanted = vec![
        // Zero would not keep the kernel from feeding a crash to a helper of the host; one does (fs/coredump.c).
        (libc::RLIMIT_CORE, Resource::Core, 1),
        (libc::RLIMIT_NOFILE, Resource::Nofile, limits.open_files.get()),
        (libc::RLIMIT_FSIZE, Resource::Fsize, limits.scratch.get()),
        (libc::RLIMIT_MEMLOCK, Resource::Memlock, 64 << 10),
        (libc::RLIMIT_MSGQUEUE, Resource::Msgqueue, 0),
        (libc::RLIMIT_SIGPENDING, Resource::Sigpending, 256),
        (libc::RLIMIT_NICE, Resource::Nice, 0),
        (libc::RLIMIT_RTPRIO, Resource::Rtprio, 0),
        (libc::RLIMIT_NPROC, Resource::Nproc, processes(limits, alone)),
    ];
    if alone {
        let most = limits.memory.get().saturating_add(inherited_data);
        wanted.push((libc::RLIMIT_DATA, Resource::Data, most));
    }
    wanted
        .into_iter()
        .map(|(number, resource, value)| bounded(number, resource, value))
        .collect()
}

/// Gives them to a process that is there already, as far as they differ between sandboxes.
pub(crate) fn give(pid: Pid, limits: &Limits) -> Result<(), Errno> {
    let different = [
        (Resource::Nofile, limits.open_files.get()),
        (Resource::Fsize, limits.scratch.get()),
        (Resource::Nproc, processes(limits, false)),
    ];
    different.into_iter().try_for_each(|(resource, most)| {
        let most = Some(most);
        let bounds = Bounds {
            current: most,
            maximum: most,
        };
        prlimit(Some(pid), resource, bounds).map(drop)
    })
}

/// Those that gVisor's kernel lets a process set. It counts processes itself: the host's groups count its own instead.
pub(crate) fn of_gvisor(limits: &Limits) -> Vec<Rlimit> {
    let known = [
        libc::RLIMIT_CORE,
        libc::RLIMIT_NOFILE,
        libc::RLIMIT_FSIZE,
        libc::RLIMIT_MEMLOCK,
        libc::RLIMIT_NPROC,
    ];
    let all = of(limits, true).into_iter();
    all.filter(|limit| known.iter().any(|one| u64::from(*one) == limit.resource))
        .collect()
}

/// Counted per user namespace: the limit where there is no pids cgroup. Where there is one it must refuse first,
/// because only it tells us that it did.
fn processes(limits: &Limits, alone: bool) -> u64 {
    if alone {
        limits.processes.get() + 1
    } else {
        limits.processes.get() * 2
    }
}

fn bounded(number: libc::__rlimit_resource_t, resource: Resource, value: u64) -> Rlimit {
    let hard = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let value = value.min(hard);
    Rlimit {
        resource: u64::from(number),
        soft: value,
        hard: value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(limits: &[Rlimit]) -> Option<u64> {
        let is_data = |limit: &&Rlimit| limit.resource == u64::from(libc::RLIMIT_DATA);
        limits.iter().find(is_data).map(|limit| limit.hard)
    }

    #[test]
    fn inherited_data_is_added_to_the_limit_where_there_is_no_cgroup() {
        let (limits, inherited) = (Limits::SMALL, 1 << 30);
        let memory = limits.memory.get();
        assert_eq!(data(&of(&limits, true)), Some(memory));
        assert_eq!(data(&of_fork(&limits, true, inherited)), Some(memory + inherited));
        assert_eq!(data(&of_fork(&limits, false, inherited)), None);
    }
}
