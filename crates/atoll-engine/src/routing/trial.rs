//! A trial: code in `wasm` whose output is held back, because it may turn out to need the next tier. Here is what such a run
//! may use, and what shows that it needs more. The CLI and the server run it again; see `Chosen::next`.

use super::Chosen;
use atoll_core::execution::{CodeError, Execution};
use atoll_core::quantity::CpuTimeMillis;
use atoll_core::{Limits, Outcome, Tier};

/// Loops take about three times as long in `wasm` as in the jail: longer code gains nothing there.
const CPU_TIME: CpuTimeMillis = CpuTimeMillis::known(2_000);

impl Chosen {
    /// The limits of a run whose output is held back; `None` for all others, which have those of their sandbox.
    pub fn trial_limits(&self, limits: &Limits) -> Option<Limits> {
        self.next.map(|_| Limits {
            cpu_time: limits.cpu_time.min(CPU_TIME),
            ..*limits
        })
    }

    /// Where the code goes and why, if its trial has shown that it needs more.
    pub fn after_trial(&self, execution: &Execution) -> Option<(Tier, String)> {
        self.next.zip(needs_more(execution))
    }
}

/// Why the code needs another tier, if it does.
fn needs_more(execution: &Execution) -> Option<String> {
    if execution.outcome == Outcome::CpuLimit {
        return Some(format!(
            "the code needs more CPU time than a trial in {} gets ({CPU_TIME})",
            execution.tier
        ));
    }
    let error = execution.error.as_ref().filter(|error| shows_need(error))?;
    Some(format!("{}: {}", error.name, error.value))
}

/// A module or a call of the system that is not there.
fn shows_need(error: &CodeError) -> bool {
    let says = |word: &&str| error.value.contains(*word);
    match error.name.as_str() {
        "ModuleNotFoundError" | "ImportError" => true,
        "OSError" | "NotImplementedError" | "PermissionError" | "RuntimeError" | "error" => ABSENT.iter().any(says),
        _ => false,
    }
}

const ABSENT: [&str; 6] = [
    "Function not implemented",
    "Not supported",
    "not supported",
    "does not support",
    "can't start new thread",
    "sockets within a sandbox need tier `jail`",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn error(name: &str, value: &str) -> CodeError {
        CodeError {
            name: name.to_owned(),
            value: value.to_owned(),
            traceback: Vec::new(),
        }
    }

    #[test]
    fn an_absent_module_or_call_shows_that_code_needs_more() {
        assert!(shows_need(&error("ModuleNotFoundError", "No module named 'numpy'")));
        assert!(shows_need(&error("RuntimeError", "can't start new thread")));
        assert!(shows_need(&error("OSError", "[Errno 58] Not supported")));
        assert!(shows_need(&error(
            "OSError",
            "[Errno 58] wasi does not support processes."
        )));
        let no_sockets = "no network in this sandbox: … (sockets within a sandbox need tier `jail` or above)";
        assert!(shows_need(&error("PermissionError", no_sockets)));
        assert!(!shows_need(&error("ZeroDivisionError", "division by zero")));
        assert!(!shows_need(&error("RuntimeError", "generator raised StopIteration")));
        assert!(!shows_need(&error("OSError", "[Errno 44] No such file or directory")));
    }

    #[test]
    fn only_a_trial_has_less_cpu_time() {
        let tried = |next| Chosen {
            tier: Tier::Wasm,
            reason: String::new(),
            next,
        };
        let limits = Limits::SMALL;
        let trial = tried(Some(Tier::Jail)).trial_limits(&limits).unwrap();
        assert_eq!(trial.cpu_time, CPU_TIME);
        assert_eq!(trial.wall, limits.wall);
        assert_eq!(tried(None).trial_limits(&limits), None);
        let short = Limits {
            cpu_time: CpuTimeMillis::known(500),
            ..limits
        };
        assert_eq!(tried(Some(Tier::Jail)).trial_limits(&short), Some(short));
    }
}
