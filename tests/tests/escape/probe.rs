//! What a probe is. Every field is required, so a probe without a verdict, a twin or a control does not compile.

use atoll_engine::Wall;
use serde_json::{Map, Value};

/// One attempt, made by Python code inside a sandbox. The code reports facts: a name and one word each.
#[derive(Debug)]
pub(crate) struct Probe {
    /// The number of `security/hardening.md` section 3; a letter behind it tells variants apart.
    pub(crate) id: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) code: &'static str,
    /// Walls that are already away while the claim must hold: shows that one wall alone is enough.
    pub(crate) already_without: &'static [Wall],
    /// Each fact must meet one of these, and each of these a fact.
    pub(crate) expect: &'static [Expect],
    pub(crate) oracle: Oracle,
    pub(crate) control: Control,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Expect {
    /// The fact's name; with `*` at its end, all that begin so.
    pub(crate) fact: &'static str,
    pub(crate) answers: &'static [&'static str],
}

/// What the host looks at besides the probe's own words.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Oracle {
    /// Content and access time of the canaries are unchanged.
    Canary,
    /// The hash of a file of the shared tree is unchanged.
    Tree,
    /// Host name, mounts and clock are unchanged (looked at around every group, too).
    Machine,
}

/// How the same attempt is shown to succeed where the wall is not. Each says why that is safe.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    /// In a sandbox without these walls.
    Without {
        walls: &'static [Wall],
        breach: &'static [(&'static str, &'static str)],
        safe: &'static str,
    },
    /// As a plain process of the test, outside of any sandbox: where a namespace or mount is the wall.
    Outside {
        breach: &'static [(&'static str, &'static str)],
        safe: &'static str,
    },
    /// In the same sandbox, the thing that must not be there is planted: the search finds it.
    Planted {
        breach: &'static [(&'static str, &'static str)],
        safe: &'static str,
    },
}

impl Control {
    pub(crate) fn breach(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Without { breach, .. } | Self::Outside { breach, .. } | Self::Planted { breach, .. } => breach,
        }
    }

    pub(crate) fn safe(&self) -> &'static str {
        match self {
            Self::Without { safe, .. } | Self::Outside { safe, .. } | Self::Planted { safe, .. } => safe,
        }
    }
}

/// The facts that a probe's code printed, and whether its twins worked.
#[derive(Debug)]
pub(crate) struct Facts {
    words: Map<String, Value>,
    twins: Map<String, Value>,
}

impl Facts {
    pub(crate) fn read(stdout: &str) -> Result<Self, String> {
        let line = stdout.lines().find_map(|line| line.strip_prefix("FACTS "));
        let line = line.ok_or_else(|| format!("no facts in {stdout:?}"))?;
        let mut words: Map<String, Value> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let twins = words
            .remove("_twin")
            .and_then(|twins| twins.as_object().cloned())
            .unwrap_or_default();
        Ok(Self { words, twins })
    }

    pub(crate) fn word(&self, fact: &str) -> &str {
        self.words.get(fact).and_then(Value::as_str).unwrap_or("absent")
    }

    /// Names and words of all facts.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.words
            .iter()
            .map(|(name, word)| (name.as_str(), word.as_str().unwrap_or("not a word")))
    }

    /// What is wrong with the twins: none reported, or one did not work.
    pub(crate) fn dead_twins(&self) -> Vec<String> {
        let mut dead: Vec<String> = self
            .twins
            .iter()
            .filter(|(_, works)| **works != true)
            .map(|(n, _)| n.clone())
            .collect();
        if self.twins.is_empty() {
            dead.push("no twin was reported".to_owned());
        }
        dead
    }

    /// Facts that no expectation allows, and expectations that met no fact.
    pub(crate) fn unmet(&self, expect: &[Expect]) -> Vec<String> {
        let mut unmet = Vec::new();
        for (name, word) in self.all() {
            if !expect.iter().any(|e| e.meets(name) && e.answers.contains(&word)) {
                unmet.push(format!("`{name}` answered {word}"));
            }
        }
        for e in expect.iter().filter(|e| !self.all().any(|(name, _)| e.meets(name))) {
            unmet.push(format!("`{}` was never tried", e.fact));
        }
        unmet
    }

    /// Breaches that did not happen.
    pub(crate) fn missing(&self, breach: &[(&str, &str)]) -> Vec<String> {
        let missed = breach.iter().filter(|(fact, word)| self.word(fact) != *word);
        missed
            .map(|(fact, word)| format!("`{fact}` should breach with {word}, answered {}", self.word(fact)))
            .collect()
    }
}

impl Expect {
    fn meets(&self, name: &str) -> bool {
        self.fact
            .strip_suffix('*')
            .map_or(name == self.fact, |front| name.starts_with(front))
    }
}

/// A probe that needs more than one piece of code: written in Rust, told in the same words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) id: &'static str,
    pub(crate) claim: &'static str,
    pub(crate) expected: &'static str,
    /// What the host looks at.
    pub(crate) oracle: &'static str,
    /// What must work in the same sandbox.
    pub(crate) twin: &'static str,
    /// Where the same attempt succeeds, and why that is safe.
    pub(crate) control: &'static str,
}

/// Each case becomes a test of its own and an entry of the list; one without its words does not compile.
macro_rules! cases {
    ($list:ident: $($name:ident { $($field:ident: $text:literal),* $(,)? } $body:block)*) => {
        pub(crate) const $list: &[crate::probe::Case] = &[$(crate::probe::Case { $($field: $text),* }),*];
        $(#[tokio::test]
        async fn $name() -> anyhow::Result<()> {
            const CASE: crate::probe::Case = crate::probe::Case { $($field: $text),* };
            if !crate::rootless::leaves_out(CASE.id) { $body }
            Ok(())
        })*
    };
}
pub(crate) use cases;
