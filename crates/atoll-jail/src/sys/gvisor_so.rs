//! A library that every program under gVisor loads (`/etc/ld.so.preload`): `statx` without a flag that older gVisor refuses.
//!
//! `ls` and `stat` ask not to trigger automounts (`AT_NO_AUTOMOUNT`), and gVisor up to 2022 at least answers "invalid argument"
//! instead. It has no automounts, so nothing is lost. Built by `build.rs` on its own: no std, no crate. Not a wall.
#![no_std]
#![expect(unsafe_code, reason = "one system call, passed on as it came")]

use core::ffi::{c_char, c_int, c_long, c_uint, c_void};

unsafe extern "C" {
    fn syscall(number: c_long, ...) -> c_long;
}

#[cfg(target_arch = "x86_64")]
const STATX: c_long = 332;
#[cfg(target_arch = "aarch64")]
const STATX: c_long = 291;
const AT_NO_AUTOMOUNT: c_int = 0x800;

/// As the C library's own, which sets `errno` in the same way.
///
/// # Safety
///
/// What `statx` of the C library asks of its callers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn statx(
    dir: c_int,
    path: *const c_char,
    flags: c_int,
    mask: c_uint,
    buffer: *mut c_void,
) -> c_int {
    let flags = flags & !AT_NO_AUTOMOUNT;
    // SAFETY: the caller's pointers go to the kernel, which checks them.
    let answer = unsafe { syscall(STATX, c_long::from(dir), path, c_long::from(flags), c_long::from(mask), buffer) };
    if answer < 0 { -1 } else { 0 }
}

#[panic_handler]
fn never(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

/// The precompiled `core` names it; with `panic = abort` nothing ever calls it.
#[unsafe(no_mangle)]
pub extern "C" fn rust_eh_personality() {}
