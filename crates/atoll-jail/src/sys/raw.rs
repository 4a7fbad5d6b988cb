//! System calls as numbers: the ground that [`super::lockdown`] stands on. No crate, no allocation, no std.
//!
//! These files are compiled twice: as a module of this crate, and into the small library that a zygote loads.

use core::ffi::{c_int, c_long};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
    fn __errno_location() -> *mut c_int;
}

#[cfg(target_arch = "x86_64")]
pub mod nr {
    use core::ffi::c_long;
    pub const WRITE: c_long = 1;
    pub const CLOSE: c_long = 3;
    pub const RT_SIGPROCMASK: c_long = 14;
    pub const DUP3: c_long = 292;
    pub const SENDMSG: c_long = 46;
    pub const RECVMSG: c_long = 47;
    pub const SETSID: c_long = 112;
    pub const SETRESUID: c_long = 117;
    pub const SETRESGID: c_long = 119;
    pub const CAPSET: c_long = 126;
    pub const PRCTL: c_long = 157;
    pub const EXIT_GROUP: c_long = 231;
    pub const KEYCTL: c_long = 250;
    pub const OPENAT: c_long = 257;
    pub const CHDIR: c_long = 80;
    pub const UMASK: c_long = 95;
    pub const PRLIMIT64: c_long = 302;
    pub const SETNS: c_long = 308;
    pub const SECCOMP: c_long = 317;
    pub const PIDFD_OPEN: c_long = 434;
    pub const CLOSE_RANGE: c_long = 436;
    pub const LANDLOCK_RESTRICT_SELF: c_long = 446;
    pub const SIGNALFD4: c_long = 289;
    pub const PPOLL: c_long = 271;
    pub const READ: c_long = 0;
    pub const WAIT4: c_long = 61;
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
pub unsafe fn call(number: c_long, args: [usize; 5]) -> Result<usize, c_int> {
    // SAFETY: `syscall` takes any integers; what the kernel does with addresses is the caller's promise.
    let value = unsafe { syscall(number, args[0], args[1], args[2], args[3], args[4]) };
    if value >= 0 {
        return Ok(value.cast_unsigned() as usize);
    }
    // SAFETY: `__errno_location` returns the calling thread's own errno cell, always readable.
    Err(unsafe { *__errno_location() })
}

/// The calls whose arguments are plain numbers: nothing for the kernel to read or write in our memory.
pub fn number_call(number: c_long, args: [usize; 5]) -> Result<usize, c_int> {
    // SAFETY: used only for calls whose arguments are descriptors, ids, flags and counts.
    unsafe { call(number, args) }
}
