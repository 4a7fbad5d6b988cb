//! Words for what was refused: which rule, which number, what to do instead.

use crate::execute::{Ended, limit_in_words};
use atoll_core::execution::{CodeError, Hint};
use atoll_core::{Limits, Outcome};

pub(crate) fn of(ended: &Ended, limits: &Limits) -> Option<Hint> {
    if let Some(rule) = limit_in_words(ended.outcome, limits) {
        let (refused, instead) = match ended.outcome {
            Outcome::Timeout => (
                "more time",
                "do less at once, or ask for more with `--timeout` or `--profile data`",
            ),
            Outcome::CpuLimit => ("more processor time", "do less at once, or use `--profile data`"),
            _ => (
                "more memory",
                "work in pieces, or ask for more with `--memory` or `--profile data`",
            ),
        };
        return Some(hint(refused, &rule, instead));
    }
    if ended.refused_processes > 0 || ended.error.as_ref().is_some_and(is_process_refusal) {
        let rule = format!("processes: {}", limits.processes);
        return Some(hint(
            "another process or thread",
            &rule,
            "use fewer workers, or `--profile data`",
        ));
    }
    if ended.scratch_is_full {
        let rule = format!("scratch disk: {}, {} files", limits.scratch, limits.scratch_inodes);
        return Some(hint(
            "more room for files",
            &rule,
            "remove files, or use `--profile data`",
        ));
    }
    let error = ended.error.as_ref()?;
    if error.name.contains("gaierror")
        || error.value.contains("Network is unreachable")
        || error.value.contains("Name or service not known")
    {
        return Some(hint(
            "the network",
            "net: none",
            "give the data as an input file with `--in`",
        ));
    }
    None
}

/// Where there is no cgroup that counts refusals, the program's own words tell.
fn is_process_refusal(error: &CodeError) -> bool {
    error.name == "BlockingIOError" || error.value.contains("can't start new thread")
}

fn hint(refused: &str, rule: &str, instead: &str) -> Hint {
    Hint {
        refused: refused.into(),
        rule: rule.into(),
        instead: instead.into(),
    }
}

/// An error for endings in which the code could not raise one itself.
pub(crate) fn error_of(
    outcome: Outcome,
    code: Option<i32>,
    signal: Option<i32>,
    limit: Option<String>,
) -> Option<CodeError> {
    let (name, value) = match outcome {
        Outcome::Ok => return None,
        Outcome::Timeout => ("TimeoutError", limit?),
        Outcome::CpuLimit => ("CpuLimitError", limit?),
        Outcome::MemoryLimit => ("MemoryError", limit?),
        Outcome::Interrupted => ("KeyboardInterrupt", "the execution was interrupted".to_owned()),
        Outcome::Error => ("ExitStatus", format!("exit status {}", code?)),
        Outcome::Crashed | Outcome::Killed => {
            ("Crash", format!("the interpreter was ended by {}", signal_name(signal)))
        }
        Outcome::Denied | Outcome::ApprovalDenied | Outcome::ApprovalExpired => return None,
    };
    Some(CodeError {
        name: name.into(),
        value,
        traceback: Vec::new(),
    })
}

fn signal_name(signal: Option<i32>) -> String {
    match signal {
        Some(4) => "SIGILL (illegal instruction)".into(),
        Some(6) => "SIGABRT (abort)".into(),
        Some(7) => "SIGBUS (bus error)".into(),
        Some(8) => "SIGFPE (arithmetic error)".into(),
        Some(9) => "SIGKILL".into(),
        Some(11) => "SIGSEGV (segmentation fault)".into(),
        Some(31) => "SIGSYS (a forbidden system call)".into(),
        Some(number) => format!("signal {number}"),
        None => "an unknown cause".into(),
    }
}
