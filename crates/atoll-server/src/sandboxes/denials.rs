//! What policies did not let run, counted by policy and rule.

use super::Sandboxes;
use atoll_core::{Finding, Outcome, Verdict};
use atoll_engine::code_policy::Rule;
use atoll_engine::gate::RefusedCommand;
use atoll_engine::policy::Policy;
use atoll_engine::session::Session;

/// The rule of a refusal that no finding is the reason of, such as a tier below the policy's floor.
const OTHER: &str = "other";

impl Sandboxes {
    /// Counts an execution, if it was refused.
    pub(super) fn count_denied(
        &self,
        session: &Session,
        call: Option<&Policy>,
        (outcome, findings): (Outcome, &[Finding]),
    ) {
        let Some(rule) = rule_of(outcome, findings) else { return };
        let policy = session.policy();
        let name = call.map_or_else(|| policy.name.clone(), |call| policy.name_with(call));
        self.metrics.denied(self.policies.label(&name), rule);
    }

    /// Counts a command that was refused.
    pub fn count_denied_command(&self, session: &Session, refused: &RefusedCommand) {
        self.count_denied(session, None, (refused.refusal.outcome, &refused.findings));
    }
}

/// Of the finding that a refusal names first. `None`: it is no refusal.
fn rule_of(outcome: Outcome, findings: &[Finding]) -> Option<&'static str> {
    let verdict = match outcome {
        Outcome::Denied => Verdict::Deny,
        Outcome::ApprovalDenied | Outcome::ApprovalExpired => Verdict::Ask,
        Outcome::Ok | Outcome::Error | Outcome::Interrupted | Outcome::Crashed | Outcome::Killed => return None,
        Outcome::MemoryLimit | Outcome::CpuLimit | Outcome::Timeout => return None,
    };
    let first = findings.iter().find(|finding| finding.verdict == verdict);
    let known = |finding: &Finding| Rule::ALL.iter().map(|rule| rule.id()).find(|id| *id == finding.rule);
    Some(first.and_then(known).unwrap_or(OTHER))
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_core::Severity;

    fn finding(rule: &str, verdict: Verdict) -> Finding {
        Finding {
            rule: rule.to_owned(),
            severity: Severity::Low,
            verdict,
            line: 1,
            column: 1,
            message: String::new(),
            instead: String::new(),
        }
    }

    #[test]
    fn a_refusal_has_the_rule_that_it_names_first() {
        let found = [
            finding("import.star", Verdict::Warn),
            finding("import.module", Verdict::Deny),
            finding("builtin.use", Verdict::Ask),
            finding("object.climb", Verdict::Deny),
        ];
        assert_eq!(rule_of(Outcome::Denied, &found), Some("import.module"));
        assert_eq!(rule_of(Outcome::ApprovalExpired, &found), Some("builtin.use"));
        assert_eq!(rule_of(Outcome::Denied, &[]), Some(OTHER));
        assert_eq!(
            rule_of(Outcome::Denied, &[finding("made.up", Verdict::Deny)]),
            Some(OTHER)
        );
        assert_eq!(rule_of(Outcome::Error, &found), None);
    }
}
