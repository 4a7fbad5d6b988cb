//! Mount calls that rustix does not offer.

use super::process::last_errno;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;
use std::ffi::CStr;

/// Mount attributes as the kernel's `MOUNT_ATTR_…` bits.
pub(crate) const READ_ONLY: u64 = 0x1;
pub(crate) const NO_SUID: u64 = 0x2;
pub(crate) const NO_DEV: u64 = 0x4;
pub(crate) const NO_EXEC: u64 = 0x8;

#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    userns_fd: u64,
}

/// Adds attributes to the mount behind `fd` (or below it at `path`), and to all below it if `recursive`.
pub(crate) fn set_attributes(fd: BorrowedFd<'_>, path: &CStr, attributes: u64, recursive: bool) -> Result<(), Errno> {
    change_attributes(fd, path, attributes, 0, recursive)
}

/// Takes attributes away from one mount.
pub(crate) fn clear_attributes(fd: BorrowedFd<'_>, path: &CStr, attributes: u64) -> Result<(), Errno> {
    change_attributes(fd, path, 0, attributes, false)
}

fn change_attributes(fd: BorrowedFd<'_>, path: &CStr, set: u64, clear: u64, recursive: bool) -> Result<(), Errno> {
    let attr = MountAttr {
        set,
        clear,
        propagation: 0,
        userns_fd: 0,
    };
    let flags = libc::AT_EMPTY_PATH | if recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: `path` is NUL-terminated and `attr` is the struct mount_attr of the given size; both outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            fd.as_raw_fd(),
            path.as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
