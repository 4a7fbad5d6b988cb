//! System calls as numbers: the ground that [`super::lockdown`] stands on. No crate, no allocation, no std.
//!
//! These files are compiled twice: as a module of this crate, and into the small library that a zygote loads.

use core::ffi::{c_int, c_long};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
}

#[cfg(target_arch = "x86_64")]
pub(super) mod nr {
    use core::ffi::c_long;
    pub(crate) const WRITE: c_long = 1;
    pub(crate) const CLOSE: c_long = 3;
    pub(crate) const RT_SIGPROCMASK: c_long = 14;
    pub(crate) const DUP3: c_long = 292;
    pub(crate) const SENDMSG: c_long = 46;
    pub(crate) const RECVMSG: c_long = 47;
    pub(crate) const SETSID: c_long = 112;
    pub(crate) const SETRESUID: c_long = 117;
    pub(crate) const SETRESGID: c_long = 119;
    pub(crate) const CAPSET: c_long = 126;
    pub(crate) const PRCTL: c_long = 157;
    pub(crate) const EXIT_GROUP: c_long = 231;
    pub(crate) const KEYCTL: c_long = 250;
    pub(crate) const OPENAT: c_long = 257;
    pub(crate) const CHDIR: c_long = 80;
    pub(crate) const UMASK: c_long = 95;
    pub(crate) const PRLIMIT64: c_long = 302;
    pub(crate) const SETNS: c_long = 308;
    pub(crate) const SECCOMP: c_long = 317;
    pub(crate) const PIDFD_OPEN: c_long = 434;
    pub(crate) const CLOSE_RANGE: c_long = 436;
    pub(crate) const LANDLOCK_RESTRICT_SELF: c_long = 446;
    pub(crate) const SIGNALFD4: c_long = 289;
    pub(crate) const PPOLL: c_long = 271;
    pub(crate) const READ: c_long = 0;
    pub(crate) const WAIT4: c_long = 61;
}

#[cfg(target_arch = "aarch64")]
pub mod nr {
    use core::ffi::c_long;
    pub const WRITE: c_long = 64;
    pub const CLOSE: c_long = 57;
    pub const RT_SIGPROCMASK: c_long = 135;
    pub const DUP3: c_long = 24;
    pub const SENDMSG: c_long = 211;
    pub const RECVMSG: c_long = 212;
    pub const SETSID: c_long = 157;
    pub const SETRESUID: c_long = 147;
    pub const SETRESGID: c_long = 149;
    pub const CAPSET: c_long = 91;
    pub const PRCTL: c_long = 167;
    pub const EXIT_GROUP: c_long = 94;
    pub const KEYCTL: c_long = 219;
    pub const OPENAT: c_long = 56;
    pub const CHDIR: c_long = 49;
    pub const UMASK: c_long = 166;
    pub const PRLIMIT64: c_long = 261;
    pub const SETNS: c_long = 268;
    pub const SECCOMP: c_long = 277;
    pub const PIDFD_OPEN: c_long = 434;
    pub const CLOSE_RANGE: c_long = 436;
    pub const LANDLOCK_RESTRICT_SELF: c_long = 446;
    pub const SIGNALFD4: c_long = 74;
    pub const PPOLL: c_long = 73;
    pub const READ: c_long = 63;
    pub const WAIT4: c_long = 260;
}

/// Calls the kernel and returns its value, or the error number.
///
/// # Safety
/// Every argument that the kernel takes as an address must point to memory that is valid for what
/// `number` does with it. Callers here pass addresses of locals that outlive the call.
pub(super) unsafe fn call(number: c_long, args: [usize; 5]) -> Result<usize, c_int> {
    // SAFETY: `syscall` takes any integers; what the kernel does with addresses is the caller's promise.
    let value = unsafe { syscall(number, args[0], args[1], args[2], args[3], args[4]) };
    if value >= 0 {
        return usize::try_from(value).map_err(|_| 75);
    }
    // SAFETY: `__errno_location` takes nothing and returns the calling thread's own errno cell.
    let errno = unsafe { __errno_location() };
    // SAFETY: the cell of the calling thread is always readable.
    Err(unsafe { *errno })
}

/// The calls whose arguments are plain numbers: nothing for the kernel to read or write in our memory.
pub(super) fn number_call(number: c_long, args: [usize; 5]) -> Result<usize, c_int> {
    // SAFETY: used only for calls whose arguments are descriptors, ids, flags and counts.
    unsafe { call(number, args) }
}
