//! Opening: every file and directory that the agent touches is opened here.

use crate::refused::{About, Refused};
use atoll_core::wire::agent::Refusal;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, mkdirat, openat, openat2};
use rustix::io::Errno;
use std::path::Path;

/// A concurrent rename can make the kernel ask for another try.
const TRIES: u32 = 8;

/// Opens without ever blocking, and never through a link of `/proc` to an open file.
pub(crate) fn open_at(dir: impl AsFd, path: &Path, flags: OFlags, mode: Mode) -> Result<OwnedFd, Errno> {
    open_within(dir, path, flags, mode, ResolveFlags::NO_MAGICLINKS)
}

pub(super) fn open_within(
    dir: impl AsFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    // A file that is only named (`PATH`) takes no other flags.
    let always = match flags.contains(OFlags::PATH) {
        true => OFlags::CLOEXEC,
        false => OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY,
    };
    let mut tries = 0;
    loop {
        tries += 1;
        match openat2(&dir, path, flags | always, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES => {}
            Err(Errno::NOSYS) => return open_plainly(dir, path, flags | always, mode, resolve),
            opened => return opened,
        }
    }
}

/// For gVisor's kernel, which has not the newer call. A single name that is no link needs none of its rules. What a link of
/// `/proc` leads to is the user's own there: the ferry, and all that it holds, is another user's.
fn open_plainly(
    dir: impl AsFd,
    path: &Path,
    flags: OFlags,
    mode: Mode,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let is_one_name = path.components().count() == 1 && flags.contains(OFlags::NOFOLLOW);
    match resolve == ResolveFlags::NO_MAGICLINKS || is_one_name {
        true => openat(dir, path, flags, mode),
        false => Err(Errno::XDEV),
    }
}

pub(crate) fn open(path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_at(CWD, path, flags, Mode::empty())
}

/// Parts an absolute path into its open directory and its last name.
pub(crate) fn parent(path: &str) -> Result<(OwnedFd, &str), Refused> {
    let (dir, name) = split(path)?;
    let dir_fd = open(Path::new(dir), OFlags::PATH | OFlags::DIRECTORY).about(dir)?;
    Ok((dir_fd, name))
}

/// The same, and directories that are missing on the way are made.
pub(crate) fn make_parents(path: &str) -> Result<(OwnedFd, &str), Refused> {
    let (dir, name) = split(path)?;
    Ok((make_dirs(dir)?, name))
}

fn split(path: &str) -> Result<(&str, &str), Refused> {
    match path.rsplit_once('/') {
        Some((_, "")) | None => Err(Refused::new(Refusal::Denied, "/: cannot be changed")),
        Some(("", name)) => Ok(("/", name)),
        Some(parts) => Ok(parts),
    }
}

pub(super) fn make_dirs(path: &str) -> Result<OwnedFd, Refused> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match open(Path::new(path), flags) {
        Err(Errno::NOENT) => {}
        opened => return opened.about(path),
    }
    let mut dir = open(Path::new("/"), flags).about("/")?;
    for name in path.split('/').filter(|name| !name.is_empty()) {
        match mkdirat(&dir, name, Mode::from_raw_mode(0o755)) {
            // A read-only directory above says so before it says that the name is there.
            Ok(()) | Err(Errno::EXIST | Errno::ROFS | Errno::ACCESS) => {}
            Err(errno) => return Err(errno).about(path),
        }
        dir = match open_at(&dir, Path::new(name), flags, Mode::empty()) {
            Err(Errno::NOENT) => return Err(Errno::ACCESS).about(path),
            opened => opened.about(path)?,
        };
    }
    Ok(dir)
}

/// Opens a plain file for reading.
pub(crate) fn read(path: &str) -> Result<(OwnedFd, u64), Refused> {
    let file = open(Path::new(path), OFlags::RDONLY).about(path)?;
    let stat = plain(&file, path)?;
    Ok((file, u64::try_from(stat.st_size).unwrap_or(0)))
}

/// Refuses what is not a plain file, and the plain files of `/proc`: they are made by those who read them.
pub(super) fn plain(file: &OwnedFd, path: &str) -> Result<Stat, Refused> {
    const PROC_SUPER_MAGIC: u64 = 0x9fa0;
    let stat = fstat(file).about(path)?;
    let of_proc = rustix::fs::fstatfs(file).is_ok_and(|fs| u64::try_from(fs.f_type) == Ok(PROC_SUPER_MAGIC));
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Err(Refused::new(Refusal::IsADirectory, format!("{path}: is a directory"))),
        FileType::RegularFile if of_proc => Err(Refused::new(
            Refusal::Denied,
            format!("{path}: files in /proc can only be read by processes inside the sandbox"),
        )),
        FileType::RegularFile => Ok(stat),
        _ => Err(Refused::new(
            Refusal::NotAFile,
            format!("{path}: is not a regular file"),
        )),
    }
}
