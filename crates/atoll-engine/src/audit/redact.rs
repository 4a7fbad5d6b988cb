//! Erasing private parts: the lines are written anew without them, and a signed record says which. The chain covers the
//! commitments, so it stays as it was.

use super::error::AuditError;
use super::file::LogFile;
use super::line::{self, Line};
use super::log::AuditLog;
use super::record::{Body, Redacted, Secrets};
use super::segment::{self, Lines, Piece};
use std::collections::BTreeSet;
use std::io::Write;

/// Of one record, so that it fits a line.
const MAX_ENTRIES: usize = 10_000;

impl AuditLog {
    /// Erases what is private of these entries, their ends included, also those that are still to come. Returns the records that have lost something.
    pub fn redact(&self, entries: &BTreeSet<u64>, reason: &str) -> Result<Vec<u64>, AuditError> {
        self.with_file(|file| {
            // Nobody writes to a segment that has a successor, so it can be replaced.
            file.roll()?;
            let hit = find(file, entries)?;
            let open: Vec<u64> = file.chain.open.keys().copied().collect();
            let open: Vec<u64> = open.into_iter().filter(|entry| entries.contains(entry)).collect();
            // Said before it is done: a crash in between leaves a promise, not a gap that nobody explains.
            for part in open.chunks(MAX_ENTRIES) {
                file.append(redacted(&[], part, reason), Secrets::default())?;
            }
            for part in hit.chunks(MAX_ENTRIES) {
                file.append(redacted(part, &[], reason), Secrets::default())?;
            }
            let wanted: BTreeSet<u64> = hit.iter().copied().collect();
            for number in segment::list(&file.dir).map_err(AuditError::Read)? {
                if number < file.number {
                    erase(file, number, &wanted)?;
                }
            }
            Ok(hit)
        })
    }
}

fn redacted(entries: &[u64], open: &[u64], reason: &str) -> Body {
    Body::Redacted(Redacted {
        entries: entries.to_vec(),
        open: open.to_vec(),
        reason: reason.chars().take(1_000).collect(),
    })
}

/// The records of these entries that have something private.
fn find(file: &LogFile, entries: &BTreeSet<u64>) -> Result<Vec<u64>, AuditError> {
    let mut hit = Vec::new();
    for number in segment::list(&file.dir).map_err(AuditError::Read)? {
        each(file, number, |line, _| {
            let entry = match &line.record.body {
                Body::Closed(closed) => closed.entry,
                _ => line.record.seq,
            };
            if line.private.is_some() && entries.contains(&entry) {
                hit.push(line.record.seq);
            }
            Ok(())
        })?;
    }
    Ok(hit)
}

fn each(
    file: &LogFile,
    number: u64,
    mut take: impl FnMut(&Line, &[u8]) -> Result<(), AuditError>,
) -> Result<(), AuditError> {
    let opened = segment::open(&segment::path(&file.dir, number), false).map_err(AuditError::Read)?;
    let mut lines = Lines::new(opened, 0).map_err(AuditError::Read)?;
    let mut offset = 0;
    while let Some(piece) = lines.next().map_err(AuditError::Read)? {
        let broken = |why: line::BadLine| AuditError::Broken {
            segment: number,
            offset,
            why: why.into(),
        };
        let bytes = match piece {
            Piece::Whole(bytes) => bytes,
            Piece::Unfinished(_) | Piece::TooLong => return Err(broken(line::BadLine::NotARecord)),
        };
        take(&line::decode(&bytes).map_err(broken)?, &bytes)?;
        offset = lines.offset;
    }
    Ok(())
}

/// Writes a segment anew without the private parts of these records, and puts it in the place of the old one.
fn erase(file: &LogFile, number: u64, wanted: &BTreeSet<u64>) -> Result<(), AuditError> {
    let path = segment::path(&file.dir, number);
    let part = file.dir.join("segment.part");
    let made = super::files::fresh(&part).map_err(AuditError::Write)?;
    let mut writer = std::io::BufWriter::new(made);
    let mut changed = false;
    each(file, number, |line, bytes| {
        let redact = wanted.contains(&line.record.seq) && line.private.is_some();
        changed |= redact;
        let written = match redact {
            true => writer.write_all(&without_private(line)?),
            false => writer.write_all(bytes).and_then(|()| writer.write_all(b"\n")),
        };
        written.map_err(AuditError::Write)
    })?;
    let written = writer
        .into_inner()
        .map_err(|error| AuditError::Write(error.into_error()))?;
    written.sync_all().map_err(AuditError::Write)?;
    match changed {
        true => std::fs::rename(&part, &path).map_err(AuditError::Write),
        false => std::fs::remove_file(&part).map_err(AuditError::Write),
    }
}

fn without_private(line: &Line) -> Result<Vec<u8>, AuditError> {
    let (record, hash) = line::record_bytes(&line.record)?;
    Ok(line::encode(&record, hash, line.signature, None)?)
}
