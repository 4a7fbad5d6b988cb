//! What is at a path, in the words of the wire.
//!
//! A name that is not UTF-8 is shown with U+FFFD in place of its wrong bytes. It can be seen so, not addressed: whoever
//! must, does it from a command inside.

use super::metadata::Metadata;
use super::open::open;
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Entry, EntryKind};
use rustix::fd::OwnedFd;
use rustix::fs::{FileType, OFlags, Stat, fstat};
use std::collections::HashMap;
use std::path::Path;

/// Where the agent works: the home, the scratch file system, and what it knows about files.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) home: String,
    /// The root of the scratch file system; all places of it are below, in one mount.
    pub(crate) scratch: Option<OwnedFd>,
    device: Option<u64>,
    pub(super) metadata: Metadata,
    users: HashMap<u32, String>,
    groups: HashMap<u32, String>,
}

impl Ground {
    pub(crate) fn new(home: String, scratch: Option<OwnedFd>) -> Self {
        let device = rustix::fs::stat(home.as_str()).ok().map(|stat| stat.st_dev);
        Self {
            home,
            scratch,
            device,
            metadata: Metadata::default(),
            users: names("/etc/passwd", "nobody"),
            groups: names("/etc/group", "nogroup"),
        }
    }

    /// Whether an open directory is of the file system of the sandbox's own files.
    pub(crate) fn is_scratch(&self, dir: &OwnedFd) -> bool {
        fstat(dir).is_ok_and(|dir| Some(dir.st_dev) == self.device)
    }

    /// What is at `path`. A link tells of what it leads to.
    pub(crate) fn entry(&self, path: &str) -> Result<Entry, Refused> {
        self.entry_at(Path::new(path), path.to_owned())
    }

    pub(crate) fn entry_at(&self, path: &Path, shown: String) -> Result<Entry, Refused> {
        let fd = open(path, OFlags::PATH | OFlags::NOFOLLOW).about(&shown)?;
        let stat = fstat(&fd).about(&shown)?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            return Ok(self.describe(shown, &fd, &stat, None));
        }
        let target = open(path, OFlags::PATH).and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
        let to = Some(end_of_link(path));
        match target {
            Ok((fd, stat)) => Ok(self.describe(shown, &fd, &stat, to)),
            Err(_) => Ok(self.describe(shown, &fd, &stat, to)),
        }
    }

    fn describe(&self, path: String, fd: &OwnedFd, stat: &Stat, link_target: Option<String>) -> Entry {
        let kind = kind_of(stat);
        let metadata = match kind {
            EntryKind::File | EntryKind::Directory => self.metadata.read(fd),
            EntryKind::Link | EntryKind::Other => Default::default(),
        };
        Entry {
            path,
            kind,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            mode: stat.st_mode & 0o7777,
            owner: name_in(&self.users, stat.st_uid),
            group: name_in(&self.groups, stat.st_gid),
            modified_ns: modified_ns(stat),
            link_target,
            metadata,
        }
    }
}

fn kind_of(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}

fn modified_ns(stat: &Stat) -> i64 {
    let part = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(part)
}

/// Fully resolved if there is something, else as far as the link itself says.
fn end_of_link(path: &Path) -> String {
    let named = || {
        let to = std::fs::read_link(path).unwrap_or_default();
        path.parent().unwrap_or(Path::new("/")).join(to)
    };
    let end = std::fs::canonicalize(path).unwrap_or_else(|_| named());
    end.to_string_lossy().into_owned()
}

/// The third field of each line is a number, the first its name. The kernel shows ids that the sandbox does not have
/// as 65534.
fn names(file: &str, unmapped: &str) -> HashMap<u32, String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let mut names = HashMap::from([(65534, unmapped.to_owned())]);
    for line in text.lines() {
        let mut fields = line.split(':');
        if let (Some(name), Some(Ok(id))) = (fields.next(), fields.nth(1).map(str::parse)) {
            names.insert(id, name.to_owned());
        }
    }
    names
}

fn name_in(names: &HashMap<u32, String>, id: u32) -> String {
    names.get(&id).cloned().unwrap_or_else(|| id.to_string())
}
