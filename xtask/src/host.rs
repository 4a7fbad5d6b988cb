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
    need("no `runsc`", NEEDS_RUNSC, || has("runsc", "--version")),
    need("no QEMU", NEEDS_QEMU, || has("qemu-system-x86_64", "--version")),
    need("no `sqfstar`", NEEDS_QEMU, || has("sqfstar", "-version")),
    need("no Node", "test(/javascript|typescript/)", has_node),
    need("no Chromium", "test(/a_real_browser/) | test(/^figures::/)", || {
        has("chromium", "--version")
    }),
    need("not root", NEEDS_ROOT, is_root),
    Need {
        is_optional: true,
        ..need("no KVM", "test(/where_the_processor_is_trusted/)", || {
            Path::new("/dev/kvm").exists()
        })
    },
];

/// Saved sandboxes of the server are gVisor's, unless the test's name says otherwise.
const NEEDS_RUNSC: &str = "(test(/gvisor/) | test(/^native::(snapshots|pauses|rollback)::/)) \
    - test(/microvm/) - package(xtask)";

const NEEDS_QEMU: &str = "test(/microvm|of_a_guest|a_guest_differs/) | binary(guest)";

/// An ordinary user has the jail, the command line, the server and everything that is pure, but neither the limits of cgroups
/// nor the power to take something from the host.
const NEEDS_ROOT: &str = "binary(/^(escape|lifecycle|census|forks|guest|image|tiers|wasm)$/) \
    | test(/gvisor|microvm|container|rootless|ordinary_user/) \
    | (binary(behaviour) & test(/^(doctor|hosts)::/)) \
    | (binary(behaviour) & test(/without_node|an_allocation_that_fails|huge_pages|memory_is_(judged|limited)|processor_time_is_limited/)) \
    | (binary(behaviour) & test(/the_execution_that_costs_the_state|large_scratch_is_on_disk/)) \
    | (binary(server) & test(/a_connection_without_a_descriptor|a_killed_server_takes|a_spawner_that_is_killed/)) \
    | (binary(server) & test(/below_a_new_floor|what_runs_between_executions/))";

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
pub(crate) fn need_named(missing: &str) -> &'static Need {
    NEEDS.iter().find(|need| need.missing == missing).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_counted_by_what_is_missing() {
        let skip = |missing: &str, count| Skipped {
            need: need_named(missing),
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
