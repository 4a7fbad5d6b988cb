//! Making processes: one call that forks into new namespaces, and the few settings that belong to it.

use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;

/// Which side of a fork we are on.
#[derive(Debug)]
pub(crate) enum Forked {
    Child,
    Parent { pid: i32, pidfd: OwnedFd },
}

/// The kernel's `struct clone_args`, first version.
#[repr(C)]
#[derive(Default)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// All that a template, and a sandbox within it, has for itself; the cgroup namespace comes after joining the groups.
pub(crate) const OWN_NAMESPACES: u64 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS)
    .cast_unsigned() as u64;

/// What the keeper of a container has for itself; the runtime makes the rest.
pub(crate) const KEEPER_NAMESPACES: u64 = (libc::CLONE_NEWPID | libc::CLONE_NEWNS).cast_unsigned() as u64;

/// The same for gVisor, and a network with nothing in it: its processes talk to each other by names of the network namespace.
pub(crate) const GVISOR_KEEPER_NAMESPACES: u64 =
    (libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWNET | libc::CLONE_NEWIPC).cast_unsigned() as u64;

/// Forks with the given `CLONE_NEW…` flags; the child goes on here, on a copy of the memory.
///
/// The caller's process must have one thread: a copy of another thread's held lock would never open.
/// Jailer, spawner and agent are such processes; they check it when they start.
pub(crate) fn fork_with(namespaces: u64) -> Result<Forked, Errno> {
    let mut pidfd: i32 = -1;
    let args = CloneArgs {
        flags: namespaces | libc::CLONE_PIDFD.cast_unsigned() as u64,
        pidfd: &raw mut pidfd as u64,
        exit_signal: libc::SIGCHLD.cast_unsigned() as u64,
        ..CloneArgs::default()
    };
    // SAFETY: `args` and `pidfd` outlive the call; no stack is given, so the child continues on a copy of ours.
    let result = unsafe { libc::syscall(libc::SYS_clone3, &raw const args, size_of::<CloneArgs>()) };
    match i32::try_from(result) {
        Ok(0) => Ok(Forked::Child),
        Ok(pid) if pid > 0 => {
            // SAFETY: CLONE_PIDFD has stored a fresh descriptor that nobody else owns.
            let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
            Ok(Forked::Parent { pid, pidfd })
        }
        _ => Err(last_errno()),
    }
}

/// The same, for a kernel that may have no pidfds.
#[derive(Debug)]
pub(crate) enum Started {
    Child,
    Parent { pid: i32, pidfd: Option<OwnedFd> },
}

/// Forks a child in this process's own namespaces. gVisor's kernel knows only the old call, and no pidfds.
pub(crate) fn start_child() -> Result<Started, Errno> {
    match fork_with(0) {
        Ok(Forked::Child) => Ok(Started::Child),
        Ok(Forked::Parent { pid, pidfd }) => Ok(Started::Parent {
            pid,
            pidfd: Some(pidfd),
        }),
        Err(Errno::NOSYS) => fork_plainly(),
        Err(errno) => Err(errno),
    }
}

fn fork_plainly() -> Result<Started, Errno> {
    // SAFETY: the process has one thread, so the child's copy of the memory has no lock that another thread holds.
    match unsafe { libc::fork() } {
        0 => Ok(Started::Child),
        pid if pid > 0 => Ok(Started::Parent { pid, pidfd: None }),
        _ => Err(last_errno()),
    }
}

/// Joins the namespaces of the process behind `pidfd`, all in one call.
pub(crate) fn join_namespaces(pidfd: BorrowedFd<'_>, namespaces: i32) -> Result<(), Errno> {
    // SAFETY: setns takes a descriptor and flags; no memory is involved.
    let result = unsafe { libc::setns(pidfd.as_raw_fd(), namespaces) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Ends the process at once, without the exit handlers of the process it was forked from.
pub(crate) fn exit_now(code: i32) -> ! {
    // SAFETY: _exit takes a number and does not return.
    unsafe { libc::_exit(code) }
}

/// Gives every signal its usual effect again. Exec would pass on what is ignored: a broken pipe by Rust's runtime, an
/// interrupt by a shell that has started us in the background, a hang-up by `nohup`.
pub(crate) fn default_signals() {
    for signal in 1..=libc::SIGRTMAX() {
        // SAFETY: signal takes a number and SIG_DFL; no handler of ours is involved. The two signals that cannot be
        // changed, and the two of the C library, are refused, which is as good.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Switches the loopback interface of this network namespace on.
pub(crate) fn loopback_up() -> Result<(), Errno> {
    let socket = rustix::net::socket(rustix::net::AddressFamily::INET, rustix::net::SocketType::DGRAM, None)?;
    // SAFETY: ifreq is a plain C struct; all zeros is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l'.cast_signed();
    request.ifr_name[1] = b'o'.cast_signed();
    request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(|_| Errno::INVAL)?;
    // SAFETY: `request` is the ifreq that SIOCSIFFLAGS reads; it outlives the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}

/// Gives the process a new, empty session keyring.
pub(crate) fn join_own_keyring() {
    // SAFETY: KEYCTL_JOIN_SESSION_KEYRING with a null name reads no memory.
    unsafe { libc::syscall(libc::SYS_keyctl, 1, 0) };
}

pub(super) fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Closes every descriptor from `first` up to, but not including, `end`.
pub(crate) fn close_from(first: u32, end: u32) -> Result<(), crate::step::StepError> {
    use crate::step::Step;
    if first >= end {
        return Ok(());
    }
    // No descriptor has a higher number, and gVisor's kernel refuses one.
    let last = (end - 1).min(i32::MAX.cast_unsigned());
    // SAFETY: close_range takes numbers. Callers close descriptors that no owner in this process uses any more.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    (if result == 0 { Ok(()) } else { Err(last_errno()) }).step("close file descriptors")
}

/// Takes over a descriptor that this process was started with. Called once for each number, before anything else is opened.
pub(crate) fn take_descriptor(number: i32) -> Result<OwnedFd, crate::step::StepError> {
    use crate::step::Step;
    // SAFETY: fcntl takes numbers.
    let set = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    if set != 0 {
        return Err(last_errno()).step(&format!("set close-on-exec on descriptor {number}"));
    }
    // SAFETY: fcntl has found it open, and nobody in this process owns a descriptor that it was started with.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Makes `channel` descriptor 3, kept over exec, and closes everything above.
pub(crate) fn lay_and_close(channel: OwnedFd) -> Result<(), crate::step::StepError> {
    use crate::step::Step;
    // SAFETY: dup2 takes two numbers; descriptor 3 has no owner in the process that is about to exec.
    let laid = unsafe { libc::dup2(channel.as_raw_fd(), 3) };
    if laid != 3 {
        return Err(last_errno()).step("set up the channel's descriptor");
    }
    if channel.as_raw_fd() == 3 {
        // dup2 onto itself leaves close-on-exec set.
        // SAFETY: fcntl takes numbers.
        unsafe { libc::fcntl(3, libc::F_SETFD, 0) };
    }
    std::mem::forget(channel);
    close_from(4, u32::MAX)
}

/// Makes `channel` descriptor 0 and closes everything above 2.
pub(crate) fn lay_stdin(channel: OwnedFd) -> Result<(), crate::step::StepError> {
    use crate::step::Step;
    rustix::stdio::dup2_stdin(&channel).step("set up the channel's descriptor")?;
    std::mem::forget(channel);
    close_from(3, u32::MAX)
}

/// Lays `fds` as 0, 1, 2 …, closes everything else, and returns the number of the ruleset (close-on-exec), or -1.
pub(crate) fn lay_all(fds: &[OwnedFd], ruleset: Option<&OwnedFd>) -> Result<i32, crate::step::StepError> {
    use crate::step::Step;
    const BASE: i32 = 200;
    let count = i32::try_from(fds.len()).unwrap_or(0);
    let sources: Vec<i32> = fds.iter().chain(ruleset).map(AsRawFd::as_raw_fd).collect();
    // High numbers first, so that laying one cannot overwrite another that is still to be laid.
    for (index, fd) in (0..).zip(&sources) {
        dup(*fd, BASE + index, true).step("duplicate a descriptor")?;
    }
    for index in 0..count {
        dup(BASE + index, index, false).step("duplicate a descriptor")?;
    }
    close_from(count.cast_unsigned(), (BASE + count).cast_unsigned())?;
    let last = if ruleset.is_some() { BASE + count } else { -1 };
    close_from((BASE + count + i32::from(ruleset.is_some())).cast_unsigned(), u32::MAX)?;
    Ok(last)
}

fn dup(from: i32, to: i32, close_on_exec: bool) -> Result<(), Errno> {
    let flags = if close_on_exec { libc::O_CLOEXEC } else { 0 };
    // SAFETY: dup3 takes numbers; in a forked child that is about to exec no owner uses the target.
    let result = unsafe { libc::dup3(from, to, flags) };
    if result == to { Ok(()) } else { Err(last_errno()) }
}
