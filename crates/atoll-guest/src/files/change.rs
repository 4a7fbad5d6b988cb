//! New directories, and moves.

use super::entry::Ground;
use super::open::{make_dirs, make_parents, open_within, parent};
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Entry, EntryKind, Refusal};
use atoll_jail::SCRATCH_PLACES;
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, fstat, renameat, statat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Makes a directory and its parents; one that is there already is `Exists`.
pub(crate) fn make_dir(ground: &Ground, path: &str) -> Result<Entry, Refused> {
    if let Ok(entry) = ground.entry(path) {
        return Err(match entry.kind {
            EntryKind::Directory => Refused::new(Refusal::Exists, format!("{path}: already exists")),
            _ => Refused::new(Refusal::NotADirectory, format!("{path}: is not a directory")),
        });
    }
    make_dirs(path)?;
    ground.entry(path)
}

/// Renames; parents of the new name are made. The places of the scratch are one file system, shown by several mounts,
/// so a move between them goes through its root.
pub(crate) fn move_to(ground: &Ground, from: &str, to: &str) -> Result<Entry, Refused> {
    let (old_dir, old) = parent(from)?;
    statat(&old_dir, old, AtFlags::SYMLINK_NOFOLLOW).about(from)?;
    let (new_dir, new) = make_parents(to)?;
    match renameat(&old_dir, old, &new_dir, new) {
        Err(Errno::XDEV) => {
            let (old_dir, new_dir) = (in_scratch(ground, &old_dir), in_scratch(ground, &new_dir));
            let (old_dir, new_dir) = (old_dir.about(from)?, new_dir.about(to)?);
            renameat(&old_dir, old, &new_dir, new).about(to)?;
        }
        renamed => renamed.about(format!("{from} to {to}"))?,
    }
    ground.entry(to)
}

/// The same directory, reached from the root of the scratch file system.
fn in_scratch(ground: &Ground, dir: &OwnedFd) -> Result<OwnedFd, Errno> {
    let root = ground.scratch.as_ref().ok_or(Errno::XDEV)?;
    let shown = std::fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd())).map_err(|_| Errno::XDEV)?;
    let below = below_root(&shown).ok_or(Errno::XDEV)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let found = open_within(root, &below, flags, Mode::empty(), resolve)?;
    let (asked, got) = (fstat(dir)?, fstat(&found)?);
    match (asked.st_dev, asked.st_ino) == (got.st_dev, got.st_ino) {
        true => Ok(found),
        false => Err(Errno::XDEV),
    }
}

fn below_root(shown: &Path) -> Option<PathBuf> {
    SCRATCH_PLACES.iter().find_map(|(name, place)| {
        let rest = shown.strip_prefix("/").ok()?.strip_prefix(place).ok()?;
        Some(match rest.as_os_str().is_empty() {
            true => PathBuf::from(name),
            false => Path::new(name).join(rest),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_the_scratch_are_found_below_its_root() {
        for (shown, below) in [
            ("/home/user", Some("home")),
            ("/home/user/a/b", Some("home/a/b")),
            ("/tmp/x", Some("tmp/x")),
            ("/var/tmp/x", Some("vartmp/x")),
            ("/app/x", Some("app/x")),
            ("/apps", None),
            ("/dev/shm", Some("shm")),
            ("/home/username", None),
            ("/usr/lib", None),
        ] {
            assert_eq!(below_root(Path::new(shown)), below.map(PathBuf::from), "{shown}");
        }
    }
}
