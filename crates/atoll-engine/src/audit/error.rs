//! Why the log could not be written or read. An entry that cannot be opened means: the action is refused.

use super::line::{BadLine, MAX_LINE};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    #[error("cannot access the audit log at `{}`", path.display())]
    Place { path: PathBuf, source: std::io::Error },
    #[error("cannot use the audit log key `{}`", path.display())]
    Key { path: PathBuf, source: std::io::Error },
    #[error("cannot write to the audit log")]
    Write(#[source] std::io::Error),
    #[error("cannot read the audit log")]
    Read(#[source] std::io::Error),
    #[error("audit log record of {0} bytes exceeds the limit of {MAX_LINE} bytes")]
    TooLong(usize),
    #[error("the audit log's lock file was removed or replaced while this process was using it")]
    Lock,
    #[error("the audit log has too many open entries ({0}); retry when running operations have finished")]
    TooManyOpen(usize),
    #[error("the disk is nearly full; the remaining space is reserved for callers with a key")]
    Reserved,
    #[error("the key has reached its audit log quota of {0} bytes per day")]
    Quota(u64),
    #[error("cannot serialize an audit log record")]
    Spelling(#[from] serde_json::Error),
    #[error("the audit log is corrupt in segment {segment} at byte {offset}: {why}")]
    Broken { segment: u64, offset: u64, why: Break },
    #[error("cannot use the audit log index")]
    Index(#[from] rusqlite::Error),
    #[error("the audit log has no entry {0}")]
    NoEntry(u64),
}

/// What is wrong with a place in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Break {
    #[error(transparent)]
    Line(#[from] BadLine),
    #[error("the record does not continue the hash chain")]
    Chain,
    #[error("the signature is missing or invalid")]
    Signature,
    #[error("records written by this process are missing")]
    Shrunk,
    #[error("the segment file is missing")]
    Gone,
    #[error("the segment file was replaced while this process was writing to it")]
    Replaced,
    #[error("the segment header is missing or invalid")]
    Start,
    #[error("an incomplete line is not at the end of the log")]
    Unfinished,
}
