//! Finds what was changed, removed, reordered, inserted or cut off, with nothing but the files and a public key.
//!
//! Reads in one pass and in bounded memory. A problem has a place; after one, checking goes on behind it.

use super::digest::Digest;
use super::error::AuditError;
use super::head::Head;
use super::key::PublicKey;
use super::line::{self, Line};
use super::record::{Body, Missing, Place, Retired};
use super::segment::{self, Lines, Piece};
use serde::Serialize;
use std::path::Path;

/// More problems are counted and not told.
const MAX_PROBLEMS: usize = 100;
/// More erased parts than this cannot be matched with what says that they were erased.
const MAX_ERASED: usize = 1 << 20;

/// Something that nobody who only writes and crashes could have caused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub segment: u64,
    /// Counted from 1; 0 is the segment as a whole.
    pub line: u64,
    pub seq: Option<u64>,
    pub what: String,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    pub segments: u64,
    pub records: u64,
    pub first: Option<u64>,
    /// The last record. Kept elsewhere, it shows later that nothing was cut off.
    pub head: Option<Place>,
    /// Records behind the last signed one: whoever can write the files could have made them.
    pub unsigned: u64,
    /// Entries whose private part was erased.
    pub redacted: u64,
    pub notes: Vec<String>,
    pub problems: Vec<Problem>,
    pub more_problems: u64,
}

impl Report {
    pub fn is_clean(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Checks a log. `expect` is a record that must be in it.
pub fn verify(dir: &Path, key: &PublicKey, expect: Option<Place>) -> Result<Report, AuditError> {
    let place = |source| AuditError::Place {
        path: dir.to_owned(),
        source,
    };
    let numbers = segment::list(dir).map_err(place)?;
    let mut check = Check::new(key, Head::read(dir), expect);
    for number in &numbers {
        check.segment(dir, *number)?;
    }
    Ok(check.end(numbers.last().copied().unwrap_or(0)))
}

fn missing(what: Missing) -> &'static str {
    match what {
        Missing::Head => {
            "the file `head` was missing or unreadable when Atoll wrote this record; the log may have been truncated before"
        }
        Missing::Records => {
            "the log had a key or an index but no records when Atoll wrote this one: they were removed, or the first start was interrupted"
        }
    }
}

struct Check<'a> {
    key: &'a PublicKey,
    head: Option<Head>,
    head_found: bool,
    expect: Option<Place>,
    expect_found: bool,
    report: Report,
    /// The record before, if it could be read.
    before: Option<Place>,
    segment: u64,
    line: u64,
    lowest: Option<(u64, Place)>,
    retired: Vec<Retired>,
    /// Lines without their private part: number, segment, line.
    erased: Vec<(u64, u64, u64)>,
    redacted: std::collections::HashSet<u64>,
    /// So many erased parts or statements about them that they are not compared any more.
    overflow: bool,
}

impl<'a> Check<'a> {
    fn new(key: &'a PublicKey, head: Option<Head>, expect: Option<Place>) -> Self {
        Self {
            key,
            head,
            head_found: false,
            expect,
            expect_found: false,
            report: Report::default(),
            before: None,
            segment: 0,
            line: 0,
            lowest: None,
            retired: Vec::new(),
            erased: Vec::new(),
            redacted: std::collections::HashSet::new(),
            overflow: false,
        }
    }

    fn problem(&mut self, seq: Option<u64>, what: impl Into<String>) {
        if self.report.problems.len() >= MAX_PROBLEMS {
            self.report.more_problems += 1;
            return;
        }
        self.report.problems.push(Problem {
            segment: self.segment,
            line: self.line,
            seq,
            what: what.into(),
        });
    }

    fn segment(&mut self, dir: &Path, number: u64) -> Result<(), AuditError> {
        let expected = self.segment + 1;
        let follows = self.report.segments == 0 || number == expected;
        (self.segment, self.line) = (number, 0);
        if !follows {
            self.problem(None, format!("segments {expected} to {} are missing", number - 1));
        }
        self.report.segments += 1;
        let opened = segment::open(&segment::path(dir, number), false).and_then(|file| Lines::new(file, 0));
        let mut lines = match opened {
            Ok(lines) => lines,
            Err(error) => {
                self.problem(None, format!("cannot read the segment: {error}"));
                return Ok(());
            }
        };
        let mut begins = 0;
        while let Some(piece) = lines.next().map_err(AuditError::Read)? {
            self.line += 1;
            match piece {
                Piece::Whole(bytes) => self.whole(&bytes, begins),
                Piece::Unfinished(bytes) => self.problem(
                    None,
                    format!(
                        "the last line is incomplete ({} bytes) after a crash or truncation; the next start moves it to `cut/`",
                        bytes.len()
                    ),
                ),
                Piece::TooLong => self.unreadable(line::BadLine::TooLong),
            }
            begins = lines.offset;
        }
        if self.line == 0 {
            self.problem(None, "the segment is empty");
        }
        Ok(())
    }

    fn whole(&mut self, bytes: &[u8], begins: u64) {
        match line::decode(bytes) {
            Ok(line) => self.line(&line, begins),
            Err(why) => self.unreadable(why),
        }
    }

    fn unreadable(&mut self, why: line::BadLine) {
        let follows = self.before.map(|before| before.seq + 1);
        self.problem(follows, format!("invalid or modified line: {why}"));
        // What its hash was is not known: the next one is taken at its word.
        self.before = None;
    }

    fn line(&mut self, line: &Line, begins: u64) {
        let (seq, place) = (
            line.record.seq,
            Place {
                seq: line.record.seq,
                hash: line.hash,
            },
        );
        self.follows(line);
        self.starts(line);
        self.signature(line);
        if let Some(head) = self.head.as_ref().filter(|head| head.seq == seq) {
            self.head_found = (head.segment, head.offset, head.hash) == (self.segment, begins, line.hash);
        }
        self.expect_found |= self.expect == Some(place);
        if line.is_redacted() {
            self.erase(seq);
        }
        self.body(line);
        self.report.records += 1;
        self.report.first.get_or_insert(seq);
        self.report.head = Some(place);
        self.before = Some(place);
    }

    fn follows(&mut self, line: &Line) {
        let (seq, prev) = (line.record.seq, line.record.prev);
        match self.before {
            Some(before) if seq == before.seq + 1 && prev == before.hash => {}
            Some(before) if seq > before.seq + 1 => {
                let missing = (before.seq + 1, seq - 1);
                self.problem(Some(seq), format!("records {} to {} are missing", missing.0, missing.1));
            }
            Some(before) if seq <= before.seq => {
                self.problem(
                    Some(seq),
                    format!("the record is out of order: it follows record {}", before.seq),
                );
            }
            Some(_) => self.problem(Some(seq), "the hash of the previous record does not match"),
            None if self.report.records > 0 => {}
            None if self.segment == 1 && self.line == 1 => {
                if (seq, prev) != (1, Digest::default()) {
                    self.problem(Some(seq), "the log does not start with record 1");
                }
            }
            None => {
                let last = Place {
                    seq: seq.saturating_sub(1),
                    hash: prev,
                };
                self.lowest = Some((self.segment, last));
            }
        }
    }

    fn starts(&mut self, line: &Line) {
        let start = match &line.record.body {
            Body::Segment(start) => Some(start),
            _ => None,
        };
        let right = match (self.line, start) {
            (1, Some(start)) => start.number == self.segment && start.key == self.key.bytes(),
            (1, None) | (_, Some(_)) => false,
            (_, None) => true,
        };
        if !right {
            self.problem(
                Some(line.record.seq),
                "the segment header is missing, misplaced, or names another segment or key",
            );
        }
    }

    fn signature(&mut self, line: &Line) {
        let seq = Some(line.record.seq);
        match (line.record.body.is_signed(), line.signature) {
            (true, signature) if self.key.has_signed(line.hash, signature) => self.report.unsigned = 0,
            (true, _) => self.problem(seq, "the signature is missing or was not made with this key"),
            (false, Some(_)) => self.problem(seq, "unexpected signature on a record of an unsigned kind"),
            (false, None) => self.report.unsigned += 1,
        }
    }

    fn erase(&mut self, seq: u64) {
        match self.erased.len() < MAX_ERASED {
            true => self.erased.push((seq, self.segment, self.line)),
            false => self.overflow = true,
        }
    }

    fn body(&mut self, line: &Line) {
        let at = format!("segment {} line {}", self.segment, self.line);
        match &line.record.body {
            Body::Cut(cut) => self.note(format!(
                "{at}: a crash left an incomplete line of {} bytes, which was moved to `cut/`, sha256 {}",
                cut.bytes, cut.sha256
            )),
            Body::Truncated(place) => self.problem(
                Some(line.record.seq),
                format!(
                    "the log previously reached record {} (hash {}), which was missing when Atoll wrote this record",
                    place.seq, place.hash
                ),
            ),
            Body::Missed(missed) => self.problem(Some(line.record.seq), missing(missed.what)),
            Body::Redacted(redacted) => {
                self.overflow |= self.redacted.len() + redacted.entries.len() > MAX_ERASED;
                if !self.overflow {
                    self.redacted.extend(&redacted.entries);
                }
            }
            Body::Retired(retired) => {
                self.retired.push(retired.clone());
                // Only the last ones can speak about what is missing at the front.
                if self.retired.len() > MAX_PROBLEMS {
                    self.retired.remove(0);
                }
                self.note(format!(
                    "{at}: segments up to {} were removed by retention",
                    retired.through
                ));
            }
            Body::Segment(_) | Body::Opened(_) | Body::Closed(_) | Body::Checkpoint(_) => {}
        }
    }

    fn note(&mut self, text: String) {
        if self.report.notes.len() < MAX_PROBLEMS {
            self.report.notes.push(text);
        }
    }

    /// What only the whole log can tell.
    fn end(mut self, newest: u64) -> Report {
        if self.report.records == 0 && self.report.problems.is_empty() {
            self.problem(None, "no audit log found");
        }
        self.front();
        self.erasures();
        (self.segment, self.line) = (newest, 0);
        self.tail();
        self.report
    }

    /// Where the first segments are missing, a signed record must say that they were removed.
    fn front(&mut self) {
        let Some((segment, last)) = self.lowest else { return };
        (self.segment, self.line) = (segment, 1);
        let said = self.retired.iter().any(|retired| match retired.through + 1 {
            next if next == segment => retired.last == last,
            next => next > segment,
        });
        if !said {
            self.problem(
                Some(last.seq + 1),
                "the records before this one are missing, and no retention record accounts for them",
            );
        }
    }

    fn erasures(&mut self) {
        if self.overflow {
            self.problem(None, "too many redacted records to verify");
            return;
        }
        for (seq, segment, line) in std::mem::take(&mut self.erased) {
            match self.redacted.contains(&seq) {
                true => self.report.redacted += 1,
                false => {
                    (self.segment, self.line) = (segment, line);
                    self.problem(
                        Some(seq),
                        "the field `private` is missing, and no redaction record accounts for it",
                    );
                }
            }
        }
    }

    fn tail(&mut self) {
        let last = self.report.head.map_or(0, |head| head.seq);
        match self.head.take() {
            None => self.problem(None, "the file `head` is missing or was modified"),
            Some(head) if !head.is_signed_by(self.key) => {
                self.problem(Some(head.seq), "the file `head` is not signed with this key");
            }
            Some(head) if head.seq > last => {
                self.problem(
                    Some(head.seq),
                    format!("the log is truncated: it previously reached record {}", head.seq),
                );
            }
            Some(head) if !self.head_found => {
                self.problem(
                    Some(head.seq),
                    "the record named in the file `head` is not at its recorded position",
                );
            }
            Some(_) => {}
        }
        if let Some(expect) = self.expect.filter(|_| !self.expect_found) {
            self.problem(Some(expect.seq), "the expected record is not in the log");
        }
    }
}
