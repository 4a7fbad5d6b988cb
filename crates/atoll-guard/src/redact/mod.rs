//! Secrets that a caller hands to code, and how they are kept out of what comes back: each known value, in the spellings in
//! which it comes out by accident, is replaced by `[redacted: NAME]`.
//!
//! A courtesy against accidents, not a wall: code that has a value can spell it in a way that nobody knows. Values are
//! never printed: the `Debug` of everything here tells names only.

mod answer;
mod automaton;
mod check;
mod file;
mod spellings;
mod stream;

pub use answer::present;
pub use automaton::Redactor;
pub use check::SecretsError;
pub use file::{FileRedaction, FileScan};
pub use stream::Stream;

use check::{MOST_KNOWN, MOST_KNOWN_BYTES};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Checked names with their values. Copies are cheap.
#[derive(Clone, Default)]
pub struct Secrets {
    /// The newest last. A name can be there with several values.
    all: Arc<Vec<(String, String)>>,
    redactor: Option<Arc<Redactor>>,
}

impl Secrets {
    /// Refuses what no variable could be, and what could not be redacted without harm to ordinary text.
    pub fn new(values: BTreeMap<String, String>) -> Result<Self, SecretsError> {
        check::check(&values)?;
        Self::of(values.into_iter().collect())
    }

    /// Whether a secret can have this name.
    pub fn check_name(name: &str) -> Result<(), SecretsError> {
        check::check_name(name)
    }

    fn of(all: Vec<(String, String)>) -> Result<Self, SecretsError> {
        Ok(Self {
            redactor: Redactor::new(&all)?.map(Arc::new),
            all: Arc::new(all),
        })
    }

    /// As variables for the code. This is the only way to the values.
    pub fn reveal(&self) -> impl Iterator<Item = (&str, &str)> {
        self.all.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.reveal().map(|(name, _)| name)
    }

    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// What takes them out of texts; `None` if there is nothing to take out.
    pub fn redactor(&self) -> Option<&Arc<Redactor>> {
        self.redactor.as_ref()
    }

    /// These and newer ones together. Of more than are kept in mind the oldest are forgotten.
    pub fn with(&self, newer: &Self) -> Result<Self, SecretsError> {
        let is_new = |pair: &&(String, String)| !self.all.contains(pair);
        if newer.all.iter().all(|pair| !is_new(&pair)) {
            return Ok(self.clone());
        }
        let older = self.all.iter().filter(|pair| !newer.all.contains(pair));
        let newest_first = newer.all.iter().rev().chain(older.rev());
        let mut bytes = 0;
        let mut kept: Vec<_> = newest_first
            .take(MOST_KNOWN)
            .take_while(|(_, value)| {
                bytes += value.len();
                bytes <= MOST_KNOWN_BYTES
            })
            .cloned()
            .collect();
        kept.reverse();
        Self::of(kept)
    }
}

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.names()).finish()
    }
}

#[cfg(test)]
mod tests;
