//! Where code meets its policy: every execution passes here before it reaches a context, and `atoll run` before it starts anything.
//!
//! The gate decides and runs nothing. Who is asked, and by what way, is the caller's affair, who brings an [`Approver`].

mod approver;
mod command;

pub use approver::{Answer, Approver, Asking, Held, InputFact, Question};
pub(crate) use approver::{Asked, Settled};
pub use command::{PassedCommand, RefusedCommand};
pub(crate) use command::{judge_command, seen};

use crate::code_policy::{Review, SyntaxFault, review};
use crate::policy::Policy;
use atoll_core::execution::{CodeError, Execution, Hint, LeftOut, Provenance, Receipt, Truncated, Usage};
use atoll_core::{ContextId, ExecutionId, Finding, Language, Outcome, SandboxId, Tier, Verdict};
use atoll_guard::redact::Redactor;
use serde_json::Map;
use std::sync::Arc;

/// Shorter code is looked at where it is; longer code on a thread of its own, so that others go on.
const LONG_BYTES: usize = 16 << 10;

/// What was found in a piece of code, and what becomes of it.
#[derive(Clone, Debug)]
pub struct Judged {
    pub findings: Vec<Finding>,
    /// The policy's digest.
    pub policy: String,
    pub decision: Decision,
}

impl Judged {
    /// Findings and refusals quote the code.
    pub fn hide(&mut self, hides: &Redactor) {
        hides.findings(&mut self.findings);
        match &mut self.decision {
            Decision::Run => {}
            Decision::Ask(refusal) | Decision::Refuse(refusal) => {
                hides.error(&mut refusal.error);
                refusal.hint.iter_mut().for_each(|hint| hides.hint(hint));
            }
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Run,
    /// It may run if somebody who may say so says yes; otherwise this is the answer.
    Ask(Refusal),
    Refuse(Refusal),
}

/// The answer in place of an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub outcome: Outcome,
    pub error: CodeError,
    pub hint: Option<Hint>,
}

/// Holds code against a policy. `once`: for a fresh context that runs nothing else, so that its first cell is this code.
pub fn judge(code: &str, language: Language, policy: &Policy, once: bool) -> Judged {
    let Review {
        findings,
        verdict,
        syntax,
    } = review(code, language, &policy.code);
    let broken = syntax.filter(|fault| is_told(fault, policy, once));
    let decision = match (verdict, broken) {
        (_, Some(fault)) => Decision::Refuse(broken_code(&fault)),
        (Verdict::Deny, None) => Decision::Refuse(held(&findings, policy, Verdict::Deny)),
        (Verdict::Ask, None) => Decision::Ask(held(&findings, policy, Verdict::Ask)),
        (Verdict::Allow | Verdict::Warn, None) => Decision::Run,
    };
    Judged {
        findings,
        policy: policy.digest().to_owned(),
        decision,
    }
}

/// The same beside other work.
pub(crate) async fn judge_aside(code: &str, language: Language, policy: &Arc<Policy>, once: bool) -> Judged {
    if code.len() <= LONG_BYTES {
        return judge(code, language, policy, once);
    }
    let (owned, for_thread) = (code.to_owned(), Arc::clone(policy));
    let done = tokio::task::spawn_blocking(move || judge(&owned, language, &for_thread, once)).await;
    // The thread is gone only if the runtime is: then nothing runs any more.
    done.unwrap_or_else(|_| judge(code, language, policy, once))
}

/// A fault is said here if Python would say exactly that of a first cell, or if the policy does not let pass what it cannot read.
/// Otherwise the interpreter says it: it counts its cells, and knows its dialect better.
fn is_told(fault: &SyntaxFault, policy: &Policy, once: bool) -> bool {
    let holds = policy.code.verdict(crate::code_policy::Rule::SourceUnreadable) >= Verdict::Ask;
    holds || (fault.certain && once)
}

fn broken_code(fault: &SyntaxFault) -> Refusal {
    Refusal {
        outcome: Outcome::Error,
        error: CodeError {
            name: fault.name.to_owned(),
            value: fault.value(1),
            traceback: fault.traceback(1),
        },
        hint: None,
    }
}

fn held(findings: &[Finding], policy: &Policy, verdict: Verdict) -> Refusal {
    let of_verdict: Vec<&Finding> = findings.iter().filter(|finding| finding.verdict == verdict).collect();
    let (outcome, name) = match verdict {
        Verdict::Deny => (Outcome::Denied, "PolicyDenied"),
        Verdict::Ask | Verdict::Warn | Verdict::Allow => (Outcome::ApprovalDenied, "ApprovalDenied"),
    };
    let first = of_verdict.first();
    let message = first.map_or(String::new(), |finding| {
        format!("line {}: {}", finding.line, finding.message)
    });
    let more = match of_verdict.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    let rule = first.map_or("", |finding| finding.rule.as_str());
    let instead = first.map_or("", |finding| finding.instead.as_str());
    let instead = match verdict {
        Verdict::Deny => instead.to_owned(),
        _ => format!("{instead}; no approver was available to approve the code"),
    };
    Refusal {
        outcome,
        error: CodeError {
            name: name.to_owned(),
            value: format!("{message}{more} (policy {}, rule {rule})", policy.name),
            traceback: Vec::new(),
        },
        hint: Some(Hint {
            refused: format!("running the code: {message}{more}"),
            rule: format!("policy {}: {rule} = {verdict}", policy.name),
            instead,
        }),
    }
}

/// Where code would have run, as far as there is such a place.
#[derive(Clone, Debug)]
pub struct Place {
    pub sandbox: Option<SandboxId>,
    pub context: Option<ContextId>,
    /// The template's digest.
    pub template: Option<String>,
    /// In which it would have run.
    pub tier: Tier,
}

impl Refusal {
    /// The answer in the shape of all answers. Nothing ran, so there are no walls to tell of.
    pub fn into_execution(
        self,
        id: ExecutionId,
        language: Language,
        judged: (Vec<Finding>, String),
        place: Place,
    ) -> Execution {
        Execution {
            provenance: Provenance::of(&id, place.tier),
            dry_run: None,
            tier_choice: None,
            execution_id: id,
            sandbox_id: place.sandbox,
            context_id: place.context,
            language,
            tier: place.tier,
            outcome: self.outcome,
            exit_code: None,
            stdout: String::new(),
            stderr: String::new(),
            truncated: Truncated::default(),
            results: Vec::new(),
            error: Some(self.error),
            hint: self.hint,
            files: Vec::new(),
            left_out: LeftOut::default(),
            findings: judged.0,
            usage: Usage::default(),
            receipt: Receipt {
                tier: place.tier,
                layers: Map::new(),
                template: place.template,
                policy: Some(judged.1),
                egress: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::load;

    fn decided(code: &str, policy: &str, once: bool) -> Decision {
        judge(code, Language::Python, &load(policy).unwrap(), once).decision
    }

    #[test]
    fn the_standard_policy_holds_nothing() {
        let hostile = [
            "import os; os.system('ls')",
            "!pip install x",
            "exec(input())",
            "a.__globals__",
        ];
        for code in hostile {
            assert_eq!(decided(code, "standard", true), Decision::Run, "{code}");
            assert_eq!(decided(code, "open", true), Decision::Run, "{code}");
            assert_ne!(decided(code, "strict", true), Decision::Run, "{code}");
        }
        let large = format!("x = {}1", "1+".repeat(1 << 20));
        assert_eq!(decided(&large, "standard", true), Decision::Run);
        assert_eq!(
            decided(&format!("x = {}1", "-".repeat(1 << 16)), "standard", true),
            Decision::Run
        );
    }

    #[test]
    fn a_refusal_names_the_line_the_rule_and_the_policy() {
        let Decision::Refuse(denied) = decided("x = 1\nimport os", "strict", true) else {
            panic!("not refused")
        };
        assert_eq!(denied.outcome, Outcome::Denied);
        let hint = denied.hint.unwrap();
        assert_eq!(hint.rule, "policy strict: import.module = deny");
        assert!(hint.refused.contains("line 2: the module `os`"), "{hint:?}");
        let Decision::Ask(asked) = decided("import os\nos.fork()", "guarded", true) else {
            panic!("not asked")
        };
        assert_eq!(asked.outcome, Outcome::ApprovalDenied);
    }

    #[test]
    fn a_fault_is_told_early_where_python_would_say_the_same() {
        let Decision::Refuse(told) = decided("x = 1\nprint((1)", "standard", true) else {
            panic!("not told")
        };
        assert_eq!(told.outcome, Outcome::Error);
        assert_eq!(told.error.value, "'(' was never closed (Cell In[1], line 2)");
        let lines = [
            "  Cell In[1], line 2",
            "    print((1)",
            "         ^",
            "SyntaxError: '(' was never closed",
        ];
        assert_eq!(told.error.traceback, lines);
        // A later cell has another number, which only its interpreter knows.
        assert_eq!(decided("x = 1\nprint((1)", "standard", false), Decision::Run);
        // The interpreter has better words for this one.
        assert_eq!(decided("x = 1\nif x\n  y", "standard", true), Decision::Run);
        assert!(matches!(
            decided("x = 1\nif x\n  y", "strict", false),
            Decision::Refuse(_)
        ));
    }
}
