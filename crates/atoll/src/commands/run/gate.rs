//! The policy before a local run: refused code starts nothing, and what the policy asks about is asked on the terminal.

use super::request::Request;
use crate::commands::policy::finding;
use crate::output::note;
use atoll_core::execution::Execution;
use atoll_core::{ExecutionId, Finding, Tier, Verdict};
use atoll_engine::gate::{Decision, Judged, Place, judge};
use atoll_engine::policy::Policy;
use std::io::{BufRead, IsTerminal};

/// Code that may run.
pub(super) struct Passed {
    /// Somebody had to say so.
    pub(super) approved: bool,
    pub(super) findings: Vec<Finding>,
}

/// Whether the code may run; otherwise the answer.
pub(super) fn pass(request: &Request) -> Result<Passed, Box<Execution>> {
    let policy = request.policy.clone().unwrap_or_else(Policy::standard);
    let mut judged = judge(&request.code, request.language, &policy, true);
    request.secrets.redactor().iter().for_each(|hides| judged.hide(hides));
    if request.policy.is_some() && !request.json {
        tell(&judged.findings);
    }
    let refusal = match &judged.decision {
        Decision::Run => return Ok(passed(false, judged.findings)),
        Decision::Ask(_) if is_answered_with_yes(&judged, request.json) => return Ok(passed(true, judged.findings)),
        Decision::Ask(refusal) if can_be_asked() => refusal.clone().declined(),
        Decision::Ask(refusal) => refusal.clone().without_terminal(),
        Decision::Refuse(refusal) => refusal.clone(),
    };
    let id = ExecutionId::from_random(super::random());
    let found = (judged.findings, judged.policy);
    let tier = request.tier.filter(|tier| *tier != Tier::Auto).unwrap_or_default();
    let execution = refusal.into_execution(id, request.language, found, nowhere(tier));
    Err(Box::new(execution))
}

fn passed(approved: bool, findings: Vec<Finding>) -> Passed {
    Passed { approved, findings }
}

/// Code that was refused has no sandbox.
pub(super) fn nowhere(tier: Tier) -> Place {
    Place {
        sandbox: None,
        context: None,
        template: None,
        tier,
    }
}

/// What people who named a policy want to hear of.
pub(super) fn tell(findings: &[Finding]) {
    let told = findings.iter().filter(|one| one.verdict >= Verdict::Warn);
    note(&told.map(finding).collect::<String>());
}

fn is_answered_with_yes(judged: &Judged, json: bool) -> bool {
    if json && can_be_asked() {
        tell(&judged.findings);
    }
    yes("run it anyway?")
}

/// Only where somebody can read the question and type the answer.
pub(super) fn can_be_asked() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub(super) fn yes(question: &str) -> bool {
    if !can_be_asked() {
        return false;
    }
    // What was typed before, perhaps for a question that the code has made up, is no answer to ours.
    rustix::termios::tcflush(std::io::stdin(), rustix::termios::QueueSelector::IFlush).ok();
    note(&format!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}
