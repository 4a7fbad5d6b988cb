//! Removal of a whole tree, a bounded piece per turn. Links are removed, never followed; mounts are never entered.

use super::open::{open_within, parent};
use crate::refused::{About, Refused};
use atoll_core::wire::agent::Refusal;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags, StatxAttributes, StatxFlags, renameat, statx, unlinkat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

const CALLS_PER_TURN: usize = 1000;
/// Open directories of one removal; what is deeper is moved up first.
const MAX_OPEN: usize = 24;
const NAMES_PER_READ: usize = 512;
/// A directory that is filled as fast as it is emptied is given up.
const MAX_READS: u32 = 10_000;
pub(super) const HIDDEN: &str = ".atoll-removed-";

#[derive(Debug)]
struct Level {
    name: OsString,
    dir: OwnedFd,
    names: Vec<OsString>,
    reads: u32,
}

#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) request: u32,
    path: String,
    above: OwnedFd,
    levels: Vec<Level>,
    moved_up: u64,
}

/// What became of one name.
enum Fate {
    Gone,
    Full(OwnedFd),
}

/// Removes a tree of whoever made it, at once: with few descriptors and no recursion, however deep it is.
pub fn remove_tree(path: &Path) -> std::io::Result<()> {
    let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Errno::INVAL.into());
    };
    let above = match rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        opened => opened?,
    };
    let Fate::Full(dir) = remove_one(&above, Path::new(name))? else {
        return Ok(());
    };
    let mut removal = Removal {
        request: 0,
        path: String::new(),
        above,
        levels: Vec::new(),
        moved_up: 0,
    };
    removal.push(name.to_owned(), dir)?;
    while !removal.one_call()? {}
    Ok(())
}

impl Removal {
    /// Removes at once what is no directory; `None` when nothing is left to do.
    pub(crate) fn start(request: u32, path: &str) -> Result<Option<Self>, Refused> {
        let (above, name) = match parent(path) {
            Err(refused) if refused.why == Refusal::NotFound => return Ok(None),
            found => found?,
        };
        if is_mount(&above, name) {
            return Err(Refused::new(
                Refusal::Denied,
                format!("{path}: is a mount point of the sandbox and cannot be removed"),
            ));
        }
        let fate = remove_one(&above, Path::new(name)).about(path)?;
        let mut removal = Self {
            request,
            path: path.to_owned(),
            above,
            levels: Vec::new(),
            moved_up: 0,
        };
        match fate {
            Fate::Gone => Ok(None),
            Fate::Full(dir) => {
                removal.push(name.into(), dir).about(path)?;
                Ok(Some(removal))
            }
        }
    }

    /// Goes on for one turn; true when all is gone.
    pub(crate) fn step(&mut self) -> Result<bool, Refused> {
        for _ in 0..CALLS_PER_TURN {
            match self.one_call() {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(errno) => return Err(errno).about(&self.path),
            }
        }
        Ok(false)
    }

    fn one_call(&mut self) -> Result<bool, Errno> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(true);
        };
        let Some(name) = level.names.pop() else {
            return self.close_level();
        };
        match remove_one(&level.dir, Path::new(&name))? {
            Fate::Gone => {}
            Fate::Full(_) if self.levels.len() >= MAX_OPEN => self.move_up(&name)?,
            Fate::Full(dir) => self.push(name, dir)?,
        }
        Ok(false)
    }

    /// The last level seems empty: removes it from the one above.
    fn close_level(&mut self) -> Result<bool, Errno> {
        let Some(level) = self.levels.last() else {
            return Ok(true);
        };
        let above = match self.levels.len() {
            1 => self.above.as_fd(),
            depth => self.levels[depth - 2].dir.as_fd(),
        };
        match unlinkat(above, &level.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => drop(self.levels.pop()),
            Err(Errno::NOTEMPTY | Errno::EXIST) => self.read_again()?,
            Err(errno) => return Err(errno),
        }
        Ok(self.levels.is_empty())
    }

    fn read_again(&mut self) -> Result<(), Errno> {
        let Some(level) = self.levels.last_mut() else {
            return Ok(());
        };
        level.reads += 1;
        level.names = some_names(&level.dir)?;
        match level.reads < MAX_READS {
            true => Ok(()),
            false => Err(Errno::NOTEMPTY),
        }
    }

    fn push(&mut self, name: OsString, dir: OwnedFd) -> Result<(), Errno> {
        let names = some_names(&dir)?;
        let reads = 0;
        self.levels.push(Level {
            name,
            dir,
            names,
            reads,
        });
        Ok(())
    }

    /// Takes a directory that lies too deep up to the first level, where its turn comes again.
    fn move_up(&mut self, name: &OsString) -> Result<(), Errno> {
        self.moved_up += 1;
        let new = OsString::from(format!("{HIDDEN}{}-{}", self.request, self.moved_up));
        let (Some(first), Some(last)) = (self.levels.first(), self.levels.last()) else {
            return Ok(());
        };
        match renameat(&last.dir, name, &first.dir, &new) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(()),
            Err(errno) => return Err(errno),
        }
        self.levels[0].names.push(new);
        Ok(())
    }
}

fn is_mount(dir: &OwnedFd, name: &str) -> bool {
    let stat = statx(dir, name, AtFlags::SYMLINK_NOFOLLOW, StatxFlags::empty());
    stat.is_ok_and(|stat| stat.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Removes a file or an empty directory; a full one is opened. User code may swap one for the other meanwhile.
fn remove_one(dir: &OwnedFd, name: &Path) -> Result<Fate, Errno> {
    for _ in 0..16 {
        match unlinkat(dir, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(Fate::Gone),
            Err(Errno::ISDIR) => {}
            Err(errno) => return Err(errno),
        }
        match unlinkat(dir, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => return Ok(Fate::Gone),
            Err(Errno::NOTDIR) => continue,
            Err(Errno::NOTEMPTY | Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH;
        match open_within(dir, name, flags, Mode::empty(), resolve) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            opened => return opened.map(Fate::Full),
        }
    }
    Err(Errno::BUSY)
}

fn some_names(dir: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    let mut entries = Dir::read_from(dir)?;
    while let Some(Ok(entry)) = entries.read() {
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            names.push(OsString::from_vec(name.to_vec()));
        }
        if names.len() >= NAMES_PER_READ {
            break;
        }
    }
    Ok(names)
}
