//! The log as files, used by one process at a time: the caller holds the lock. Appends, catches up with what others have
//! appended, rolls, signs, and sets aside what a crash left.

use super::chain::Chain;
use super::error::{AuditError, Break};
use super::head::Head;
use super::key::{Key, PublicKey};
use super::line::{self, MAX_LINE, Private};
use super::moment::Moment;
use super::record::{Body, Checkpoint, Cut, Record, Secrets, SegmentStart, VERSION};
use super::segment::{self, Lines, Piece};
use super::writers::Writer;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
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
    file: File,
    /// Its length, as far as this process has seen.
    end: u64,
    pub(super) segment_bytes: u64,
    pub(super) sync: bool,
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
    /// Finds the end of the chain, or begins one.
    pub(super) fn open(parts: Parts) -> Result<Self, AuditError> {
        let numbers = segment::list(&parts.dir).map_err(AuditError::Read)?;
        match numbers.last() {
            None => Self::begin(parts),
            Some(newest) => Self::resume(parts, &numbers, *newest),
        }
    }

    fn begin(parts: Parts) -> Result<Self, AuditError> {
        let file = create(&parts.dir, 1)?;
        let mut log = Self::with(parts, file, Chain::default(), 1, 0);
        log.start_segment()?;
        Ok(log)
    }

    fn with(parts: Parts, file: File, chain: Chain, number: u64, end: u64) -> Self {
        Self {
            dir: parts.dir,
            key: parts.key,
            writer: parts.writer,
            segment_bytes: parts.segment_bytes,
            sync: parts.sync,
            chain,
            number,
            file,
            end,
        }
    }

    /// Begins at the signed place that `head` names, else at the start of the newest segment that has one.
    fn resume(parts: Parts, numbers: &[u64], newest: u64) -> Result<Self, AuditError> {
        let head = Head::read(&parts.dir);
        let named = head
            .as_ref()
            .and_then(|head| anchor(&parts.dir, &parts.key, head.segment, head.offset));
        let found = named.filter(|found| head.as_ref().is_some_and(|head| found.0.place() == head.place()));
        // What it names was there once.
        let gone = head.filter(|_| found.is_none());
        let found = found.or_else(|| anchor(&parts.dir, &parts.key, newest, 0));
        let before = numbers.iter().rev().nth(1).copied();
        let Some((chain, number, file, end)) = found.or_else(|| anchor(&parts.dir, &parts.key, before?, 0)) else {
            // The very first line was never finished.
            return match newest {
                1 => Self::begin_again(parts, gone),
                segment => Err(broken(segment, 0, Break::Start)),
            };
        };
        let mut log = Self::with(parts, file, chain, number, end);
        log.catch_up()?;
        log.miss(gone)?;
        Ok(log)
    }

    fn begin_again(parts: Parts, gone: Option<Head>) -> Result<Self, AuditError> {
        let path = segment::path(&parts.dir, 1);
        let file = segment::open(&path, true).map_err(AuditError::Read)?;
        let mut log = Self::with(parts, file, Chain::default(), 1, 0);
        log.start_over()?;
        log.miss(gone)?;
        Ok(log)
    }

    /// Signed records that `head` tells of and that are not there: said for ever.
    fn miss(&mut self, gone: Option<Head>) -> Result<(), AuditError> {
        let public = PublicKey::of(&self.key);
        match gone.filter(|head| head.is_signed_by(&public)) {
            None => Ok(()),
            Some(head) => self.append(Body::Truncated(head.place()), Secrets::default()).map(drop),
        }
    }

    /// Reads what other processes have appended. A change of what this one has seen is an error.
    pub(super) fn catch_up(&mut self) -> Result<(), AuditError> {
        loop {
            let meta = self.file.metadata().map_err(AuditError::Read)?;
            let has_next = segment::path(&self.dir, self.number + 1).exists();
            if meta.nlink() == 0 && !has_next {
                self.jump()?;
                continue;
            }
            if meta.len() < self.end {
                return Err(self.broken(Break::Shrunk));
            }
            if meta.len() > self.end {
                self.read_on(has_next)?;
            }
            if !has_next {
                return Ok(());
            }
            self.step_over()?;
        }
    }

    /// Retention has removed this segment and its successors while this process was silent: on at the signed place that
    /// `head` names, which must be later.
    fn jump(&mut self) -> Result<(), AuditError> {
        let head = Head::read(&self.dir).filter(|head| head.segment > self.number && head.seq > self.chain.seq);
        let found = head
            .as_ref()
            .and_then(|head| anchor(&self.dir, &self.key, head.segment, head.offset));
        let found = found.filter(|found| head.is_some_and(|head| found.0.place() == head.place()));
        let (chain, number, file, end) = found.ok_or_else(|| self.broken(Break::Gone))?;
        (self.chain, self.number, self.file, self.end) = (chain, number, file, end);
        Ok(())
    }

    fn read_on(&mut self, has_next: bool) -> Result<(), AuditError> {
        let file = self.file.try_clone().map_err(AuditError::Read)?;
        let mut lines = Lines::new(file, self.end).map_err(AuditError::Read)?;
        while let Some(piece) = lines.next().map_err(AuditError::Read)? {
            match piece {
                Piece::Whole(bytes) => {
                    let line = line::decode(&bytes).map_err(|why| self.broken(why.into()))?;
                    self.check_signature(&line)?;
                    self.chain.take(&line).map_err(|why| self.broken(why))?;
                    self.end = lines.offset;
                }
                Piece::Unfinished(_) if !has_next => {
                    let cut = self.set_aside()?;
                    return self.append(Body::Cut(cut), Secrets::default()).map(drop);
                }
                Piece::Unfinished(_) => return Err(self.broken(Break::Unfinished)),
                Piece::TooLong => return Err(self.broken(line::BadLine::TooLong.into())),
            }
        }
        Ok(())
    }

    fn check_signature(&self, line: &line::Line) -> Result<(), AuditError> {
        let fine = match line.record.body.is_signed() {
            true => PublicKey::of(&self.key).has_signed(line.hash, line.signature),
            false => line.signature.is_none(),
        };
        fine.then_some(()).ok_or_else(|| self.broken(Break::Signature))
    }

    /// Goes over to the next segment.
    fn step_over(&mut self) -> Result<(), AuditError> {
        let path = segment::path(&self.dir, self.number + 1);
        self.file = segment::open(&path, true).map_err(AuditError::Read)?;
        (self.number, self.end) = (self.number + 1, 0);
        self.start_over()
    }

    /// At the start of a segment: one whose first line was never finished gets it now.
    fn start_over(&mut self) -> Result<(), AuditError> {
        let file = self.file.try_clone().map_err(AuditError::Read)?;
        let first = Lines::new(file, 0).and_then(|mut lines| lines.next());
        match first.map_err(AuditError::Read)? {
            Some(Piece::Whole(bytes)) => self.check_start(&bytes),
            None => self.start_segment(),
            Some(Piece::Unfinished(_)) => {
                let cut = self.set_aside()?;
                self.start_segment()?;
                self.append(Body::Cut(cut), Secrets::default()).map(drop)
            }
            Some(Piece::TooLong) => Err(self.broken(Break::Start)),
        }
    }

    fn check_start(&self, bytes: &[u8]) -> Result<(), AuditError> {
        let line = line::decode(bytes).map_err(|why| self.broken(why.into()))?;
        match &line.record.body {
            Body::Segment(start) if start.number == self.number && self.chain.seq > 0 => Ok(()),
            _ => Err(self.broken(Break::Start)),
        }
    }

    /// Moves what stands behind the last whole line into a file of its own.
    fn set_aside(&mut self) -> Result<Cut, AuditError> {
        let length = self.file.metadata().map_err(AuditError::Read)?.len() - self.end;
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(MAX_LINE)];
        self.file
            .read_exact_at(&mut bytes, self.end)
            .map_err(AuditError::Read)?;
        let cut = Cut {
            segment: self.number,
            offset: self.end,
            bytes: length,
            sha256: super::Digest::of(&bytes),
        };
        let dir = self.dir.join("cut");
        std::fs::create_dir_all(&dir).map_err(AuditError::Write)?;
        let name = format!("{:06}-{}", self.number, self.end);
        std::fs::write(dir.join(name), &bytes).map_err(AuditError::Write)?;
        self.file.set_len(self.end).map_err(AuditError::Write)?;
        Ok(cut)
    }

    /// Writes one record, and what then is due. Returns its number.
    pub(super) fn append(&mut self, body: Body, secrets: Secrets) -> Result<u64, AuditError> {
        let signs_all = matches!(body, Body::Checkpoint(_) | Body::Segment(_));
        let signed = body.is_signed();
        let seq = self.write(body, secrets)?;
        // Others that are signed do not say what is open. The record is there: what fails now is tried after the next one.
        if (signed && !signs_all) || self.chain.unsigned >= SIGN_EVERY {
            self.sign().ok();
        }
        Ok(seq)
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

    fn start_segment(&mut self) -> Result<(), AuditError> {
        let start = SegmentStart {
            number: self.number,
            key: self.key.public(),
            open: self.chain.still_open(),
        };
        self.write(Body::Segment(start), Secrets::default()).map(drop)
    }

    fn write(&mut self, body: Body, secrets: Secrets) -> Result<u64, AuditError> {
        let signed = body.is_signed();
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
                .write(&self.dir)
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

    fn broken(&self, why: Break) -> AuditError {
        broken(self.number, self.end, why)
    }
}

fn broken(segment: u64, offset: u64, why: Break) -> AuditError {
    AuditError::Broken { segment, offset, why }
}

fn create(dir: &Path, number: u64) -> Result<File, AuditError> {
    let mut options = std::fs::OpenOptions::new();
    let made = options.read(true).write(true).create_new(true).mode(0o600);
    made.open(segment::path(dir, number)).map_err(AuditError::Write)
}

/// A signed line that says what is open, and what follows it.
fn anchor(dir: &Path, key: &Key, number: u64, offset: u64) -> Option<(Chain, u64, File, u64)> {
    let file = segment::open(&segment::path(dir, number), true).ok()?;
    let mut lines = Lines::new(file.try_clone().ok()?, offset).ok()?;
    let Some(Piece::Whole(bytes)) = lines.next().ok()? else {
        return None;
    };
    let line = line::decode(&bytes).ok()?;
    let signed = PublicKey::of(key).has_signed(line.hash, line.signature);
    let chain = Chain::at(&line).filter(|_| signed)?;
    Some((chain, number, file, lines.offset))
}
