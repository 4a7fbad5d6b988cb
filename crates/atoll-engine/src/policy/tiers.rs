//! The part of a policy that is about tiers: the least one that code may run in, and findings that ask for a higher one.

use super::PolicyError;
use crate::code_policy::Rule;
use atoll_core::{Gives, Tier};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// As it is written and as it is resolved. Absent: every tier will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TierPolicy {
    pub floor: Option<Tier>,
    /// By the name of a rule or of a group of rules.
    pub rules: BTreeMap<String, Tier>,
    #[serde(skip_serializing_if = "WasmPolicy::keeps_nothing")]
    pub wasm: WasmPolicy,
}

/// What code in `wasm` is given besides its files. Absent: it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WasmPolicy {
    #[serde(skip_serializing_if = "is_given")]
    pub clock: Option<bool>,
    #[serde(skip_serializing_if = "is_given")]
    pub random: Option<bool>,
}

/// Said or not, it is the same policy.
fn is_given(word: &Option<bool>) -> bool {
    *word != Some(false)
}

impl WasmPolicy {
    fn keeps_nothing(&self) -> bool {
        self.gives() == Gives::ALL
    }

    pub fn gives(&self) -> Gives {
        Gives {
            clock: self.clock.unwrap_or(true),
            random: self.random.unwrap_or(true),
        }
    }

    fn over(self, inherited: Self) -> Self {
        Self {
            clock: self.clock.or(inherited.clock),
            random: self.random.or(inherited.random),
        }
    }

    /// What both give.
    fn tighten(self, call: Self) -> Self {
        let least = |one: Option<bool>, other: Option<bool>| match (one, other) {
            (Some(one), Some(other)) => Some(one && other),
            (one, other) => one.or(other),
        };
        Self {
            clock: least(self.clock, call.clock),
            random: least(self.random, call.random),
        }
    }
}

impl TierPolicy {
    /// Every tier will do, whatever is found.
    pub fn is_empty(&self) -> bool {
        self.floor.is_none() && self.rules.is_empty()
    }

    /// The floor that a finding of this rule asks for: that of the longest name that fits.
    pub fn of_rule(&self, rule: &str) -> Option<Tier> {
        let rule = Rule::ALL.iter().find(|one| one.id() == rule)?;
        let fitting = self.rules.iter().filter(|(name, _)| rule.is_in(name));
        fitting.max_by_key(|(name, _)| name.len()).map(|(_, tier)| *tier)
    }

    /// What a file says over what it inherits. A floor is a wall, so `auto` is none.
    pub(super) fn over(self, mut inherited: Self) -> Result<Self, PolicyError> {
        if self.floor == Some(Tier::Auto) || self.rules.values().any(|tier| *tier == Tier::Auto) {
            return Err(PolicyError::Floor);
        }
        let unknown = self
            .rules
            .keys()
            .find(|name| !Rule::ALL.iter().any(|rule| rule.is_in(name)));
        if let Some(name) = unknown {
            return Err(PolicyError::Rule(name.clone()));
        }
        inherited.floor = self.floor.or(inherited.floor);
        inherited.rules.extend(self.rules);
        inherited.wasm = self.wasm.over(inherited.wasm);
        Ok(inherited)
    }

    /// Both together: the higher of each.
    pub(super) fn tighten(&self, call: &Self) -> Self {
        let mut all = self.clone();
        all.floor = all.floor.max(call.floor);
        all.wasm = self.wasm.tighten(call.wasm);
        for rule in Rule::ALL {
            let highest = self.of_rule(rule.id()).max(call.of_rule(rule.id()));
            if let Some(tier) = highest {
                all.rules.insert(rule.id().to_owned(), tier);
            }
        }
        all
    }
}
