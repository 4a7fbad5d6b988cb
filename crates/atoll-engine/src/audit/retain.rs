//! Removing old segments, by age or by size: whole ones only, oldest first, after a signed record has said how they ended.

use super::error::AuditError;
use super::file::LogFile;
use super::line;
use super::log::AuditLog;
use super::moment::Moment;
use super::record::{Body, Place, Retired, Secrets};
use super::segment::{self, Lines, Piece};
use std::time::Duration;

impl AuditLog {
    /// Removes segments whose successor began longer ago than this: all in them is older. Returns how many.
    pub fn retain(&self, keep: Duration) -> Result<usize, AuditError> {
        let before = Moment::now().minus(keep);
        self.with_file(|file| {
            let numbers = segment::list(&file.dir).map_err(AuditError::Read)?;
            let mut last = None;
            for pair in numbers.windows(2) {
                // The first line of the next one says how this one ended.
                let (number, next) = (pair[0], first(file, pair[1])?);
                let oldest_open = file.chain.open.keys().next().copied();
                if next.0 >= before || oldest_open.is_some_and(|open| open <= next.1.seq) {
                    break;
                }
                last = Some((number, next.1));
            }
            remove(file, &numbers, last)
        })
    }

    /// Removes the oldest segments if there are more than the options allow.
    pub fn shrink(&self, most: u64) -> Result<usize, AuditError> {
        self.with_file(|file| shrink(file, most))
    }
}

/// Removes the oldest segments, so that the others and a full newest one have so many bytes at most. Entries that are still
/// open do not hold them: otherwise whoever keeps one open would let the log grow.
pub(super) fn shrink(file: &mut LogFile, most: u64) -> Result<usize, AuditError> {
    let numbers = segment::list(&file.dir).map_err(AuditError::Read)?;
    let mut left: u64 = file.segment_bytes;
    let size = |number: u64| std::fs::symlink_metadata(segment::path(&file.dir, number)).map(|meta| meta.len());
    let older = numbers.iter().copied().filter(|number| *number < file.number);
    for number in older {
        left += size(number).map_err(AuditError::Read)?;
    }
    let mut last = None;
    for pair in numbers.windows(2).filter(|pair| pair[0] < file.number) {
        if left <= most {
            break;
        }
        left -= size(pair[0]).map_err(AuditError::Read)?;
        last = Some((pair[0], first(file, pair[1])?.1));
    }
    remove(file, &numbers, last)
}

/// Says that segments go, and how the last of them ended; then they go.
fn remove(file: &mut LogFile, numbers: &[u64], last: Option<(u64, Place)>) -> Result<usize, AuditError> {
    let Some((through, last)) = last else { return Ok(0) };
    file.append(Body::Retired(Retired { through, last }), Secrets::default())?;
    let old = numbers.iter().filter(|number| **number <= through);
    for number in old.clone() {
        std::fs::remove_file(segment::path(&file.dir, *number)).map_err(AuditError::Write)?;
    }
    Ok(old.count())
}

/// When a segment began, and behind which record.
fn first(file: &LogFile, number: u64) -> Result<(Moment, Place), AuditError> {
    let opened = segment::open(&segment::path(&file.dir, number), false);
    let mut lines = opened.and_then(|file| Lines::new(file, 0)).map_err(AuditError::Read)?;
    let broken = |why: line::BadLine| AuditError::Broken {
        segment: number,
        offset: 0,
        why: why.into(),
    };
    let Some(Piece::Whole(bytes)) = lines.next().map_err(AuditError::Read)? else {
        return Err(broken(line::BadLine::NotARecord));
    };
    let line = line::decode(&bytes).map_err(broken)?;
    let before = Place {
        seq: line.record.seq.saturating_sub(1),
        hash: line.record.prev,
    };
    Ok((line.record.time, before))
}
