//! Seccomp filters as data: `seccomp/*.toml` in, kernel instructions out. The same in every build.
//!
//! Two programs make three answers: `allow.toml` (everything else is ENOSYS), and on top `deny.toml` (EPERM).
//! A foreign architecture is killed by either. A third, `watch.toml`, refuses nothing: in a dry run it shows calls to the engine.
//! `agent.toml` is for containers only, whose runtime is told the lists in its own words (`oci/profile.rs`).

use crate::plan::Mode;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const ENOSYS: u32 = 38;
const EPERM: u32 = 1;
const ALLOW: &str = include_str!("../seccomp/allow.toml");
const DENY: &str = include_str!("../seccomp/deny.toml");
const WATCH: &str = include_str!("../seccomp/watch.toml");
const AGENT: &str = include_str!("../seccomp/agent.toml");
/// The compiler has no word for "ask the listener": it says "ask the tracer", which is put right afterwards.
const RET_TRACE: u32 = 0x7ff0_0000;
const RET_USER_NOTIF: u32 = 0x7fc0_0000;

#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    #[error("cannot parse the seccomp filter {name}")]
    Data {
        name: &'static str,
        #[source]
        source: toml::de::Error,
    },
    #[error("cannot compile the seccomp filter {name}")]
    Compile {
        name: &'static str,
        #[source]
        source: seccompiler::Error,
    },
}

/// The programs of one spawner, as the kernel's 8-byte instructions.
#[derive(Clone, Debug, Default)]
pub struct Filters {
    /// Worn first: by the zygote, whose forks inherit it, and by each command of the agent.
    pub allow: Vec<u8>,
    /// What a command of the agent wears last.
    pub deny: Vec<u8>,
    /// The same in two parts, for forks of a zygote: what the zygote wears itself,
    pub inherited_deny: Vec<u8>,
    /// and the few calls with which a fork enters its sandbox, refused when it is in.
    pub entered_deny: Vec<u8>,
    /// What the agent itself wears: the deny-list less what it needs to lock its commands down.
    pub agent: Vec<u8>,
    /// What every process of a watched sandbox wears besides.
    pub watch: Vec<u8>,
}

impl Filters {
    pub fn compile(mode: Mode) -> Result<Self, FilterError> {
        let allow = rules("allow", mode)?;
        let deny = rules("deny", mode)?;
        Ok(Self {
            allow: build("allow", allow.iter(), json!("allow"), json!({"errno": ENOSYS}))?,
            deny: refuse("deny", deny.iter())?,
            inherited_deny: refuse("inherited_deny", deny.iter().filter(|r| !r.entering))?,
            entered_deny: refuse("entered_deny", deny.iter().filter(|r| r.entering))?,
            agent: refuse("agent", deny.iter().filter(|r| !r.agent_needs))?,
            watch: show("watch", rules("watch", mode)?.iter())?,
        })
    }

    /// What tells these programs from others.
    pub fn digest(&self) -> String {
        let all = [
            &self.allow,
            &self.deny,
            &self.inherited_deny,
            &self.entered_deny,
            &self.agent,
            &self.watch,
        ];
        let mut hash = Sha256::new();
        for program in all {
            hash.update(program.len().to_le_bytes());
            hash.update(program);
        }
        format!("sha256:{:x}", hash.finalize())
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    rule: Vec<Rule>,
}

/// One line of a filter: which calls, with which arguments, and why.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    pub because: String,
    pub syscalls: Vec<String>,
    pub only: Option<String>,
    #[serde(default)]
    pub args: Vec<Arg>,
    pub values: Option<Values>,
    /// Needed to enter a sandbox, and refused when inside.
    #[serde(default)]
    pub entering: bool,
    /// The agent's own filter leaves it out.
    #[serde(default)]
    pub agent_needs: bool,
    /// Only where there is no cgroup that counts memory.
    #[serde(default)]
    pub rootless: bool,
}

/// A bound on one argument's low 32 bits, or on all 64 if it is `wide`: equal (after a mask), over, under, or not equal.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arg {
    pub index: u8,
    pub value: Option<u64>,
    pub mask: Option<u64>,
    pub over: Option<u64>,
    pub under: Option<u64>,
    pub not: Option<u64>,
    #[serde(default)]
    pub wide: bool,
}

/// Short for one rule per value.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Values {
    pub index: u8,
    pub any: Vec<u64>,
}

/// The rules of a shipped filter, for those who compare the filter with its description.
pub fn rules(name: &'static str, mode: Mode) -> Result<Vec<Rule>, FilterError> {
    let text = match name {
        "allow" => ALLOW,
        "watch" => WATCH,
        "agent" => AGENT,
        _ => DENY,
    };
    let mut rules = read(name, text)?;
    rules.retain(|rule| !rule.rootless || mode == Mode::Rootless);
    Ok(rules)
}

fn read(name: &'static str, text: &str) -> Result<Vec<Rule>, FilterError> {
    let file: File = toml::from_str(text).map_err(|source| FilterError::Data { name, source })?;
    Ok(file
        .rule
        .into_iter()
        .filter(|rule| rule.fits(std::env::consts::ARCH))
        .collect())
}

impl Rule {
    fn fits(&self, architecture: &str) -> bool {
        self.only.as_deref().is_none_or(|only| only == architecture)
    }

    /// The rule in the compiler's words.
    fn entries(&self) -> Vec<Value> {
        let conditions: Vec<Vec<Value>> = match &self.values {
            Some(values) => values
                .any
                .iter()
                .map(|value| vec![condition(values.index, false, json!("eq"), *value)])
                .collect(),
            None => vec![self.args.iter().map(Arg::condition).collect()],
        };
        let mut entries = Vec::new();
        for syscall in &self.syscalls {
            for args in &conditions {
                entries.push(match args.is_empty() {
                    true => json!({"syscall": syscall}),
                    false => json!({"syscall": syscall, "args": args}),
                });
            }
        }
        entries
    }
}

impl Arg {
    fn condition(&self) -> Value {
        let (op, value) = match (self.mask, self.over, self.under, self.not) {
            (Some(mask), ..) => (json!({"masked_eq": mask}), self.value.unwrap_or(0)),
            (None, Some(over), ..) => (json!("gt"), over),
            (None, None, Some(under), _) => (json!("lt"), under),
            (None, None, None, Some(not)) => (json!("ne"), not),
            (None, None, None, None) => (json!("eq"), self.value.unwrap_or(0)),
        };
        condition(self.index, self.wide, op, value)
    }
}

fn condition(index: u8, wide: bool, op: Value, value: u64) -> Value {
    let kind = if wide { "qword" } else { "dword" };
    json!({"index": index, "type": kind, "op": op, "val": value})
}

fn refuse<'a>(name: &'static str, rules: impl Iterator<Item = &'a Rule>) -> Result<Vec<u8>, FilterError> {
    build(name, rules, json!({"errno": EPERM}), json!("allow"))
}

fn show<'a>(name: &'static str, rules: impl Iterator<Item = &'a Rule>) -> Result<Vec<u8>, FilterError> {
    let mut program = build(name, rules, json!({"trace": 0}), json!("allow"))?;
    for instruction in program.chunks_exact_mut(8) {
        let [.., k] = instruction.as_chunks_mut::<4>().0 else {
            continue;
        };
        if u32::from_ne_bytes(*k) == RET_TRACE {
            *k = RET_USER_NOTIF.to_ne_bytes();
        }
    }
    Ok(program)
}

fn build<'a>(
    name: &'static str,
    rules: impl Iterator<Item = &'a Rule>,
    matched: Value,
    otherwise: Value,
) -> Result<Vec<u8>, FilterError> {
    let filter: Vec<Value> = rules.flat_map(Rule::entries).collect();
    let text = json!({name: {"match_action": matched, "mismatch_action": otherwise, "filter": filter}}).to_string();
    let fail = |source| FilterError::Compile { name, source };
    let arch = std::env::consts::ARCH
        .try_into()
        .map_err(|e| fail(seccompiler::Error::Backend(e)))?;
    let mut programs = seccompiler::compile_from_json(text.as_bytes(), arch).map_err(fail)?;
    let program = programs.remove(name).unwrap_or_default();
    Ok(program.iter().flat_map(instruction_bytes).collect())
}

fn instruction_bytes(i: &seccompiler::sock_filter) -> [u8; 8] {
    let [c0, c1] = i.code.to_ne_bytes();
    let [k0, k1, k2, k3] = i.k.to_ne_bytes();
    [c0, c1, i.jt, i.jf, k0, k1, k2, k3]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_has_a_reason_and_every_filter_compiles() {
        let both = [Mode::Root, Mode::Rootless];
        for rule in both
            .iter()
            .flat_map(|mode| ["allow", "deny", "watch", "agent"].map(|name| rules(name, *mode).unwrap()))
            .flatten()
        {
            assert!(rule.because.len() > 8, "no reason: {:?}", rule.syscalls);
        }
        both.into_iter().for_each(check_sizes);
        both.into_iter().for_each(check_bare_rules);
        let deny = |mode| Filters::compile(mode).unwrap().deny;
        assert_ne!(deny(Mode::Root), deny(Mode::Rootless));
    }

    /// The compiler forgets a rule without arguments where another rule for the same call has some.
    fn check_bare_rules(mode: Mode) {
        for name in ["allow", "deny"] {
            let rules = rules(name, mode).unwrap();
            let is_bare = |rule: &&Rule| rule.args.is_empty() && rule.values.is_none();
            for call in rules.iter().filter(is_bare).flat_map(|rule| &rule.syscalls) {
                let with = |rule: &&Rule| !is_bare(rule) && rule.syscalls.contains(call);
                assert!(
                    !rules.iter().any(|rule| with(&rule)),
                    "{name}: {call} has a bare rule and others"
                );
            }
        }
    }

    fn check_sizes(mode: Mode) {
        let filters = Filters::compile(mode).unwrap();
        assert!(
            [
                &filters.allow,
                &filters.deny,
                &filters.inherited_deny,
                &filters.entered_deny,
                &filters.agent,
                &filters.watch
            ]
            .iter()
            .all(|f| f.len() > 100)
        );
        let shows = |k: u32| filters.watch.chunks_exact(8).any(|i| i.ends_with(&k.to_ne_bytes()));
        assert!(shows(RET_USER_NOTIF) && !shows(RET_TRACE));
        assert!(filters.allow.len() <= crate::sys::fork_wire::MAX_FILTER_BYTES);
    }
}
