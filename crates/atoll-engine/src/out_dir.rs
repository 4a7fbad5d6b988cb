//! A directory of the caller into which files of a sandbox are saved. Names come from hostile code.
//!
//! The directory itself is the caller's choice and may be reached through links. Below it no link is followed: every
//! step is taken by descriptor. A file is written beside its place and renamed into it, so it is whole or not there.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;
use std::collections::HashSet;
use std::ffi::OsString;
use std::io::Write;
use std::path::{Component, Path, PathBuf};

#[derive(Debug, thiserror::Error)]
#[error("cannot save files to `{}`", path.display())]
pub struct OutError {
    path: PathBuf,
    #[source]
    source: std::io::Error,
}

#[derive(Debug)]
pub struct OutDir {
    path: PathBuf,
    dir: Option<OwnedFd>,
    /// Directories that were made for it, the outermost first. They go again if nothing is saved.
    made: Vec<PathBuf>,
    /// What was saved, relative to the directory: no name is used twice.
    used: HashSet<PathBuf>,
}

impl OutDir {
    /// Made when the first file is saved.
    pub fn later(path: PathBuf) -> Self {
        Self {
            path,
            dir: None,
            made: Vec::new(),
            used: HashSet::new(),
        }
    }

    /// Made now, and proven to take files.
    pub fn prepare(path: PathBuf) -> Result<Self, OutError> {
        let mut out = Self::later(path);
        let proven = out
            .open()
            .map(drop)
            .and_then(|()| out.begin(Path::new("proof")).map(drop));
        match proven {
            Ok(()) => Ok(out),
            Err(source) => Err(OutError {
                path: out.path.clone(),
                source,
            }),
        }
    }

    pub fn is_used(&self, name: &Path) -> bool {
        self.used.contains(name)
    }

    /// Begins a file. If the name was used before, it gets a number.
    pub fn begin(&mut self, wanted: &Path) -> std::io::Result<Target> {
        let name = self.free_name(wanted);
        let path = self.path.clone();
        // Whatever is wrong with the directory itself is no fault of the name.
        let root = self
            .open()
            .map_err(|error| std::io::Error::other(format!("`{}`: {error}", path.display())))?;
        let dir = open_parents(root, name.parent().unwrap_or(Path::new("")))?;
        let beside = format!(".atoll-{:032x}", u128::from_be_bytes(crate::random_bytes()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&dir, &beside, flags, Mode::from_raw_mode(0o666))?;
        Ok(Target {
            file: file.into(),
            dir,
            beside,
            name,
        })
    }

    /// Puts the file into its place and returns its path.
    pub fn finish(&mut self, target: &Target) -> std::io::Result<PathBuf> {
        let last = target.name.file_name().ok_or(Errno::INVAL)?;
        renameat(&target.dir, &target.beside, &target.dir, last)?;
        self.used.insert(target.name.clone());
        Ok(self.path.join(&target.name))
    }

    /// Saves bytes that are at hand.
    pub fn save(&mut self, wanted: &Path, bytes: &[u8]) -> std::io::Result<PathBuf> {
        let mut target = self.begin(wanted)?;
        target.write(bytes)?;
        self.finish(&target)
    }

    fn open(&mut self) -> std::io::Result<BorrowedFd<'_>> {
        if self.dir.is_none() {
            let missing: Vec<PathBuf> = self
                .path
                .ancestors()
                .take_while(|dir| !dir.exists())
                .map(Path::to_owned)
                .collect();
            std::fs::create_dir_all(&self.path)?;
            self.made = missing
                .into_iter()
                .rev()
                .filter(|dir| !dir.as_os_str().is_empty())
                .collect();
            let dir = openat(CWD, &self.path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
            self.dir = Some(dir);
        }
        let dir = self.dir.as_ref().map(AsFd::as_fd);
        Ok(dir.ok_or(Errno::BADF)?)
    }

    fn free_name(&self, wanted: &Path) -> PathBuf {
        let mut name = wanted.to_owned();
        let mut number = 2;
        while self.used.contains(&name) {
            name = numbered(wanted, number);
            number += 1;
        }
        name
    }
}

impl Drop for OutDir {
    fn drop(&mut self) {
        if self.used.is_empty() {
            // One that somebody else uses meanwhile stays.
            self.made.iter().rev().for_each(|dir| drop(std::fs::remove_dir(dir)));
        }
    }
}

/// `table.csv` becomes `table-2.csv`.
fn numbered(name: &Path, number: u32) -> PathBuf {
    let mut last = OsString::from(name.file_stem().unwrap_or_default());
    last.push(format!("-{number}"));
    if let Some(end) = name.extension() {
        last.push(".");
        last.push(end);
    }
    name.with_file_name(last)
}

fn open_parents(root: BorrowedFd<'_>, parents: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut dir = openat(root, ".", flags, Mode::empty())?;
    for part in parents.components() {
        let Component::Normal(name) = part else {
            return Err(Errno::INVAL);
        };
        match mkdirat(&dir, name, Mode::from_raw_mode(0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        dir = openat(&dir, name, flags, Mode::empty())?;
    }
    Ok(dir)
}

/// A file on its way. Without [`OutDir::finish`] nothing of it stays.
#[derive(Debug)]
pub struct Target {
    file: std::fs::File,
    dir: OwnedFd,
    beside: String,
    name: PathBuf,
}

impl Target {
    pub fn write(&mut self, piece: &[u8]) -> std::io::Result<()> {
        self.file.write_all(piece)
    }

    /// All that another file holds.
    pub fn take_all(&mut self, from: &Path) -> std::io::Result<u64> {
        std::io::copy(&mut std::fs::File::open(from)?, &mut self.file)
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        // After a rename there is nothing left to remove.
        unlinkat(&self.dir, &self.beside, AtFlags::empty()).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_below_the_directory_are_never_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (out, victim) = (dir.path().join("out"), dir.path().join("victim"));
        fs::create_dir(&out).unwrap();
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("precious"), "mine").unwrap();
        symlink(&victim, out.join("sub")).unwrap();
        symlink(victim.join("precious"), out.join("chart-1.png")).unwrap();
        let mut to = OutDir::later(out.clone());
        assert!(to.save(Path::new("sub/precious"), b"theirs").is_err());
        to.save(Path::new("chart-1.png"), b"theirs").unwrap();
        assert_eq!(fs::read(victim.join("precious")).unwrap(), b"mine");
        assert_eq!(fs::read(out.join("chart-1.png")).unwrap(), b"theirs");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
    }

    #[test]
    fn no_name_is_used_twice_and_no_name_leads_out() {
        let dir = tempfile::tempdir().unwrap();
        let mut out = OutDir::later(dir.path().join("out"));
        let saved =
            ["a/t.csv", "a/t.csv", "a/t.csv", "plain", "plain"].map(|name| out.save(Path::new(name), b"x").unwrap());
        let names = saved.map(|path| path.strip_prefix(dir.path().join("out")).unwrap().to_owned());
        assert_eq!(
            names,
            ["a/t.csv", "a/t-2.csv", "a/t-3.csv", "plain", "plain-2"].map(PathBuf::from)
        );
        assert!(out.save(Path::new("a/../../x"), b"x").is_err());
        assert!(!dir.path().join("x").exists());
    }

    #[test]
    fn a_directory_that_was_made_for_nothing_goes_again() {
        let dir = tempfile::tempdir().unwrap();
        let out = OutDir::prepare(dir.path().join("a/b")).unwrap();
        assert!(dir.path().join("a/b").is_dir());
        drop(out);
        assert!(!dir.path().join("a").exists());
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(OutDir::prepare(file.join("below")).is_err());
    }
}
