//! The files of a sandbox's scratch places, kept in one file and laid again: for each entry a line that says what it is, then
//! its bytes.
//!
//! Everything in it was made by the sandbox. It is read here by a process without powers, below the places only: no link is
//! followed, and nothing is opened that is there already.

use crate::shell::SANDBOX_ID;
use crate::step::{Step, StepError};
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, utimensat};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
use std::path::{Component, Path, PathBuf};

/// The name that the file has in its directory.
pub const SCRATCH: &str = "scratch.files";

/// A line above this length is none of ours.
const MOST_LINE: u64 = 64 << 10;

/// One entry of a scratch place, by its path below all of them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: PathBuf,
    mode: u32,
    /// When it was last changed, in seconds and nanoseconds.
    changed: (i64, i64),
    what: What,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum What {
    Directory,
    Link(PathBuf),
    /// So many bytes follow.
    File(u64),
}

const KEEP: &str = "save the scratch files";
const LAY: &str = "restore the scratch files";

/// Writes everything below the scratch places, but neither the places themselves nor what is no file (sockets, pipes).
/// More than `most` bytes of files are an error.
pub(super) fn keep(places: &Path, to: File, most: u64) -> Result<(), StepError> {
    let mut to = BufWriter::new(to);
    let (mut open, mut left) = (vec![places.to_owned()], most);
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).step(KEEP)? {
            let place = entry.step(KEEP)?.path();
            let Some(entry) = look(places, &place)? else { continue };
            if let What::File(size) = entry.what {
                left = left.checked_sub(size).ok_or(Errno::FBIG).step(KEEP)?;
            }
            write(&mut to, &entry, &place)?;
            if entry.what == What::Directory {
                open.push(place);
            }
        }
    }
    to.flush().step(KEEP)
}

fn look(places: &Path, place: &Path) -> Result<Option<Entry>, StepError> {
    let meta = fs::symlink_metadata(place).step(KEEP)?;
    let what = if meta.is_dir() {
        What::Directory
    } else if meta.is_symlink() {
        What::Link(fs::read_link(place).step(KEEP)?)
    } else if meta.is_file() {
        What::File(meta.len())
    } else {
        return Ok(None);
    };
    Ok(Some(Entry {
        path: place.strip_prefix(places).unwrap_or(place).to_owned(),
        mode: meta.mode() & 0o777,
        changed: (meta.mtime(), meta.mtime_nsec()),
        what,
    }))
}

fn write(to: &mut impl Write, entry: &Entry, place: &Path) -> Result<(), StepError> {
    // A name that is no text cannot be written down.
    let mut line = serde_json::to_vec(entry).map_err(std::io::Error::from).step(KEEP)?;
    line.push(b'\n');
    to.write_all(&line).step(KEEP)?;
    if let What::File(size) = entry.what {
        let file = File::open(place).step(KEEP)?;
        let copied = std::io::copy(&mut file.take(size), to).step(KEEP)?;
        if copied != size {
            return Err(Errno::IO).step(KEEP);
        }
    }
    Ok(())
}

/// Lays what was kept into fresh scratch places. What is there already stays.
pub(super) fn lay(kept: File, places: &Path) -> Result<(), StepError> {
    let mut kept = BufReader::new(kept);
    let mut dirs = Vec::new();
    while let Some(entry) = next(&mut kept)? {
        let place = places.join(&entry.path);
        let there = fs::symlink_metadata(&place).is_ok();
        lay_one(&mut kept, &entry, &place, there)?;
        if entry.what == What::Directory {
            dirs.push((place, entry));
        } else if !there {
            finish(&place, &entry)?;
        }
    }
    // A directory changes with what is laid into it, and may not be written to by then.
    for (place, entry) in dirs.iter().rev() {
        finish(place, entry)?;
    }
    Ok(())
}

fn lay_one(kept: &mut impl Read, entry: &Entry, place: &Path, there: bool) -> Result<(), StepError> {
    match (&entry.what, there) {
        (What::Directory, false) => fs::create_dir(place).step(LAY),
        (What::Link(to), false) => symlink(to, place).step(LAY),
        (What::File(size), false) => {
            let mut file = File::create_new(place).step(LAY)?;
            match std::io::copy(&mut kept.take(*size), &mut file).step(LAY)? == *size {
                true => Ok(()),
                false => Err(Errno::IO).step(LAY),
            }
        }
        (What::File(size), true) => {
            std::io::copy(&mut kept.take(*size), &mut std::io::sink()).step(LAY)?;
            Ok(())
        }
        (What::Directory | What::Link(_), true) => Ok(()),
    }
}

fn next(kept: &mut impl BufRead) -> Result<Option<Entry>, StepError> {
    let mut line = Vec::new();
    kept.take(MOST_LINE).read_until(b'\n', &mut line).step(LAY)?;
    if line.is_empty() {
        return Ok(None);
    }
    let entry: Entry = serde_json::from_slice(&line).map_err(std::io::Error::from).step(LAY)?;
    let plain = entry.path.components().all(|part| matches!(part, Component::Normal(_)));
    match plain {
        true => Ok(Some(entry)),
        false => Err(Errno::INVAL).step(LAY),
    }
}

fn finish(place: &Path, entry: &Entry) -> Result<(), StepError> {
    if rustix::process::geteuid().is_root() {
        lchown(place, Some(SANDBOX_ID), Some(SANDBOX_ID)).step(LAY)?;
    }
    if !matches!(entry.what, What::Link(_)) {
        fs::set_permissions(place, fs::Permissions::from_mode(entry.mode)).step(LAY)?;
    }
    let at = Timespec {
        tv_sec: entry.changed.0,
        tv_nsec: entry.changed.1,
    };
    let times = Timestamps {
        last_access: at,
        last_modification: at,
    };
    utimensat(CWD, place, &times, AtFlags::SYMLINK_NOFOLLOW).step(LAY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf) {
        let home = tempfile::tempdir().unwrap();
        let from = home.path().join("a");
        fs::create_dir_all(from.join("home/.cache/x")).unwrap();
        fs::write(from.join("home/.cache/x/f"), b"\0bytes\n{}").unwrap();
        fs::write(from.join("home/g"), b"").unwrap();
        symlink("/opt/x", from.join("home/link")).unwrap();
        fs::set_permissions(from.join("home/.cache"), fs::Permissions::from_mode(0o500)).unwrap();
        (home, from)
    }

    fn kept(from: &Path, most: u64) -> Result<File, StepError> {
        let mut file = tempfile::tempfile().unwrap();
        keep(from, file.try_clone().unwrap(), most)?;
        std::io::Seek::rewind(&mut file).unwrap();
        Ok(file)
    }

    fn all(dir: &Path) -> Vec<Entry> {
        let mut found = Vec::new();
        let mut file = BufReader::new(kept(dir, u64::MAX).unwrap());
        while let Some(entry) = next(&mut file).unwrap() {
            if let What::File(size) = entry.what {
                std::io::copy(&mut file.by_ref().take(size), &mut std::io::sink()).unwrap();
            }
            found.push(entry);
        }
        found.sort_by(|one, other| one.path.cmp(&other.path));
        found
    }

    #[test]
    fn what_is_kept_can_be_laid_again() {
        let (home, from) = tree();
        let to = home.path().join("b");
        fs::create_dir_all(to.join("home")).unwrap();
        lay(kept(&from, 9).unwrap(), &to).unwrap();
        assert_eq!(all(&to), all(&from));
        assert_eq!(all(&from).len(), 6);
        assert_eq!(fs::read(to.join("home/.cache/x/f")).unwrap(), b"\0bytes\n{}");
    }

    #[test]
    fn too_much_is_not_kept() {
        let (_home, from) = tree();
        assert!(kept(&from, 8).is_err());
        assert!(kept(&from, 9).is_ok());
    }

    #[test]
    fn nothing_is_laid_outside_of_the_places() {
        let home = tempfile::tempdir().unwrap();
        for path in ["../x", "/tmp/x", "a/../../x"] {
            let line = format!("{{\"path\":\"{path}\",\"mode\":448,\"changed\":[0,0],\"what\":\"directory\"}}\n");
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(line.as_bytes()).unwrap();
            std::io::Seek::rewind(&mut file).unwrap();
            assert!(lay(file, home.path()).is_err(), "{path}");
        }
    }
}
