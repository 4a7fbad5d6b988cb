//! System calls that a sandbox does not need: refused for all threads, in case that code leaves its WebAssembly.
//!
//! Everything else is allowed. wasmtime and the C library need files, memory, threads, and a signal of the process to itself
//! (`abort`).

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter_all_threads, sock_filter,
};
use std::collections::BTreeMap;
use std::io;

/// Refused with any arguments: new programs, other processes, the network, the kernel's own doors.
const REFUSED: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_open_by_handle_at,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_kexec_load,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    // Signals. `tgkill` is below.
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    // Priorities: all sandboxes of root have one user, so each could change those of the others.
    libc::SYS_setpriority,
    libc::SYS_ioprio_set,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    // Memory, semaphores and queues of other processes. System V has them by number: no file is opened.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Facts about other processes of the same user, and the place of their memory.
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    libc::SYS_migrate_pages,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
];

/// Old calls for new processes, which only x86-64 has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] = &[libc::SYS_fork, libc::SYS_vfork];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// The call, the argument that decides, and the values of it that are refused. Its low 32 bits are compared: the kernel reads no
/// more of these arguments.
type ByArgument = (i64, u8, SeccompCmpOp, u64);

const CLONE_THREAD: u64 = 0x0001_0000;
const F_SETOWN: u64 = 8;
const F_SETSIG: u64 = 10;
const F_SETOWN_EX: u64 = 15;
const FIOSETOWN: u64 = 0x8901;
const SIOCSPGRP: u64 = 0x8902;
const TIOCSTI: u64 = 0x5412;
const TIOCLINUX: u64 = 0x541C;

/// The first number of x32, the other ABI of x86-64. No other architecture has numbers so high.
const X32: u32 = 0x4000_0000;
/// `clone3`, by the number that it has on every architecture. Its flags are in memory, where no filter can read them.
const CLONE3: u32 = 435;

const EPERM: u32 = libc::EPERM.unsigned_abs();
const ENOSYS: u32 = libc::ENOSYS.unsigned_abs();

const LOAD: u16 = 0x20;
const IF_EQUAL: u16 = 0x15;
const IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

pub(crate) fn refuse() -> io::Result<()> {
    let filter = program(std::process::id()).map_err(io::Error::other)?;
    apply_filter_all_threads(&filter).map_err(io::Error::other)
}

fn by_argument(own: u32) -> [ByArgument; 10] {
    use SeccompCmpOp::{Eq, MaskedEq, Ne};
    [
        // A signal to another process. `abort` sends one to its own.
        (libc::SYS_tgkill, 0, Ne, u64::from(own)),
        // A new process: a thread has this flag.
        (libc::SYS_clone, 0, MaskedEq(CLONE_THREAD), 0),
        // Limits of another process: 0 is the process itself.
        (libc::SYS_prlimit64, 0, Ne, 0),
        // Signals that the kernel sends about a descriptor, to the process that is named here.
        (libc::SYS_fcntl, 1, Eq, F_SETOWN),
        (libc::SYS_fcntl, 1, Eq, F_SETSIG),
        (libc::SYS_fcntl, 1, Eq, F_SETOWN_EX),
        (libc::SYS_ioctl, 1, Eq, FIOSETOWN),
        (libc::SYS_ioctl, 1, Eq, SIOCSPGRP),
        // Input to the terminal of the process, which can be that of root's shell.
        (libc::SYS_ioctl, 1, Eq, TIOCSTI),
        (libc::SYS_ioctl, 1, Eq, TIOCLINUX),
    ]
}

/// `own` is the process that wears the filter.
fn program(own: u32) -> Result<BpfProgram, BackendError> {
    let refused = REFUSED.iter().chain(REFUSED_HERE);
    let mut rules: BTreeMap<i64, Vec<_>> = refused.map(|call| (*call, Vec::new())).collect();
    for (call, argument, compare, value) in by_argument(own) {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?;
        rules.entry(call).or_default().push(SeccompRule::new(vec![condition])?);
    }
    let filter = SeccompFilter::new(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(EPERM),
        std::env::consts::ARCH.try_into()?,
    )?;
    let compiled: BpfProgram = filter.try_into()?;
    Ok(first().into_iter().chain(compiled).collect())
}

/// What the compiler has no words for: a range of numbers, and a second answer. Without `clone3` the C library calls `clone`.
fn first() -> [sock_filter; 5] {
    [
        instruction(LOAD, 0, 0),
        instruction(IF_AT_LEAST, X32, 1),
        instruction(RETURN, libc::SECCOMP_RET_ERRNO | EPERM, 0),
        instruction(IF_EQUAL, CLONE3, 1),
        instruction(RETURN, libc::SECCOMP_RET_ERRNO | ENOSYS, 0),
    ]
}

/// A condition that does not hold skips `otherwise` instructions. The number of the call is at offset 0.
const fn instruction(code: u16, k: u32, otherwise: u8) -> sock_filter {
    sock_filter {
        code,
        jt: 0,
        jf: otherwise,
        k,
    }
}

#[cfg(test)]
mod tests;
