//! Floors in live sandboxes: what a policy wants behind a stronger wall does not run behind this one, whenever it comes.

use super::{Floor, NoTier, floor};
use crate::backend::microvm_host;
use crate::code_policy::Rule;
use crate::engine::EngineConfig;
use crate::gate::{Decision, Judged, Refusal};
use crate::policy::Policy;
use atoll_core::execution::{CodeError, Hint};
use atoll_core::{Gives, Outcome, Tier};
use std::path::PathBuf;
use std::sync::OnceLock;

/// The answer in place of what has this floor, if the tier is no such wall. Where guests run is asked only if it counts.
pub(crate) fn refusal_in(
    tier: Tier,
    floor: Option<Floor>,
    emulated: impl FnOnce() -> Option<String>,
) -> Option<Refusal> {
    let floor = floor?;
    if tier < floor.tier {
        let instead = format!("create a sandbox with tier {} or auto", floor.tier);
        return Some(instead_of(
            NoTier::BelowFloor { asked: tier, floor }.refusal()?,
            instead,
        ));
    }
    let counts = tier == Tier::Microvm && floor.tier > Tier::Jail;
    let why = counts.then(emulated).flatten()?;
    in_software(floor, &why)
}

/// A guest in software has the name of a wall and is none.
fn in_software(floor: Floor, why: &str) -> Option<Refusal> {
    let because = format!(
        "guests run under software emulation on this host, which is not an isolation boundary ({why}), and {}",
        floor.because
    );
    let asked = Tier::Microvm;
    let refusal = NoTier::BelowFloor {
        asked,
        floor: Floor { because, ..floor },
    }
    .refusal()?;
    let instead =
        "use tier gvisor if the policy allows it, or a host with working hardware virtualization (KVM)".to_owned();
    Some(instead_of(refusal, instead))
}

fn instead_of(refusal: Refusal, instead: String) -> Refusal {
    Refusal {
        hint: refusal.hint.map(|hint| Hint { instead, ..hint }),
        ..refusal
    }
}

/// The floor of what cannot be read before it runs: it may turn out to be anything that the policy has a floor for.
fn highest(policy: &Policy) -> Option<Floor> {
    let of_rule = |rule: &Rule| Some((policy.tiers.of_rule(rule.id())?, rule.id()));
    let raised = Rule::ALL.iter().filter_map(of_rule).max_by_key(|(tier, _)| *tier);
    let raised = raised.map(|(tier, rule)| Floor {
        tier,
        because: format!("rule {rule} of policy {}", policy.name),
    });
    // Of two that are alike, the last one is told.
    [raised, floor(policy, &[])]
        .into_iter()
        .flatten()
        .max_by_key(|floor| floor.tier)
}

/// Whether all of it could be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Whole,
    /// What it runs comes later.
    Later,
}

impl Judged {
    /// Refuses what may not run in this tier. What is refused already stays so.
    pub(crate) fn keep_floor(&mut self, policy: &Policy, seen: Seen, (tier, guests): (Tier, &Guests)) {
        if policy.tiers.is_empty() || matches!(self.decision, Decision::Refuse(_)) {
            return;
        }
        let floor = match seen {
            Seen::Whole => floor(policy, &self.findings),
            Seen::Later => highest(policy),
        };
        if let Some(refusal) = refusal_in(tier, floor, || guests.emulated()) {
            self.decision = Decision::Refuse(refusal);
        }
    }
}

impl Judged {
    /// Refuses what this call's policy keeps from code and its sandbox has: it was given when the sandbox was made.
    pub(crate) fn keep_from(&mut self, policy: &Policy, tier: Tier, has: Gives) {
        let gives = policy.tiers.wasm.gives();
        if tier != Tier::Wasm || gives == has || matches!(self.decision, Decision::Refuse(_)) {
            return;
        }
        let (what, word) = match gives.clock == has.clock {
            true => ("randomness", "random"),
            false => ("a clock", "clock"),
        };
        let rule = format!("tiers.wasm.{word} of policy {}", policy.name);
        self.decision = Decision::Refuse(Refusal {
            outcome: Outcome::Denied,
            error: CodeError {
                name: "PolicyDenied".to_owned(),
                value: format!("this sandbox provides {what}, which {rule} does not allow"),
                traceback: Vec::new(),
            },
            hint: Some(Hint {
                refused: "running the code in this sandbox".to_owned(),
                rule,
                instead: "create a sandbox with this policy".to_owned(),
            }),
        });
    }
}

/// Who runs guests on this host, which is looked at once, when a floor makes it count.
#[derive(Debug)]
pub(crate) struct Guests {
    home: PathBuf,
    program: PathBuf,
    kernel: Option<PathBuf>,
    emulated: OnceLock<Option<String>>,
}

impl Guests {
    pub(crate) fn of(config: &EngineConfig) -> Self {
        Self {
            home: config.home.clone(),
            program: config.program.clone(),
            kernel: config.settings.microvm_kernel.clone(),
            emulated: OnceLock::new(),
        }
    }

    /// Why they run in software, if they do. What cannot be found out is no wall either.
    fn emulated(&self) -> Option<String> {
        let look = || match microvm_host(&self.home, &self.program, self.kernel.as_deref()) {
            Ok(host) => host.emulated,
            Err(error) => Some(error.to_string()),
        };
        self.emulated.get_or_init(look).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::judge;
    use crate::policy::inline;
    use atoll_core::{Language, Outcome};
    use serde_json::{Value, json};

    const SHELL: &str = "import os; os.system('uname -r')";

    fn guests(emulated: Option<&str>) -> Guests {
        Guests {
            home: PathBuf::new(),
            program: PathBuf::new(),
            kernel: None,
            emulated: OnceLock::from(emulated.map(str::to_owned)),
        }
    }

    fn policy(tiers: &Value) -> Policy {
        inline(&json!({"inherit": "standard", "tiers": tiers})).unwrap()
    }

    fn decided(code: &str, policy: &Policy, seen: Seen, tier: Tier) -> Decision {
        let mut judged = judge(code, Language::Python, policy, false);
        judged.keep_floor(policy, seen, (tier, &guests(Some("no cr3"))));
        judged.decision
    }

    #[test]
    fn code_below_its_floor_is_refused_in_a_live_sandbox() {
        let of_rule = policy(&json!({"rules": {"process": "gvisor"}}));
        let at = |code, tier| decided(code, &of_rule, Seen::Whole, tier);
        assert_eq!(at("print(1)", Tier::Jail), Decision::Run);
        assert_eq!(at(SHELL, Tier::Gvisor), Decision::Run);
        let Decision::Refuse(refusal) = at(SHELL, Tier::Container) else {
            panic!("not refused")
        };
        assert_eq!(refusal.outcome, Outcome::Denied);
        assert_eq!(refusal.error.name, "PolicyDenied");
        let hint = refusal.hint.unwrap();
        assert!(
            hint.rule.ends_with("of policy inline requires at least gvisor"),
            "{hint:?}"
        );
        let own = policy(&json!({"floor": "jail"}));
        assert!(matches!(
            decided("print(1)", &own, Seen::Whole, Tier::Wasm),
            Decision::Refuse(_)
        ));
        assert_eq!(decided(SHELL, &own, Seen::Whole, Tier::Jail), Decision::Run);
        let none = policy(&json!({}));
        assert_eq!(decided(SHELL, &none, Seen::Later, Tier::Wasm), Decision::Run);
    }

    #[test]
    fn what_comes_later_has_the_highest_floor() {
        let tiers = json!({"floor": "jail", "rules": {"network": "container", "process.shell": "gvisor"}});
        let (all, own) = (policy(&tiers), policy(&json!({"floor": "gvisor"})));
        for (policy, tier, runs) in [
            (&all, Tier::Container, false),
            (&all, Tier::Gvisor, true),
            (&own, Tier::Container, false),
            (&own, Tier::Gvisor, true),
        ] {
            let decision = decided("print(1)", policy, Seen::Later, tier);
            assert_eq!(decision == Decision::Run, runs, "{tier} {decision:?}");
        }
    }

    #[test]
    fn a_question_is_not_asked_about_what_may_not_run_here() {
        let asks = json!({"inherit": "guarded", "tiers": {"floor": "gvisor"}});
        let asks = inline(&asks).unwrap();
        let code = "import os\nos.fork()";
        assert!(matches!(
            decided(code, &asks, Seen::Whole, Tier::Gvisor),
            Decision::Ask(_)
        ));
        let Decision::Refuse(refusal) = decided(code, &asks, Seen::Whole, Tier::Jail) else {
            panic!("not refused")
        };
        assert_eq!(refusal.outcome, Outcome::Denied);
    }

    #[test]
    fn a_guest_in_software_meets_no_floor_above_the_jail() {
        let at_least = |tier| {
            let because = "policy p".to_owned();
            Some(Floor { tier, because })
        };
        let refused = |floor, emulated: Option<&str>| {
            let guests = guests(emulated);
            refusal_in(Tier::Microvm, at_least(floor), || guests.emulated())
        };
        for floor in [Tier::Container, Tier::Gvisor, Tier::Microvm] {
            let refusal = refused(floor, Some("no cr3")).unwrap();
            assert!(refusal.error.value.contains("software emulation"), "{refusal:?}");
            assert_eq!(refused(floor, None), None);
        }
        assert_eq!(refused(Tier::Jail, Some("no cr3")), None);
        assert_eq!(refusal_in(Tier::Microvm, None, || panic!("asked for nothing")), None);
    }

    #[test]
    fn a_floor_is_found_behind_many_other_findings() {
        let of_rule = policy(&json!({"rules": {"process": "gvisor"}}));
        let code = format!("{}{SHELL}", "from math import *\n".repeat(300));
        assert!(judge(&code, Language::Python, &of_rule, false).findings.len() > 200);
        assert!(matches!(
            decided(&code, &of_rule, Seen::Whole, Tier::Jail),
            Decision::Refuse(_)
        ));
    }
}
