//! Words for a context that did not survive an execution: said when it happens, and again when somebody misses its state.
//!
//! Not for sandboxes that live for one execution: nobody comes back to them.

use crate::execute::{Ended, limit_in_words};
use crate::hint::signal_name;
use atoll_core::execution::{CodeError, Execution, Hint};
use atoll_core::{EndReason, Limits, Outcome};

/// That an interpreter was lost, and whether somebody has heard of it in the one that took its place.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    pub(crate) why: String,
    pub(crate) told: bool,
}

/// What ended the interpreter.
pub(crate) fn why(ended: &Ended, limits: &Limits) -> String {
    if let Some(limit) = limit_in_words(ended.outcome, limits) {
        return limit;
    }
    match (ended.outcome, ended.exit_code) {
        (Outcome::Interrupted, _) => "the code ignored an interrupt".into(),
        (_, Some(code)) => format!("the interpreter exited with status {code}"),
        (_, None) => format!("the interpreter was terminated by {}", signal_name(ended.signal)),
    }
}

/// In the answer of the execution that cost the state.
pub(crate) fn say_now(execution: &mut Execution, why: &str) {
    if let Some(error) = &mut execution.error {
        add(error, "the state of this context is lost");
    }
    let anew = "the next execution in this context starts with empty state; rerun the code that it depends on";
    match &mut execution.hint {
        Some(hint) => hint.instead = format!("{}; {anew}", hint.instead),
        None => execution.hint = Some(hint(why, anew)),
    }
}

/// In the answer of an execution whose sandbox has ended under it.
pub(crate) fn with_the_sandbox(execution: Execution, reason: EndReason) -> Execution {
    let error = CodeError {
        name: "SandboxEnded".into(),
        value: format!("the sandbox has ended: {reason}"),
        traceback: Vec::new(),
    };
    let hint = Hint {
        refused: "continuing the execution".into(),
        rule: format!("the sandbox has ended: {reason}"),
        instead: "create a new sandbox, with a longer lifetime if needed".into(),
    };
    Execution {
        error: Some(error),
        hint: Some(hint),
        ..execution
    }
}

/// In the answer of an execution whose sandbox went back to a snapshot under it.
pub(crate) fn rolled_back(execution: Execution) -> Execution {
    let error = CodeError {
        name: "SandboxRolledBack".into(),
        value: "the sandbox was rolled back to a snapshot".into(),
        traceback: Vec::new(),
    };
    let hint = hint(
        "the sandbox was rolled back to a snapshot",
        "the sandbox has the snapshot's state; rerun the code",
    );
    Execution {
        error: Some(error),
        hint: Some(hint),
        ..execution
    }
}

/// In the next answer, and whenever a name is not known. Returns whether it was said.
pub(crate) fn say_later(execution: &mut Execution, lost: &Lost) -> bool {
    let misses = execution.error.as_mut().filter(|error| is_unknown_name(error));
    if lost.told && misses.is_none() {
        return false;
    }
    if let Some(error) = misses {
        add(
            error,
            &format!("the state of this context was lost earlier ({})", lost.why),
        );
    }
    let again = "rerun the code that defined the missing names";
    execution.hint.get_or_insert_with(|| hint(&lost.why, again));
    true
}

fn is_unknown_name(error: &CodeError) -> bool {
    ["NameError", "ReferenceError"].contains(&error.name.as_str())
}

/// Where a reader looks: behind the message, or below the traceback, as exceptions show notes.
fn add(error: &mut CodeError, note: &str) {
    match error.traceback.is_empty() {
        true => error.value = format!("{}; {note}", error.value),
        false => error.traceback.push(format!("note: {note}")),
    }
}

fn hint(why: &str, instead: &str) -> Hint {
    Hint {
        refused: "keeping the state of this context".into(),
        rule: why.into(),
        instead: instead.into(),
    }
}
