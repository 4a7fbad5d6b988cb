//! Removing old segments: whole ones only, oldest first, after a signed record has said how they ended.

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
            let Some((through, last)) = last else { return Ok(0) };
            file.append(Body::Retired(Retired { through, last }), Secrets::default())?;
            let old: Vec<u64> = numbers.into_iter().filter(|number| *number <= through).collect();
            for number in &old {
                std::fs::remove_file(segment::path(&file.dir, *number)).map_err(AuditError::Write)?;
            }
            Ok(old.len())
        })
    }
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
