//! A set of scopes, written with commas: `run,read`.

use atoll_core::choice::UnknownChoice;
use atoll_core::service::Scope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeSet;
use std::str::FromStr;

/// What a key allows. `admin` implies `approve`; no other implies another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    pub fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().copied().collect())
    }

    pub fn all() -> Self {
        Self::of(Scope::ALL)
    }

    pub fn without(mut self, scope: Scope) -> Self {
        self.0.remove(&scope);
        self
    }

    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope) || (scope == Scope::Approve && self.0.contains(&Scope::Admin))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = Scope> {
        self.0.iter().copied()
    }
}

impl std::fmt::Display for Scopes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<&str> = self.iter().map(Scope::as_str).collect();
        f.write_str(&words.join(","))
    }
}

impl FromStr for Scopes {
    type Err = UnknownChoice;

    fn from_str(text: &str) -> Result<Self, UnknownChoice> {
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(Self(words.map(str::parse).collect::<Result<_, _>>()?))
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Scopes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(Vec::<Scope>::deserialize(deserializer)?.into_iter().collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_a_set_and_back() {
        let scopes: Scopes = "read, run,read".parse().unwrap();
        assert_eq!(scopes.to_string(), "run,read");
        assert!(scopes.has(Scope::Run) && !scopes.has(Scope::Admin));
        assert!("run,root".parse::<Scopes>().is_err());
        assert!(!scopes.has(Scope::Approve) && Scopes::of(&[Scope::Admin]).has(Scope::Approve));
    }
}
