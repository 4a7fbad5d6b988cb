//! Puts one layer on top of what the layers below have left: files, links, and the marks that take something away.

use super::bounds::Bounds;
use super::entry::{self, Entry, EntryError, Kind};
use super::root::{Facts, Root, RootError};
use std::collections::HashSet;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    #[error(transparent)]
    Entry(#[from] EntryError),
    #[error(transparent)]
    Root(#[from] RootError),
    #[error("the image has more than {most} entries")]
    TooMany { most: u64 },
    #[error("the paths of one layer exceed {most} bytes in total")]
    NamesTooLong { most: u64 },
    #[error("`{path}` is a whiteout entry without a file name")]
    BadMark { path: PathBuf },
}

/// A file called like this takes away what the layers below have under the rest of its name.
const MARK: &[u8] = b".wh.";
/// The file that takes away everything of the layers below in its directory.
const OPAQUE: &[u8] = b".wh..wh..opq";
/// Places that every sandbox fills itself: what an image has there would not be seen.
const OURS: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];

/// What is counted over all layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) entries: u64,
    /// Devices, pipes and sockets, which sandboxes do not get from an image.
    pub(super) left_out: u64,
}

pub(super) fn unpack(layer: impl Read, root: &Root, bounds: &Bounds, counts: &mut Counts) -> Result<(), UnpackError> {
    let mut unpacking = Unpacking {
        root,
        bounds,
        counts,
        own: HashSet::new(),
        special: HashSet::new(),
        names_bytes: 0,
    };
    entry::each(layer, bounds, |entry, content| unpacking.take(entry, content))
}

struct Unpacking<'a> {
    root: &'a Root,
    bounds: &'a Bounds,
    counts: &'a mut Counts,
    /// What this layer has brought: its own marks do not take that away.
    own: HashSet<PathBuf>,
    /// What was left out: a second name for it is left out as well.
    special: HashSet<PathBuf>,
    names_bytes: u64,
}

impl Unpacking<'_> {
    fn take(&mut self, entry: Entry, content: &mut dyn Read) -> Result<(), UnpackError> {
        self.counts.entries += 1;
        if self.counts.entries > self.bounds.entries {
            let most = self.bounds.entries;
            return Err(UnpackError::TooMany { most });
        }
        let Some(name) = entry.path.file_name().map(|name| name.as_bytes().to_vec()) else {
            return Ok(());
        };
        if OURS.iter().any(|ours| entry.path.starts_with(ours)) {
            return Ok(());
        }
        if name.starts_with(MARK) {
            return self.take_away(&entry.path, &name);
        }
        self.lay(&entry, content)?;
        self.remember(entry.path)
    }

    fn lay(&mut self, entry: &Entry, content: &mut dyn Read) -> Result<(), UnpackError> {
        let path = &entry.path;
        match &entry.kind {
            Kind::Directory => self.root.directory(path)?,
            Kind::File { size_bytes } => {
                let facts = Facts {
                    executable: entry.executable,
                    modified_s: entry.modified_s,
                };
                self.root.file(path, facts, &mut content.take(*size_bytes))?;
            }
            Kind::Link { to } => self.root.link(path, to)?,
            Kind::HardLink { to } if self.is_left_out(to) => self.leave_out(path)?,
            Kind::HardLink { to } => self.root.hard_link(path, to)?,
            Kind::Special => self.leave_out(path)?,
        }
        Ok(())
    }

    fn is_left_out(&self, to: &Path) -> bool {
        self.special.contains(to) || OURS.iter().any(|ours| to.starts_with(ours))
    }

    fn leave_out(&mut self, path: &Path) -> Result<(), UnpackError> {
        self.counts.left_out += 1;
        self.special.insert(path.to_owned());
        Ok(self.root.remove(path)?)
    }

    fn take_away(&self, mark: &Path, name: &[u8]) -> Result<(), UnpackError> {
        let kept = |path: &Path| self.own.contains(path);
        let directory = mark.parent().unwrap_or(Path::new(""));
        if name == OPAQUE {
            return Ok(self.root.clear(directory, &kept)?);
        }
        let gone = name.get(MARK.len()..).unwrap_or_default();
        if matches!(gone, b"" | b"." | b"..") {
            let path = mark.to_owned();
            return Err(UnpackError::BadMark { path });
        }
        // Notes of an old storage driver.
        if gone.starts_with(MARK) {
            return Ok(());
        }
        let gone = directory.join(std::ffi::OsStr::from_bytes(gone));
        match kept(&gone) {
            true => Ok(self.root.clear_if_directory(&gone, &kept)?),
            false => Ok(self.root.remove(&gone)?),
        }
    }

    /// With its parents: what was brought into a directory keeps the directory.
    fn remember(&mut self, path: PathBuf) -> Result<(), UnpackError> {
        let mut next = Some(path.as_path());
        while let Some(path) = next.filter(|path| !path.as_os_str().is_empty()) {
            if self.own.contains(path) {
                break;
            }
            self.names_bytes += path.as_os_str().len() as u64;
            self.own.insert(path.to_owned());
            next = path.parent();
        }
        match self.names_bytes > self.bounds.names_bytes {
            true => Err(UnpackError::NamesTooLong {
                most: self.bounds.names_bytes,
            }),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
