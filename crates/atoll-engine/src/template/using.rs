//! Who uses a built template: everybody holds a shared lock on a file of it, and only what nobody holds is removed.
//!
//! The kernel gives a lock back when its holder dies, so a killed Atoll keeps nothing alive. A build without the file
//! was made before there was one; whether it is used cannot be known.

use fs_err as fs;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

const NAME: &str = "use.lock";

/// Held for as long as a template is open. All copies of it are one.
#[derive(Clone, Debug)]
pub(super) struct Using {
    _file: Option<Arc<std::fs::File>>,
}

/// Two templates are the same whoever looks at them.
impl PartialEq for Using {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl Eq for Using {}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Use {
    Nobody,
    Somebody,
    Unknown,
}

/// Makes the file in a new build.
pub(super) fn prepare(template: &Path) -> std::io::Result<()> {
    fs::File::create(template.join(NAME)).map(drop)
}

impl Using {
    /// `None` if it is being removed just now, or is gone already.
    pub(super) fn begin(template: &Path) -> Option<Self> {
        let Some(file) = open_mark(template) else {
            return template.is_dir().then_some(Self { _file: None });
        };
        // Whoever removes it holds the lock for a rename only.
        match rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockShared)) {
            Ok(()) => is_the_one(&file, template).then(|| Self {
                _file: Some(Arc::new(file)),
            }),
            // A file system without locks.
            Err(_) => Some(Self { _file: None }),
        }
    }
}

/// Whether somebody has it open now.
pub(super) fn look(template: &Path) -> Use {
    match open_mark(template).map(|file| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
        None => Use::Unknown,
        Some(Ok(())) => Use::Nobody,
        Some(Err(_)) => Use::Somebody,
    }
}

/// Runs `remove` while nobody can begin to use the template. False if somebody uses it.
pub(super) fn unless_used<E>(template: &Path, remove: impl FnOnce() -> Result<(), E>) -> Result<bool, E> {
    let mark = open_mark(template);
    if mark
        .as_ref()
        .is_some_and(|file| flock(file, FlockOperation::NonBlockingLockExclusive).is_err())
    {
        return Ok(false);
    }
    remove().map(|()| true)
}

fn open_mark(template: &Path) -> Option<std::fs::File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    open(template.join(NAME), flags, Mode::empty())
        .ok()
        .map(std::fs::File::from)
}

/// The lock counts only if the template did not get another name before it was taken.
fn is_the_one(file: &std::fs::File, template: &Path) -> bool {
    match (file.metadata(), fs::symlink_metadata(template.join(NAME))) {
        (Ok(ours), Ok(there)) => (ours.dev(), ours.ino()) == (there.dev(), there.ino()),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_used_template_is_not_removed() {
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path()).unwrap();
        let one = Using::begin(dir.path()).unwrap();
        let two = one.clone();
        drop(one);
        assert_eq!(look(dir.path()), Use::Somebody);
        assert!(!unless_used::<()>(dir.path(), || panic!("in use")).unwrap());
        drop(two);
        assert_eq!(look(dir.path()), Use::Nobody);
        assert!(unless_used::<()>(dir.path(), || Ok(())).unwrap());
    }

    #[test]
    fn what_is_being_removed_cannot_be_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (here, aside) = (dir.path().join("x"), dir.path().join("aside"));
        fs::create_dir(&here).unwrap();
        prepare(&here).unwrap();
        let opened = std::thread::scope(|scope| {
            let removed = unless_used(&here, || {
                let opener = scope.spawn(|| Using::begin(&here));
                // It has the file open by now or finds none later; it never gets a template that goes.
                std::thread::yield_now();
                fs::rename(&here, &aside).map(|()| drop(opener))
            });
            assert!(removed.unwrap());
            Using::begin(&here)
        });
        assert!(opened.is_none() && look(&aside) != Use::Unknown);
    }

    #[test]
    fn a_link_is_no_mark_and_an_old_build_opens_without_one() {
        let dir = tempfile::tempdir().unwrap();
        assert!(Using::begin(dir.path()).is_some());
        assert_eq!(look(dir.path()), Use::Unknown);
        std::os::unix::fs::symlink("/etc/passwd", dir.path().join(NAME)).unwrap();
        assert_eq!(look(dir.path()), Use::Unknown);
    }
}
