//! Uploads: bytes from a pipe of the engine into a file, a bounded piece per turn, several side by side.
//!
//! A small one is kept in memory until it is committed and then written in place, so that watchers see one create, one
//! change of mode and one write. A larger one goes into a hidden file beside its target and is renamed when it is
//! committed. Whatever ends an upload early, nothing of it is left.

use super::entry::Ground;
use super::metadata::check;
use super::open::make_parents;
use super::writing::{Hidden, write_all, write_in_place};
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Entry, Refusal};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const MAX_UPLOADS: usize = 64;
/// What one upload may move in one turn, and the most that is kept in memory of it.
const PIECE_BYTES: usize = 1 << 20;
const READ_BYTES: usize = 256 << 10;
/// A commit follows the pipe's end at once; an upload without one was forgotten.
const PATIENCE: Duration = Duration::from_secs(60);
/// What all uploads together keep in memory; above, the next to grow goes to its file at once.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// A name that the agent gives to what is not to be seen yet.
pub(crate) fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(super::writing::HIDDEN.as_bytes()) || name.starts_with(super::remove::HIDDEN.as_bytes())
}

#[derive(Debug)]
pub(crate) struct Uploads {
    all: Vec<Upload>,
    buffer: Vec<u8>,
}

#[derive(Debug)]
pub(crate) struct Upload {
    pub(crate) request: u32,
    path: String,
    /// Where the path leads when its last name is a link.
    target: String,
    metadata: BTreeMap<String, String>,
    pipe: OwnedFd,
    ended: Option<Instant>,
    committed: bool,
    kept: Kept,
}

#[derive(Debug)]
enum Kept {
    InMemory(Vec<u8>),
    InFile(Hidden),
}

impl Uploads {
    pub(crate) fn new() -> Self {
        Self {
            all: Vec::new(),
            buffer: vec![0; READ_BYTES],
        }
    }

    pub(crate) fn start(
        &mut self,
        request: u32,
        path: String,
        metadata: BTreeMap<String, String>,
        fds: Vec<OwnedFd>,
    ) -> Result<(), Refused> {
        if self.all.len() >= MAX_UPLOADS {
            let message = format!("too many concurrent uploads (limit {MAX_UPLOADS})");
            return Err(Refused::new(Refusal::Failed, message));
        }
        let pipe = fds.into_iter().next();
        let pipe = pipe.ok_or_else(|| Refused::new(Refusal::Invalid, "expected a pipe for the upload"))?;
        self.all.push(Upload::new(request, path, metadata, pipe)?);
        Ok(())
    }

    pub(crate) fn commit(&mut self, request: u32) {
        for upload in self.all.iter_mut().filter(|upload| upload.request == request) {
            upload.committed = true;
        }
    }

    /// Gives an upload up; false if there is none.
    pub(crate) fn abort(&mut self, request: u32) -> bool {
        let before = self.all.len();
        self.all.retain(|upload| upload.request != request);
        self.all.len() < before
    }

    /// When the next upload has waited long enough for its commit.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        let ended = self.all.iter().filter_map(|upload| upload.ended);
        ended.min().map(|ended| ended + PATIENCE)
    }

    /// Takes an upload whose pipe has ended long ago, without a commit.
    pub(crate) fn take_forgotten(&mut self) -> Option<u32> {
        let is_late = |upload: &Upload| upload.ended.is_some_and(|ended| ended.elapsed() >= PATIENCE);
        let index = self.all.iter().position(is_late)?;
        Some(self.all.swap_remove(index).request)
    }

    /// The pipes that still bring something.
    pub(crate) fn pipes(&self) -> impl Iterator<Item = (u32, BorrowedFd<'_>)> {
        let open = self.all.iter().filter(|upload| upload.ended.is_none());
        open.map(|upload| (upload.request, upload.pipe.as_fd()))
    }

    /// Moves what the pipe of `request` holds, up to a bound. A refused upload is gone.
    pub(crate) fn pump(&mut self, request: u32) -> Result<(), Refused> {
        let kept: usize = self.all.iter().map(Upload::kept_bytes).sum();
        let Some(index) = self.all.iter().position(|upload| upload.request == request) else {
            return Ok(());
        };
        let pumped = self.all[index].pump(&mut self.buffer, kept);
        if pumped.is_err() {
            self.all.swap_remove(index);
        }
        pumped
    }

    /// One upload that has all its bytes and its commit.
    pub(crate) fn take_finished(&mut self) -> Option<Upload> {
        let index = self
            .all
            .iter()
            .position(|upload| upload.ended.is_some() && upload.committed)?;
        Some(self.all.swap_remove(index))
    }
}

impl Upload {
    fn new(request: u32, path: String, metadata: BTreeMap<String, String>, pipe: OwnedFd) -> Result<Self, Refused> {
        check(&metadata)?;
        let target = end_of(&path)?;
        if Path::new(&target).is_dir() {
            return Err(Errno::ISDIR).about(&path);
        }
        rustix::io::ioctl_fionbio(&pipe, true).about("upload pipe")?;
        // A larger pipe means fewer turns; without it all is the same, slower.
        rustix::pipe::fcntl_setpipe_size(&pipe, PIECE_BYTES).ok();
        Ok(Self {
            request,
            path,
            target,
            metadata,
            pipe,
            ended: None,
            committed: false,
            kept: Kept::InMemory(Vec::new()),
        })
    }

    fn kept_bytes(&self) -> usize {
        match &self.kept {
            Kept::InMemory(bytes) => bytes.len(),
            Kept::InFile(_) => 0,
        }
    }

    fn pump(&mut self, buffer: &mut [u8], kept_by_all: usize) -> Result<(), Refused> {
        let mut moved = 0;
        while moved < PIECE_BYTES {
            let count = match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(0) => {
                    self.ended = Some(Instant::now());
                    return Ok(());
                }
                Ok(count) => count,
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(errno) => return Err(errno).about("upload pipe"),
            };
            moved += count;
            self.keep(&buffer[..count], kept_by_all + moved)?;
        }
        Ok(())
    }

    fn keep(&mut self, piece: &[u8], kept_by_all: usize) -> Result<(), Refused> {
        if let Kept::InMemory(bytes) = &mut self.kept {
            if bytes.len() + piece.len() <= PIECE_BYTES && kept_by_all <= MAX_KEPT_BYTES {
                bytes.extend_from_slice(piece);
                return Ok(());
            }
            let hidden = Hidden::create(self.request, &self.target)?;
            write_all(&hidden.file, bytes).about(&self.path)?;
            self.kept = Kept::InFile(hidden);
        }
        match &self.kept {
            Kept::InFile(hidden) => write_all(&hidden.file, piece).about(&self.path),
            Kept::InMemory(_) => Ok(()),
        }
    }

    /// Makes the parents, so that whoever watches them stands before the file comes.
    pub(crate) fn prepare(&self) -> Result<(), Refused> {
        make_parents(&self.target).map(|_| ())
    }

    /// Puts the file in its place. Also says whether a file of that name was replaced by a new one.
    pub(crate) fn finish(self, ground: &mut Ground) -> Result<(Entry, bool), Refused> {
        let replaced = match self.kept {
            Kept::InMemory(bytes) => {
                write_in_place(ground, &self.target, &bytes, &self.metadata)?;
                false
            }
            Kept::InFile(hidden) => {
                ground.metadata.replace(&hidden.file, &self.metadata)?;
                hidden.reveal().about(&self.path)?
            }
        };
        Ok((ground.entry(&self.path)?, replaced))
    }
}

/// The path behind a link, also behind one that leads to nothing yet.
fn end_of(path: &str) -> Result<String, Refused> {
    let mut path = PathBuf::from(path);
    for _ in 0..40 {
        let Ok(to) = std::fs::read_link(&path) else {
            let end = path.into_os_string().into_string();
            return end.map_err(|_| Refused::new(Refusal::Invalid, "the symbolic link target is not valid UTF-8"));
        };
        let parent = path.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
        let joined = parent.unwrap_or_default().join(to);
        path = PathBuf::from(super::resolve("/", &joined.to_string_lossy())?);
    }
    Err(Errno::LOOP).about(path.display())
}
