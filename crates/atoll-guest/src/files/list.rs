//! A list of what is below a directory: a walk that stops after each piece, so that others have their turn.
//!
//! It tells no more than it was asked for, and then where to go on: the path of the last entry, below the directory. Each
//! page is a walk of its own, so nothing is kept between them, and what comes and goes meanwhile shifts nobody else.

use super::cursor;
use super::entry::Ground;
use super::open::open;
use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Answer, Entry, EntryKind, ListBound, MAX_MESSAGE_BYTES, Refusal};
use atoll_jail::channel::ChannelError;
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Entries of one turn.
const ENTRIES_PER_TURN: usize = 500;
/// Room for the frame around the entries of a message: it can hold where to go on, twice the longest path.
const PIECE_BYTES: usize = MAX_MESSAGE_BYTES - 1024 - 2 * 4096;
/// Names that wait for their turn, of all directories on the way down.
const MAX_WAITING_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct Listing {
    request: u32,
    depth: usize,
    waiting_bytes: usize,
    /// The directories on the way down, each with its names still to tell, last first.
    way: Vec<(PathBuf, Vec<OsString>)>,
    root: PathBuf,
    /// What may still be told.
    left: ListBound,
    /// The last one that was told.
    told: Option<PathBuf>,
}

/// Entries on their way into one message.
#[derive(Default)]
struct Piece {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Listing {
    pub(crate) fn start(request: u32, path: &str, depth: u32, most: ListBound) -> Result<Self, Refused> {
        let mut listing = Self {
            request,
            depth: usize::try_from(depth.max(1)).unwrap_or(usize::MAX),
            waiting_bytes: 0,
            way: Vec::new(),
            root: PathBuf::from(path),
            left: most,
            told: None,
        };
        listing.enter(PathBuf::from(path)).about(path)?;
        Ok(listing)
    }

    /// Leaves out all up to the entry that `after` names, which need not be there any more.
    pub(crate) fn go_on_after(mut self, ground: &Ground, after: Option<&str>) -> Result<Self, Refused> {
        let Some(after) = after else { return Ok(self) };
        let unknown = || Refused::new(Refusal::Invalid, "`after` must be the `next` value of a previous page");
        for name in cursor::read(after).ok_or_else(unknown)? {
            let Some((dir, names)) = self.way.last_mut() else { break };
            let path = dir.join(&name);
            names.retain(|other| *other > name);
            self.waiting_bytes = self
                .way
                .iter()
                .flat_map(|(_, names)| names)
                .map(|name| name.len())
                .sum();
            let entry = ground.entry_at(&path, String::new());
            if !entry.is_ok_and(|entry| self.leads_on(&entry)) || self.enter(path).is_err() {
                break;
            }
        }
        Ok(self)
    }

    /// Goes on for one turn; true when the last piece is sent.
    pub(crate) fn step(&mut self, ground: &Ground, outbox: &mut Outbox) -> Result<bool, ChannelError> {
        let mut piece = Piece::default();
        for _ in 0..ENTRIES_PER_TURN {
            let (path, entry) = match self.next(ground) {
                Ok(Some(found)) => found,
                Ok(None) => return self.send(outbox, piece, true, None),
                Err(refused) => return outbox.tell(self.request, refused.into_answer()).map(|()| true),
            };
            let length = serde_json::to_vec(&entry).map_or(0, |json| json.len() + 1);
            if !self.has_room(length) {
                let next = self.told.as_deref().map(|told| cursor::write(&self.root, told));
                return self.send(outbox, piece, true, next);
            }
            if piece.bytes + length > PIECE_BYTES {
                self.send(outbox, std::mem::take(&mut piece), false, None)?;
            }
            piece.bytes += length;
            piece.entries.push(entry);
            self.told = Some(path);
        }
        self.send(outbox, piece, false, None)
    }

    /// Takes from what may be told, if there is enough left. The first entry is told whatever its length.
    fn has_room(&mut self, length: usize) -> bool {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let is_first = self.told.is_none();
        if !is_first && (self.left.entries == 0 || self.left.bytes < length) {
            return false;
        }
        self.left.entries = self.left.entries.saturating_sub(1);
        self.left.bytes = self.left.bytes.saturating_sub(length);
        true
    }

    fn send(&self, outbox: &mut Outbox, piece: Piece, last: bool, next: Option<String>) -> Result<bool, ChannelError> {
        let entries = piece.entries;
        let answer = Answer::Entries { entries, last, next };
        outbox.tell(self.request, answer).map(|()| last)
    }

    /// The next entry. What has gone meanwhile is left out.
    fn next(&mut self, ground: &Ground) -> Result<Option<(PathBuf, Entry)>, Refused> {
        while let Some((dir, names)) = self.way.last_mut() {
            let Some(name) = names.pop() else {
                self.way.pop();
                continue;
            };
            self.waiting_bytes -= name.len();
            let path = dir.join(name);
            let shown = path.to_string_lossy().into_owned();
            let Ok(entry) = ground.entry_at(&path, shown.clone()) else {
                continue;
            };
            if self.leads_on(&entry) {
                // A directory that cannot be read is told of; what is in it stays unknown.
                self.enter(path.clone()).ok();
            }
            if self.waiting_bytes > MAX_WAITING_BYTES {
                let message = format!("{shown}: directory has too many entries to list");
                return Err(Refused::new(Refusal::Failed, message));
            }
            return Ok(Some((path, entry)));
        }
        Ok(None)
    }

    /// Whether what is in it belongs to the list, too.
    fn leads_on(&self, entry: &Entry) -> bool {
        let is_directory = entry.kind == EntryKind::Directory && entry.link_target.is_none();
        is_directory && self.way.len() < self.depth
    }

    fn enter(&mut self, dir: PathBuf) -> Result<(), Errno> {
        let mut names = names_of(&dir, MAX_WAITING_BYTES)?;
        names.sort_unstable_by(|a, b| b.cmp(a));
        self.waiting_bytes += names.iter().map(|name| name.len()).sum::<usize>();
        self.way.push((dir, names));
        Ok(())
    }
}

fn names_of(dir: &Path, max_bytes: usize) -> Result<Vec<OsString>, Errno> {
    let fd = open(dir, OFlags::RDONLY | OFlags::DIRECTORY)?;
    let (mut names, mut bytes) = (Vec::new(), 0);
    let mut entries = Dir::read_from(&fd)?;
    while let Some(Ok(entry)) = entries.read() {
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            bytes += name.len();
            names.push(OsString::from_vec(name.to_vec()));
        }
        if bytes > max_bytes {
            break;
        }
    }
    Ok(names)
}
