//! The lock file that orders all writers. It is looked at before each append: one that was replaced orders nobody.

use super::error::AuditError;
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
    /// The same file once more: whoever waits with it holds nothing that others of this process need.
    waits: File,
    is: (u64, u64),
}

impl Lock {
    pub(super) fn open(dir: &Path) -> std::io::Result<Self> {
        let path = dir.join("lock");
        let (file, waits) = (open(&path)?, open(&path)?);
        let is = identity(&file.metadata()?);
        Ok(Self { path, file, waits, is })
    }

    /// At once or not at all. One at a time in a process: its mutex is held.
    pub(super) fn try_take(&self) -> Result<Option<Held<'_>>, AuditError> {
        match change(&self.file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {
                let held = Held(&self.file);
                self.check()?;
                Ok(Some(held))
            }
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(errno) => Err(AuditError::Write(errno.into())),
        }
    }

    /// Waits until nobody has it. Somebody else may be quicker to take it then.
    pub(super) fn wait(&self) -> Result<(), AuditError> {
        change(&self.waits, FlockOperation::LockShared)
            .and_then(|()| change(&self.waits, FlockOperation::Unlock))
            .map_err(|errno| AuditError::Write(errno.into()))
    }

    fn check(&self) -> Result<(), AuditError> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(named) if identity(&named) == self.is => Ok(()),
            _ => Err(AuditError::Lock),
        }
    }
}

fn identity(meta: &std::fs::Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn open(path: &Path) -> std::io::Result<File> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let fd = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR)?;
    Ok(fd.into())
}

fn change(file: &File, operation: FlockOperation) -> Result<(), rustix::io::Errno> {
    loop {
        match flock(file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            done => return done,
        }
    }
}

/// The lock, until it is dropped.
#[derive(Debug)]
pub(super) struct Held<'a>(&'a File);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        change(self.0, FlockOperation::Unlock).ok();
    }
}
