//! An index for questions: who, when, what, how it ended. SQLite beside the log, made from it and thrown away at will.
//!
//! The log is the truth: the index holds places in it, and every answer is read from there. Only readers write it, so that an
//! append never waits for it. In a directory that cannot be written it lives in memory.

use super::action::Ending;
use super::digest::Digest;
use super::error::AuditError;
use super::line::{self, Line};
use super::moment::Moment;
use super::record::Body;
use super::segment::{self, Lines, Piece};
use super::view::View;
use rusqlite::{Connection, OptionalExtension, Transaction, params};
use std::path::{Path, PathBuf};
use std::time::Duration;

pub(super) const FILE: &str = "index.db";
const SCHEMA_VERSION: i64 = 2;
const BUSY: Duration = Duration::from_secs(10);
const SCHEMA: &str = "
DROP TABLE IF EXISTS entries;
DROP TABLE IF EXISTS place;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY NOT NULL,
    time INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    sandbox TEXT,
    execution TEXT,
    segment INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    closed INTEGER,
    closed_segment INTEGER,
    closed_offset INTEGER,
    changed INTEGER NOT NULL
) STRICT;
CREATE INDEX entries_by_tenant ON entries (tenant, seq);
CREATE INDEX entries_by_sandbox ON entries (sandbox) WHERE sandbox IS NOT NULL;
CREATE INDEX entries_by_execution ON entries (execution) WHERE execution IS NOT NULL;
CREATE INDEX entries_by_change ON entries (changed);
CREATE TABLE place (segment INTEGER NOT NULL, offset INTEGER NOT NULL, line INTEGER NOT NULL, hash TEXT NOT NULL) STRICT;
PRAGMA user_version = 2;
";

/// Which entries are asked for.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub tenant: Option<String>,
    pub since: Option<Moment>,
    pub until: Option<Moment>,
    /// Entries that ended so.
    pub outcome: Option<Ending>,
    /// Entries of this key: its name, or its id.
    pub api_key: Option<String>,
    /// Entries behind this one only.
    pub after: Option<u64>,
    /// The newest first.
    pub before: Option<u64>,
}

/// Entries that are read at once to find those that ended in a certain way, or were of a certain key.
const PAGE: usize = 500;

impl Query {
    /// Whether an entry is one of those, wherever it stands in the log.
    pub fn takes(&self, view: &View) -> bool {
        let of_key = |asked: &String| {
            let known = [&view.actor.key, &view.key_name];
            known.into_iter().flatten().any(|known| known == asked)
        };
        self.tenant.as_ref().is_none_or(|tenant| *tenant == view.actor.tenant)
            && self.since.is_none_or(|since| view.time >= since)
            && self.until.is_none_or(|until| view.time < until)
            && self.outcome.is_none_or(|outcome| view.outcome == Some(outcome))
            && self.api_key.as_ref().is_none_or(of_key)
    }

    /// How many entries to read to find so many. What stands in the entries themselves, the index cannot choose by.
    fn page(&self, most: usize) -> usize {
        match self.outcome.is_some() || self.api_key.is_some() {
            true => most.max(PAGE),
            false => most,
        }
    }

    fn go_on_behind(&mut self, last: u64) {
        match self.before {
            Some(_) => self.before = Some(last),
            None => self.after = Some(last),
        }
    }
}

#[derive(Debug)]
pub struct Index {
    dir: PathBuf,
    db: Connection,
}

/// How far the log was read: the next line, and the last one with its hash.
#[derive(Clone)]
struct Read {
    segment: u64,
    offset: u64,
    line: u64,
    hash: Digest,
}

impl Index {
    pub fn open(dir: &Path) -> Result<Self, AuditError> {
        let db = on_disk(&dir.join(FILE)).or_else(|_| Connection::open_in_memory())?;
        let version: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
        if version != SCHEMA_VERSION {
            db.execute_batch(SCHEMA)?;
        }
        let dir = dir.to_owned();
        Ok(Self { dir, db })
    }

    /// Reads what was written since. One that does not fit the log any more is made anew.
    pub fn update(&mut self) -> Result<(), AuditError> {
        let dir = self.dir.clone();
        let first = segment::list(&dir)
            .map_err(AuditError::Read)?
            .first()
            .copied()
            .unwrap_or(1);
        let change = self
            .db
            .transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let known = place(&change)?;
        let fits = known.as_ref().is_some_and(|known| still_there(&dir, known));
        let whole = match known.filter(|_| fits) {
            Some(known) => !take_from(&change, &dir, known)?,
            None => true,
        };
        if whole {
            change.execute_batch("DELETE FROM entries; DELETE FROM place;")?;
            let begin = Read {
                segment: first,
                offset: 0,
                line: 0,
                hash: Digest::default(),
            };
            take_from(&change, &dir, begin)?;
        }
        // What retention has removed cannot be shown.
        change.execute("DELETE FROM entries WHERE segment < ?1", params![signed(first)])?;
        change.commit()?;
        Ok(())
    }

    /// One entry.
    pub fn find(&self, seq: u64) -> Result<View, AuditError> {
        self.view(&self.places_of(seq)?)
    }

    /// Where an entry was opened: segment and offset.
    pub(super) fn place_of(&self, seq: u64) -> Result<(u64, u64), AuditError> {
        self.places_of(seq).map(|places| places.opened)
    }

    fn places_of(&self, seq: u64) -> Result<Places, AuditError> {
        let places = self.db.query_row(
            &format!("SELECT {COLUMNS} FROM entries WHERE seq = ?1"),
            params![signed(seq)],
            places,
        );
        places.optional()?.ok_or(AuditError::NoEntry(seq))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Entries in order, so many at most; the newest of them first if `before` is given.
    pub fn list(&self, query: &Query, most: usize) -> Result<Vec<View>, AuditError> {
        let size = query.page(most);
        let (mut query, mut found) = (query.clone(), Vec::new());
        loop {
            let page = self.page(&query, size)?;
            let (is_full, last) = (page.len() == size, page.last().map(|view| view.id));
            found.extend(page.into_iter().filter(|view| query.takes(view)));
            match last {
                Some(last) if is_full && found.len() < most => query.go_on_behind(last),
                _ => break,
            }
        }
        found.truncate(most);
        Ok(found)
    }

    fn page(&self, query: &Query, most: usize) -> Result<Vec<View>, AuditError> {
        let order = if query.before.is_some() { "DESC" } else { "ASC" };
        let text = format!(
            "SELECT {COLUMNS} FROM entries WHERE (?1 IS NULL OR tenant = ?1) AND time >= ?2 AND time < ?3
             AND seq > ?4 AND seq < ?5 ORDER BY seq {order} LIMIT ?6"
        );
        let mut statement = self.db.prepare_cached(&text)?;
        let rows = statement.query_map(
            params![
                query.tenant,
                query.since.map_or(i64::MIN, Moment::micros),
                query.until.map_or(i64::MAX, Moment::micros),
                query.after.map_or(-1, signed),
                query.before.map_or(i64::MAX, signed),
                signed(most as u64),
            ],
            places,
        )?;
        let rows: Vec<Places> = rows.collect::<Result<_, _>>()?;
        rows.iter().map(|places| self.view(places)).collect()
    }

    /// Entries of one sandbox or one execution, in order, behind this one.
    pub fn about(&self, id: &str, after: u64, most: usize) -> Result<Vec<View>, AuditError> {
        let text = format!(
            "SELECT {COLUMNS} FROM entries WHERE (sandbox = ?1 OR execution = ?1) AND seq > ?2 ORDER BY seq LIMIT ?3"
        );
        let mut statement = self.db.prepare_cached(&text)?;
        let rows = statement.query_map(params![id, signed(after), signed(most as u64)], places)?;
        let rows: Vec<Places> = rows.collect::<Result<_, _>>()?;
        rows.iter().map(|places| self.view(places)).collect()
    }

    /// Entries that were opened or closed behind this record, in that order, and the last such record.
    pub fn changed(&self, after: u64, most: usize) -> Result<Vec<(u64, View)>, AuditError> {
        let text = format!("SELECT {COLUMNS} FROM entries WHERE changed > ?1 ORDER BY changed LIMIT ?2");
        let mut statement = self.db.prepare_cached(&text)?;
        let rows = statement.query_map(params![signed(after), signed(most as u64)], places)?;
        let rows: Vec<Places> = rows.collect::<Result<_, _>>()?;
        rows.iter()
            .map(|places| Ok((places.changed, self.view(places)?)))
            .collect()
    }

    /// The last record that opened or closed an entry.
    pub fn last_change(&self) -> Result<u64, AuditError> {
        let last: Option<i64> = self
            .db
            .query_row("SELECT max(changed) FROM entries", [], |row| row.get(0))?;
        Ok(last.and_then(|last| u64::try_from(last).ok()).unwrap_or(0))
    }

    fn view(&self, places: &Places) -> Result<View, AuditError> {
        let opened = read_at(&self.dir, places.opened)?;
        let closed = places.closed.map(|place| read_at(&self.dir, place)).transpose()?;
        View::of(&opened, closed.as_ref()).ok_or(AuditError::NoEntry(opened.record.seq))
    }
}

const COLUMNS: &str = "segment, offset, closed_segment, closed_offset, changed";

struct Places {
    opened: (u64, u64),
    closed: Option<(u64, u64)>,
    changed: u64,
}

fn places(row: &rusqlite::Row<'_>) -> rusqlite::Result<Places> {
    let number = |index: usize| {
        row.get::<_, Option<i64>>(index)
            .map(|value| value.and_then(|value| u64::try_from(value).ok()))
    };
    Ok(Places {
        opened: (number(0)?.unwrap_or(0), number(1)?.unwrap_or(0)),
        closed: number(2)?.zip(number(3)?),
        changed: number(4)?.unwrap_or(0),
    })
}

/// Numbers of the log fit: it would take a thousand centuries to write so many records.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn on_disk(path: &Path) -> rusqlite::Result<Connection> {
    let db = Connection::open(path)?;
    db.busy_timeout(BUSY)?;
    db.pragma_update(None, "journal_mode", "wal")?;
    db.pragma_update(None, "synchronous", "off")?;
    db.pragma_update(None, "trusted_schema", false)?;
    Ok(db)
}

fn place(db: &Transaction<'_>) -> Result<Option<Read>, AuditError> {
    let row = db.query_row("SELECT segment, offset, line, hash FROM place", [], |row| {
        let number = |index| row.get::<_, i64>(index).map(|value| u64::try_from(value).unwrap_or(0));
        Ok((number(0)?, number(1)?, number(2)?, row.get::<_, String>(3)?))
    });
    Ok(row.optional()?.and_then(|(segment, offset, line, hash)| {
        Some(Read {
            segment,
            offset,
            line,
            hash: Digest::parse(&hash)?,
        })
    }))
}

fn still_there(dir: &Path, known: &Read) -> bool {
    read_at(dir, (known.segment, known.line)).is_ok_and(|line| line.hash == known.hash)
}

fn read_at(dir: &Path, (number, offset): (u64, u64)) -> Result<Line, AuditError> {
    let file = segment::open(&segment::path(dir, number), false).map_err(AuditError::Read)?;
    let mut lines = Lines::new(file, offset).map_err(AuditError::Read)?;
    let broken = |why: line::BadLine| AuditError::Broken {
        segment: number,
        offset,
        why: why.into(),
    };
    match lines.next().map_err(AuditError::Read)? {
        Some(Piece::Whole(bytes)) => line::decode(&bytes).map_err(broken),
        _ => Err(broken(line::BadLine::NotARecord)),
    }
}

/// Takes all whole lines from there on. `false` if lines before have moved: parts of them were erased.
fn take_from(db: &Transaction<'_>, dir: &Path, mut read: Read) -> Result<bool, AuditError> {
    let from_start = (read.offset, read.line) == (0, 0);
    // A line that cannot be read is none to ask for; `verify` tells of it. It is read again next time: perhaps it is mended.
    let mut bad: Option<Read> = None;
    loop {
        let file = segment::open(&segment::path(dir, read.segment), false);
        let Ok(file) = file else { break };
        let mut lines = Lines::new(file, read.offset).map_err(AuditError::Read)?;
        while let Some(piece) = lines.next().map_err(AuditError::Read)? {
            let Some(line) = whole(&piece) else {
                bad.get_or_insert_with(|| read.clone());
                read.offset = lines.offset;
                continue;
            };
            if matches!(line.record.body, Body::Redacted(_)) && !from_start {
                return Ok(false);
            }
            take(db, &line, read.segment, read.offset)?;
            (read.line, read.offset, read.hash) = (read.offset, lines.offset, line.hash);
        }
        if !segment::path(dir, read.segment + 1).exists() {
            break;
        }
        (read.segment, read.offset) = (read.segment + 1, 0);
    }
    keep(db, &bad.unwrap_or(read)).map(|()| true)
}

fn whole(piece: &Piece) -> Option<Line> {
    match piece {
        Piece::Whole(bytes) => line::decode(bytes).ok(),
        Piece::Unfinished(_) | Piece::TooLong => None,
    }
}

/// The last line that was read may stand in the segment before an empty one; then the next update begins anew.
fn keep(db: &Transaction<'_>, read: &Read) -> Result<(), AuditError> {
    db.execute("DELETE FROM place", [])?;
    db.execute(
        "INSERT INTO place VALUES (?1, ?2, ?3, ?4)",
        params![
            signed(read.segment),
            signed(read.offset),
            signed(read.line),
            read.hash.to_string()
        ],
    )?;
    Ok(())
}

fn take(db: &Transaction<'_>, line: &Line, segment: u64, offset: u64) -> Result<(), AuditError> {
    let seq = signed(line.record.seq);
    match &line.record.body {
        Body::Opened(opened) => db
            .prepare_cached("INSERT OR REPLACE INTO entries VALUES (?1, ?2, ?3, ?6, ?7, ?4, ?5, NULL, NULL, NULL, ?1)")?
            .execute(params![
                seq,
                line.record.time.micros(),
                opened.actor.tenant,
                signed(segment),
                signed(offset),
                opened.sandbox.as_ref().map(|id| id.as_str()),
                opened.execution.as_ref().map(|id| id.as_str()),
            ])?,
        Body::Closed(closed) => db
            .prepare_cached(
                "UPDATE entries SET closed = ?1, closed_segment = ?2, closed_offset = ?3, changed = ?1,
                 sandbox = coalesce(sandbox, ?5) WHERE seq = ?4",
            )?
            .execute(params![
                seq,
                signed(segment),
                signed(offset),
                signed(closed.entry),
                closed.sandbox.as_ref().map(|id| id.as_str()),
            ])?,
        _ => 0,
    };
    Ok(())
}
