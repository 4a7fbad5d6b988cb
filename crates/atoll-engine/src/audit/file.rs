//! The log as files, used by one process at a time: the caller holds the lock. Appends, rolls and signs. How it is opened is
//! in `start.rs`, how it catches up with what others have appended in `catch_up.rs`.

use super::chain::Chain;
use super::error::{AuditError, Break};
use super::head::Head;
use super::key::Key;
use super::line::{self, MAX_LINE, Private};
use super::moment::Moment;
use super::record::{Body, Checkpoint, Record, Secrets, SegmentStart, VERSION};
use super::segment;
use super::writers::Writer;
use std::fs::File;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// So many records are not signed at most, while somebody writes.
const SIGN_EVERY: u32 = 64;

/// One entry in the list of those that are open, at most.
const OPEN_BYTES: u64 = 64;

#[derive(Debug)]
pub(super) struct LogFile {
    pub(super) dir: PathBuf,
    pub(super) key: Key,
    pub(super) writer: Writer,
    pub(super) chain: Chain,
    /// The newest segment.
    pub(super) number: u64,
    pub(super) file: File,
    /// Its length, as far as this process has seen.
    pub(super) end: u64,
    pub(super) segment_bytes: u64,
    pub(super) sync: bool,
}

/// A record that was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) seq: u64,
    pub(super) bytes: u64,
}

/// Where a log is, before it is read.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) dir: PathBuf,
    pub(super) key: Key,
    pub(super) writer: Writer,
    pub(super) segment_bytes: u64,
    pub(super) sync: bool,
}

impl LogFile {
    /// Writes one record, and what then is due.
    pub(super) fn append(&mut self, body: Body, secrets: Secrets) -> Result<Written, AuditError> {
        let signs_all = matches!(body, Body::Checkpoint(_) | Body::Segment(_));
        let signed = body.is_signed();
        let begun = self.end;
        let seq = self.write(body, secrets)?;
        let bytes = self.end - begun;
        // Others that are signed do not say what is open. The record is there: what fails now is tried after the next one.
        if (signed && !signs_all) || self.chain.unsigned >= SIGN_EVERY {
            self.sign().ok();
        }
        Ok(Written { seq, bytes })
    }

    pub(super) fn sign(&mut self) -> Result<(), AuditError> {
        let open = self.chain.still_open();
        self.write(Body::Checkpoint(Checkpoint { open }), Secrets::default())
            .map(drop)
    }

    /// What is open stands at the start of each segment and does not count, or a segment would be full from its start.
    pub(super) fn is_full(&self) -> bool {
        let open = self.chain.open.len() as u64 * OPEN_BYTES;
        self.end >= self.segment_bytes + open
    }

    /// Begins the next segment.
    pub(super) fn roll(&mut self) -> Result<(), AuditError> {
        self.file.sync_data().map_err(AuditError::Write)?;
        let path = segment::path(&self.dir, self.number + 1);
        let file = create(&self.dir, self.number + 1)?;
        let before = std::mem::replace(&mut self.file, file);
        let (number, end) = (self.number, self.end);
        (self.number, self.end) = (number + 1, 0);
        let started = self.start_segment();
        if started.is_err() {
            std::fs::remove_file(path).ok();
            (self.file, self.number, self.end) = (before, number, end);
        }
        started
    }

    pub(super) fn start_segment(&mut self) -> Result<(), AuditError> {
        let start = SegmentStart {
            number: self.number,
            key: self.key.public(),
            open: self.chain.still_open(),
        };
        self.write(Body::Segment(start), Secrets::default()).map(drop)
    }

    fn write(&mut self, body: Body, secrets: Secrets) -> Result<u64, AuditError> {
        let signed = body.is_signed();
        let secrets = match &body {
            // What was asked to be forgotten is not written at its end, either.
            Body::Closed(closed) if self.chain.is_redacted(closed.entry) => Secrets::default(),
            _ => secrets,
        };
        let private = (!secrets.is_empty()).then(|| Private::new(secrets, crate::random_bytes()));
        let record = Record {
            v: VERSION,
            seq: self.chain.seq + 1,
            time: Moment::now(),
            prev: self.chain.hash,
            writer: self.writer.id.clone(),
            private: private.as_ref().map(Private::commitment),
            body,
        };
        let (bytes, hash) = line::record_bytes(&record)?;
        let signature = signed.then(|| self.key.sign(hash));
        let text = line::encode(&bytes, hash, signature, private.as_ref())?;
        if text.len() > MAX_LINE {
            return Err(AuditError::TooLong(text.len()));
        }
        self.put(&text)?;
        let line = line::Line {
            record,
            hash,
            signature,
            private,
        };
        self.chain.take(&line).map_err(|why| self.broken(why))?;
        if let (Some(signature), Some(_)) = (signature, Chain::at(&line)) {
            let begun = self.end - text.len() as u64;
            // An older head is no lie: it only tells less.
            Head::new(self.number, begun, self.chain.place(), signature)
                .write(&self.dir, self.sync)
                .ok();
        }
        Ok(line.record.seq)
    }

    /// All bytes or none: where there is no room, the part that had some is taken back.
    fn put(&mut self, text: &[u8]) -> Result<(), AuditError> {
        let written = self.file.write_all_at(text, self.end);
        let written = written.and_then(|()| if self.sync { self.file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            self.file.set_len(self.end).ok();
            return Err(AuditError::Write(error));
        }
        self.end += text.len() as u64;
        Ok(())
    }

    pub(super) fn broken(&self, why: Break) -> AuditError {
        broken(self.number, self.end, why)
    }
}

pub(super) fn broken(segment: u64, offset: u64, why: Break) -> AuditError {
    AuditError::Broken { segment, offset, why }
}

pub(super) fn create(dir: &Path, number: u64) -> Result<File, AuditError> {
    let mut options = std::fs::OpenOptions::new();
    let made = options.read(true).write(true).create_new(true).mode(0o600);
    made.open(segment::path(dir, number)).map_err(AuditError::Write)
}
