//! How many executions each context has had, which E2B's clients show. Known as long as its sandbox lives.

use atoll_core::{ContextId, SandboxId};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<HashMap<SandboxId, HashMap<ContextId, u64>>>);

impl Counts {
    /// Counts one more. The first of a sandbox forgets those of sandboxes that are gone.
    pub(super) fn next(&self, sandbox: &SandboxId, context: &ContextId, lives: impl Fn(&SandboxId) -> bool) -> u64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !all.contains_key(sandbox) {
            all.retain(|id, _| lives(id));
        }
        let contexts = all.entry(sandbox.clone()).or_default();
        let count = contexts.entry(context.clone()).or_default();
        *count += 1;
        *count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contexts_count_for_themselves_and_go_with_their_sandbox() {
        let counts = Counts::default();
        let sandbox = |number| SandboxId::from_random([number; 16]);
        let context = |number| ContextId::from_random([number; 16]);
        let next = |of, on| counts.next(&sandbox(of), &context(on), |id| *id == sandbox(2));
        assert_eq!([next(1, 1), next(1, 1), next(1, 2)], [1, 2, 1]);
        assert_eq!(next(2, 1), 1);
        assert_eq!(counts.0.lock().unwrap().len(), 1);
        assert_eq!(next(2, 1), 2);
    }
}
