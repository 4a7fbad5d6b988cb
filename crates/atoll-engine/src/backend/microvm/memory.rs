//! Files in memory that a machine is made of. The machine's process may open them by number, whoever it runs as.

use crate::backend::TierError;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use std::io::Write;

pub(super) fn empty(name: &str, bytes: u64) -> Result<OwnedFd, TierError> {
    let made = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(start)?;
    rustix::fs::ftruncate(&made, bytes).map_err(start)?;
    Ok(made)
}

/// With these bytes, which nobody changes any more.
pub(super) fn holding(name: &str, body: &[u8]) -> Result<OwnedFd, TierError> {
    let mut file = std::fs::File::from(empty(name, 0)?);
    file.write_all(body).map_err(TierError::Start)?;
    let file = OwnedFd::from(file);
    seal(&file)?;
    reopened(&file)
}

/// From now on nobody writes to it, not even who opens it to write.
pub(super) fn seal(file: &OwnedFd) -> Result<(), TierError> {
    let all = SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(file, all).map_err(start)
}

/// The same file for somebody who writes to it, and reads nothing.
pub(super) fn writable(file: &OwnedFd) -> Result<OwnedFd, TierError> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(start)
}

/// The same file from its beginning: a descriptor that was handed on is read from where the last one stopped.
pub(super) fn reopened(file: &OwnedFd) -> Result<OwnedFd, TierError> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(start)
}

fn start(errno: Errno) -> TierError {
    TierError::Start(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_file_is_read_from_its_beginning_and_never_written() {
        let file = holding("test", b"bytes").unwrap();
        for _ in 0..2 {
            let mut text = String::new();
            let mut again = std::fs::File::from(reopened(&file).unwrap());
            std::io::Read::read_to_string(&mut again, &mut text).unwrap();
            assert_eq!(text, "bytes");
        }
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        let writes = rustix::fs::open(path, OFlags::RDWR, Mode::empty()).unwrap();
        assert_eq!(rustix::io::write(&writes, b"other"), Err(Errno::PERM));
    }
}
