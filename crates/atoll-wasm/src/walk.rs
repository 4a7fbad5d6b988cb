//! Walks below a place: lists, collections, counts and removals. Links are told of, never followed.

use crate::files::{Located, entry_of, open_below};
use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Answer, Entry, ListBound, Refusal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, statat, unlinkat};
use rustix::io::Errno;

/// More entries of one directory are not looked at.
const MAX_ENTRIES: usize = 100_000;
const MAX_DEPTH: usize = 32;
/// What lies deeper is not counted, but too much.
const DEEPEST: usize = 256;
/// Names that are told of files that are left.
const MAX_NAMES: usize = 10;
/// Entries that fit a message in any case.
const ENTRIES_AT_ONCE: usize = 16;

/// Bytes, inodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) bytes: u64,
    pub(crate) inodes: u64,
}

impl Size {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            inodes: self.inodes.saturating_add(other.inodes),
        }
    }
}

struct Found {
    name: String,
    stat: Stat,
}

impl Found {
    fn is_dir(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }
}

/// Hands out a directory's files, open. One that is not there has none.
pub(crate) fn collect(outbox: &Outbox, request: u32, located: &Located<'_>, max_files: u32) {
    let mut left = max_files;
    let mut unseen = 0;
    if let Ok(dir) = open_dir(located.dir, &located.below) {
        collect_below(outbox, request, &dir, "", &mut (&mut left, &mut unseen), 0);
    }
    outbox.tell(request, Answer::Collected { unseen });
}

fn collect_below(
    outbox: &Outbox,
    request: u32,
    dir: &OwnedFd,
    path: &str,
    counts: &mut (&mut u32, &mut u64),
    depth: usize,
) {
    for found in entries(dir).unwrap_or_default() {
        if *counts.0 == 0 {
            *counts.1 += 1;
            continue;
        }
        let here = format!("{path}{}", found.name);
        let inner = found.is_dir().then(|| open_dir(dir, &found.name)).and_then(Result::ok);
        if let Some(inner) = inner.filter(|_| depth < MAX_DEPTH) {
            collect_below(outbox, request, &inner, &format!("{here}/"), counts, depth + 1);
            continue;
        }
        *counts.0 -= 1;
        hand_out(outbox, request, dir, found, here);
    }
}

fn hand_out(outbox: &Outbox, request: u32, dir: &OwnedFd, found: Found, path: String) {
    let skip = |path, why: &str| {
        let why = why.to_owned();
        outbox.tell(request, Answer::Skipped { path, why });
    };
    match FileType::from_raw_mode(found.stat.st_mode) {
        FileType::RegularFile => match open_below(dir, &found.name, OFlags::RDONLY | OFlags::NOFOLLOW) {
            Ok(file) => {
                let size = u64::try_from(found.stat.st_size).unwrap_or(0);
                outbox.tell_with(request, Answer::File { path, size }, &[file.as_fd()]);
            }
            Err(errno) => skip(path, &format!("cannot be opened: {errno}")),
        },
        FileType::Directory => skip(path, "nested too deeply"),
        FileType::Symlink => skip(path, "symbolic link"),
        _ => skip(path, "not a regular file"),
    }
}

/// Lexical, depth first. Goes on behind `after`.
pub(crate) fn list(
    outbox: &Outbox,
    request: u32,
    located: &Located<'_>,
    depth: u32,
    after: Option<&str>,
    most: ListBound,
) -> Result<(), Refused> {
    let dir = located.open(OFlags::RDONLY | OFlags::DIRECTORY)?;
    let mut all = Vec::new();
    list_below(&dir, &located.path, depth, &mut all);
    let seen = after.and_then(|after| all.iter().position(|entry| entry.path == after));
    let rest = all.split_off(seen.map_or(0, |at| at + 1));
    let wanted = usize::try_from(most.entries).unwrap_or(usize::MAX).max(1);
    let mut told: Vec<Entry> = rest;
    let has_more = told.len() > wanted;
    told.truncate(wanted);
    let next = told.last().filter(|_| has_more).map(|entry| entry.path.clone());
    while told.len() > ENTRIES_AT_ONCE {
        let rest = told.split_off(ENTRIES_AT_ONCE);
        let entries = std::mem::replace(&mut told, rest);
        outbox.tell(
            request,
            Answer::Entries {
                entries,
                last: false,
                next: None,
            },
        );
    }
    outbox.tell(
        request,
        Answer::Entries {
            entries: told,
            last: true,
            next,
        },
    );
    Ok(())
}

fn list_below(dir: &OwnedFd, path: &str, depth: u32, all: &mut Vec<Entry>) {
    for found in entries(dir).unwrap_or_default() {
        if depth == 0 || all.len() >= MAX_ENTRIES {
            return;
        }
        let here = format!("{path}/{}", found.name);
        all.push(entry_of(here.clone(), &found.stat));
        let inner = found.is_dir().then(|| open_dir(dir, &found.name)).and_then(Result::ok);
        if let Some(inner) = inner {
            list_below(&inner, &here, depth - 1, all);
        }
    }
}

/// Removes a file, or a directory with all that is below. What is missing is fine.
pub(crate) fn remove(located: &Located<'_>) -> Result<(), Refused> {
    let (dirs, name) = located.below.rsplit_once('/').unwrap_or((".", &located.below));
    match open_dir(located.dir, dirs).and_then(|dir| remove_at(&dir, name, 0)) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno).about(&located.path),
    }
}

fn remove_at(dir: &OwnedFd, name: &str, depth: usize) -> rustix::io::Result<()> {
    match unlinkat(dir, name, AtFlags::empty()) {
        Err(Errno::ISDIR) if depth < MAX_DEPTH * 8 => {}
        removed => return removed,
    }
    let inner = open_dir(dir, name)?;
    for found in entries(&inner)? {
        remove_at(&inner, &found.name, depth + 1)?;
    }
    unlinkat(dir, name, AtFlags::REMOVEDIR)
}

pub(crate) fn left(located: &Located<'_>) -> Answer {
    let (mut count, mut names) = (0, Vec::new());
    if let Ok(dir) = open_dir(located.dir, &located.below) {
        count_left(&dir, "", 0, &mut |name| {
            count += 1;
            if names.len() < MAX_NAMES {
                names.push(name);
            }
        });
    }
    Answer::Left { count, names }
}

fn count_left(dir: &OwnedFd, path: &str, depth: usize, tell: &mut dyn FnMut(String)) {
    for found in entries(dir).unwrap_or_default() {
        let here = format!("{path}{}", found.name);
        let inner = found.is_dir().then(|| open_dir(dir, &found.name)).and_then(Result::ok);
        match inner.filter(|_| depth < MAX_DEPTH) {
            Some(inner) => count_left(&inner, &format!("{here}/"), depth + 1, tell),
            None if found.is_file() => tell(here),
            None => {}
        }
    }
}

/// What is below takes up, as the disk counts it, uploads included. What cannot be looked at is too much: it is too deep, or
/// has too many entries. What goes away meanwhile is nothing.
pub(crate) fn size(dir: &OwnedFd) -> Option<Size> {
    let mut sum = Size::default();
    add_below(dir, &mut sum, 0)?;
    Some(sum)
}

fn add_below(dir: &OwnedFd, sum: &mut Size, depth: usize) -> Option<()> {
    let names = names(dir).ok().filter(|names| names.len() < MAX_ENTRIES)?;
    for found in names.into_iter().filter_map(|name| found(dir, name)) {
        sum.inodes += 1;
        sum.bytes += on_disk(&found.stat);
        if !found.is_dir() {
            continue;
        }
        match open_dir(dir, &found.name) {
            Ok(inner) if depth < DEEPEST => add_below(&inner, sum, depth + 1)?,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Ok(_) | Err(_) => return None,
        }
    }
    Some(())
}

pub(crate) fn on_disk(stat: &Stat) -> u64 {
    u64::try_from(stat.st_blocks).unwrap_or(0) * 512
}

pub(crate) fn open_dir(dir: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    open_below(dir, name, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)
}

/// In lexical order. Names that are not UTF-8 cannot be addressed, and WebAssembly cannot make them.
fn entries(dir: &OwnedFd) -> rustix::io::Result<Vec<Found>> {
    let mut names = names(dir)?;
    names.retain(|name| !is_hidden(name));
    names.sort();
    Ok(names.into_iter().filter_map(|name| found(dir, name)).collect())
}

fn names(dir: &OwnedFd) -> rustix::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)?.take(MAX_ENTRIES) {
        let entry = entry?;
        names.extend(entry.file_name().to_str().ok().map(str::to_owned));
    }
    names.retain(|name| name != "." && name != "..");
    Ok(names)
}

fn found(dir: &OwnedFd, name: String) -> Option<Found> {
    let stat = statat(dir, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    Some(Found { name, stat })
}

/// An upload that is not committed.
pub(crate) const HIDDEN: &str = ".atoll-upload-";

fn is_hidden(name: &str) -> bool {
    name.starts_with(HIDDEN)
}

/// A plain file, open for reading, and its size.
pub(crate) fn read(located: &Located<'_>) -> Result<(OwnedFd, u64), Refused> {
    let file = located.open(OFlags::RDONLY)?;
    let stat = rustix::fs::fstat(&file).about(&located.path)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, u64::try_from(stat.st_size).unwrap_or(0))),
        FileType::Directory => Err(Refused::new(
            Refusal::IsADirectory,
            format!("{}: is a directory", located.path),
        )),
        _ => Err(Refused::new(
            Refusal::NotAFile,
            format!("{}: is not a regular file", located.path),
        )),
    }
}
