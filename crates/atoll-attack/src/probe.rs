//! What a probe of one piece of code is, what it reports, and how that is judged.
//!
//! Every field is required, so a probe without an expectation or a control does not compile.

use crate::elsewhere::{Ground, Instead, judged_by};
use crate::verdict::{Finding, Shown};
use atoll_engine::Wall;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// One attempt, made by Python code inside a sandbox. The code reports facts: a name and one word each.
#[derive(Debug)]
pub struct Probe {
    /// The number in our catalogue of attacks; a letter behind it tells variants apart.
    pub id: &'static str,
    pub claim: &'static str,
    pub code: &'static str,
    /// Walls that are already away while the claim must hold: shows that one wall alone is enough.
    pub already_without: &'static [Wall],
    /// Each fact must meet one of these, and each of these a fact.
    pub expect: &'static [Expect],
    pub oracle: Oracle,
    pub control: Control,
}

#[derive(Clone, Copy, Debug)]
pub struct Expect {
    /// The fact's name; with `*` at its end, all that begin so.
    pub fact: &'static str,
    pub answers: &'static [&'static str],
}

/// What the host looks at besides the probe's own words.
#[derive(Clone, Copy, Debug)]
pub enum Oracle {
    /// Content and access time of the canaries are unchanged.
    Canary,
    /// The hash of a file of the shared tree is unchanged.
    Tree,
    /// Names, settings, mounts and clock of the machine are unchanged: looked at once, around all probes.
    Machine,
    /// Nobody knocked at the canaries on the machine's loopback.
    Network,
}

/// How the same attempt is shown to succeed where the wall is not. Each says why that is safe.
#[derive(Clone, Copy, Debug)]
pub enum Control {
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
    pub fn breach(&self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Without { breach, .. } | Self::Outside { breach, .. } | Self::Planted { breach, .. } => breach,
        }
    }

    pub fn safe(&self) -> &'static str {
        match self {
            Self::Without { safe, .. } | Self::Outside { safe, .. } | Self::Planted { safe, .. } => safe,
        }
    }
}

/// The facts that a probe's code printed, and whether its twins worked.
#[derive(Debug)]
pub struct Facts {
    words: Map<String, Value>,
    twins: Map<String, Value>,
}

impl Facts {
    pub fn read(stdout: &str) -> Result<Self, String> {
        let line = stdout.lines().find_map(|line| line.strip_prefix("FACTS "));
        let line = line.ok_or_else(|| format!("no probe results in {stdout:?}"))?;
        let mut words: Map<String, Value> = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let twins = words
            .remove("_twin")
            .and_then(|twins| twins.as_object().cloned())
            .unwrap_or_default();
        Ok(Self { words, twins })
    }

    pub fn word(&self, fact: &str) -> &str {
        self.words.get(fact).and_then(Value::as_str).unwrap_or("absent")
    }

    /// Names and words of all facts.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str)> {
        self.words
            .iter()
            .map(|(name, word)| (name.as_str(), word.as_str().unwrap_or("not a string")))
    }

    /// What is wrong with the twins: none reported, or one did not work.
    pub fn dead_twins(&self) -> Vec<String> {
        let mut dead: Vec<String> = self
            .twins
            .iter()
            .filter(|(_, works)| **works != true)
            .map(|(n, _)| n.clone())
            .collect();
        if self.twins.is_empty() {
            dead.push("the probe did not report a permitted operation".to_owned());
        }
        dead
    }

    /// Facts that no expectation allows: the usual ones, or those `there` in their place.
    fn unexpected<'a>(&'a self, expect: &'a [Expect], there: &'a [Expect]) -> impl Iterator<Item = (&'a str, &'a str)> {
        let known = |name: &str, word: &str| {
            let judges = judged_by(name, expect, there);
            judges.iter().any(|one| one.answers.contains(&word))
        };
        self.all().filter(move |(name, word)| !known(name, word))
    }

    /// Holds the facts against what is expected. Another word than expected is a breach, unless it is a refusal that the
    /// control did not get: then nobody knows.
    pub fn judge(&self, (expect, there): (&[Expect], &[Expect]), control: Option<&Self>, shown: &mut Shown) {
        for (name, word) in self.unexpected(expect, there) {
            let as_without_wall = control.is_some_and(|control| control.word(name) == word);
            match is_refusal(word) && !as_without_wall {
                true => shown.doubt(format!("`{name}` returned {word}, which is not the expected error")),
                false => shown.breach(format!("`{name}` returned {word}, which contradicts the claim")),
            }
        }
        let all = expect.iter().chain(there);
        for e in all.filter(|e| !self.all().any(|(name, _)| e.meets(name))) {
            shown.doubt(format!("`{}` was not attempted", e.fact));
        }
        self.judge_twins(shown);
        self.in_words().into_iter().for_each(|line| shown.saw(line));
    }

    pub(crate) fn judge_twins(&self, shown: &mut Shown) {
        for twin in self.dead_twins() {
            shown.doubt(format!(
                "the permitted operation failed, so the probe proves nothing: {twin}"
            ));
        }
    }

    /// Names by word: `EPERM for mount, umount`.
    fn in_words(&self) -> Vec<String> {
        let mut by_word: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        self.all()
            .for_each(|(name, word)| by_word.entry(word).or_default().push(name));
        by_word
            .into_iter()
            .map(|(word, names)| format!("{word} for {}", names.join(", ")))
            .collect()
    }

    /// Breaches that did not happen.
    pub fn missing(&self, breach: &[(&str, &str)]) -> Vec<String> {
        let missed = breach.iter().filter(|(fact, word)| self.word(fact) != *word);
        missed
            .map(|(fact, word)| format!("expected `{fact}` to return {word}, got {}", self.word(fact)))
            .collect()
    }
}

impl Expect {
    pub(crate) fn meets(&self, name: &str) -> bool {
        self.fact
            .strip_suffix('*')
            .map_or(name == self.fact, |front| name.starts_with(front))
    }
}

/// An answer by which the kernel or the sandbox's walls say no, or no answer at all.
fn is_refusal(word: &str) -> bool {
    let capital = |rest: &str| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    word == "hangs" || word == "nothing" || word.strip_prefix('E').is_some_and(capital) || word.starts_with("SIG")
}

/// What the claim and its control gave.
#[derive(Debug)]
pub struct Tried {
    pub claim: Result<Facts, String>,
    /// What the host saw change.
    pub changed: Option<String>,
    pub control: Result<Facts, String>,
}

impl Probe {
    pub fn judge(&self, tried: &Tried, ground: Ground) -> Finding {
        let mut shown = Shown::default();
        let (there, breach) = self.on(ground, &mut shown);
        match &tried.claim {
            Ok(facts) => facts.judge((self.expect, there), tried.control.as_ref().ok(), &mut shown),
            Err(why) => shown.doubt(why),
        }
        match &tried.changed {
            Some(change) => shown.breach(format!("change detected on the host: {change}")),
            None => shown.saw(format!("host check: {}", self.oracle.unchanged())),
        }
        match &tried.control {
            Ok(facts) => facts.judge_control(breach, &self.control.place(), &mut shown),
            Err(why) => shown.doubt(format!("the control did not run: {why}")),
        }
        shown.judge(self.id, self.claim)
    }

    /// What is expected there instead, and what the control shows there.
    fn on(&self, ground: Ground, shown: &mut Shown) -> (&'static [Expect], &'static [(&'static str, &'static str)]) {
        let usual = self.control.breach();
        let Some(row) = ground.row(self.id) else {
            return (&[], usual);
        };
        shown.saw(format!("different expected result in this tier: {}", row.why));
        match row.instead {
            Instead::Answers { expect, breach } => (expect, breach.unwrap_or(usual)),
            _ => (&[], usual),
        }
    }
}

impl Facts {
    pub fn judge_control(&self, breach: &[(&str, &str)], place: &str, shown: &mut Shown) {
        for missing in self.missing(breach) {
            shown.doubt(format!("the control did not breach: {missing}"));
        }
        let seen = breach
            .iter()
            .map(|(fact, _)| format!("`{fact}` returned {}", self.word(fact)));
        shown.saw_in_control(format!("{place}: {}", seen.collect::<Vec<_>>().join(", ")));
    }
}

impl Oracle {
    fn unchanged(self) -> &'static str {
        match self {
            Self::Canary => "contents and access times of the canary files are unchanged",
            Self::Tree => "the digest of a file in the shared tree is unchanged",
            Self::Machine => "see P21b for host-wide state",
            Self::Network => "the canary listeners on the loopback interface received no traffic",
        }
    }
}

impl Control {
    fn place(&self) -> String {
        match self {
            Self::Without { walls, .. } => format!("in a sandbox without {}", layer_names(walls)),
            Self::Outside { .. } => "as an unsandboxed process on this host".to_owned(),
            Self::Planted { .. } => "in the same sandbox, with the item planted".to_owned(),
        }
    }
}

/// The layers by the names that receipts and reports use.
pub(crate) fn layer_names(walls: &[Wall]) -> String {
    let names: Vec<String> = walls.iter().map(ToString::to_string).collect();
    names.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Verdict;

    const PROBE: Probe = Probe {
        id: "X01",
        claim: "a door is shut",
        code: "",
        already_without: &[],
        expect: &[Expect {
            fact: "door *",
            answers: &["EPERM"],
        }],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("door a", "ok")],
            safe: "",
        },
    };

    fn facts(text: &str) -> Result<Facts, String> {
        Facts::read(&format!("FACTS {text}"))
    }

    fn verdict(claim: &str, control: &str) -> Verdict {
        let (claim, control) = (facts(claim), facts(control));
        PROBE
            .judge(
                &Tried {
                    claim,
                    changed: None,
                    control,
                },
                Ground::Host,
            )
            .verdict
    }

    const OPEN: &str = r#"{"door a":"ok","door b":"EINVAL","_twin":{"t":true}}"#;

    #[test]
    fn shut_doors_with_an_open_control_are_contained() {
        assert_eq!(
            verdict(r#"{"door a":"EPERM","_twin":{"t":true}}"#, OPEN),
            Verdict::Contained
        );
    }

    #[test]
    fn an_open_door_or_the_answer_of_the_control_is_a_breach() {
        assert_eq!(verdict(OPEN, OPEN), Verdict::Breached);
        let through = r#"{"door a":"EPERM","door b":"EINVAL","_twin":{"t":true}}"#;
        assert_eq!(verdict(through, OPEN), Verdict::Breached);
        let told = r#"{"door a":"somewhere","_twin":{"t":true}}"#;
        assert_eq!(verdict(told, OPEN), Verdict::Breached);
    }

    #[test]
    fn what_nobody_knows_is_inconclusive() {
        let shut = r#"{"door a":"EPERM","_twin":{"t":true}}"#;
        assert_eq!(
            verdict(r#"{"door a":"ENOSYS","_twin":{"t":true}}"#, OPEN),
            Verdict::Inconclusive,
            "another refusal"
        );
        assert_eq!(
            verdict(r#"{"_twin":{"t":true}}"#, OPEN),
            Verdict::Inconclusive,
            "never tried"
        );
        assert_eq!(
            verdict(r#"{"door a":"EPERM","_twin":{"t":false}}"#, OPEN),
            Verdict::Inconclusive,
            "a dead twin"
        );
        assert_eq!(verdict(r#"{"door a":"EPERM"}"#, OPEN), Verdict::Inconclusive, "no twin");
        assert_eq!(
            verdict(shut, shut),
            Verdict::Inconclusive,
            "a control that does not breach"
        );
        assert_eq!(verdict("no facts", OPEN), Verdict::Inconclusive, "no facts");
        assert_eq!(
            verdict(shut, "no facts"),
            Verdict::Inconclusive,
            "a control without facts"
        );
    }

    #[test]
    fn what_the_host_saw_counts_whatever_the_probe_says() {
        let (claim, control) = (facts(r#"{"door a":"EPERM","_twin":{"t":true}}"#), facts(OPEN));
        let changed = Some("a canary was read".to_owned());
        assert_eq!(
            PROBE
                .judge(
                    &Tried {
                        claim,
                        changed,
                        control
                    },
                    Ground::Host
                )
                .verdict,
            Verdict::Breached
        );
    }
}
