//! What outlives the server: keys, records of sandboxes, approvals, answers to give again, usage. One SQLite file in the data directory.
//!
//! A write is answered after it was committed (WAL): what was acknowledged survives SIGKILL. Usage is not waited for: it is
//! counted in memory at once and written down a moment later, with the next commit. Writes of keys are flushed to
//! the disk as well, so they survive loss of power; sandboxes do not, and their records need not: a flush for each would be
//! most of the time that making one takes. `atoll keys` opens the same file while a server runs.

mod answers;
mod approvals;
mod error;
mod keys;
mod lane;
mod sandboxes;
mod schema;
mod usage;

pub(crate) use answers::{KeptAnswer, Known, MOST_KEYS, RequestName};
pub use approvals::{ApprovalAnswer, ApprovalFacts, ApprovalInput, ApprovalPage, ApprovalRecord};
pub use error::StoreError;
pub use keys::{KeyRecord, NewKey};
pub use sandboxes::{Page, SandboxRecord, VISIBLE_FOR};
pub use usage::{DayUsage, Usage};

use lane::{Lane, LaneKind};
use rusqlite::Connection;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Another process that writes holds the file for milliseconds; more than this is a fault.
const BUSY: Duration = Duration::from_secs(10);

/// Pages that a connection keeps in memory, in KiB if negative. The system keeps the file in its own memory as well.
const CACHE: i64 = -256;

/// A handle; all copies use the same three threads.
#[derive(Clone, Debug)]
pub struct Store {
    writer: Lane,
    /// For what must survive loss of power.
    flushed: Lane,
    reader: Lane,
}

impl Store {
    /// Where the store of a data directory is.
    pub fn path(home: &Path) -> PathBuf {
        home.join("atoll.db")
    }

    /// Opens the store, makes it if there is none, and brings it to this version. Blocks.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        prepare_place(path).map_err(StoreError::Place)?;
        let (writer, flushed, reader) = (connect(path)?, connect(path)?, connect(path)?);
        writer.pragma_update(None, "synchronous", "normal")?;
        reader.pragma_update(None, "query_only", true)?;
        Ok(Self {
            writer: Lane::start(writer, LaneKind::Writer)?,
            flushed: Lane::start(flushed, LaneKind::Writer)?,
            reader: Lane::start(reader, LaneKind::Reader)?,
        })
    }

    /// Waits until all that was to be written down before is.
    pub async fn settle(&self) -> Result<(), StoreError> {
        self.writer.run(|_| Ok(())).await
    }
}

/// Only the owner reads the store; SQLite gives its side files the same mode.
fn prepare_place(path: &Path) -> std::io::Result<()> {
    if let Some(dir) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    }
    let made = std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn connect(path: &Path) -> Result<Connection, StoreError> {
    let open = || {
        let connection = Connection::open(path)?;
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")?;
        connection.pragma_update(None, "trusted_schema", false)?;
        connection.pragma_update(None, "cache_size", CACHE)?;
        Ok(connection)
    };
    let mut connection = open().map_err(|source| StoreError::Open {
        path: path.to_owned(),
        source,
    })?;
    schema::migrate(&mut connection)?;
    Ok(connection)
}

/// A column that holds JSON or a word, back as what it was.
fn read_back<T, E: std::fmt::Display>(column: &str, read: Result<T, E>) -> Result<T, StoreError> {
    read.map_err(|error| StoreError::Corrupt(format!("column {column}: {error}")))
}

fn to_json(value: &impl serde::Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|error| StoreError::Corrupt(error.to_string()))
}

#[cfg(test)]
mod tests;
