//! Whether the processor can be trusted with a guest: graded, because some hosts run the first steps of a guest and fail later.
//!
//! The guest runs in a process of its own (`atoll __kvm-probe`), which tells each step as it is done. Who started it bounds
//! its time. A host that interprets ring 0 is found by its speed, one that lacks a piece by the step that never comes.

use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a kernel does, in the order in which it is tried.
pub const STEPS: [&str; 6] = [
    "cr3",
    "msr",
    "breakpoint",
    "page fault",
    "ring 0 loop",
    "ring 3 and back",
];
/// A processor needs a hundredth of it.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// What became of the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Verdict {
    pub usable: bool,
    /// The steps that were done.
    pub passed: Vec<String>,
    /// Why it is not usable, for people.
    pub reason: String,
}

/// In the process of its own: a line for each step, and one for the end.
#[cfg(target_arch = "x86_64")]
pub fn probe_main() -> i32 {
    let say = |line: &str| rustix::io::write(rustix::stdio::stdout(), line.as_bytes());
    let ended = crate::sys::kvm::run(|letter| {
        let step = STEPS.get(usize::from(letter.wrapping_sub(b'a'))).copied();
        say(&format!("{}\n", step.unwrap_or("?"))).ok();
    });
    let last = match ended {
        Ok(reason) => format!("ended: exit {reason}\n"),
        Err(errno) => format!("ended: {errno}\n"),
    };
    say(&last).ok();
    0
}

#[cfg(not(target_arch = "x86_64"))]
pub fn probe_main() -> i32 {
    1
}

/// Judges what such a process has said, and whether it had to be stopped.
pub fn judge(said: &str, in_time: bool) -> Verdict {
    let lines: Vec<&str> = said.lines().collect();
    let passed: Vec<String> = lines
        .iter()
        .zip(STEPS)
        .take_while(|(line, step)| **line == *step)
        .map(|(_, step)| step.to_owned())
        .collect();
    let ended = lines.iter().find_map(|line| line.strip_prefix("ended: "));
    let missing = STEPS.get(passed.len());
    let reason = match (missing, in_time, ended) {
        (None, true, Some(_)) => String::new(),
        (Some(step), true, Some(why)) => format!("a test guest on /dev/kvm fails at step `{step}` ({why})"),
        (Some(step), false, _) => format!("a test guest on /dev/kvm times out at step `{step}`"),
        (_, _, _) => "the /dev/kvm probe returned no result".to_owned(),
    };
    Verdict {
        usable: reason.is_empty(),
        passed,
        reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> String {
        STEPS.map(|step| format!("{step}\n")).concat()
    }

    #[test]
    fn only_a_guest_that_gets_through_every_step_in_time_is_trusted() {
        assert!(judge(&format!("{}ended: exit 5\n", all()), true).usable);
        for (said, in_time) in [
            (all(), true),
            (format!("{}ended: exit 5\n", all()), false),
            ("cr3\nmsr\nended: exit 17\n".to_owned(), true),
            ("cr3\nbreakpoint\nended: exit 5\n".to_owned(), true),
            (String::new(), true),
        ] {
            let verdict = judge(&said, in_time);
            assert!(!verdict.usable && !verdict.reason.is_empty(), "{said:?} {verdict:?}");
        }
    }

    #[test]
    fn the_reason_names_the_step_that_did_not_come() {
        let verdict = judge("cr3\nmsr\nended: exit 17\n", true);
        assert_eq!(verdict.passed, ["cr3", "msr"]);
        assert!(verdict.reason.contains("breakpoint"), "{}", verdict.reason);
        let slow = judge("cr3\nmsr\nbreakpoint\npage fault\n", false);
        assert!(slow.reason.contains("ring 0 loop"), "{}", slow.reason);
        let none = judge("ended: No such file or directory (os error 2)\n", true);
        assert!(none.reason.contains("No such file"), "{}", none.reason);
    }
}
