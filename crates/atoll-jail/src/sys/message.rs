//! Datagrams with descriptors, by hand: the zygote library's end of the talk with its spawner. No std.

use super::fork_wire::{FD_CONTROL, FD_STDERR, FD_STDOUT, MAX_FDS};
use super::lockdown::{Failed, open_read};
use super::raw::{call, nr, number_call};
use core::ffi::c_int;

const EPROTO: c_int = 71;
const SOL_SOCKET: c_int = 1;
const SCM_RIGHTS: c_int = 1;
const MSG_CMSG_CLOEXEC: usize = 0x4000_0000;
const MSG_NOSIGNAL: usize = 0x4000;

#[repr(C)]
struct IoVec {
    base: usize,
    length: usize,
}

#[repr(C)]
struct MsgHdr {
    name: usize,
    name_length: u32,
    iov: *mut IoVec,
    iov_count: usize,
    control: usize,
    control_length: usize,
    flags: c_int,
}

/// One SCM_RIGHTS record: kernel header, then the descriptors.
#[repr(C, align(8))]
struct Rights {
    length: usize,
    level: c_int,
    kind: c_int,
    fds: [c_int; MAX_FDS],
}

const RIGHTS_HEADER: usize = 16;

#[repr(C)]
struct PollFd {
    fd: c_int,
    events: i16,
    revents: i16,
}

/// Sleeps until a request (first) or an ended child (second) is there.
pub(super) fn wait(control: c_int, children: c_int) -> Result<(bool, bool), c_int> {
    let mut fds = [
        PollFd {
            fd: control,
            events: 1,
            revents: 0,
        },
        PollFd {
            fd: children,
            events: 1,
            revents: 0,
        },
    ];
    // SAFETY: `fds` is the array of two pollfd that ppoll reads and writes; it outlives the call.
    unsafe { call(nr::PPOLL, [&raw mut fds as usize, 2, 0, 0, 0]) }?;
    Ok((fds[0].revents != 0, fds[1].revents != 0))
}

/// Empties a signalfd.
pub(super) fn drain(fd: c_int) {
    let mut info = [0u8; 128];
    // SAFETY: `info` has room for the one signalfd_siginfo (128 bytes) that is asked for.
    while unsafe {
        call(
            nr::READ,
            [fd.cast_unsigned() as usize, &raw mut info as usize, 128, 0, 0],
        )
    }
    .is_ok()
    {}
}

/// Takes one datagram. Returns its length and how many descriptors came.
pub(super) fn receive(socket: c_int, bytes: &mut [u8], fds: &mut [c_int; MAX_FDS]) -> Result<(usize, usize), c_int> {
    let mut iov = IoVec {
        base: bytes.as_mut_ptr() as usize,
        length: bytes.len(),
    };
    let mut rights = Rights {
        length: 0,
        level: 0,
        kind: 0,
        fds: [-1; MAX_FDS],
    };
    let mut header = MsgHdr {
        name: 0,
        name_length: 0,
        iov: &raw mut iov,
        iov_count: 1,
        control: &raw mut rights as usize,
        control_length: size_of::<Rights>(),
        flags: 0,
    };
    let address = &raw mut header as usize;
    // SAFETY: `header` points to `iov` (over `bytes`) and to `rights`, all alive until the call returns.
    let length = unsafe {
        call(
            nr::RECVMSG,
            [socket.cast_unsigned() as usize, address, MSG_CMSG_CLOEXEC, 0, 0],
        )
    }?;
    if header.control_length == 0 {
        return Ok((length, 0));
    }
    if rights.level != SOL_SOCKET || rights.kind != SCM_RIGHTS || rights.length < RIGHTS_HEADER {
        return Err(EPROTO);
    }
    *fds = rights.fds;
    Ok((length, ((rights.length - RIGHTS_HEADER) / 4).min(MAX_FDS)))
}

/// Sends one datagram, with a descriptor beside it unless `fd` is negative.
pub(super) fn send(socket: c_int, bytes: &[u8], fd: c_int) -> Result<(), c_int> {
    let mut iov = IoVec {
        base: bytes.as_ptr() as usize,
        length: bytes.len(),
    };
    let mut rights = Rights {
        length: RIGHTS_HEADER + 4,
        level: SOL_SOCKET,
        kind: SCM_RIGHTS,
        fds: [fd; MAX_FDS],
    };
    let with_fd = fd >= 0;
    let header = MsgHdr {
        name: 0,
        name_length: 0,
        iov: &raw mut iov,
        iov_count: 1,
        control: if with_fd { &raw mut rights as usize } else { 0 },
        control_length: if with_fd { RIGHTS_HEADER + 8 } else { 0 },
        flags: 0,
    };
    let address = &raw const header as usize;
    // SAFETY: `header` points to `iov` (over `bytes`) and to `rights`, all alive until the call returns.
    unsafe {
        call(
            nr::SENDMSG,
            [socket.cast_unsigned() as usize, address, MSG_NOSIGNAL, 0, 0],
        )
    }
    .map(|_| ())
}

/// Copies a plain struct out of received bytes.
pub(super) fn view<T: Copy>(bytes: &[u8]) -> Option<T> {
    if bytes.len() < size_of::<T>() {
        return None;
    }
    // SAFETY: there are enough bytes, the read is unaligned, and T is one of our `repr(C)` structs of integers,
    // for which every bit pattern is a value.
    Some(unsafe { bytes.as_ptr().cast::<T>().read_unaligned() })
}

/// The bytes of a plain struct that we send.
pub(super) fn bytes_of<T: Copy>(value: &T) -> &[u8] {
    // SAFETY: T is one of our `repr(C)` structs of integers without padding; the slice borrows `value`.
    unsafe { core::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) }
}

/// Moves this process into the cgroup whose membership file is open as `fd`.
pub(super) fn write_zero(fd: c_int) -> Result<usize, c_int> {
    // SAFETY: one byte of a constant is written.
    unsafe {
        call(
            nr::WRITE,
            [fd.cast_unsigned() as usize, b"0".as_ptr() as usize, 1, 0, 0],
        )
    }
}

/// 0 = /dev/null, 1 and 2 = the pipes, 3 = the control socket, 4 = the ruleset (returned); all others closed.
pub(super) fn lay_descriptors(fds: &[c_int], ruleset: c_int) -> Result<c_int, c_int> {
    let null = open_read(c"/dev/null")?;
    // High numbers first, so that laying one cannot overwrite another that is still to be laid.
    const BASE: usize = 200;
    let sources = [null, fds[FD_STDOUT], fds[FD_STDERR], fds[FD_CONTROL], ruleset];
    for (index, fd) in sources.iter().enumerate() {
        number_call(nr::DUP3, [fd.cast_unsigned() as usize, BASE + index, 0o2_000_000, 0, 0])?;
    }
    for index in 0..sources.len() {
        let cloexec = if index >= 3 { 0o2_000_000 } else { 0 };
        number_call(nr::DUP3, [BASE + index, index, cloexec, 0, 0])?;
    }
    number_call(nr::CLOSE_RANGE, [5, u32::MAX as usize, 0, 0, 0])?;
    Ok(4)
}

/// Tells the engine that every wall is up, as a frame: from now on they can be read back.
pub(super) fn tell_locked(control: c_int) -> Result<usize, c_int> {
    const BODY: &[u8] = b"{\"type\":\"locked\"}";
    let mut frame = [0u8; 4 + BODY.len()];
    frame[0] = u8::try_from(BODY.len()).unwrap_or(0);
    frame[4..].copy_from_slice(BODY);
    // SAFETY: `frame` outlives the call and is as long as said.
    unsafe {
        call(
            nr::WRITE,
            [
                control.cast_unsigned() as usize,
                frame.as_ptr() as usize,
                frame.len(),
                0,
                0,
            ],
        )
    }
}

/// Tells the engine which step failed, as the frame that it expects. Best effort: the process ends anyway.
pub(super) fn tell_failure(control: c_int, failed: Failed) {
    let mut frame = [0u8; 128];
    let mut end = 4;
    let mut put = |text: &[u8]| {
        frame[end..end + text.len()].copy_from_slice(text);
        end += text.len();
    };
    put(b"{\"type\":\"failed\",\"step\":");
    put(digits(failed.step, &mut [0; 10]));
    put(b",\"errno\":");
    put(digits(failed.errno.unsigned_abs(), &mut [0; 10]));
    put(b"}");
    let length = u32::try_from(end - 4).unwrap_or(0);
    frame[..4].copy_from_slice(&length.to_le_bytes());
    send(control, &frame[..end], -1).ok();
}

fn digits(mut value: u32, room: &mut [u8; 10]) -> &[u8] {
    let mut start = room.len();
    loop {
        start -= 1;
        room[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            return &room[start..];
        }
    }
}
