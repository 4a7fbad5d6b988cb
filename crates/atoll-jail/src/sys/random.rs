//! The kernel's random numbers, begun anew: for a machine that is a copy of another.

use super::process::last_errno;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

/// `RNDRESEEDCRNG`: what was written to the device counts from now on.
const RESEED: libc::Ioctl = 0x5207;

pub(crate) fn reseed(device: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: this ioctl takes no argument; the descriptor is borrowed for the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), RESEED) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
