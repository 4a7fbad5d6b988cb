//! The log as the rest of Atoll sees it: entries are opened and closed, from many tasks and several processes at once.
//!
//! One lock file orders all writers. It is held for one append: some microseconds, no waiting for the disk unless `sync`.
//! Who must not wait tries; what then is not written at once is written by [`AuditLog::catch_up`] or before the next entry.

use super::action::{Action, Ending};
use super::entry::{Closing, Entry, Opening};
use super::error::AuditError;
use super::file::{LogFile, Parts};
use super::files;
use super::key::Key;
use super::late::{Late, Queue};
use super::lock::{Held, Lock};
use super::moment::Moment;
use super::quota::Quota;
use super::record::{Actor, Body, Closed, Opened, Receipts, Secrets};
use super::writers::{self, Writer};
use crate::lock::lock;
use atoll_core::service::RecordLevel;
use atoll_guard::redact::Redactor;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// More are refused: each signed record has the list of those that are open.
pub(super) const MOST_OPEN: usize = 10_000;
/// Tests reach it soon.
const MAX_OPEN: usize = if cfg!(test) { 300 } else { MOST_OPEN };
/// Of the disk, not for strangers.
const RESERVED_BYTES: u64 = 64 << 20;

/// What is decided about a log when it is opened.
#[derive(Clone, Debug)]
pub struct AuditOptions {
    pub dir: PathBuf,
    /// What is kept of executions besides digests.
    pub record: RecordLevel,
    /// A segment that is longer is followed by the next.
    pub segment_bytes: u64,
    /// All segments together; the oldest go. `None`: no bound.
    pub keep_bytes: Option<u64>,
    /// Bytes that one key may cause in a day (UTC); then its actions are refused. `None`: no bound.
    pub key_bytes_per_day: Option<u64>,
    /// Flush each record to the disk: it then survives loss of power, too.
    pub sync: bool,
}

impl AuditOptions {
    pub fn new(dir: PathBuf) -> Self {
        Self {
            dir,
            record: RecordLevel::None,
            segment_bytes: 16 << 20,
            keep_bytes: None,
            key_bytes_per_day: None,
            sync: false,
        }
    }
}

#[derive(Debug)]
pub struct AuditLog {
    options: AuditOptions,
    lock: Lock,
    inner: Mutex<Inner>,
    late: Queue,
}

/// An entry that is ready to be written.
#[derive(Clone, Debug)]
pub struct Prepared {
    opened: Opened,
    secrets: Secrets,
    hides: Option<Arc<Redactor>>,
}

#[derive(Debug)]
struct Inner {
    file: LogFile,
    receipts: Receipts,
    quota: Quota,
    keep_bytes: Option<u64>,
}

/// The right to write. The lock is given back before the mutex, or the next thread would lose it.
struct Turn<'a> {
    _held: Held<'a>,
    inner: MutexGuard<'a, Inner>,
}

impl AuditLog {
    /// Opens the log or begins it. What a crash left is set aside, and entries of dead processes are closed as lost.
    pub fn open(options: AuditOptions) -> Result<Arc<Self>, AuditError> {
        let dir = &options.dir;
        let place = |source| AuditError::Place {
            path: dir.clone(),
            source,
        };
        files::own_dir(dir).map_err(place)?;
        let lock = Lock::open(dir).map_err(place)?;
        let held = loop {
            match lock.try_take()? {
                Some(held) => break held,
                None => lock.wait()?,
            }
        };
        let parts = Parts {
            key: Key::open(dir)?,
            writer: Writer::enter(dir).map_err(place)?,
            dir: dir.clone(),
            segment_bytes: options.segment_bytes,
            sync: options.sync,
        };
        let mut inner = Inner {
            file: LogFile::open(parts)?,
            receipts: Receipts::default(),
            quota: Quota::new(options.key_bytes_per_day),
            keep_bytes: options.keep_bytes,
        };
        inner.close_lost()?;
        drop(held);
        Ok(Arc::new(Self {
            lock,
            inner: Mutex::new(inner),
            late: Queue::default(),
            options,
        }))
    }

    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// Whether ends of executions have their output.
    pub fn keeps_output(&self) -> bool {
        self.options.record == RecordLevel::Full
    }

    /// Whether an append waits for the disk.
    pub fn is_slow(&self) -> bool {
        self.options.sync
    }

    /// Writes that something is about to be done. An error means that it must not be done.
    pub fn begin(self: &Arc<Self>, opening: Opening<'_>) -> Result<Entry, AuditError> {
        self.begin_prepared(self.prepare(opening))
    }

    /// What the others that begin need, perhaps on another thread.
    pub fn prepare(&self, opening: Opening<'_>) -> Prepared {
        let hides = opening.hides.clone();
        let (opened, secrets) = opening.split(self.options.record != RecordLevel::None);
        Prepared { opened, secrets, hides }
    }

    pub fn begin_prepared(self: &Arc<Self>, prepared: Prepared) -> Result<Entry, AuditError> {
        self.enter(self.turn()?, prepared)
    }

    /// The same without waiting, for another process or for the disk: what cannot be written at once is given back.
    pub fn try_begin(self: &Arc<Self>, prepared: Prepared) -> Result<Result<Entry, Prepared>, AuditError> {
        match self.try_turn()? {
            Some(turn) => self.enter(turn, prepared).map(Ok),
            None => Ok(Err(prepared)),
        }
    }

    fn enter(self: &Arc<Self>, mut turn: Turn<'_>, prepared: Prepared) -> Result<Entry, AuditError> {
        let Prepared { opened, secrets, hides } = prepared;
        if opened.actor.is_stranger() {
            self.check_spare()?;
        }
        self.flush(&mut turn)?;
        turn.inner.check_quota(&opened.actor)?;
        let open = turn.inner.file.chain.open.len();
        if open >= MAX_OPEN {
            return Err(AuditError::TooManyOpen(open));
        }
        let seq = turn.inner.write_opening(opened, secrets)?;
        Ok(Entry::new(Arc::clone(self), seq, hides))
    }

    /// The last of the disk is for those whom we know.
    fn check_spare(&self) -> Result<(), AuditError> {
        let disk = rustix::fs::statvfs(&self.options.dir).map_err(|errno| AuditError::Read(errno.into()))?;
        match disk.f_bavail.saturating_mul(disk.f_frsize) >= RESERVED_BYTES {
            true => Ok(()),
            false => Err(AuditError::Reserved),
        }
    }

    /// Writes how it ended. What cannot be written now is written before the next entry.
    pub(super) fn finish(&self, entry: u64, closing: Closing) {
        let (closed, secrets) = closing.split(entry);
        let late = Late::End(closed, secrets);
        let left = match self.turn() {
            Ok(mut turn) => turn.inner.write_late(late).err().map(|left| left.0),
            Err(_) => Some(late),
        };
        if let Some(late) = left {
            self.late.add(late);
            self.late.served();
        }
    }

    /// The same without waiting. Whether the caller has to see to [`AuditLog::catch_up`].
    pub(super) fn finish_soon(&self, entry: u64, closing: Closing) -> bool {
        let (closed, secrets) = closing.split(entry);
        let late = Late::End(closed, secrets);
        let left = match self.try_turn() {
            Ok(Some(mut turn)) => turn.inner.write_late(late).err().map(|left| left.0),
            Ok(None) | Err(_) => Some(late),
        };
        left.is_some_and(|late| self.late.add(late))
    }

    /// Something that was done although it could not be written before: kept, and written as soon as it can be. Whether
    /// the caller has to see to [`AuditLog::catch_up`].
    pub fn keep(&self, mut prepared: Prepared, closing: Closing) -> bool {
        prepared.opened.late = Some(Moment::now());
        let closing = closing.hidden_by(prepared.hides.as_deref());
        self.late.add(Late::Whole(Box::new((prepared, closing))))
    }

    /// Writes what could not be written when it was done. Waits for its turn.
    pub fn catch_up(&self) -> Result<(), AuditError> {
        loop {
            let written = self.turn().and_then(|mut turn| self.flush(&mut turn));
            self.late.served();
            if written.is_err() || self.late.len() == 0 {
                return written;
            }
        }
    }

    /// How much was done and is not written yet.
    pub fn late(&self) -> usize {
        self.late.len()
    }

    fn flush(&self, turn: &mut Turn<'_>) -> Result<(), AuditError> {
        while let Some(late) = self.late.next() {
            if let Err(left) = turn.inner.write_late(late) {
                let (late, error) = *left;
                // What can never be written must not hold up the rest; its entry is told as lost.
                if !matches!(error, AuditError::TooLong(_) | AuditError::Spelling(_)) {
                    self.late.put_back(late);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Signs all that was written. Called from time to time, and before a clean end.
    pub fn checkpoint(&self) -> Result<(), AuditError> {
        let mut turn = self.turn()?;
        self.flush(&mut turn)?;
        match turn.inner.file.chain.unsigned {
            0 => Ok(()),
            _ => turn.inner.file.sign(),
        }
    }

    /// Does something while no other process writes.
    pub(super) fn with_file<T>(
        &self,
        work: impl FnOnce(&mut LogFile) -> Result<T, AuditError>,
    ) -> Result<T, AuditError> {
        work(&mut self.turn()?.inner.file)
    }

    /// Waits for the lock without holding what other threads of this process need.
    fn turn(&self) -> Result<Turn<'_>, AuditError> {
        loop {
            if let Some(turn) = self.take(lock(&self.inner))? {
                return Ok(turn);
            }
            self.lock.wait()?;
        }
    }

    fn try_turn(&self) -> Result<Option<Turn<'_>>, AuditError> {
        if self.options.sync {
            return Ok(None);
        }
        match self.inner.try_lock() {
            Ok(inner) => self.take(inner),
            Err(TryLockError::Poisoned(inner)) => self.take(inner.into_inner()),
            Err(TryLockError::WouldBlock) => Ok(None),
        }
    }

    fn take<'a>(&'a self, inner: MutexGuard<'a, Inner>) -> Result<Option<Turn<'a>>, AuditError> {
        let Some(held) = self.lock.try_take()? else {
            return Ok(None);
        };
        let mut turn = Turn { _held: held, inner };
        turn.inner.file.catch_up()?;
        Ok(Some(turn))
    }
}

impl Inner {
    /// Refuses a key that has caused too much today. The log records the first refusal, and only that one.
    fn check_quota(&mut self, actor: &Actor) -> Result<(), AuditError> {
        let Some(limit) = self.quota.reached(actor, Moment::now()) else {
            return Ok(());
        };
        if !self.quota.is_noted(actor) {
            let (opened, secrets) = Opening::new(Action::AuditQuota, actor).split(false);
            let seq = self.write_opening(opened, secrets)?;
            self.quota.note(actor);
            let closing = Closing {
                reason: Some(format!("{limit} bytes per day")),
                ..Closing::of(Ending::Denied)
            };
            let (closed, secrets) = closing.split(seq);
            self.write_end(closed, secrets)?;
        }
        Err(AuditError::Quota(limit))
    }

    fn write_opening(&mut self, opened: Opened, secrets: Secrets) -> Result<u64, AuditError> {
        self.make_room()?;
        let key = opened.actor.key.clone();
        let written = self.file.append(Body::Opened(Box::new(opened)), secrets)?;
        self.quota.opened(written.seq, key, written.bytes, Moment::now());
        Ok(written.seq)
    }

    fn make_room(&mut self) -> Result<(), AuditError> {
        if self.file.is_full() {
            self.file.roll()?;
            if let Some(most) = self.keep_bytes {
                // Tried again after the next roll.
                super::retain::shrink(&mut self.file, most).ok();
            }
        }
        Ok(())
    }

    /// Gives back what could not be written, and why.
    fn write_late(&mut self, late: Late) -> Result<(), Box<(Late, AuditError)>> {
        match late {
            Late::End(closed, secrets) => {
                let written = self.write_end(closed.clone(), secrets.clone());
                written.map_err(|error| Box::new((Late::End(closed, secrets), error)))
            }
            Late::Whole(whole) => {
                let Prepared { opened, secrets, .. } = whole.0.clone();
                match self.write_opening(opened, secrets) {
                    Ok(seq) => {
                        let (closed, secrets) = whole.1.split(seq);
                        self.write_late(Late::End(closed, secrets))
                    }
                    Err(error) => Err(Box::new((Late::Whole(whole), error))),
                }
            }
        }
    }

    fn write_end(&mut self, mut closed: Box<Closed>, secrets: Secrets) -> Result<(), AuditError> {
        self.make_room()?;
        let new = self.receipts.once(&mut closed, self.file.number);
        let entry = closed.entry;
        let written = self.file.append(Body::Closed(closed), secrets);
        if let (Err(_), Some(receipt)) = (&written, new) {
            self.receipts.forget(receipt);
        }
        self.quota.closed(entry, written?.bytes, Moment::now());
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
            self.write_end(Closed::lost(*entry), Secrets::default())?;
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
