//! A policy as it is written: TOML. What is absent comes from the policy that it inherits; unknown words are refused.

use super::code::CodePolicy;
use super::tiers::TierPolicy;
use super::{Parts, PolicyError};
use atoll_core::Verdict;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyFile {
    /// For people.
    pub(super) description: Option<String>,
    /// A shipped name, or a file beside this one. Absent: nothing, so every rule needs `code.default`.
    pub(super) inherit: Option<String>,
    #[serde(default)]
    pub(super) code: CodePart,
    #[serde(default)]
    egress: EgressPart,
    #[serde(default)]
    tiers: TierPolicy,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CodePart {
    /// The verdict of all rules that are not named below.
    pub(super) default: Option<Verdict>,
    #[serde(default)]
    rules: BTreeMap<String, Verdict>,
    /// Lists of modules, by language.
    #[serde(default)]
    modules: BTreeMap<String, BTreeSet<String>>,
    write: Option<BTreeSet<String>>,
    #[serde(default)]
    limits: LimitsPart,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct LimitsPart {
    source_bytes: Option<u64>,
    literal_bytes: Option<u64>,
}

/// Where bytes may go. Absent or empty: nowhere, which is all that a sandbox can do today.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct EgressPart {
    #[serde(default)]
    allow: BTreeSet<String>,
}

/// The most that a policy may ask to be read: as much as a run takes.
const MOST_SOURCE_BYTES: u64 = 10 << 20;

impl PolicyFile {
    pub(super) fn parse(text: &str) -> Result<Self, PolicyError> {
        let file: Self = toml::from_str(text).map_err(|error| PolicyError::Text(Box::new(error)))?;
        file.without_network()
    }

    /// The same words as JSON.
    pub(super) fn of_object(object: &serde_json::Value) -> Result<Self, PolicyError> {
        let file = Self::deserialize(object).map_err(|error| PolicyError::Object(error.to_string()))?;
        file.without_network()
    }

    fn without_network(self) -> Result<Self, PolicyError> {
        match self.egress.allow.first() {
            Some(host) => Err(PolicyError::Network(host.clone())),
            None => Ok(self),
        }
    }

    /// Changes what it inherits.
    pub(super) fn apply(self, (mut code, tiers): Parts) -> Result<Parts, PolicyError> {
        let tiers = self.tiers.over(tiers)?;
        Self::apply_code(self.code, &mut code)?;
        Ok((code, tiers))
    }

    fn apply_code(part: CodePart, code: &mut CodePolicy) -> Result<(), PolicyError> {
        if let Some(verdict) = part.default {
            code.set_all(verdict);
        }
        // A group comes before its members.
        let mut rules: Vec<_> = part.rules.into_iter().collect();
        rules.sort_by_key(|(name, _)| name.len());
        for (name, verdict) in rules {
            if !code.set(&name, verdict) {
                return Err(PolicyError::Rule(name));
            }
        }
        for (language, list) in part.modules {
            if !["python", "javascript"].contains(&language.as_str()) {
                return Err(PolicyError::Language(language));
            }
            code.modules.insert(language, list);
        }
        if let Some(write) = part.write {
            let bad = write.iter().find(|dir| !dir.starts_with('/') || dir.contains("/.."));
            if let Some(dir) = bad {
                return Err(PolicyError::Place(dir.clone()));
            }
            code.write = write;
        }
        let limits = part.limits;
        code.limits.source_bytes = bounded("source_bytes", limits.source_bytes, code.limits.source_bytes)?;
        code.limits.literal_bytes = bounded("literal_bytes", limits.literal_bytes, code.limits.literal_bytes)?;
        Ok(())
    }
}

fn bounded(name: &'static str, asked: Option<u64>, inherited: u64) -> Result<u64, PolicyError> {
    let value = asked.unwrap_or(inherited);
    match (1..=MOST_SOURCE_BYTES).contains(&value) {
        true => Ok(value),
        false => Err(PolicyError::Limit {
            name,
            asked: value,
            most: MOST_SOURCE_BYTES,
        }),
    }
}
