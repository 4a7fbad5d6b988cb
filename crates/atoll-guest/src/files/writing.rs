//! How an upload's bytes become a file: in place, or hidden beside its place until it is whole.

use super::entry::Ground;
use super::open::{make_parents, open_at, plain};
use crate::refused::{About, Refused};
use rustix::fd::OwnedFd;
use rustix::fs::{
    AtFlags, FallocateFlags, Mode, OFlags, fallocate, fchmod, fstat, ftruncate, renameat, statat, unlinkat,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;

pub(super) const HIDDEN: &str = ".atoll-upload-";
const NEW_FILE: u32 = 0o644;

/// Writes a small file where it belongs.
pub(super) fn write_in_place(
    ground: &mut Ground,
    path: &str,
    bytes: &[u8],
    metadata: &BTreeMap<String, String>,
) -> Result<(), Refused> {
    let (dir, name) = make_parents(path)?;
    for _ in 0..4 {
        match open_at(&dir, Path::new(name), OFlags::WRONLY, Mode::empty()) {
            Ok(file) => return overwrite(ground, &file, path, bytes, metadata),
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno).about(path),
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        match open_at(&dir, Path::new(name), flags, Mode::from_raw_mode(NEW_FILE)) {
            Ok(file) => {
                let written = write_new(ground, &file, path, bytes, metadata);
                if written.is_err() {
                    unlinkat(&dir, name, AtFlags::empty()).ok();
                }
                return written;
            }
            // Somebody was faster.
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno).about(path),
        }
    }
    Err(Errno::BUSY).about(path)
}

/// Everything that changes the mode and attributes comes before the bytes: two events, not three.
fn write_new(
    ground: &mut Ground,
    file: &OwnedFd,
    path: &str,
    bytes: &[u8],
    metadata: &BTreeMap<String, String>,
) -> Result<(), Refused> {
    fchmod(file, Mode::from_raw_mode(NEW_FILE)).about(path)?;
    ground.metadata.replace(file, metadata)?;
    write_all(file, bytes).about(path)
}

/// The room is taken first, so that a full disk leaves the old bytes as they were.
fn overwrite(
    ground: &mut Ground,
    file: &OwnedFd,
    path: &str,
    bytes: &[u8],
    metadata: &BTreeMap<String, String>,
) -> Result<(), Refused> {
    let old = plain(file, path)?;
    let length = bytes.len() as u64;
    if length > 0 {
        match fallocate(file, FallocateFlags::KEEP_SIZE, 0, length) {
            Ok(()) | Err(Errno::OPNOTSUPP) => {}
            Err(errno) => return Err(errno).about(path),
        }
    }
    write_all(file, bytes).about(path)?;
    if length == 0 || u64::try_from(old.st_size).unwrap_or(0) > length {
        ftruncate(file, length).about(path)?;
    }
    ground.metadata.replace(file, metadata)
}

pub(super) fn write_all(file: &OwnedFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match rustix::io::write(file, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// A file that is not at its place yet; dropped before that, it is removed.
#[derive(Debug)]
pub(super) struct Hidden {
    dir: OwnedFd,
    name: String,
    target: String,
    pub(super) file: OwnedFd,
    mode: u32,
    replaces: bool,
}

impl Hidden {
    pub(super) fn create(request: u32, path: &str) -> Result<Self, Refused> {
        let (dir, target) = make_parents(path)?;
        let old = match open_at(&dir, Path::new(target), OFlags::WRONLY, Mode::empty()) {
            Ok(old) => Some(plain(&old, path)?),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(errno).about(path),
        };
        let name = format!("{HIDDEN}{request}-{:x}", random());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
        let file = open_at(&dir, Path::new(&name), flags, Mode::from_raw_mode(0o600)).about(path)?;
        Ok(Self {
            dir,
            name,
            target: target.to_owned(),
            file,
            mode: old.map_or(NEW_FILE, |old| old.st_mode & 0o7777),
            replaces: old.is_some(),
        })
    }

    /// Puts it in its place; true if another file was there.
    pub(super) fn reveal(self) -> Result<bool, Errno> {
        fchmod(&self.file, Mode::from_raw_mode(self.mode))?;
        if !self.is_in_place() {
            return Err(Errno::NOENT);
        }
        renameat(&self.dir, &self.name, &self.dir, &self.target)?;
        Ok(self.replaces)
    }

    /// User code can remove or replace the hidden file; only ours is removed or shown.
    fn is_in_place(&self) -> bool {
        let named = statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW);
        match (named, fstat(&self.file)) {
            (Ok(named), Ok(ours)) => (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino),
            _ => false,
        }
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        if self.is_in_place() {
            unlinkat(&self.dir, &self.name, AtFlags::empty()).ok();
        }
    }
}

fn random() -> u64 {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).ok();
    u64::from_ne_bytes(bytes)
}
