//! The files of a sandbox: a directory of the data directory, gone with it. What a crash has left is swept by the next engine.

use crate::backend::OpenInput;
use atoll_core::SandboxId;
use atoll_guest::remove_tree;
use atoll_wasm::start::PLACES;
use fs_err as fs;
use rustix::fs::{FlockOperation, flock};
use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

const LOCK: &str = "lock";
const INPUT: &str = "input";
/// The user without rights, on every Linux. The directory around keeps those of other programs out.
const NOBODY: u32 = 65_534;

/// Where they are.
#[derive(Debug)]
pub(super) struct Dirs(PathBuf);

/// One of them. Dropped, it goes with all that is in it.
#[derive(Debug)]
pub(super) struct Dir {
    pub(super) path: PathBuf,
    /// Whom root has given it to.
    pub(super) user: Option<u32>,
    /// Who has it locked is alive.
    _lock: File,
}

impl Dirs {
    pub(super) fn open(home: &Path) -> io::Result<Self> {
        let dirs = Self(home.join("wasm").join("sandboxes"));
        DirBuilder::new().recursive(true).mode(0o700).create(&dirs.0)?;
        for entry in fs::read_dir(&dirs.0)?.flatten() {
            sweep(&entry.path());
        }
        Ok(dirs)
    }

    pub(super) fn make(&self, id: &SandboxId) -> io::Result<Dir> {
        let path = self.0.join(id.as_str());
        DirBuilder::new().mode(0o700).create(&path)?;
        let lock = File::create_new(path.join(LOCK))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        for place in PLACES {
            DirBuilder::new().mode(0o755).create(path.join(place.name))?;
        }
        let user = give_away(&path)?;
        Ok(Dir {
            path,
            user,
            _lock: lock,
        })
    }
}

/// The sandboxes of root belong to nobody. Where root is the only user (in a namespace), to root.
fn give_away(dir: &Path) -> io::Result<Option<u32>> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let places = PLACES.iter().map(|place| dir.join(place.name));
    for path in std::iter::once(dir.to_owned()).chain(places) {
        match chown(&path, Some(NOBODY), Some(NOBODY)) {
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(None),
            given => given?,
        }
    }
    Ok(Some(NOBODY))
}

/// A directory whose maker is gone. One that is just being made has no lock yet, and is left alone.
fn sweep(dir: &Path) {
    let Ok(lock) = File::open(dir.join(LOCK)) else {
        return;
    };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        remove(dir).ok();
    }
}

/// The lock goes last: what could not be removed is found by the next sweep. Code may have made trees of any depth.
fn remove(dir: &Path) -> io::Result<()> {
    for place in PLACES {
        remove_tree(&dir.join(place.name))?;
    }
    remove_tree(dir)
}

impl Dir {
    /// Copies inputs in: code cannot write to what it reads of the host.
    pub(super) fn lay(&self, inputs: &[OpenInput]) -> io::Result<()> {
        for (plan, open) in inputs {
            let place = self.path.join(INPUT);
            make_parents(&place, &plan.name)?;
            let to = place.join(&plan.name);
            let mut copy = File::create_new(&to)?;
            // From its beginning, whoever has read it before.
            let mut from = File::from(open.try_clone()?);
            io::Seek::rewind(&mut from)?;
            io::copy(&mut from, &mut copy)?;
            copy.set_permissions(Permissions::from_mode(0o444))?;
        }
        Ok(())
    }
}

/// The directories in the name of an input. The sandbox's user may enter them, whatever the caller's umask is.
fn make_parents(place: &Path, name: &str) -> io::Result<()> {
    for dir in name.match_indices('/').filter_map(|(at, _)| name.get(..at)) {
        let dir = place.join(dir);
        fs::create_dir_all(&dir)?;
        fs::set_permissions(&dir, Permissions::from_mode(0o755))?;
    }
    Ok(())
}

impl Dir {
    pub(super) fn remove(&self) {
        remove(&self.path).ok();
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_left_is_swept_and_what_lives_is_not() {
        let home = tempfile::tempdir().unwrap();
        let dirs = Dirs::open(home.path()).unwrap();
        let id = |byte| SandboxId::from_random([byte; 16]);
        let living = dirs.make(&id(1)).unwrap();
        let left = dirs.make(&id(2)).unwrap();
        let path = left.path.clone();
        // As after a crash: the lock is gone, the files are not.
        let Dir { _lock, .. } = &left;
        flock(_lock, FlockOperation::Unlock).unwrap();
        Dirs::open(home.path()).unwrap();
        assert!(living.path.exists());
        assert!(!path.exists());
    }

    /// One inside of the other, deeper than a path can be long, and more than a process can have open.
    #[test]
    fn a_tree_of_any_depth_goes() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dirs::open(home.path())
            .unwrap()
            .make(&SandboxId::from_random([4; 16]))
            .unwrap();
        let tmp = dir.path.join("tmp");
        fs::create_dir(tmp.join("0")).unwrap();
        for turn in 1..=20 {
            let chain = tmp.join(turn.to_string()).join("d/".repeat(1000));
            fs::create_dir_all(&chain).unwrap();
            fs::rename(tmp.join((turn - 1).to_string()), chain.join("e")).unwrap();
        }
        let path = dir.path.clone();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn a_directory_goes_with_its_sandbox() {
        let home = tempfile::tempdir().unwrap();
        let dir = Dirs::open(home.path())
            .unwrap()
            .make(&SandboxId::from_random([3; 16]))
            .unwrap();
        let path = dir.path.clone();
        assert!(path.join("output").is_dir());
        drop(dir);
        assert!(!path.exists());
    }
}
