//! What was approved for the life of a sandbox: rules, not code. In memory, because sandboxes do not outlive the server.

use atoll_core::{ApprovalId, SandboxId};
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Granted(Mutex<HashMap<SandboxId, Vec<Grant>>>);

#[derive(Debug)]
struct Grant {
    approval: ApprovalId,
    rules: BTreeSet<String>,
    by: String,
}

impl Granted {
    pub(super) fn add(&self, sandbox: &SandboxId, approval: &ApprovalId, rules: BTreeSet<String>, by: &str) {
        let grant = Grant {
            approval: approval.clone(),
            rules,
            by: by.to_owned(),
        };
        self.lock().entry(sandbox.clone()).or_default().push(grant);
    }

    /// Who has approved all of these rules for this sandbox, together with others perhaps: the last one of them.
    pub(super) fn covers(&self, sandbox: &SandboxId, rules: &BTreeSet<String>) -> Option<String> {
        let all = self.lock();
        let grants = all.get(sandbox)?;
        let covered = |rule: &String| grants.iter().any(|grant| grant.rules.contains(rule));
        rules
            .iter()
            .all(covered)
            .then(|| grants.last().map(|grant| grant.by.clone()))?
    }

    pub(super) fn revoke(&self, approval: &ApprovalId) {
        for grants in self.lock().values_mut() {
            grants.retain(|grant| grant.approval != *approval);
        }
    }

    pub(super) fn tidy(&self, lives: impl Fn(&SandboxId) -> bool) {
        self.lock()
            .retain(|sandbox, grants| !grants.is_empty() && lives(sandbox));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Vec<Grant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_covered_in_their_sandbox_until_they_are_revoked() {
        let (one, other) = (SandboxId::from_random([1; 16]), SandboxId::from_random([2; 16]));
        let (first, second) = (ApprovalId::from_random([1; 16]), ApprovalId::from_random([2; 16]));
        let rules = |words: &[&str]| -> BTreeSet<String> { words.iter().map(|word| (*word).to_owned()).collect() };
        let granted = Granted::default();
        granted.add(&one, &first, rules(&["network.use"]), "key_a");
        assert_eq!(granted.covers(&one, &rules(&["network.use"])).as_deref(), Some("key_a"));
        assert_eq!(granted.covers(&one, &rules(&["network.use", "process.shell"])), None);
        assert_eq!(granted.covers(&other, &rules(&["network.use"])), None);
        granted.add(&one, &second, rules(&["process.shell"]), "key_b");
        assert!(
            granted
                .covers(&one, &rules(&["network.use", "process.shell"]))
                .is_some()
        );
        granted.revoke(&first);
        assert_eq!(granted.covers(&one, &rules(&["network.use"])), None);
        granted.tidy(|_| false);
        assert_eq!(granted.covers(&one, &rules(&["process.shell"])), None);
    }
}
