//! Who is alive on this machine: one lock file per jailer, one per range of host ids.
//!
//! A lock is held by the kernel for as long as the process lives, so nothing here trusts a pid or a date. What a
//! crash left is found by a lock that nobody holds.

use crate::step::{Step, StepError};
use atoll_core::SandboxId;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, fstat, open};
use std::fs;
use std::path::{Path, PathBuf};

/// Host ids of sandboxes: above those of people, containers and systemd's own ranges.
const FIRST_HOST_ID: u32 = 0x7000_0000;
pub(crate) const IDS_PER_SLOT: u32 = 1 << 16;
const SLOTS: u32 = 4096;

/// Name of a new instance of this process: its process group, then random characters. Lock files, cgroups and spools carry
/// the name, so each of them can be attributed to the job that started the engine, also after a crash.
pub fn new_instance_name(random: [u8; 16]) -> String {
    let random = SandboxId::from_random(random);
    format!("{}-{}", nix::unistd::getpgrp(), &random.as_str()[3..])
}

/// A lock that lasts as long as this value.
#[derive(Debug)]
pub(crate) struct Lock {
    file: OwnedFd,
    path: PathBuf,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Still locked: whoever waits for it sees that the file is gone and starts over.
        fs::remove_file(&self.path).ok();
    }
}

/// Takes the lock, or `None` if somebody holds it.
fn try_lock(path: &Path, create: OFlags) -> Result<Option<Lock>, StepError> {
    loop {
        let flags = create | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file =
            open(path, flags, Mode::RUSR | Mode::WUSR).step(&format!("open the lock file {}", path.display()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            other => other.step("acquire a lock")?,
        }
        // The former holder may have removed the file between our open and our lock.
        if is_linked(file.as_fd(), path) {
            return Ok(Some(Lock {
                file,
                path: path.to_owned(),
            }));
        }
    }
}

/// The lock of a new instance. Another one that sweeps may hold it for a moment, to see whether we are alive.
fn lock_own(path: &Path) -> Result<Lock, StepError> {
    for _ in 0..1000 {
        if let Some(lock) = try_lock(path, OFlags::CREATE)? {
            return Ok(lock);
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Err(rustix::io::Errno::EXIST).step("claim the instance name, which is already in use")
}

fn is_linked(file: rustix::fd::BorrowedFd<'_>, path: &Path) -> bool {
    match (fstat(file), rustix::fs::stat(path)) {
        (Ok(ours), Ok(named)) => (ours.st_dev, ours.st_ino) == (named.st_dev, named.st_ino),
        _ => false,
    }
}

/// This jailer's place among the living.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) name: String,
    run_dir: PathBuf,
    _lock: Lock,
}

impl Instance {
    pub(crate) fn announce(run_dir: &Path, name: &str) -> Result<Self, StepError> {
        for dir in [run_dir.to_owned(), run_dir.join("slots")] {
            fs::create_dir_all(&dir).step(&format!("create {}", dir.display()))?;
        }
        let lock = lock_own(&lock_path(run_dir, name))?;
        Ok(Self {
            name: name.to_owned(),
            run_dir: run_dir.to_owned(),
            _lock: lock,
        })
    }

    /// Removes what dead instances left in the run directory, and tells who is alive.
    pub(crate) fn sweep(&self) {
        for entry in fs::read_dir(&self.run_dir).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(instance) = name.strip_suffix(".lock").or_else(|| name.strip_suffix(".spool")) else {
                continue;
            };
            if instance != self.name && !is_alive(&self.run_dir, instance) {
                fs::remove_dir_all(self.run_dir.join(format!("{instance}.spool"))).ok();
            }
        }
        for slot in fs::read_dir(self.run_dir.join("slots")).into_iter().flatten().flatten() {
            // Taking the lock proves that nobody holds it; letting it go removes the file.
            drop(try_lock(&slot.path(), OFlags::empty()));
        }
    }

    pub(crate) fn is_alive(&self, name: &str) -> bool {
        name == self.name || is_alive(&self.run_dir, name)
    }

    /// A range of host ids that no other template on this machine uses.
    pub(crate) fn take_slot(&self) -> Result<Slot, StepError> {
        for number in 0..SLOTS {
            let path = self.run_dir.join("slots").join(format!("{number}.lock"));
            if let Some(lock) = try_lock(&path, OFlags::CREATE)? {
                // The holder's name is information only.
                rustix::fs::ftruncate(&lock.file, 0).ok();
                rustix::io::write(&lock.file, self.name.as_bytes()).ok();
                return Ok(Slot {
                    first_host_id: FIRST_HOST_ID + number * IDS_PER_SLOT,
                    _lock: lock,
                });
            }
        }
        Err(rustix::io::Errno::USERS).step("find a free range of host user IDs")
    }

    /// An empty directory, which goes with the instance.
    pub(crate) fn empty_dir(&self) -> Result<PathBuf, StepError> {
        let dir = self.run_dir.join(format!("{}.spool", self.name)).join("empty");
        fs::create_dir_all(&dir).step(&format!("create {}", dir.display()))?;
        Ok(dir)
    }

    /// Where this instance keeps copies of inputs that a sandbox could not read in place.
    pub(crate) fn remove_spool(&self) {
        fs::remove_dir_all(self.run_dir.join(format!("{}.spool", self.name))).ok();
    }
}

#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) first_host_id: u32,
    _lock: Lock,
}

fn lock_path(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join(format!("{name}.lock"))
}

/// Whether somebody holds the instance's lock. Taking it proves that nobody does; the file is then removed.
fn is_alive(run_dir: &Path, name: &str) -> bool {
    match try_lock(&lock_path(run_dir, name), OFlags::empty()) {
        Ok(lock) => lock.is_none(),
        // A probe never creates the file: its owner may have removed it a moment ago.
        Err(error) => error.errno != rustix::io::Errno::NOENT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_known_by_their_lock_and_the_dead_are_swept() {
        let dir = std::env::temp_dir().join(format!("atoll-instance-{}", std::process::id()));
        let alive = Instance::announce(&dir, "alive").unwrap();
        fs::write(dir.join("dead.lock"), "").unwrap();
        fs::create_dir(dir.join("dead.spool")).unwrap();
        assert!(alive.is_alive("alive"));
        assert!(!alive.is_alive("never"));
        alive.sweep();
        assert!(!alive.is_alive("dead"));
        assert!(!dir.join("dead.lock").exists() && !dir.join("dead.spool").exists());
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn instance_names_start_with_the_process_group_and_differ() {
        let names = [[1; 16], [2; 16]].map(new_instance_name);
        let group = format!("{}-", nix::unistd::getpgrp());
        assert!(names.iter().all(|name| name.starts_with(&group)), "{names:?}");
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn a_slot_file_names_its_holder() {
        let dir = std::env::temp_dir().join(format!("atoll-holder-{}", std::process::id()));
        let instance = Instance::announce(&dir, "one").unwrap();
        fs::write(dir.join("slots/0.lock"), "a longer name of a dead instance").unwrap();
        let slot = instance.take_slot().unwrap();
        assert_eq!(fs::read_to_string(dir.join("slots/0.lock")).unwrap(), "one");
        drop(slot);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn instances_may_begin_while_others_sweep() {
        let dir = std::env::temp_dir().join(format!("atoll-begin-{}", std::process::id()));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let dir = &dir;
                scope.spawn(move || {
                    for round in 0..200 {
                        let one = Instance::announce(dir, &format!("{thread}-{round}")).unwrap();
                        let slot = one.take_slot().unwrap();
                        one.sweep();
                        assert!(one.is_alive(&one.name));
                        drop(slot);
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(dir.join("slots")).unwrap().count(), 0);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn two_templates_never_share_host_ids() {
        let dir = std::env::temp_dir().join(format!("atoll-slots-{}", std::process::id()));
        let instance = Instance::announce(&dir, "one").unwrap();
        let (first, second) = (instance.take_slot().unwrap(), instance.take_slot().unwrap());
        assert_ne!(first.first_host_id, second.first_host_id);
        fs::remove_dir_all(&dir).unwrap();
    }
}
