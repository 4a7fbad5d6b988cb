//! Commands and terminals before a policy: a command is read as the shell code that it is. What is typed later cannot be
//! read before it runs, so a policy that cares about process control does not let such a console begin.

use super::{Decision, Judged, Refusal, judge_aside};
use crate::code_policy::Rule;
use crate::inside::CommandSpec;
use crate::policy::Policy;
use crate::routing::Seen;
use atoll_core::execution::{CodeError, Hint};
use atoll_core::{Finding, Language, Outcome, Verdict};
use std::sync::Arc;

const SHELLS: [&str; 5] = ["bash", "sh", "dash", "ash", "zsh"];

/// A command that may start.
#[derive(Clone, Debug)]
pub struct PassedCommand {
    pub findings: Vec<Finding>,
    /// Who said yes, if somebody was asked.
    pub approver: Option<String>,
}

/// A command that its policy does not let run.
#[derive(Clone, Debug)]
pub struct RefusedCommand {
    pub refusal: Refusal,
    pub findings: Vec<Finding>,
    /// Who said no, if somebody was asked.
    pub approver: Option<String>,
}

impl std::fmt::Display for RefusedCommand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.refusal.error.value)
    }
}

/// Holds a command against a policy. Also says what was read.
pub(crate) async fn judge_command(spec: &CommandSpec, policy: &Arc<Policy>) -> (String, Judged) {
    let script = script_of(&spec.argv);
    let mut judged = judge_aside(&script, Language::Bash, policy, false).await;
    if let Some(what) = console(spec) {
        let verdict = policy.code.verdict(Rule::ProcessControl);
        if verdict >= Verdict::Ask && !matches!(judged.decision, Decision::Refuse(_)) {
            judged.decision = Decision::Refuse(no_console(what, policy, verdict));
        }
    }
    (script, judged)
}

/// Whether the words of a command say what it runs.
pub(crate) fn seen(spec: &CommandSpec) -> Seen {
    match console(spec) {
        Some(_) => Seen::Later,
        None => Seen::Whole,
    }
}

/// What `bash -l -c` is given; of any other command its words, each quoted.
fn script_of(argv: &[String]) -> String {
    let given = argv.iter().skip(1).position(|word| takes_code(word));
    let code = given.and_then(|at| argv.get(at + 2)).filter(|_| is_shell(argv));
    code.cloned().unwrap_or_else(|| {
        let words: Vec<String> = argv.iter().map(|word| quoted(word)).collect();
        words.join(" ")
    })
}

/// `-c`, or a bundle of short flags that has it.
fn takes_code(word: &str) -> bool {
    let flags = word.strip_prefix('-').filter(|flags| !flags.starts_with('-'));
    flags.is_some_and(|flags| flags.contains('c'))
}

fn is_shell(argv: &[String]) -> bool {
    SHELLS.contains(&program(argv))
}

fn program(argv: &[String]) -> &str {
    let first = argv.first().map_or("", String::as_str);
    first.rsplit('/').next().unwrap_or_default()
}

fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:=,@%+".contains(&byte);
    match !word.is_empty() && word.bytes().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether what it runs comes later: a terminal, or an interpreter that is given flags only and reads its input.
fn console(spec: &CommandSpec) -> Option<&'static str> {
    if spec.terminal.is_some() {
        return Some("a terminal");
    }
    let name = program(&spec.argv);
    let interprets = is_shell(&spec.argv) || name.starts_with("python") || ["node", "nodejs"].contains(&name);
    let flags_only = spec.argv.iter().skip(1).all(|word| word.starts_with('-'));
    (spec.stdin && interprets && flags_only).then_some("an interpreter that reads its standard input")
}

fn no_console(what: &str, policy: &Policy, verdict: Verdict) -> Refusal {
    let rule = Rule::ProcessControl.id();
    Refusal {
        outcome: Outcome::Denied,
        error: CodeError {
            name: "PolicyDenied".to_owned(),
            value: format!(
                "{what} runs input that arrives later and cannot be checked in advance (policy {}, rule {rule})",
                policy.name
            ),
            traceback: Vec::new(),
        },
        hint: Some(Hint {
            refused: format!("starting {what}"),
            rule: format!("policy {}: {rule} = {verdict}", policy.name),
            instead: "run commands one at a time, each with its complete text".to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load;
    use std::collections::BTreeMap;

    fn spec(argv: &[&str]) -> CommandSpec {
        CommandSpec {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            env: BTreeMap::new(),
            cwd: None,
            stdin: true,
            terminal: None,
            tag: None,
        }
    }

    async fn decided(spec: &CommandSpec, policy: &str) -> Decision {
        judge_command(spec, &Arc::new(load(policy).unwrap())).await.1.decision
    }

    #[test]
    fn the_code_of_a_shell_is_read_and_other_words_are_quoted() {
        let script = |argv: &[&str]| script_of(&spec(argv).argv);
        assert_eq!(script(&["/bin/bash", "-l", "-c", "ls | wc"]), "ls | wc");
        assert_eq!(script(&["sh", "-lc", "curl a.b", "x"]), "curl a.b");
        assert_eq!(script(&["bash", "--rcfile", "x"]), "bash --rcfile x");
        assert_eq!(script(&["echo", "-c", "it's", ""]), r"echo -c 'it'\''s' ''");
    }

    #[tokio::test]
    async fn commands_are_judged_as_bash() {
        let plain = spec(&["/bin/bash", "-l", "-c", "ls /data/input | wc -l"]);
        assert_eq!(decided(&plain, "guarded").await, Decision::Run);
        for hostile in ["curl http://a.b", "pip install x", "kill -9 1"] {
            for argv in [vec!["/bin/bash", "-l", "-c", hostile], hostile.split(' ').collect()] {
                let spec = spec(&argv);
                assert_eq!(decided(&spec, "standard").await, Decision::Run, "{argv:?}");
                assert!(matches!(decided(&spec, "guarded").await, Decision::Ask(_)), "{argv:?}");
                assert!(
                    matches!(decided(&spec, "strict").await, Decision::Refuse(_)),
                    "{argv:?}"
                );
            }
        }
    }

    #[tokio::test]
    async fn a_console_needs_a_policy_that_does_not_care_about_processes() {
        let size = atoll_core::wire::agent::TerminalSize { columns: 80, rows: 24 };
        let terminal = CommandSpec {
            terminal: Some(size),
            ..spec(&["/bin/bash", "-i", "-l"])
        };
        let fed = spec(&["python3", "-"]);
        for console in [&terminal, &fed, &spec(&["bash"])] {
            assert_eq!(decided(console, "standard").await, Decision::Run);
            for policy in ["guarded", "strict"] {
                let Decision::Refuse(refusal) = decided(console, policy).await else {
                    panic!("{console:?} under {policy}")
                };
                assert_eq!(refusal.outcome, Outcome::Denied);
            }
        }
        let closed = CommandSpec { stdin: false, ..fed };
        assert_eq!(decided(&closed, "guarded").await, Decision::Run);
    }
}
