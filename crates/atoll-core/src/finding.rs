//! What a look at source code finds, before it runs. Words only: the rules live in the engine.

use crate::choice::{UnknownChoice, choice};
use serde::{Deserialize, Serialize};

choice!(
    /// How much a finding matters by itself, whatever a policy makes of it.
    Severity, "severity",
    { Info = "info", Low = "low", Medium = "medium", High = "high" }
);

choice!(
    /// What a policy says about a finding. The order counts: a later one is stricter.
    Verdict, "verdict",
    { Allow = "allow", Warn = "warn", Ask = "ask", Deny = "deny" }
);

/// One place in the code, which rule it meets, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Stable: one of the list in `docs/policy.md`.
    pub rule: String,
    pub severity: Severity,
    pub verdict: Verdict,
    /// From one.
    pub line: u32,
    /// From one, in characters.
    pub column: u32,
    pub message: String,
    pub instead: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_verdict_is_stricter() {
        assert!(Verdict::Allow < Verdict::Warn && Verdict::Warn < Verdict::Ask && Verdict::Ask < Verdict::Deny);
        assert_eq!("ask".parse::<Verdict>().unwrap(), Verdict::Ask);
    }
}
