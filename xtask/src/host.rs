//! What tests need of the host, and which of it is missing here. Called by [`rust_tests`](crate::rust_tests) and
//! [`suite`](crate::suite); installing packages does not belong here.

use std::path::Path;
use std::process::Command;

use crate::packages::is_root;
use crate::steps::succeeds;

/// Something that a host may lack.
#[derive(Debug)]
pub(crate) struct Need {
    /// As the last lines of a run state it.
    pub(crate) missing: &'static str,
    /// The Rust tests that cannot run without it, as a nextest filterset.
    pub(crate) tests: &'static str,
    is_met: fn() -> bool,
    /// A host that must run everything may still lack it.
    pub(crate) is_optional: bool,
}

const fn need(missing: &'static str, tests: &'static str, is_met: fn() -> bool) -> Need {
    Need {
        missing,
        tests,
        is_met,
        is_optional: false,
    }
}

const NEEDS: &[Need] = &[
    need("no `crun`", "test(/container/) - package(xtask)", || {
        has("crun", "--version")
    }),
    need("no `runc`", "test(/runc/)", || has("runc", "--version")),
    need("no `runsc`", "test(/gvisor/) - package(xtask)", || {
        has("runsc", "--version")
    }),
    need("no QEMU", "test(/microvm/) | binary(guest)", || {
        has("qemu-system-x86_64", "--version")
    }),
    need("no Node", "test(/javascript|typescript/)", has_node),
    need(
        "no Chromium",
        "test(/a_real_browser/) | test(=figures::a_saved_figure_is_drawn_offline_and_reaches_nothing)",
        || has("chromium", "--version"),
    ),
    need("not root", NEEDS_ROOT, is_root),
    Need {
        is_optional: true,
        ..need("no KVM", "test(/where_the_processor_is_trusted/)", || {
            Path::new("/dev/kvm").exists()
        })
    },
];

/// An ordinary user has the jail, the command line, the server and everything that is pure.
const NEEDS_ROOT: &str = "binary(/^(escape|lifecycle|census|forks|guest|image|tiers|wasm)$/) \
    | test(/gvisor|microvm|container|rootless|ordinary_user/)";

pub(crate) fn has_node() -> bool {
    has("/usr/bin/node", "--version")
}

fn has(program: &str, argument: &str) -> bool {
    succeeds(Command::new(program).arg(argument))
}

/// The needs that this host does not meet.
pub(crate) fn unmet() -> Vec<&'static Need> {
    NEEDS.iter().filter(|need| !(need.is_met)()).collect()
}

/// Tests that one need kept from running.
#[derive(Debug)]
pub(crate) struct Skipped {
    pub(crate) need: &'static Need,
    pub(crate) count: usize,
}

/// "37 tests not run: no `runsc` (21), not root (16)"; `None` if every test ran.
pub(crate) fn describe(skipped: &[Skipped]) -> Option<String> {
    let parts: Vec<String> = skipped
        .iter()
        .filter(|skip| skip.count > 0)
        .map(|skip| format!("{} ({})", skip.need.missing, skip.count))
        .collect();
    let total: usize = skipped.iter().map(|skip| skip.count).sum();
    let noun = if total == 1 { "test" } else { "tests" };
    (total > 0).then(|| format!("{total} {noun} not run: {}", parts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted_by_what_is_missing() {
        let skip = |missing: &str, count| Skipped {
            need: NEEDS.iter().find(|need| need.missing == missing).unwrap(),
            count,
        };
        let text = describe(&[skip("no `runsc`", 21), skip("no KVM", 0), skip("not root", 16)]);
        assert_eq!(
            text.as_deref(),
            Some("37 tests not run: no `runsc` (21), not root (16)")
        );
        assert_eq!(
            describe(&[skip("no KVM", 1)]).as_deref(),
            Some("1 test not run: no KVM (1)")
        );
        assert_eq!(describe(&[skip("no KVM", 0)]), None);
    }

    #[test]
    fn only_kvm_may_be_missing_where_everything_is_required() {
        let optional: Vec<&str> = NEEDS
            .iter()
            .filter(|need| need.is_optional)
            .map(|need| need.missing)
            .collect();
        assert_eq!(optional, ["no KVM"]);
    }
}
