//! What can go wrong with the store.

use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the store `{}`", path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("cannot prepare the store directory")]
    Place(#[source] std::io::Error),
    #[error(
        "the store was written by a newer version of Atoll: its schema version is {found}, this build supports {known}; upgrade Atoll"
    )]
    Newer { found: i64, known: i64 },
    #[error("store query failed")]
    Sql(#[from] rusqlite::Error),
    #[error("store commit failed")]
    Commit(#[source] Arc<rusqlite::Error>),
    #[error("the store contains invalid data: {0}")]
    Corrupt(String),
    #[error("the store is shut down")]
    Stopped,
}
