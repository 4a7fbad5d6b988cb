//! The records of a report as the log has them, and whether they are what they were when they were signed.

use super::{MAX_PAGE, ReportError, ReportQuery};
use crate::audit::digest::{Digest, to_hex};
use crate::audit::error::AuditError;
use crate::audit::index::Index;
use crate::audit::key::PublicKey;
use crate::audit::line::{self, BadLine, Line};
use crate::audit::record::{Body, Place};
use crate::audit::segment::{self, Lines, Piece};
use crate::audit::view::View;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, HashSet};
use std::path::Path;

/// Why a report is not to be believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadReport {
    #[error("not a report of `atoll audit report`")]
    NotAReport,
    #[error("the page differs from the one that Atoll writes")]
    Page,
    #[error("the report names another public key")]
    Key,
    #[error("the signature of the report is missing or was not made with this key")]
    Signature,
    #[error("record {position} of the report: {why}")]
    Record { position: usize, why: BadLine },
    #[error("record {0} does not continue the hash chain")]
    Chain(u64),
    #[error("the signature of record {0} is missing or was not made with this key")]
    Checkpoint(u64),
    #[error("no checkpoint covers record {0}")]
    Unsigned(u64),
}

/// What a page carries. In the page it is signed as a whole.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReportProof {
    pub(super) atoll: String,
    pub(super) key: Digest,
    query: ReportQuery,
    records: Vec<RawRecord>,
}

/// A line in parts: a reader needs no canonical JSON to check their hashes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRecord {
    record: String,
    hash: Digest,
    signature: Option<String>,
    private: Option<String>,
}

impl RawRecord {
    fn of(line: &Line, with_private: bool) -> Result<Self, serde_json::Error> {
        let private = line.private.as_ref().filter(|_| with_private);
        Ok(Self {
            record: serde_json::to_string(&line.record)?,
            hash: line.hash,
            signature: line.signature.map(|bytes| to_hex(&bytes)),
            private: private.map(serde_json::to_string).transpose()?,
        })
    }

    fn bytes(&self) -> usize {
        self.record.len() + self.private.as_ref().map_or(0, String::len)
    }

    fn line(&self) -> Result<Line, BadLine> {
        let signature = self.signature.as_ref().map(|text| format!("\"{text}\""));
        let text = format!(
            "{{\"record\":{},\"hash\":\"{}\",\"signature\":{},\"private\":{}}}",
            self.record,
            self.hash,
            signature.as_deref().unwrap_or("null"),
            self.private.as_deref().unwrap_or("null")
        );
        let line = line::decode(text.as_bytes())?;
        match Self::of(&line, true) {
            Ok(again) if again == *self => Ok(line),
            _ => Err(BadLine::Spelling),
        }
    }
}

/// A report that was checked.
#[derive(Clone, Debug)]
pub struct ProvenReport {
    pub query: ReportQuery,
    pub entries: Vec<View>,
    /// The last checkpoint, by which the report can be found in the log.
    pub checkpoint: Place,
    /// The version of Atoll that wrote the page, unless it is this one: then only the records are verified.
    pub other_version: Option<String>,
}

impl ReportProof {
    /// The entries of a log with the runs of the chain that prove them.
    pub(super) fn collect(index: &Index, query: ReportQuery, key: &PublicKey) -> Result<Self, ReportError> {
        let entries = query.entries(index)?;
        let first = entries.first().ok_or(ReportError::Empty)?.id;
        let mut collector = Collector::new(&entries);
        walk(index.dir(), index.place_of(first)?, |line| collector.take(line))?;
        Ok(Self {
            atoll: env!("CARGO_PKG_VERSION").to_owned(),
            key: key.bytes(),
            query,
            records: collector.end()?,
        })
    }

    pub(super) fn check(&self, key: &PublicKey) -> Result<ProvenReport, BadReport> {
        let lines: Vec<Line> = (1..).zip(&self.records).map(read).collect::<Result<_, _>>()?;
        let mut before: Option<&Line> = None;
        for line in &lines {
            follows(before, line)?;
            is_signed_rightly(line, key)?;
            before = Some(line);
        }
        let last = before.ok_or(BadReport::NotAReport)?;
        let checkpoint = Place {
            seq: last.record.seq,
            hash: last.hash,
        };
        if !last.record.body.is_signed() {
            return Err(BadReport::Unsigned(checkpoint.seq));
        }
        Ok(ProvenReport {
            entries: views(&lines, &self.query),
            query: self.query.clone(),
            checkpoint,
            other_version: None,
        })
    }
}

fn read((position, raw): (usize, &RawRecord)) -> Result<Line, BadReport> {
    raw.line().map_err(|why| BadReport::Record { position, why })
}

/// Behind a signed record another run may begin.
fn follows(before: Option<&Line>, line: &Line) -> Result<(), BadReport> {
    let Some(before) = before else { return Ok(()) };
    let (last, seq) = (before.record.seq, line.record.seq);
    let is_next = seq.checked_sub(1) == Some(last);
    match (is_next, before.record.body.is_signed()) {
        (true, _) if line.record.prev == before.hash => Ok(()),
        (true, _) => Err(BadReport::Chain(seq)),
        (false, true) if seq > last => Ok(()),
        (false, true) => Err(BadReport::Chain(seq)),
        (false, false) => Err(BadReport::Unsigned(last)),
    }
}

fn is_signed_rightly(line: &Line, key: &PublicKey) -> Result<(), BadReport> {
    let is_right = if line.record.body.is_signed() {
        key.has_signed(line.hash, line.signature)
    } else {
        line.signature.is_none()
    };
    if is_right {
        Ok(())
    } else {
        Err(BadReport::Checkpoint(line.record.seq))
    }
}

fn views(lines: &[Line], query: &ReportQuery) -> Vec<View> {
    let end = |line: &Line| match &line.record.body {
        Body::Closed(closed) => Some(closed.entry),
        _ => None,
    };
    let ends: HashMap<u64, &Line> = lines
        .iter()
        .filter_map(|line| end(line).map(|entry| (entry, line)))
        .collect();
    let view = |line: &Line| View::of(line, ends.get(&line.record.seq).copied());
    lines.iter().filter_map(view).filter(|view| query.takes(view)).collect()
}

/// Takes what is wanted, and what follows it up to the next signed record.
struct Collector {
    wanted: HashSet<Digest>,
    records: Vec<RawRecord>,
    bytes: usize,
    is_covered: bool,
}

impl Collector {
    fn new(entries: &[View]) -> Self {
        let hashes = entries.iter().flat_map(|view| [Some(view.hash), view.closed_hash]);
        Self {
            wanted: hashes.flatten().collect(),
            records: Vec::new(),
            bytes: 0,
            is_covered: true,
        }
    }

    /// Whether there is more to take.
    fn take(&mut self, line: &Line) -> Result<bool, ReportError> {
        let is_wanted = self.wanted.remove(&line.hash);
        if is_wanted || !self.is_covered {
            let raw = RawRecord::of(line, is_wanted)?;
            self.bytes += raw.bytes();
            if self.bytes > MAX_PAGE {
                return Err(ReportError::TooLarge);
            }
            self.records.push(raw);
            self.is_covered = line.record.body.is_signed();
        }
        Ok(!self.is_covered || !self.wanted.is_empty())
    }

    fn end(self) -> Result<Vec<RawRecord>, ReportError> {
        match (self.wanted.is_empty(), self.is_covered) {
            (true, true) => Ok(self.records),
            (true, false) => Err(ReportError::Unsigned),
            (false, _) => Err(ReportError::Line(BadLine::NotARecord)),
        }
    }
}

/// Goes through the lines from a place on, until `take` has enough.
fn walk(
    dir: &Path,
    (mut number, mut offset): (u64, u64),
    mut take: impl FnMut(&Line) -> Result<bool, ReportError>,
) -> Result<(), ReportError> {
    while let Ok(file) = segment::open(&segment::path(dir, number), false) {
        let mut lines = Lines::new(file, offset).map_err(AuditError::Read)?;
        while let Some(piece) = lines.next().map_err(AuditError::Read)? {
            let Piece::Whole(bytes) = piece else { return Ok(()) };
            if !take(&line::decode(&bytes)?)? {
                return Ok(());
            }
        }
        (number, offset) = (number + 1, 0);
    }
    Ok(())
}
