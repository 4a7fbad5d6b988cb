//! Finds the end of the chain at a start, or begins one, and says what is missing of it.

use super::chain::Chain;
use super::error::{AuditError, Break};
use super::file::{LogFile, Parts, broken, create};
use super::head::Head;
use super::key::{Key, PublicKey};
use super::line;
use super::record::{Body, Missed, Missing, Secrets};
use super::segment::{self, Lines, Piece};
use std::fs::File;

/// A place from which a chain can be read on: what it is there, the segment, and the next line.
type Anchor = (Chain, u64, File, u64);

impl LogFile {
    pub(super) fn open(parts: Parts) -> Result<Self, AuditError> {
        let numbers = segment::list(&parts.dir).map_err(AuditError::Read)?;
        let was_used = parts.key.was_there || parts.dir.join(super::index::FILE).exists();
        let public = PublicKey::of(&parts.key);
        let head = Head::read(&parts.dir).filter(|head| head.is_signed_by(&public));
        let named = head.as_ref().and_then(|head| named(&parts, head));
        let head_is_there = named.is_some();
        let found = named.or_else(|| newest(&parts, &numbers));
        let begins = found.is_none();
        let mut log = match (found, numbers.last()) {
            (Some(found), _) => Self::resume(parts, found)?,
            (None, None) => Self::begin(parts)?,
            // The very first line was never finished.
            (None, Some(1)) => Self::begin_again(parts)?,
            (None, Some(newest)) => return Err(broken(*newest, 0, Break::Start)),
        };
        match head {
            Some(_) if head_is_there => {}
            Some(head) => log.say(Body::Truncated(head.place()))?,
            None if begins && was_used => log.say(missed(Missing::Records))?,
            // The head is written right behind the first line: only a crash between the two leaves none.
            None if !begins && (log.number, log.chain.seq) != (1, 1) => log.say(missed(Missing::Head))?,
            None => {}
        }
        Ok(log)
    }

    fn begin(parts: Parts) -> Result<Self, AuditError> {
        let file = create(&parts.dir, 1)?;
        let mut log = Self::with(parts, (Chain::default(), 1, file, 0));
        log.start_segment()?;
        Ok(log)
    }

    fn begin_again(parts: Parts) -> Result<Self, AuditError> {
        let path = segment::path(&parts.dir, 1);
        let file = segment::open(&path, true).map_err(AuditError::Read)?;
        let mut log = Self::with(parts, (Chain::default(), 1, file, 0));
        log.start_over()?;
        Ok(log)
    }

    fn resume(parts: Parts, found: Anchor) -> Result<Self, AuditError> {
        let mut log = Self::with(parts, found);
        log.catch_up()?;
        Ok(log)
    }

    fn with(parts: Parts, (chain, number, file, end): Anchor) -> Self {
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

    /// Signed, so that it is said for ever.
    fn say(&mut self, body: Body) -> Result<(), AuditError> {
        self.append(body, Secrets::default()).map(drop)
    }
}

fn missed(what: Missing) -> Body {
    Body::Missed(Missed { what })
}

/// The signed place that `head` names, if it is there.
fn named(parts: &Parts, head: &Head) -> Option<Anchor> {
    let found = anchor(&parts.dir, &parts.key, head.segment, head.offset)?;
    (found.0.place() == head.place()).then_some(found)
}

/// The start of the newest segment that has one.
fn newest(parts: &Parts, numbers: &[u64]) -> Option<Anchor> {
    let mut last_two = numbers.iter().rev().take(2);
    last_two.find_map(|number| anchor(&parts.dir, &parts.key, *number, 0))
}

/// A signed line that says what is open, and what follows it.
pub(super) fn anchor(dir: &std::path::Path, key: &Key, number: u64, offset: u64) -> Option<Anchor> {
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
