//! A list of what is below a directory: a walk that stops after each piece, so that others have their turn.

use super::entry::Ground;
use super::open::open;
use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Answer, Entry, EntryKind, MAX_MESSAGE_BYTES, Refusal};
use atoll_jail::channel::ChannelError;
use rustix::fs::{Dir, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Entries of one turn.
const ENTRIES_PER_TURN: usize = 500;
/// Room for the frame around the entries of a message.
const PIECE_BYTES: usize = MAX_MESSAGE_BYTES - 1024;
/// Names that wait for their turn, of all directories on the way down.
const MAX_WAITING_BYTES: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct Listing {
    request: u32,
    depth: usize,
    waiting_bytes: usize,
    /// The directories on the way down, each with its names still to tell, last first.
    way: Vec<(PathBuf, Vec<OsString>)>,
}

impl Listing {
    pub(crate) fn start(request: u32, path: &str, depth: u32) -> Result<Self, Refused> {
        let mut listing = Self {
            request,
            depth: usize::try_from(depth.max(1)).unwrap_or(usize::MAX),
            waiting_bytes: 0,
            way: Vec::new(),
        };
        listing.enter(PathBuf::from(path)).about(path)?;
        Ok(listing)
    }

    /// Goes on for one turn; true when the last piece is sent.
    pub(crate) fn step(&mut self, ground: &Ground, outbox: &mut Outbox) -> Result<bool, ChannelError> {
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for _ in 0..ENTRIES_PER_TURN {
            match self.next(ground) {
                Ok(Some(entry)) => {
                    let length = serde_json::to_vec(&entry).map_or(0, |json| json.len() + 1);
                    if bytes + length > PIECE_BYTES {
                        self.send(outbox, std::mem::take(&mut piece), false)?;
                        bytes = 0;
                    }
                    bytes += length;
                    piece.push(entry);
                }
                Ok(None) => return self.send(outbox, piece, true).map(|()| true),
                Err(refused) => return outbox.tell(self.request, refused.into_answer()).map(|()| true),
            }
        }
        self.send(outbox, piece, false).map(|()| false)
    }

    fn send(&self, outbox: &mut Outbox, entries: Vec<Entry>, last: bool) -> Result<(), ChannelError> {
        outbox.tell(self.request, Answer::Entries { entries, last })
    }

    /// The next entry. What has gone meanwhile is left out.
    fn next(&mut self, ground: &Ground) -> Result<Option<Entry>, Refused> {
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
            let is_directory = entry.kind == EntryKind::Directory && entry.link_target.is_none();
            if is_directory && self.way.len() < self.depth {
                // A directory that cannot be read is told of; what is in it stays unknown.
                self.enter(path).ok();
            }
            if self.waiting_bytes > MAX_WAITING_BYTES {
                let message = format!("{shown}: more names than a list can hold");
                return Err(Refused::new(Refusal::Failed, message));
            }
            return Ok(Some(entry));
        }
        Ok(None)
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
