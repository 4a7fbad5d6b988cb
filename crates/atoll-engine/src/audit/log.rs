//! The log as the rest of Atoll sees it: entries are opened and closed, from many tasks and several processes at once.
//!
//! One lock file orders all writers. It is held for one append: some microseconds, no waiting for the disk unless `sync`.

use super::entry::{Closing, Entry, Opening};
use super::error::AuditError;
use super::file::{LogFile, Parts};
use super::key::Key;
use super::record::{Body, Closed, Opened, Receipts, Secrets};
use super::writers::{self, Writer};
use crate::jail::lock;
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

/// Ends that could not be written wait for the next append, so many of them.
const MAX_WAITING: usize = 4096;

/// What is decided about a log when it is opened.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub dir: PathBuf,
    /// Keep the code itself, not only its digest.
    pub keep_code: bool,
    /// A segment that is longer is followed by the next.
    pub segment_bytes: u64,
    /// Flush each record to the disk: it then survives loss of power, too.
    pub sync: bool,
}

impl AuditOptions {
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            keep_code: false,
            segment_bytes: 16 << 20,
            sync: false,
        }
    }
}

#[derive(Debug)]
pub struct AuditLog {
    options: AuditOptions,
    lock: File,
    inner: Mutex<Inner>,
}

/// An entry that is ready to be written.
#[derive(Debug)]
pub struct Prepared {
    opened: Opened,
    secrets: Secrets,
}

#[derive(Debug)]
struct Inner {
    file: LogFile,
    waiting: Vec<(Closed, Secrets)>,
    receipts: Receipts,
}

impl AuditLog {
    /// Opens the log or begins it. What a crash left is set aside, and entries of dead processes are closed as lost.
    pub fn open(options: AuditOptions) -> Result<Arc<Self>, AuditError> {
        let dir = &options.dir;
        let place = |source| AuditError::Place {
            path: dir.clone(),
            source,
        };
        let mut builder = std::fs::DirBuilder::new();
        builder.recursive(true).mode(0o700).create(dir).map_err(place)?;
        let file = open_lock(dir).map_err(place)?;
        let held = Held::take(&file)?;
        let parts = Parts {
            key: Key::open(dir)?,
            writer: Writer::enter(dir).map_err(place)?,
            dir: dir.clone(),
            segment_bytes: options.segment_bytes,
            sync: options.sync,
        };
        let mut inner = Inner {
            file: LogFile::open(parts)?,
            waiting: Vec::new(),
            receipts: Receipts::default(),
        };
        inner.close_lost()?;
        drop(held);
        Ok(Arc::new(Self {
            lock: file,
            inner: Mutex::new(inner),
            options,
        }))
    }

    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// Whether an append waits for the disk.
    pub fn is_slow(&self) -> bool {
        self.options.sync
    }

    /// Writes that something is about to be done. An error means that it must not be done.
    pub fn begin(self: &Arc<Self>, opening: Opening<'_>) -> Result<Entry, AuditError> {
        self.begin_prepared(self.prepare(opening))
    }

    /// What [`AuditLog::begin_prepared`] needs to do the same on another thread.
    pub fn prepare(&self, opening: Opening<'_>) -> Prepared {
        let (opened, secrets) = opening.split(self.options.keep_code);
        Prepared { opened, secrets }
    }

    pub fn begin_prepared(self: &Arc<Self>, prepared: Prepared) -> Result<Entry, AuditError> {
        let Prepared { opened, secrets } = prepared;
        let seq = self.with(|inner| inner.append(Body::Opened(opened), secrets))?;
        Ok(Entry::new(Arc::clone(self), seq))
    }

    /// Writes how it ended. What cannot be written now is written before the next entry.
    pub(super) fn finish(&self, entry: u64, closing: Closing) {
        let (mut closed, secrets) = closing.split(entry);
        let done = self.with(|inner| {
            inner.make_room()?;
            inner.receipts.once(&mut closed, inner.file.number);
            inner.file.append(Body::Closed(closed.clone()), secrets.clone())
        });
        if done.is_err() {
            let mut inner = lock(&self.inner);
            if inner.waiting.len() < MAX_WAITING {
                inner.waiting.push((closed, secrets));
            }
        }
    }

    /// Signs all that was written. Called from time to time, and before a clean end.
    pub fn checkpoint(&self) -> Result<(), AuditError> {
        self.with(|inner| {
            inner.flush()?;
            match inner.file.chain.unsigned {
                0 => Ok(()),
                _ => inner.file.sign(),
            }
        })
    }

    /// Does something while no other process writes.
    pub(super) fn with_file<T>(
        &self,
        work: impl FnOnce(&mut LogFile) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        self.with(|inner| work(&mut inner.file))
    }

    fn with<T>(&self, work: impl FnOnce(&mut Inner) -> Result<T, AuditError>) -> Result<T, AuditError> {
        let mut inner = lock(&self.inner);
        let _held = Held::take(&self.lock)?;
        inner.file.catch_up()?;
        work(&mut inner)
    }
}

impl Inner {
    fn append(&mut self, body: Body, secrets: Secrets) -> Result<u64, AuditError> {
        self.make_room()?;
        self.file.append(body, secrets)
    }

    fn make_room(&mut self) -> Result<(), AuditError> {
        self.flush()?;
        match self.file.is_full() {
            true => self.file.roll(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), AuditError> {
        while let Some((closed, secrets)) = self.waiting.last().cloned() {
            self.file.append(Body::Closed(closed), secrets)?;
            self.waiting.pop();
        }
        Ok(())
    }

    fn close_lost(&mut self) -> Result<(), AuditError> {
        let open = self.file.chain.still_open();
        let dead = |writer: &str| writer != self.file.writer.id && !writers::lives(&self.file.dir, writer);
        let lost: Vec<u64> = open
            .iter()
            .filter(|entry| dead(&entry.writer))
            .map(|entry| entry.seq)
            .collect();
        for entry in &lost {
            let closed = Closed::lost(*entry);
            self.append(Body::Closed(closed), Secrets::default())?;
        }
        match lost.is_empty() {
            true => Ok(()),
            false => self.file.sign(),
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        // A clean end is a signed one; after any other the next start says what is missing.
        self.checkpoint().ok();
    }
}

fn open_lock(dir: &Path) -> std::io::Result<File> {
    let mut options = std::fs::OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(dir.join("lock"))
}

/// The lock of all writers, until it is dropped.
struct Held<'a>(&'a File);

impl<'a> Held<'a> {
    fn take(file: &'a File) -> Result<Self, AuditError> {
        loop {
            match flock(file, FlockOperation::LockExclusive) {
                Ok(()) => return Ok(Self(file)),
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(AuditError::Write(errno.into())),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        flock(self.0, FlockOperation::Unlock).ok();
    }
}
