//! Files from behind a wall that passes no descriptors: their bytes come through a pipe, and are put into a file of ours
//! that has no name.

use super::TierError;
use atoll_core::wire::agent::Refusal;
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, Mode, OFlags, fstat};
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// Where such files are put, and how long one may be.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub(super) dir: PathBuf,
}

impl Carried {
    /// A descriptor as the engine reads it. What is no pipe stays as it came.
    pub(super) async fn plain(&self, fd: OwnedFd, size: u64, most: u64) -> Result<OwnedFd, TierError> {
        let is_pipe = fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Fifo);
        if !is_pipe {
            return Ok(fd);
        }
        if size > most {
            let message = format!("the file is too large: {size} bytes, and the sandbox's disk limit is {most} bytes");
            let why = Refusal::Failed;
            return Err(TierError::Refused { why, message });
        }
        let dir = self.dir.clone();
        let copied = tokio::task::spawn_blocking(move || copy(&dir, fd, size)).await;
        let copied = copied.map_err(io::Error::other).and_then(|copied| copied);
        copied.map_err(TierError::Carry)
    }
}

/// Waits for the bytes. A sandbox that ends closes its pipes.
fn copy(dir: &Path, pipe: OwnedFd, size: u64) -> io::Result<OwnedFd> {
    rustix::io::ioctl_fionbio(&pipe, false)?;
    fs_err::create_dir_all(dir)?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(dir, flags, Mode::RUSR | Mode::WUSR)?);
    io::copy(&mut File::from(pipe).take(size), &mut file)?;
    file.rewind()?;
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn carried() -> (tempfile::TempDir, Carried) {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("spool");
        (home, Carried { dir })
    }

    #[tokio::test]
    async fn a_pipe_becomes_a_file_of_not_more_than_was_told() {
        let (home, carried) = carried();
        let (reads, writes) = rustix::pipe::pipe().unwrap();
        File::from(writes).write_all(b"all and too much").unwrap();
        let mut file = File::from(carried.plain(reads, 3, 100).await.unwrap());
        assert!(file.metadata().unwrap().is_file());
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "all");
        // Without a name: nothing is left of it when it is closed.
        assert_eq!(std::fs::read_dir(home.path().join("spool")).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn what_cannot_fit_is_refused_and_a_plain_file_stays_what_it_is() {
        let (_home, carried) = carried();
        let (reads, _writes) = rustix::pipe::pipe().unwrap();
        let refused = carried.plain(reads, 101, 100).await;
        assert!(matches!(refused, Err(TierError::Refused { .. })), "{refused:?}");
        let file = tempfile::tempfile().unwrap();
        let inode = |fd: &OwnedFd| fstat(fd).unwrap().st_ino;
        let fd = OwnedFd::from(file);
        let before = inode(&fd);
        assert_eq!(inode(&carried.plain(fd, u64::MAX, 0).await.unwrap()), before);
    }
}
