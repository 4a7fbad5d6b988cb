//! In which tier code runs: a pure function of what was asked for, what the code needs, what the policy demands and what the
//! host can build. It starts nothing and asks nobody.

mod live;
mod trial;

pub(crate) use live::{Guests, Seen, refusal_in};

use crate::code_policy::Needs;
use crate::gate::Refusal;
use atoll_core::execution::{CodeError, Hint};
use atoll_core::{Finding, Outcome, Tier};
use std::collections::BTreeMap;

/// From the cheapest to the dearest, which is also from the weakest to the strongest: a floor is one of these.
pub const ORDER: [Tier; 5] = [Tier::Wasm, Tier::Jail, Tier::Container, Tier::Gvisor, Tier::Microvm];

/// What is known before anything is started.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// `None`: nothing was said, which means the jail.
    pub asked: Option<Tier>,
    pub needs: &'a Needs,
    /// The least tier that the policy lets this code run in, and why.
    pub floor: Option<Floor>,
    /// What this host cannot build, with the reason. What is not in it may be tried.
    pub missing: &'a BTreeMap<Tier, String>,
}

/// The least tier that is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Floor {
    pub tier: Tier,
    /// Who demands it: "policy strict", "rule process.shell of policy strict".
    pub because: String,
}

/// A tier, and where the code goes if it turns out to need more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    pub tier: Tier,
    pub reason: String,
    pub next: Option<Tier>,
}

impl Chosen {
    /// Where the code goes, and why, if the chosen tier turns out not to be available; `None` if only that one will do.
    pub fn instead(&self, reason: &str) -> Option<Self> {
        self.next.map(|tier| Self {
            tier,
            reason: reason.to_owned(),
            next: None,
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoTier {
    /// The policy forbids the tier that was asked for.
    BelowFloor { asked: Tier, floor: Floor },
    /// The host cannot build any that would do.
    Missing { tier: Tier, why: String },
}

/// The cheapest tier that is allowed, can run the code and can be built; or the one that was asked for.
pub fn choose(facts: &Facts<'_>) -> Result<Chosen, NoTier> {
    match facts.asked {
        None => usual(facts),
        Some(Tier::Auto) => cheapest(facts),
        Some(tier) => named(facts, tier),
    }
}

/// The tier of who says nothing. Where the jail cannot be built, plain code runs in `wasm`: see [`instead_of_jail`].
fn usual(facts: &Facts<'_>) -> Result<Chosen, NoTier> {
    let floor = facts.floor.as_ref().filter(|floor| floor.tier > Tier::Jail);
    let missing = floor.and_then(|floor| Some((floor.tier, facts.missing.get(&floor.tier)?.clone())));
    if let Some((tier, why)) = missing {
        return Err(NoTier::Missing { tier, why });
    }
    Ok(match floor {
        None => Chosen {
            tier: Tier::Jail,
            reason: "no tier was requested; the default is jail".to_owned(),
            next: None,
        },
        Some(floor) => Chosen {
            tier: floor.tier,
            reason: format!(
                "no tier was requested, and {} requires at least {}",
                floor.because, floor.tier
            ),
            next: None,
        },
    })
}

/// Whether it makes a difference that this host has the tier: the jail can always be tried, so what is above it counts only
/// where it is named or demanded.
pub fn counts(tier: Tier, asked: Option<Tier>, floor: Option<&Floor>) -> bool {
    let demanded = floor.is_some_and(|floor| floor.tier > Tier::Jail && tier >= floor.tier);
    tier == Tier::Wasm || asked == Some(tier) || demanded
}

/// What is missing for this code. A guest that runs in software works and keeps nobody in: who demands more than the jail does
/// not get it. Who names it, and is free to, gets it.
pub fn missing_for(
    floor: Option<&Floor>,
    missing: &BTreeMap<Tier, String>,
    emulated: impl FnOnce() -> Option<String>,
) -> BTreeMap<Tier, String> {
    let mut missing = missing.clone();
    let demands = floor.is_some_and(|floor| floor.tier > Tier::Jail);
    if demands && !missing.contains_key(&Tier::Microvm) {
        let why = emulated().map(|why| {
            format!("guests run under software emulation on this host, which is not an isolation boundary: {why}")
        });
        missing.extend(why.map(|why| (Tier::Microvm, why)));
    }
    missing
}

/// Where code goes that named no tier, on a host that cannot build the jail.
pub fn instead_of_jail(facts: &Facts<'_>, why: &str) -> Option<Chosen> {
    let free = facts.asked.is_none() && facts.floor.is_none() && !facts.missing.contains_key(&Tier::Wasm);
    (free && *facts.needs == Needs::Plain).then(|| Chosen {
        tier: Tier::Wasm,
        reason: format!(
            "no tier was requested, the code is plain Python, and the jail is not available on this host: {why}"
        ),
        next: None,
    })
}

fn named(facts: &Facts<'_>, tier: Tier) -> Result<Chosen, NoTier> {
    if let Some(floor) = facts.floor.as_ref().filter(|floor| floor.tier > tier) {
        let floor = floor.clone();
        return Err(NoTier::BelowFloor { asked: tier, floor });
    }
    if let Some(why) = facts.missing.get(&tier) {
        let why = why.clone();
        return Err(NoTier::Missing { tier, why });
    }
    Ok(Chosen {
        tier,
        reason: "the request specifies this tier".to_owned(),
        next: None,
    })
}

fn cheapest(facts: &Facts<'_>) -> Result<Chosen, NoTier> {
    let least = facts.floor.as_ref().map_or(Tier::Wasm, |floor| floor.tier);
    let fits = |tier: &Tier| *tier >= least && (*tier != Tier::Wasm || *facts.needs == Needs::Plain);
    let mut fitting = ORDER.into_iter().filter(fits);
    let mut built = fitting.clone().filter(|tier| !facts.missing.contains_key(tier));
    let Some(tier) = built.next() else {
        // The cheapest of those is the easiest to get.
        let tier = fitting.next().unwrap_or(Tier::Microvm);
        let why = facts.missing.get(&tier).cloned().unwrap_or_default();
        return Err(NoTier::Missing { tier, why });
    };
    Ok(Chosen {
        tier,
        reason: why_cheapest(facts, tier),
        next: built.next().filter(|_| tier == Tier::Wasm),
    })
}

fn why_cheapest(facts: &Facts<'_>, tier: Tier) -> String {
    let floor = facts.floor.as_ref().filter(|floor| floor.tier > Tier::Wasm);
    let mut reasons = Vec::new();
    match (facts.needs, floor) {
        (_, Some(floor)) => reasons.push(format!("{} requires at least {}", floor.because, floor.tier)),
        (Needs::Plain, None) if tier == Tier::Wasm => reasons.push("the code is plain Python".to_owned()),
        (Needs::Plain, None) => {}
        (Needs::More(why), None) => reasons.push(why.clone()),
    }
    let missed = facts
        .missing
        .iter()
        .filter(|(missing, _)| **missing < tier && facts.fits(**missing));
    reasons.extend(missed.map(|(missing, why)| format!("{missing} is not available on this host: {why}")));
    reasons.join("; ")
}

impl Facts<'_> {
    fn fits(&self, tier: Tier) -> bool {
        let allowed = self.floor.as_ref().is_none_or(|floor| tier >= floor.tier);
        allowed && (tier != Tier::Wasm || *self.needs == Needs::Plain)
    }
}

/// The floor of a piece of code: that of its policy, or a higher one that a finding asks for.
pub fn floor(policy: &crate::policy::Policy, findings: &[Finding]) -> Option<Floor> {
    let own = policy.tiers.floor.map(|tier| Floor {
        tier,
        because: format!("policy {}", policy.name),
    });
    let of_finding = |finding: &Finding| {
        let tier = policy.tiers.of_rule(&finding.rule)?;
        let because = format!("rule {} of policy {}", finding.rule, policy.name);
        Some(Floor { tier, because })
    };
    let raised = findings.iter().filter_map(of_finding).max_by_key(|floor| floor.tier);
    match (own, raised) {
        (Some(own), Some(raised)) if raised.tier > own.tier => Some(raised),
        (Some(own), _) => Some(own),
        (None, raised) => raised,
    }
}

impl NoTier {
    /// The answer in place of an execution, if it is the policy that says no.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::BelowFloor { asked, floor } = self else {
            return None;
        };
        let refused = format!("running the code in tier {asked}");
        let rule = format!("{} requires at least {}", floor.because, floor.tier);
        Some(Refusal {
            outcome: Outcome::Denied,
            error: CodeError {
                name: "PolicyDenied".to_owned(),
                value: format!("tier {asked} is not allowed: {rule}"),
                traceback: Vec::new(),
            },
            hint: Some(Hint {
                refused,
                rule,
                instead: format!("request tier {} or auto", floor.tier),
            }),
        })
    }
}

#[cfg(test)]
mod tests;
