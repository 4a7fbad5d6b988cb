//! The one way a process inside a sandbox loses its powers, in the order that works.
//!
//! Used by a zygote's fork (from native code, before any Python runs) and by the agent's commands (before exec).
//! No allocation, no std: between fork and the last step nothing may take a lock. Each step has a number; a
//! failed step ends the process, and its number and errno reach the engine. It never goes on half-locked.

use super::message;
use super::raw::{call, nr, number_call};
use core::ffi::c_int;

/// Walls that a test has switched off, as bits. Zero is the only value that the product uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Off(pub u32);

impl Off {
    pub(crate) const LANDLOCK: u32 = 1;
    pub(crate) const SECCOMP: u32 = 2;
    pub(crate) const CAPABILITIES: u32 = 4;
    pub(crate) const NO_NEW_PRIVS: u32 = 8;
    pub(crate) const RLIMITS: u32 = 16;
    pub(crate) const KEYRING: u32 = 32;

    pub(crate) fn has(self, bit: u32) -> bool {
        self.0 & bit != 0
    }
}

/// What one process is locked down with.
#[derive(Debug)]
pub(crate) struct Lock<'a> {
    pub off: Off,
    /// A Landlock ruleset made inside the sandbox; -1 only when the wall is off.
    pub ruleset: c_int,
    /// Seccomp programs in the order of installing, as the kernel's 8-byte instructions.
    pub filters: &'a [&'a [u8]],
    /// A program that shows calls to a listener, which goes to the engine over the control socket. Empty if nobody watches.
    pub watch: &'a [u8],
    pub rlimits: &'a [Rlimit],
    /// A process of the user, which goes first when memory runs out; not the agent.
    pub expendable: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Rlimit {
    pub resource: u64,
    pub soft: u64,
    pub hard: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failed {
    pub step: u32,
    pub errno: c_int,
}

/// A file that plain permissions let everybody read and that no Landlock rule covers.
/// If it opens after the lock-down, Landlock is not there.
pub(crate) const CANARY: &core::ffi::CStr = c"/run/landlock/canary";

const PR_SET_DUMPABLE: usize = 4;
const PR_CAPBSET_DROP: usize = 24;
const PR_SET_SECUREBITS: usize = 28;
const PR_SET_NO_NEW_PRIVS: usize = 38;
const PR_CAP_AMBIENT: usize = 47;
const PR_CAP_AMBIENT_CLEAR_ALL: usize = 4;
/// NOROOT, NO_SETUID_FIXUP and KEEP_CAPS off, NO_CAP_AMBIENT_RAISE, each with its lock bit.
const SECUREBITS: usize = 0b1110_1111;
const KEYCTL_JOIN_SESSION_KEYRING: usize = 1;
const SECCOMP_SET_MODE_FILTER: usize = 1;
const SECCOMP_FILTER_FLAG_NEW_LISTENER: usize = 8;
/// Where a context has its control socket.
const CONTROL: c_int = 3;
/// What the listener comes beside: no frame and no status begins so.
pub(crate) const HANDED_OVER: &[u8; 1] = b"w";
const EINVAL: c_int = 22;
const EACCES: c_int = 13;

/// Runs every step. The ids, descriptors and namespaces must already be those of the sandbox.
pub(crate) fn lock_down(lock: &Lock<'_>) -> Result<(), Failed> {
    step(20, set_rlimits(lock))?;
    step(21, drop_capabilities(lock.off))?;
    step(22, join_own_keyring(lock.off))?;
    // A process of the user may look at itself (`/proc/self`); only the agent and the zygote may not be looked at.
    step(23, number_call(nr::PRCTL, [PR_SET_DUMPABLE, 1, 0, 0, 0]))?;
    if lock.expendable {
        // Only now: before, the process could not write to its own files in /proc.
        step(28, raise_oom_score())?;
    }
    if !lock.off.has(Off::NO_NEW_PRIVS) {
        step(24, number_call(nr::PRCTL, [PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0]))?;
    }
    if !lock.off.has(Off::LANDLOCK) {
        step(25, restrict_paths(lock.ruleset))?;
        step(26, canary_is_out_of_reach())?;
    }
    if !lock.watch.is_empty() {
        step(31, be_watched(lock.watch))?;
    }
    if !lock.off.has(Off::SECCOMP) {
        // Last: the steps above need calls that the filters refuse.
        for filter in lock.filters {
            step(27, install_filter(filter, 0))?;
        }
    }
    Ok(())
}

pub(crate) fn step<T>(step: u32, result: Result<T, c_int>) -> Result<T, Failed> {
    result.map_err(|errno| Failed { step, errno })
}

fn set_rlimits(lock: &Lock<'_>) -> Result<(), c_int> {
    if lock.off.has(Off::RLIMITS) {
        return Ok(());
    }
    for limit in lock.rlimits {
        let pair = [limit.soft, limit.hard];
        let resource = usize::try_from(limit.resource).map_err(|_| EINVAL)?;
        // SAFETY: `pair` is the struct rlimit64 that prlimit64 reads; it lives until the call returns.
        unsafe { call(nr::PRLIMIT64, [0, resource, pair.as_ptr() as usize, 0, 0]) }?;
    }
    Ok(())
}

fn drop_capabilities(off: Off) -> Result<(), c_int> {
    if off.has(Off::CAPABILITIES) {
        return Ok(());
    }
    drop_bounding_set()?;
    match number_call(nr::PRCTL, [PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0]) {
        // gVisor's kernel has no such set.
        Ok(_) | Err(EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    match number_call(nr::PRCTL, [PR_SET_SECUREBITS, SECUREBITS, 0, 0, 0]) {
        // Without CAP_SETPCAP there is nothing left to protect: the process has no capability at all. gVisor's kernel has
        // no such bits; what counts is the next step, which the receipt reads back.
        Ok(_) | Err(1 | EINVAL) => {}
        Err(errno) => return Err(errno),
    }
    let header = [0x2008_0522u32, 0];
    let none = [0u32; 6];
    // SAFETY: `header` is a version 3 cap_user_header and `none` its two cap_user_data; both outlive the call.
    unsafe { call(nr::CAPSET, [header.as_ptr() as usize, none.as_ptr() as usize, 0, 0, 0]) }.map(|_| ())
}

/// Drops every capability that this kernel knows; the first unknown number answers EINVAL.
pub(crate) fn drop_bounding_set() -> Result<(), c_int> {
    for capability in 0..64 {
        match number_call(nr::PRCTL, [PR_CAPBSET_DROP, capability, 0, 0, 0]) {
            Ok(_) => {}
            Err(EINVAL) => return Ok(()),
            // A process without CAP_SETPCAP (an agent's child) has nothing left to drop from.
            Err(1) if capability == 0 => return Ok(()),
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn join_own_keyring(off: Off) -> Result<(), c_int> {
    if off.has(Off::KEYRING) {
        return Ok(());
    }
    match number_call(nr::KEYCTL, [KEYCTL_JOIN_SESSION_KEYRING, 0, 0, 0, 0]) {
        // A kernel without keyrings has none to share. An agent's child is refused by the agent's filter and
        // shares the agent's keyring, which belongs to this sandbox alone.
        Ok(_) | Err(38) | Err(1) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// The user's processes are the first to go when memory runs out, never the agent.
fn raise_oom_score() -> Result<usize, c_int> {
    const O_WRONLY: usize = 1;
    let path = c"/proc/self/oom_score_adj";
    // SAFETY: `path` is a NUL-terminated constant.
    let fd = unsafe { call(nr::OPENAT, [usize::MAX - 99, path.as_ptr() as usize, O_WRONLY, 0, 0]) }?;
    // SAFETY: four bytes of a constant are written.
    let wrote = unsafe { call(nr::WRITE, [fd, b"1000".as_ptr() as usize, 4, 0, 0]) };
    number_call(nr::CLOSE, [fd, 0, 0, 0, 0]).ok();
    wrote
}

fn restrict_paths(ruleset: c_int) -> Result<usize, c_int> {
    number_call(
        nr::LANDLOCK_RESTRICT_SELF,
        [ruleset.cast_unsigned() as usize, 0, 0, 0, 0],
    )
}

fn canary_is_out_of_reach() -> Result<(), c_int> {
    match open_read(CANARY) {
        Err(EACCES) => Ok(()),
        Err(errno) => Err(errno),
        Ok(_) => Err(EACCES),
    }
}

pub(crate) fn open_read(path: &core::ffi::CStr) -> Result<c_int, c_int> {
    const AT_FDCWD: usize = (-100isize).cast_unsigned();
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: `path` is a NUL-terminated string that outlives the call.
    let fd = unsafe { call(nr::OPENAT, [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0]) }?;
    c_int::try_from(fd).map_err(|_| EINVAL)
}

/// From now on the program's calls wait for the listener's word. It leaves this process: whoever holds it answers.
fn be_watched(program: &[u8]) -> Result<(), c_int> {
    let listener = install_filter(program, SECCOMP_FILTER_FLAG_NEW_LISTENER)?;
    let listener = c_int::try_from(listener).map_err(|_| EINVAL)?;
    message::send(CONTROL, HANDED_OVER, listener)?;
    number_call(nr::CLOSE, [listener.cast_unsigned() as usize, 0, 0, 0, 0]).map(|_| ())
}

/// Installs one seccomp program for this thread, the only one of the process.
pub(crate) fn install_filter(instructions: &[u8], flags: usize) -> Result<usize, c_int> {
    if instructions.is_empty() {
        return Err(EINVAL);
    }
    #[repr(C)]
    struct Program {
        length: u16,
        address: *const u8,
    }
    let length = u16::try_from(instructions.len() / 8).map_err(|_| EINVAL)?;
    let program = Program {
        length,
        address: instructions.as_ptr(),
    };
    let address = &raw const program as usize;
    // SAFETY: `program` is the struct sock_fprog that seccomp reads, pointing to `length` 8-byte instructions
    // inside `instructions`; both outlive the call.
    unsafe { call(nr::SECCOMP, [SECCOMP_SET_MODE_FILTER, flags, address, 0, 0]) }
}
