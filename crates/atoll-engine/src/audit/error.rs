//! Why the log could not be written or read. An entry that cannot be opened means: the action is refused.

use super::line::BadLine;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("the audit log cannot be used: `{}`", path.display())]
    Place { path: PathBuf, source: std::io::Error },
    #[error("the key of the audit log cannot be used: `{}`", path.display())]
    Key { path: PathBuf, source: std::io::Error },
    #[error("the audit log cannot be written")]
    Write(#[source] std::io::Error),
    #[error("the audit log cannot be read")]
    Read(#[source] std::io::Error),
    #[error("a record of the audit log would be too long: {0} bytes")]
    TooLong(usize),
    #[error("the lock of the audit log was removed or replaced under this process")]
    Lock,
    #[error("the audit log has {0} entries that are not closed yet, and takes no more")]
    TooManyOpen(usize),
    #[error("the disk is nearly full: what is left is for callers with a key")]
    Reserved,
    #[error("a record of the audit log cannot be spelled")]
    Spelling(#[from] serde_json::Error),
    #[error("the audit log is broken in segment {segment} at byte {offset}: {why}")]
    Broken { segment: u64, offset: u64, why: Break },
    #[error("the index of the audit log cannot be used")]
    Index(#[from] rusqlite::Error),
    #[error("there is no entry {0} in the audit log")]
    NoEntry(u64),
}

/// What is wrong with a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    #[error(transparent)]
    Line(#[from] BadLine),
    #[error("the record does not follow the one before it")]
    Chain,
    #[error("the signature is missing or false")]
    Signature,
    #[error("records that this process has written are gone")]
    Shrunk,
    #[error("the segment is gone")]
    Gone,
    #[error("another file lies in the place of the segment that this process writes")]
    Replaced,
    #[error("the segment does not begin as one")]
    Start,
    #[error("an unfinished line is not at the end")]
    Unfinished,
}
