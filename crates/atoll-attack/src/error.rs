//! Why a try could not be made. None of it says anything about a wall.

use atoll_engine::EngineError;
use std::error::Error;

#[derive(Debug, thiserror::Error)]
pub enum AttackError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error("cannot {what}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
    #[error("{0}")]
    Words(String),
}

impl AttackError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    /// The whole chain of causes in one sentence.
    pub(crate) fn in_words(&self) -> String {
        let mut words = self.to_string();
        let mut next = self.source();
        while let Some(cause) = next {
            words.push_str(&format!(": {cause}"));
            next = cause.source();
        }
        words
    }
}
