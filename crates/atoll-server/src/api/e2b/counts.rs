//! How many executions each context has had: clients show it as the number of a cell.

use atoll_core::ContextId;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// Contexts that are counted; beyond it the table starts anew rather than grow.
const MOST: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Counts {
    counts: Mutex<HashMap<ContextId, u64>>,
}

impl Counts {
    pub(super) fn next(&self, context: &ContextId) -> u64 {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST && !counts.contains_key(context) {
            counts.clear();
        }
        let count = counts.entry(context.clone()).or_default();
        *count += 1;
        *count
    }
}
