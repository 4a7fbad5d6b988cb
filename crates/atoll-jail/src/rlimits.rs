//! Per-process limits: the second line behind cgroups, and the first where there are none (rootless).

use crate::plan::Mode;
use crate::sys::lockdown::Rlimit;
use atoll_core::Limits;
use rustix::process::{Resource, getrlimit};

/// The limits of one process, never above what the kernel lets us set. `grouped`: its sandbox has cgroups.
pub(crate) fn of(limits: &Limits, mode: Mode, grouped: bool) -> Vec<Rlimit> {
    let alone = mode == Mode::Rootless && !grouped;
    let mut wanted = vec![
        (libc::RLIMIT_CORE, Resource::Core, 0),
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
        wanted.push((libc::RLIMIT_DATA, Resource::Data, limits.memory.get()));
    }
    wanted
        .into_iter()
        .map(|(number, resource, value)| bounded(number, resource, value))
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
