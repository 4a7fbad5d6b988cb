//! Paths of a sandbox: each is below one of its places, and every look at one stays there.
//!
//! The host's kernel keeps to the place (`RESOLVE_BENEATH`), whatever links code has made.

use crate::refused::{About, Refused};
use crate::start::{PLACES, Place};
use atoll_core::wire::agent::{Entry, EntryKind, Refusal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, ResolveFlags, Stat, mkdirat, open, openat2, renameat, statat};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::Path;

const HOME: &str = "/home/user";
const MAX_PATH_BYTES: usize = 4095;

/// The places, open.
#[derive(Debug)]
pub(crate) struct Files {
    places: Vec<(Place, OwnedFd)>,
}

/// A path inside: its place, and what is below.
#[derive(Debug)]
pub(crate) struct Located<'a> {
    pub(crate) place: Place,
    pub(crate) dir: &'a OwnedFd,
    /// `.` for the place itself.
    pub(crate) below: String,
    /// As the user writes it.
    pub(crate) path: String,
}

impl Files {
    pub(crate) fn open(dir: &Path) -> rustix::io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = |place: Place| Ok((place, open(dir.join(place.name), flags, Mode::empty())?));
        let places = PLACES.into_iter().map(opened).collect::<rustix::io::Result<_>>()?;
        Ok(Self { places })
    }

    pub(crate) fn locate(&self, path: &str) -> Result<Located<'_>, Refused> {
        let path = clean(path)?;
        let below = |place: &Place| {
            let rest = path.strip_prefix(place.inside)?;
            match rest.strip_prefix('/') {
                Some(rest) => Some(rest.to_owned()),
                None => rest.is_empty().then(|| ".".to_owned()),
            }
        };
        let found = self
            .places
            .iter()
            .find_map(|(place, dir)| Some((place, dir, below(place)?)));
        match found {
            Some((place, dir, below)) => Ok(Located {
                place: *place,
                dir,
                below,
                path,
            }),
            None => Err(Refused::new(
                Refusal::NotFound,
                format!("{path}: tier `wasm` has files only below /home/user, /tmp, /mnt/data and /data"),
            )),
        }
    }
}

impl Located<'_> {
    /// Something may change there.
    pub(crate) fn writable(self) -> Result<Self, Refused> {
        match self.place.writable {
            true => Ok(self),
            false => Err(Refused::new(
                Refusal::Denied,
                format!("{}: inputs are read-only", self.path),
            )),
        }
    }

    /// The same, and not the place itself.
    pub(crate) fn changeable(self) -> Result<Self, Refused> {
        match self.below.as_str() {
            "." => Err(Refused::new(
                Refusal::Denied,
                format!("{}: this directory cannot be moved, removed or replaced", self.path),
            )),
            _ => self.writable(),
        }
    }

    pub(crate) fn open(&self, flags: OFlags) -> Result<OwnedFd, Refused> {
        open_below(self.dir, &self.below, flags).about(&self.path)
    }

    /// The open directory that it is in, made if it is missing, and its last name.
    pub(crate) fn make_parent(&self) -> Result<(OwnedFd, &str), Refused> {
        let (dirs, name) = self.below.rsplit_once('/').unwrap_or((".", &self.below));
        Ok((make_dirs(self.dir, dirs).about(&self.path)?, name))
    }

    pub(crate) fn make_dir(&self) -> Result<(), Refused> {
        match statat(self.dir, &self.below, AtFlags::empty()) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                Err(Refused::new(Refusal::Exists, format!("{}: already exists", self.path)))
            }
            Ok(_) => Err(Refused::new(
                Refusal::NotADirectory,
                format!("{}: is not a directory", self.path),
            )),
            Err(_) => make_dirs(self.dir, &self.below).about(&self.path).map(drop),
        }
    }

    pub(crate) fn move_to(&self, to: &Self) -> Result<(), Refused> {
        let (parent, name) = to.make_parent()?;
        let (dirs, from) = self.below.rsplit_once('/').unwrap_or((".", &self.below));
        let dir = open_below(self.dir, dirs, OFlags::PATH | OFlags::DIRECTORY).about(&self.path)?;
        renameat(&dir, from, &parent, name).about(&self.path)
    }

    pub(crate) fn entry(&self) -> Result<Entry, Refused> {
        let file = self.open(OFlags::PATH)?;
        let stat = rustix::fs::fstat(&file).about(&self.path)?;
        Ok(entry_of(self.path.clone(), &stat))
    }
}

pub(crate) fn entry_of(path: String, stat: &Stat) -> Entry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    let nanos = i64::try_from(stat.st_mtime_nsec).unwrap_or(0);
    Entry {
        path,
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mode: stat.st_mode & 0o7777,
        owner: "user".to_owned(),
        group: "user".to_owned(),
        modified_ns: stat.st_mtime.saturating_mul(1_000_000_000).saturating_add(nanos),
        link_target: None,
        metadata: BTreeMap::new(),
    }
}

pub(crate) fn open_below(dir: impl AsFd, below: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let stays = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    // Opening a pipe that nobody writes to must not hang; a file that is only named takes no other flags.
    let always = match flags.contains(OFlags::PATH) {
        true => OFlags::CLOEXEC,
        false => OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY,
    };
    openat2(dir, below, flags | always, Mode::empty(), stays)
}

fn make_dirs(dir: &OwnedFd, below: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    let mut at = open_below(dir, ".", flags)?;
    for name in below.split('/').filter(|name| *name != ".") {
        match mkdirat(&at, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        at = open_below(&at, name, flags)?;
    }
    Ok(at)
}

/// Absolute, without `.`, `..` and doubled slashes; what is relative is below the home.
fn clean(path: &str) -> Result<String, Refused> {
    if path.contains('\0') {
        return Err(Refused::new(Refusal::Invalid, "the path contains NUL"));
    }
    let whole = match path {
        "" | "~" => HOME.to_owned(),
        absolute if absolute.starts_with('/') => absolute.to_owned(),
        relative => format!("{HOME}/{}", relative.strip_prefix("~/").unwrap_or(relative)),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in whole.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let clean = format!("/{}", parts.join("/"));
    match clean.len() > MAX_PATH_BYTES {
        true => Err(Refused::new(
            Refusal::Invalid,
            format!("the path exceeds {MAX_PATH_BYTES} bytes"),
        )),
        false => Ok(clean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files() -> (tempfile::TempDir, Files) {
        let dir = tempfile::tempdir().unwrap();
        for place in PLACES {
            std::fs::create_dir(dir.path().join(place.name)).unwrap();
        }
        let files = Files::open(dir.path()).unwrap();
        (dir, files)
    }

    #[test]
    fn every_spelling_leads_to_a_place_or_nowhere() {
        let (_dir, files) = files();
        for (given, place, below) in [
            ("", "home", "."),
            ("~/a", "home", "a"),
            ("a/../b", "home", "b"),
            ("/tmp//x/./y", "tmp", "x/y"),
            ("/data/input/a", "input", "a"),
        ] {
            let found = files.locate(given).unwrap();
            assert_eq!((found.place.name, found.below.as_str()), (place, below), "{given:?}");
        }
        for given in ["/etc/passwd", "/tmpx", "/", "/data", "/home/user/../../etc"] {
            assert_eq!(files.locate(given).unwrap_err().why, Refusal::NotFound, "{given:?}");
        }
    }

    #[test]
    fn a_link_out_of_the_place_leads_nowhere() {
        let (dir, files) = files();
        std::os::unix::fs::symlink("/etc", dir.path().join("tmp/out")).unwrap();
        std::os::unix::fs::symlink("../input", dir.path().join("tmp/up")).unwrap();
        for path in ["/tmp/out/hostname", "/tmp/up"] {
            let refused = files.locate(path).unwrap().open(OFlags::RDONLY).unwrap_err();
            assert_eq!(refused.why, Refusal::Denied, "{path}: {}", refused.message);
        }
        std::fs::write(dir.path().join("tmp/here"), "x").unwrap();
        assert!(files.locate("/tmp/here").unwrap().open(OFlags::RDONLY).is_ok());
    }

    #[test]
    fn inputs_and_places_themselves_do_not_change() {
        let (_dir, files) = files();
        for path in ["/data/input/a", "/tmp"] {
            let refused = files.locate(path).unwrap().changeable().unwrap_err();
            assert_eq!(refused.why, Refusal::Denied, "{path}");
        }
    }
}
