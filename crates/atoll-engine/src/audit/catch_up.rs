//! What other processes have appended meanwhile, and what a crash has left: read, checked, set aside.

use super::error::{AuditError, Break};
use super::file::LogFile;
use super::files;
use super::head::Head;
use super::key::PublicKey;
use super::line::{self, MAX_LINE};
use super::record::{Body, Cut, Secrets};
use super::segment::{self, Lines, Piece};
use super::start::anchor;
use std::fs::Metadata;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

impl LogFile {
    /// Reads what other processes have appended. A change of what this one has seen is an error.
    pub(super) fn catch_up(&mut self) -> Result<(), AuditError> {
        loop {
            let meta = self.file.metadata().map_err(AuditError::Read)?;
            let has_next = segment::path(&self.dir, self.number + 1).exists();
            // One that has a successor may have been written anew by a redaction; nobody appends to it any more.
            if !has_next && !self.is_in_place(&meta)? {
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

    /// Whether the newest segment is still where it was. Another file in its place is an error.
    fn is_in_place(&self, ours: &Metadata) -> Result<bool, AuditError> {
        match std::fs::symlink_metadata(segment::path(&self.dir, self.number)) {
            Ok(named) if (named.dev(), named.ino()) == (ours.dev(), ours.ino()) => Ok(true),
            Ok(_) => Err(self.broken(Break::Replaced)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(AuditError::Read(error)),
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
    pub(super) fn start_over(&mut self) -> Result<(), AuditError> {
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
        let dir = files::dir_within(&self.dir, "cut").map_err(AuditError::Write)?;
        let kept = files::fresh(&dir.join(format!("{:06}-{}", self.number, self.end)));
        kept.and_then(|mut kept| kept.write_all(&bytes))
            .map_err(AuditError::Write)?;
        self.file.set_len(self.end).map_err(AuditError::Write)?;
        Ok(cut)
    }
}
