//! Which processes write: each holds a lock on a file of its own for as long as it lives.
//!
//! Who finds such a lock free knows that the process is gone, and with it what its open entries were about.

use super::digest::to_hex;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

const DIR: &str = "writers";

/// This process, as a writer. Its name is free when it is dropped.
#[derive(Debug)]
pub(super) struct Writer {
    pub(super) id: String,
    path: PathBuf,
    _held: File,
}

impl Writer {
    /// The caller holds the log's lock, so nobody takes a file that is not locked yet for a dead one's.
    pub(super) fn enter(dir: &Path) -> std::io::Result<Self> {
        super::files::dir_within(dir, DIR)?;
        let id = to_hex(&crate::random_bytes()[..8]);
        let path = place(dir, &id);
        let held = File::create_new(&path)?;
        flock(&held, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { id, path, _held: held })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        std::fs::remove_file(&self.path).ok();
    }
}

/// Whether a writer still lives. What a dead one left is removed.
pub(super) fn lives(dir: &Path, id: &str) -> bool {
    // A name from the log: only what we could have made is looked for.
    let plain = id.len() == 16 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !plain {
        return false;
    }
    let path = place(dir, id);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) => return error.kind() != ErrorKind::NotFound,
    };
    match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => {
            std::fs::remove_file(&path).ok();
            false
        }
        Err(_) => true,
    }
}

fn place(dir: &Path, id: &str) -> PathBuf {
    dir.join(DIR).join(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_lives_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let writer = Writer::enter(dir.path()).unwrap();
        let id = writer.id.clone();
        assert!(lives(dir.path(), &id));
        drop(writer);
        assert!(!lives(dir.path(), &id));
        assert!(!lives(dir.path(), "../../etc/passwd"));
    }

    #[test]
    fn what_a_dead_writer_left_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(DIR)).unwrap();
        std::fs::write(place(dir.path(), "0123456789abcdef"), "").unwrap();
        assert!(!lives(dir.path(), "0123456789abcdef"));
        assert!(!place(dir.path(), "0123456789abcdef").exists());
    }
}
