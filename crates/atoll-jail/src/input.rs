//! An input file of the host as a mount of its own that tells nothing about where the file lies.
//!
//! A bind mount shows its source in `/proc/self/mountinfo`. A file that is taken out of an overlay of its directory shows
//! its own name only. The overlay itself is never mounted anywhere: nothing beside the file can be reached through it.

use crate::root::{open_directory, overlay, take_tree};
use crate::step::{Step, StepError};
use crate::sys::mounts::{NO_DEV, NO_SUID, READ_ONLY, set_attributes};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, Stat, fstat};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use std::path::Path;

/// A detached, read-only mount of the file at `path`, which must still be the one that `proof` is.
///
/// Not every file system can be below an overlay, and taking a part of a mount that is nowhere needs Linux 6.15. Then the
/// file is mounted as it is; it is protected in the same way, only its place shows.
pub(crate) fn take_input(path: &Path, proof: &OwnedFd, empty: &Path) -> Result<OwnedFd, StepError> {
    if let Ok(tree) = take_veiled_file(path, proof, empty) {
        return Ok(tree);
    }
    let tree = take_tree(path, false)?;
    let what = format!(
        "mount the input {}: the file was replaced in the meantime",
        path.display()
    );
    let (found, wanted) = (fstat(&tree).step(&what)?, fstat(proof).step(&what)?);
    match (found.st_dev, found.st_ino) == (wanted.st_dev, wanted.st_ino) {
        true => Ok(tree),
        false => Err(Errno::STALE).step(&what),
    }
}

fn take_veiled_file(path: &Path, proof: &OwnedFd, empty: &Path) -> Result<OwnedFd, StepError> {
    let what = format!("mount the input {} through an overlay", path.display());
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL).step(&what);
    };
    let directory = open_directory(parent).step(&what)?;
    let mount = overlay(&directory, empty, &what)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_SYMLINK_NOFOLLOW;
    let tree = open_tree(&mount, name, flags).step(&what)?;
    let (found, wanted) = (fstat(&tree).step(&what)?, fstat(proof).step(&what)?);
    match is_same(&found, &wanted, fstat(&directory).step(&what)?.st_dev) {
        true => set_attributes(tree.as_fd(), c"", READ_ONLY | NO_SUID | NO_DEV, true).step(&what)?,
        false => return Err(Errno::STALE).step(&what),
    }
    Ok(tree)
}

/// An overlay keeps the inode's number but has a device of its own. It never leaves the file system of its directory, so
/// that one's device stands in.
fn is_same(found: &Stat, wanted: &Stat, device: u64) -> bool {
    let plain = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    plain && (device, found.st_ino) == (wanted.st_dev, wanted.st_ino)
}
