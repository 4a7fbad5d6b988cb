//! What can go wrong with the store.

use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot open the store `{}`", path.display())]
    Open { path: PathBuf, source: rusqlite::Error },
    #[error("cannot prepare the store's directory")]
    Place(#[source] std::io::Error),
    #[error("the store is of a newer Atoll: its version is {found}, this one knows {known}; update Atoll")]
    Newer { found: i64, known: i64 },
    #[error("the store failed")]
    Sql(#[from] rusqlite::Error),
    #[error("the store could not commit: {0}")]
    Commit(String),
    #[error("the store holds what it should not: {0}")]
    Corrupt(String),
    #[error("the store has stopped")]
    Stopped,
}
