//! Loop devices: a file as a block device, freed by the kernel when its last user is gone.

use super::process::last_errno;
use rustix::fd::{AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
/// Past the cache of the image's own file system, where it can: what is written is kept in memory once, not twice.
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// The kernel's `struct loop_config`: descriptor, block size, a `loop_info64`, reserved words.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo,
    reserved: [u64; 8],
}

#[repr(C)]
struct LoopInfo {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

const _: () = assert!(size_of::<LoopConfig>() == 304);

/// An attached device. Closing the descriptor frees it unless it is mounted; then the last unmount does.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    pub(crate) path: String,
    _fd: OwnedFd,
}

/// Attaches `image` to a free device. Somebody else may take that device first; then the next one is tried.
pub(crate) fn attach(image: BorrowedFd<'_>) -> Result<LoopDevice, Errno> {
    let control = open("/dev/loop-control", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for _ in 0..64 {
        // SAFETY: LOOP_CTL_GET_FREE takes no argument and returns a number.
        let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
        if number < 0 {
            return Err(last_errno());
        }
        let path = format!("/dev/loop{number}");
        let device = open(path.as_str(), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        match configure(&device, image) {
            Err(Errno::BUSY) => {}
            other => return other.map(|()| LoopDevice { path, _fd: device }),
        }
    }
    Err(Errno::BUSY)
}

fn configure(device: &OwnedFd, image: BorrowedFd<'_>) -> Result<(), Errno> {
    // SAFETY: LoopConfig is a plain C struct of integers; all zeros is a valid value.
    let mut config: LoopConfig = unsafe { std::mem::zeroed() };
    config.fd = image.as_raw_fd().cast_unsigned();
    config.info.flags = LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO;
    // SAFETY: `config` is the struct loop_config that LOOP_CONFIGURE reads; it outlives the call.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &raw const config) };
    if result == 0 { Ok(()) } else { Err(last_errno()) }
}
