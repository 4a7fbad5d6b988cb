//! Calls that a seccomp filter shows to its listener: taken, looked at, let go on.

use super::process::last_errno;
use rustix::fd::{AsRawFd, BorrowedFd};
use rustix::io::Errno;

const RECEIVE: libc::c_ulong = 0xc050_2100;
const SEND: libc::c_ulong = 0xc018_2101;
const IS_VALID: libc::c_ulong = 0x4008_2102;
/// The kernel makes the call as if nobody had looked.
const GO_ON: u32 = 1;

/// One call that waits, as the kernel writes it: `struct seccomp_notif`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Call {
    pub id: u64,
    /// The thread that calls, as this process numbers it.
    pub pid: u32,
    flags: u32,
    pub number: i32,
    arch: u32,
    instruction: u64,
    pub args: [u64; 6],
}

#[derive(Debug)]
#[repr(C)]
struct Answer {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

const _: () = assert!(size_of::<Call>() == 80 && size_of::<Answer>() == 24);

/// The next call. `NOENT`: who called is gone.
pub(crate) fn receive(listener: BorrowedFd<'_>) -> Result<Call, Errno> {
    let mut call = Call::default();
    // SAFETY: `call` is the zeroed struct seccomp_notif of 80 bytes that the kernel fills.
    match unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE, &raw mut call) } {
        0 => Ok(call),
        _ => Err(last_errno()),
    }
}

/// Whether the call still waits: only then was all that was read about it of the one who called.
pub(crate) fn still_waits(listener: BorrowedFd<'_>, call: &Call) -> bool {
    // SAFETY: the kernel reads the eight bytes of the id.
    unsafe { libc::ioctl(listener.as_raw_fd(), IS_VALID, &raw const call.id) == 0 }
}

pub(crate) fn let_go_on(listener: BorrowedFd<'_>, call: &Call) {
    let answer = Answer {
        id: call.id,
        value: 0,
        error: 0,
        flags: GO_ON,
    };
    // A caller that is gone needs no answer.
    // SAFETY: `answer` is the struct seccomp_notif_resp of 24 bytes that the kernel reads.
    unsafe { libc::ioctl(listener.as_raw_fd(), SEND, &raw const answer) };
}
