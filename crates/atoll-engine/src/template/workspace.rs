//! The place of one build: a lock that lets one process build a template, and a directory that vanishes unless it
//! is published.
//!
//! Helper programs get the lock as their standard input. So if Atoll is killed, the lock stays taken until its
//! orphans are gone too, and nobody sweeps a directory that is still written to.

use super::patience::{Patience, Stop};
use super::recipe::hex;
use super::{Progress, using};
use fs_err as fs;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with, syncfs};
use rustix::io::Errno;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const PREFIX: &str = ".building-";

#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    #[error("cannot create the build directory")]
    Prepare {
        #[source]
        source: std::io::Error,
    },
    #[error("cannot lock `{path}`")]
    Lock {
        path: PathBuf,
        #[source]
        source: Errno,
    },
    #[error("cannot sync the finished build to disk")]
    Sync {
        #[source]
        source: Errno,
    },
    #[error("cannot move the finished build to `{path}`")]
    Publish {
        path: PathBuf,
        #[source]
        source: Errno,
    },
}

fn prepare(source: std::io::Error) -> WorkspaceError {
    WorkspaceError::Prepare { source }
}

/// Held by the one process that builds, or removes, templates of a name.
#[derive(Debug)]
pub(super) struct BuildLock {
    file: fs::File,
    templates: PathBuf,
    name: String,
}

impl BuildLock {
    /// Waits for another builder, and says so. `None` if nobody wants the build any more.
    pub(super) fn wait(
        templates: &Path,
        name: &str,
        progress: &dyn Progress,
        stop: &Stop,
    ) -> Result<Option<Self>, WorkspaceError> {
        if let Some(lock) = Self::attempt(templates, name)? {
            return Ok(Some(lock));
        }
        let text = format!("waiting for another atoll process to finish building {name}");
        while !stop.is_stopped() {
            progress.step(&text, 0, super::meter::TOTAL);
            std::thread::sleep(std::time::Duration::from_millis(200));
            if let Some(lock) = Self::attempt(templates, name)? {
                return Ok(Some(lock));
            }
        }
        Ok(None)
    }

    /// `None` if another process has it.
    pub(super) fn attempt(templates: &Path, name: &str) -> Result<Option<Self>, WorkspaceError> {
        fs::create_dir_all(templates).map_err(prepare)?;
        let path = templates.join(format!("{name}.lock"));
        let mut options = fs::OpenOptions::new();
        let file = options
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .map_err(prepare)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self {
                file,
                templates: templates.to_owned(),
                name: name.to_owned(),
            })),
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(None),
            Err(source) => Err(WorkspaceError::Lock { path, source }),
        }
    }

    /// Makes a template disappear at once, then removes its files. False if somebody uses it.
    pub(super) fn remove(&self, path: &Path) -> Result<bool, WorkspaceError> {
        let aside = self.fresh_path()?;
        let unused = using::unless_used(path, || fs::rename(path, &aside)).map_err(prepare)?;
        if unused {
            fs::remove_dir_all(&aside).map_err(prepare)?;
        }
        Ok(unused)
    }

    /// Removes what killed builds left, and what was replaced while it was used: of this name, and of every name that
    /// nobody is building.
    pub(super) fn sweep(&self) -> Result<(), WorkspaceError> {
        for entry in fs::read_dir(&self.templates).map_err(prepare)? {
            let entry = entry.map_err(prepare)?;
            let file_name = entry.file_name().to_string_lossy().into_owned();
            let parts = file_name.strip_prefix(PREFIX).and_then(|rest| rest.rsplit_once('-'));
            let Some((name, _)) = parts else { continue };
            let _other = match name == self.name {
                true => None,
                false => match Self::attempt(&self.templates, name)? {
                    Some(lock) => Some(lock),
                    None => continue,
                },
            };
            let path = entry.path();
            using::unless_used(&path, || fs::remove_dir_all(&path)).map_err(prepare)?;
        }
        Ok(())
    }

    fn fresh_path(&self) -> Result<PathBuf, WorkspaceError> {
        let mut bytes = [0; 6];
        rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
            .map_err(|errno| prepare(errno.into()))?;
        Ok(self.templates.join(format!("{PREFIX}{}-{}", self.name, hex(&bytes))))
    }
}

/// A directory to build in. Dropped unpublished, it is removed.
#[derive(Debug)]
pub(super) struct Workspace {
    lock: BuildLock,
    path: PathBuf,
    scratch: PathBuf,
    patience: Patience,
}

impl Workspace {
    pub(super) fn create(lock: BuildLock, patience: Patience) -> Result<Self, WorkspaceError> {
        lock.sweep()?;
        let path = lock.fresh_path()?;
        let scratch = path.join("scratch");
        let workspace = Self {
            lock,
            path,
            scratch,
            patience,
        };
        fs::create_dir(&workspace.path).map_err(prepare)?;
        fs::create_dir(workspace.tree()).map_err(prepare)?;
        fs::create_dir(&workspace.scratch).map_err(prepare)?;
        using::prepare(&workspace.path).map_err(prepare)?;
        Ok(workspace)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn tree(&self) -> PathBuf {
        self.path.join("tree")
    }

    /// The root of an image; made when it is unpacked.
    pub(super) fn root(&self) -> PathBuf {
        self.path.join("root")
    }

    /// For what helper programs leave behind; not published.
    pub(super) fn scratch(&self) -> &Path {
        &self.scratch
    }

    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    /// Lets a helper program hold the lock for as long as it lives.
    pub(super) fn hold(&self, command: &mut Command) {
        let stdin = self
            .lock
            .file
            .file()
            .try_clone()
            .map_or_else(|_| Stdio::null(), Stdio::from);
        command.stdin(stdin);
    }

    /// Gives the directory its final name in one step. A template that was there before goes with this value; one that
    /// somebody uses goes with a later build. The lock is given back, for what is left to do.
    pub(super) fn publish(&self, to: &Path) -> Result<&BuildLock, WorkspaceError> {
        fs::remove_dir_all(&self.scratch).map_err(prepare)?;
        let templates = fs::File::open(&self.lock.templates).map_err(prepare)?;
        // A name that survives a power cut must not lead to files that did not.
        syncfs(&templates).map_err(|source| WorkspaceError::Sync { source })?;
        let flags = if to.exists() {
            RenameFlags::EXCHANGE
        } else {
            RenameFlags::NOREPLACE
        };
        renameat_with(CWD, &self.path, CWD, to, flags).map_err(|source| WorkspaceError::Publish {
            path: to.to_owned(),
            source,
        })?;
        templates.sync_all().map_err(prepare)?;
        Ok(&self.lock)
    }
}

impl Drop for Workspace {
    /// After a publication this is what was replaced, or nothing. What cannot be removed is swept later.
    fn drop(&mut self) {
        if self.path.exists() {
            drop(using::unless_used(&self.path, || fs::remove_dir_all(&self.path)));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::meter::tests::Record;
    use super::*;

    pub(in crate::template) fn workspace(name: &str) -> (tempfile::TempDir, Workspace) {
        let home = tempfile::tempdir().unwrap();
        let lock = BuildLock::attempt(home.path(), name).unwrap().unwrap();
        (home, Workspace::create(lock, Patience::default()).unwrap())
    }

    fn names(home: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(home)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| !name.ends_with(".lock"))
            .collect();
        names.sort();
        names
    }

    #[test]
    fn an_unpublished_build_leaves_nothing() {
        let (home, workspace) = workspace("x");
        fs::write(workspace.tree().join("f"), "").unwrap();
        assert_eq!(names(home.path()).len(), 1);
        drop(workspace);
        assert!(names(home.path()).is_empty());
    }

    #[test]
    fn a_published_build_replaces_the_old_one() {
        let (home, workspace) = workspace("x");
        let to = home.path().join("x-1");
        fs::create_dir(&to).unwrap();
        fs::write(to.join("old"), "").unwrap();
        workspace.publish(&to).unwrap();
        drop(workspace);
        assert_eq!(names(home.path()), ["x-1"]);
        assert!(to.join("tree").is_dir() && !to.join("old").exists() && !to.join("scratch").exists());
    }

    #[test]
    fn leftovers_go_unless_somebody_builds_there() {
        let home = tempfile::tempdir().unwrap();
        for name in [".building-x-1", ".building-free-2", ".building-busy-3", "x-kept"] {
            fs::create_dir(home.path().join(name)).unwrap();
        }
        let _busy = BuildLock::attempt(home.path(), "busy").unwrap().unwrap();
        let lock = BuildLock::attempt(home.path(), "x").unwrap().unwrap();
        drop(Workspace::create(lock, Patience::default()).unwrap());
        assert_eq!(names(home.path()), [".building-busy-3", "x-kept"]);
    }

    #[test]
    fn a_build_that_is_replaced_while_it_is_used_goes_later() {
        let (home, first) = workspace("x");
        let to = home.path().join("x-1");
        first.publish(&to).unwrap();
        drop(first);
        let user = using::Using::begin(&to).unwrap();
        let again = || {
            Workspace::create(
                BuildLock::attempt(home.path(), "x").unwrap().unwrap(),
                Patience::default(),
            )
            .unwrap()
        };
        again().publish(&to).unwrap();
        assert_eq!(names(home.path()).len(), 2, "the new one, and the used one aside");
        drop(again());
        assert_eq!(names(home.path()).len(), 2, "still used");
        drop(user);
        drop(again());
        assert_eq!(names(home.path()), ["x-1"]);
    }

    #[test]
    fn the_second_builder_waits_and_says_so() {
        let home = tempfile::tempdir().unwrap();
        let first = BuildLock::attempt(home.path(), "x").unwrap().unwrap();
        let record = Record::default();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| BuildLock::wait(home.path(), "x", &record, &Stop::default()).unwrap());
            while record.0.lock().unwrap().is_empty() {
                std::thread::yield_now();
            }
            assert!(!second.is_finished());
            drop(first);
            second.join().unwrap();
        });
        assert!(
            record.0.lock().unwrap()[0]
                .0
                .contains("another atoll process to finish building x")
        );
    }

    #[test]
    fn an_orphaned_helper_keeps_the_lock() {
        let (home, workspace) = workspace("x");
        let mut command = Command::new("/bin/sleep");
        command.arg("1000");
        workspace.hold(&mut command);
        let mut child = command.spawn().unwrap();
        drop((command, workspace));
        assert!(BuildLock::attempt(home.path(), "x").unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(BuildLock::attempt(home.path(), "x").unwrap().is_some());
    }
}
