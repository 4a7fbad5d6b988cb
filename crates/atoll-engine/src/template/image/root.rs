//! A directory that an image is unpacked into. Every path is looked up below it by the kernel, no link is ever followed,
//! and nothing that was there is written through: it is removed, and something new takes its name.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum RootError {
    #[error("`{path}` is below a symbolic link; links are not followed while unpacking")]
    BehindLink { path: PathBuf },
    #[error("the parent of `{path}` is not a directory")]
    NoDirectory { path: PathBuf },
    #[error("`{path}` is a hard link to `{to}`, which is not a file in the image")]
    NoTarget { path: PathBuf, to: PathBuf },
    #[error("cannot read the content of `{path}`")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("cannot write `{path}`")]
    Write {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
}

fn write(path: &Path) -> impl Fn(Errno) -> RootError {
    move |errno| RootError::Write {
        path: path.to_owned(),
        source: errno.into(),
    }
}

const DIRECTORY: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(super) struct Root {
    top: OwnedFd,
}

/// What a new file has besides its bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    pub(super) executable: bool,
    /// Python's byte code names the second in which its source was changed.
    pub(super) modified_s: i64,
}

impl Root {
    pub(super) fn open(path: &Path) -> Result<Self, RootError> {
        let top = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(write(path))?;
        Ok(Self { top })
    }

    /// A directory below the root, made with its parents if need be; something else with its name goes.
    pub(super) fn directory(&self, path: &Path) -> Result<(), RootError> {
        let Some((parent, name)) = self.parent(path)? else {
            return Ok(());
        };
        match kind_of(&parent, name).map_err(write(path))? {
            Some(FileType::Directory) => return Ok(()),
            Some(_) => rustix::fs::unlinkat(&parent, name, AtFlags::empty()).map_err(write(path))?,
            None => {}
        }
        rustix::fs::mkdirat(&parent, name, Mode::from_bits_truncate(0o755)).map_err(write(path))
    }

    /// The same, but what has the name stays.
    pub(super) fn directory_if_free(&self, path: &Path) -> Result<(), RootError> {
        match self.parent(path)? {
            Some((parent, name)) if kind_of(&parent, name).map_err(write(path))?.is_some() => Ok(()),
            Some(_) | None => self.directory(path),
        }
    }

    pub(super) fn file(&self, path: &Path, facts: Facts, content: &mut dyn Read) -> Result<(), RootError> {
        let Some((parent, name)) = self.free(path)? else {
            return Ok(());
        };
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = if facts.executable { 0o755 } else { 0o644 };
        let file = rustix::fs::openat(&parent, name, flags, Mode::from_bits_truncate(mode)).map_err(write(path))?;
        let mut file = std::fs::File::from(file);
        copy(path, content, &mut file)?;
        let time = Timespec {
            tv_sec: facts.modified_s,
            tv_nsec: 0,
        };
        let times = Timestamps {
            last_access: time,
            last_modification: time,
        };
        rustix::fs::futimens(&file, &times).map_err(write(path))
    }

    pub(super) fn link(&self, path: &Path, to: &OsStr) -> Result<(), RootError> {
        match self.free(path)? {
            Some((parent, name)) => rustix::fs::symlinkat(to, &parent, name).map_err(write(path)),
            None => Ok(()),
        }
    }

    /// A second name for a file, or for a symbolic link itself.
    pub(super) fn hard_link(&self, path: &Path, to: &Path) -> Result<(), RootError> {
        let no_target = || RootError::NoTarget {
            path: path.to_owned(),
            to: to.to_owned(),
        };
        let (Some(old_name), Some(target)) = (to.file_name(), self.existing(to.parent())?) else {
            return Err(no_target());
        };
        match kind_of(&target, old_name).map_err(write(path))? {
            Some(FileType::RegularFile | FileType::Symlink) => {}
            Some(_) | None => return Err(no_target()),
        }
        // To itself: it has that name already.
        if path == to {
            return Ok(());
        }
        match self.free(path)? {
            Some((parent, name)) => {
                rustix::fs::linkat(&target, old_name, &parent, name, AtFlags::empty()).map_err(write(path))
            }
            None => Ok(()),
        }
    }

    /// Removes what has this name, with everything below it. A path that leads nowhere is no error.
    pub(super) fn remove(&self, path: &Path) -> Result<(), RootError> {
        let (Some(name), Some(parent)) = (path.file_name(), self.existing(path.parent())?) else {
            return Ok(());
        };
        remove(parent.as_fd(), name).map_err(write(path))
    }

    /// Removes everything below a directory that `kept` does not know, by paths below the root.
    pub(super) fn clear(&self, path: &Path, kept: &dyn Fn(&Path) -> bool) -> Result<(), RootError> {
        let Some(directory) = self.existing(Some(path))? else {
            return Ok(());
        };
        for (name, kind) in children(directory.as_fd()).map_err(write(path))? {
            let child = path.join(&name);
            match (kept(&child), kind) {
                (true, FileType::Directory) => self.clear(&child, kept)?,
                (true, _) => {}
                (false, _) => remove(directory.as_fd(), &name).map_err(write(&child))?,
            }
        }
        Ok(())
    }

    /// The same for a path that may as well be a file or a link, which stays.
    pub(super) fn clear_if_directory(&self, path: &Path, kept: &dyn Fn(&Path) -> bool) -> Result<(), RootError> {
        match self.clear(path, kept) {
            Err(RootError::NoDirectory { .. } | RootError::BehindLink { .. }) => Ok(()),
            cleared => cleared,
        }
    }

    /// The parent of a name that nothing has any more. `None` for the root itself.
    fn free<'p>(&self, path: &'p Path) -> Result<Option<(OwnedFd, &'p OsStr)>, RootError> {
        let found = self.parent(path)?;
        if let Some((parent, name)) = &found {
            remove(parent.as_fd(), name).map_err(write(path))?;
        }
        Ok(found)
    }

    /// The directory that a path lies in, made if need be.
    fn parent<'p>(&self, path: &'p Path) -> Result<Option<(OwnedFd, &'p OsStr)>, RootError> {
        let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
            return Ok(None);
        };
        if let Some(found) = self.existing(Some(parent))? {
            return Ok(Some((found, name)));
        }
        self.directory(parent)?;
        let found = self.existing(Some(parent))?;
        let found = found.ok_or_else(|| RootError::NoDirectory { path: path.to_owned() })?;
        Ok(Some((found, name)))
    }

    fn existing(&self, path: Option<&Path>) -> Result<Option<OwnedFd>, RootError> {
        let path = path.unwrap_or(Path::new(""));
        let asked = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
        match rustix::fs::openat2(&self.top, asked, DIRECTORY, Mode::empty(), resolve) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => Err(RootError::BehindLink { path: path.to_owned() }),
            Err(Errno::NOTDIR) => Err(RootError::NoDirectory { path: path.to_owned() }),
            Err(errno) => Err(write(path)(errno)),
        }
    }
}

/// The two sides of a copy fail for different reasons: the archive is bad, or the disk is full.
fn copy(path: &Path, content: &mut dyn Read, file: &mut std::fs::File) -> Result<(), RootError> {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = content.read(&mut buffer).map_err(|source| RootError::Read {
            path: path.to_owned(),
            source,
        })?;
        if count == 0 {
            return Ok(());
        }
        file.write_all(buffer.get(..count).unwrap_or_default())
            .map_err(|source| RootError::Write {
                path: path.to_owned(),
                source,
            })?;
    }
}

fn kind_of(parent: &OwnedFd, name: &OsStr) -> Result<Option<FileType>, Errno> {
    match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(FileType::from_raw_mode(stat.st_mode))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// Paths have a bounded depth, and so has this.
fn remove(parent: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(errno) => return Err(errno),
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(parent, name, flags, Mode::empty())?;
    for (child, _) in children(directory.as_fd())? {
        remove(directory.as_fd(), &child)?;
    }
    rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR)
}

fn children(directory: BorrowedFd<'_>) -> Result<Vec<(std::ffi::OsString, FileType)>, Errno> {
    use std::os::unix::ffi::OsStrExt;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(directory, ".", flags, Mode::empty())?;
    let mut found = Vec::new();
    for entry in Dir::new(readable)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name == "." || name == ".." {
            continue;
        }
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        found.push((name.to_owned(), FileType::from_raw_mode(stat.st_mode)));
    }
    Ok(found)
}
