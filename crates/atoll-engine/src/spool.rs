//! Copies of inputs that a sandbox could not read in place: on disk in the data directory, for the moment until they are
//! mounted.
//!
//! A copy is locked by its maker for as long as it has a name. One that nobody has locked was left by a crash and is
//! removed by the next instance that looks.

use rustix::fs::{FlockOperation, flock, fstat, stat};
use rustix::io::Errno;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct Spool(PathBuf);

/// A copy with a name; dropping it takes the name away. A mount of it stays whole.
#[derive(Debug)]
pub(crate) struct Copy {
    pub(crate) path: PathBuf,
    locked: File,
}

impl Drop for Copy {
    fn drop(&mut self) {
        fs::remove_file(&self.path).ok();
    }
}

impl Spool {
    /// The spool of a data directory, without what a crash has left in it.
    pub(crate) fn open(home: &Path) -> Self {
        let spool = Self(home.join("spool"));
        for entry in fs::read_dir(&spool.0).into_iter().flatten().flatten() {
            sweep(&entry.path());
        }
        spool
    }

    /// File to file: the kernel copies without our memory, and shares the blocks where the file system can.
    pub(crate) fn copy(&self, from: &mut File) -> io::Result<Copy> {
        fs::create_dir_all(&self.0)?;
        fs::set_permissions(&self.0, Permissions::from_mode(0o700))?;
        let mut copy = self.create()?;
        io::copy(from, &mut copy.locked)?;
        copy.locked.set_permissions(Permissions::from_mode(0o444))?;
        Ok(copy)
    }

    fn create(&self) -> io::Result<Copy> {
        loop {
            let path = self
                .0
                .join(format!("{:032x}", u128::from_be_bytes(crate::random_bytes())));
            let file = File::create_new(&path)?;
            // One that sweeps may have been faster than the lock; then it has removed the file.
            if lock(&file) && is_named(&file, &path) {
                return Ok(Copy { path, locked: file });
            }
        }
    }
}

fn sweep(path: &Path) {
    if File::open(path).is_ok_and(|file| lock(&file) && is_named(&file, path)) {
        fs::remove_file(path).ok();
    }
}

fn lock(file: &File) -> bool {
    flock(file, FlockOperation::NonBlockingLockExclusive) != Err(Errno::WOULDBLOCK)
}

fn is_named(file: &File, path: &Path) -> bool {
    match (fstat(file), stat(path)) {
        (Ok(ours), Ok(named)) => (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(home: &Path) -> usize {
        fs::read_dir(home.join("spool")).map_or(0, Iterator::count)
    }

    #[test]
    fn a_copy_in_use_stays_and_one_of_a_crash_goes() {
        let home = tempfile::tempdir().unwrap();
        let source = home.path().join("source");
        fs::write(&source, "private").unwrap();
        let spool = Spool::open(home.path());
        let copy = spool.copy(&mut File::open(&source).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(&copy.path).unwrap(), "private");
        fs::write(home.path().join("spool/left"), "by a crash").unwrap();
        Spool::open(home.path());
        assert!(copy.path.exists());
        assert_eq!(names(home.path()), 1);
        drop(copy);
        assert_eq!(names(home.path()), 0);
    }
}
