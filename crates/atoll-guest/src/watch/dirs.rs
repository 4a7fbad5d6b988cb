//! The directories that the kernel watches for us, and for which of our watches.

use super::event::WANTED;
use crate::files::{Ground, open};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Dir, FileType, OFlags, inotify};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Directories of all watches together.
const MAX_DIRS: usize = 8192;
/// Names that are looked at when a watch begins or a directory comes.
const MAX_NAMES: usize = 200_000;

#[derive(Debug)]
pub(super) struct Dirs {
    queue: OwnedFd,
    /// By the kernel's number: which watch, and where below its root. Two watches can share a directory.
    spots: HashMap<i32, Vec<(u32, PathBuf)>>,
}

impl Dirs {
    pub(super) fn new() -> Result<Self, Errno> {
        let queue = inotify::init(inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC)?;
        let spots = HashMap::new();
        Ok(Self { queue, spots })
    }

    pub(super) fn queue(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    pub(super) fn spots(&self, dir: i32) -> Vec<(u32, PathBuf)> {
        self.spots.get(&dir).cloned().unwrap_or_default()
    }

    /// Watches the directory `below` the root, with all that are in it if `recursive`. What is in them goes to `found`.
    pub(super) fn add_tree(
        &mut self,
        ground: &Ground,
        watch: u32,
        root: &Path,
        below: &Path,
        recursive: bool,
        mut found: Option<&mut Vec<PathBuf>>,
    ) -> Result<(), Errno> {
        let (mut waiting, mut names) = (vec![below.to_owned()], 0);
        while let Some(below) = waiting.pop() {
            let dir = match self.add(ground, watch, root, &below) {
                // Below the first one: what is gone, foreign or closed to us meanwhile is left out.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS | Errno::XDEV) if names > 0 => continue,
                added => added?,
            };
            if !recursive {
                return Ok(());
            }
            let mut entries = Dir::read_from(&dir)?;
            while let Some(Ok(entry)) = entries.read() {
                names += 1;
                let name = entry.file_name().to_bytes();
                if matches!(name, b"." | b"..") {
                    continue;
                }
                let path = below.join(OsStr::from_bytes(name));
                if entry.file_type() == FileType::Directory {
                    waiting.push(path.clone());
                }
                if let Some(found) = &mut found {
                    found.push(path);
                }
                if names > MAX_NAMES {
                    return Err(Errno::NOSPC);
                }
            }
        }
        Ok(())
    }

    /// By descriptor, so that what is watched is what was checked.
    fn add(&mut self, ground: &Ground, watch: u32, root: &Path, below: &Path) -> Result<OwnedFd, Errno> {
        let is_root = below.as_os_str().is_empty();
        let follow = if is_root { OFlags::empty() } else { OFlags::NOFOLLOW };
        let path = if is_root { root.to_owned() } else { root.join(below) };
        let dir = open(&path, OFlags::RDONLY | OFlags::DIRECTORY | follow)?;
        if !ground.is_scratch(&dir) {
            return Err(Errno::XDEV);
        }
        if self.spots.len() >= MAX_DIRS {
            return Err(Errno::NOSPC);
        }
        let number = inotify::add_watch(&self.queue, format!("/proc/self/fd/{}", dir.as_raw_fd()), WANTED)?;
        let spots = self.spots.entry(number).or_default();
        if !spots.iter().any(|(other, at)| *other == watch && at == below) {
            spots.push((watch, below.to_owned()));
        }
        Ok(dir)
    }

    /// The kernel watches the directory no more: it was removed.
    pub(super) fn gone(&mut self, dir: i32) {
        self.spots.remove(&dir);
    }

    /// Takes one watch off a directory and all below it.
    pub(super) fn forget(&mut self, watch: u32, below: &Path) {
        let queue = &self.queue;
        self.spots.retain(|number, spots| {
            spots.retain(|(other, at)| *other != watch || !at.starts_with(below));
            if spots.is_empty() {
                inotify::remove_watch(queue, *number).ok();
            }
            !spots.is_empty()
        });
    }

    /// A directory of the watch has got another path.
    pub(super) fn rename(&mut self, watch: u32, old: &Path, new: &Path) {
        for (_, at) in self.spots.values_mut().flatten().filter(|(other, _)| *other == watch) {
            if let Ok(rest) = at.strip_prefix(old) {
                *at = if rest.as_os_str().is_empty() {
                    new.to_owned()
                } else {
                    new.join(rest)
                };
            }
        }
    }
}
