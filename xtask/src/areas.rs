//! The areas of `cargo xtask test AREA...`: for each, the Rust tests (a nextest filterset) and the suites in other languages.
//!
//! An area runs whole, with the tests that otherwise need `--full`. Which tests need `--full` is in `.config/nextest.toml`.

/// Tests that are not written in Rust, or that need more than the Rust test binaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suite {
    /// The Python kernel's own tests, with pytest.
    PythonKernel,
    /// The JavaScript kernel's own tests, with `node --test`.
    NodeKernel,
    /// E2B's newest clients, Python and JavaScript.
    E2b,
    /// E2B's older clients, Python and JavaScript.
    E2bOlder,
    /// Requests generated from `docs/openapi.json`, with schemathesis.
    OpenApi,
    /// The packages of `cargo xtask dist`, installed into an empty root.
    Dist,
    /// The feature `otlp`, which no other build has, with a collector of traces on loopback.
    Otlp,
}

/// The suites of `cargo xtask test`, and those that `--full` adds.
pub(crate) const QUICK_SUITES: &[Suite] = &[Suite::PythonKernel, Suite::NodeKernel, Suite::E2b, Suite::OpenApi];
pub(crate) const FULL_SUITES: &[Suite] = &[
    Suite::PythonKernel,
    Suite::NodeKernel,
    Suite::E2b,
    Suite::E2bOlder,
    Suite::OpenApi,
    Suite::Dist,
    Suite::Otlp,
];

#[derive(Debug)]
pub(crate) struct Area {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// A nextest filterset.
    pub(crate) tests: &'static str,
    pub(crate) suites: &'static [Suite],
}

const fn area(name: &'static str, about: &'static str, tests: &'static str, suites: &'static [Suite]) -> Area {
    Area {
        name,
        about,
        tests,
        suites,
    }
}

pub(crate) const AREAS: &[Area] = &[
    area(
        "cli",
        "`atoll run` and the other commands",
        "package(atoll) | binary(behaviour)",
        &[],
    ),
    area(
        "jail",
        "the default tier: isolation, limits, escape probes, clean-up",
        "package(atoll-jail) | (binary(/^(escape|lifecycle|census|forks)$/) - test(/(^|::)(container|gvisor|gvisor_saved|microvm|wasm)(::|$)/))",
        &[],
    ),
    area(
        "kernels",
        "the language kernels, and the jail on another Linux kernel",
        "package(atoll-guest) | binary(guest)",
        &[Suite::PythonKernel, Suite::NodeKernel],
    ),
    area("engine", "unit tests of the engine", "package(atoll-engine)", &[]),
    area(
        "server",
        "`atoll serve` and the native API",
        "package(atoll-server) | binary(server)",
        &[Suite::OpenApi, Suite::Otlp],
    ),
    area(
        "e2b",
        "E2B's clients, newest and older",
        "test(/e2b/)",
        &[Suite::E2b, Suite::E2bOlder],
    ),
    area("policy", "policies, findings and verdicts", "test(/polic|floors/)", &[]),
    area(
        "approvals",
        "approvals, webhooks and dry runs",
        "test(/approv|webhook|dry_run/)",
        &[],
    ),
    area("audit", "the audit log", "binary(audit) | test(/(^|::)audit::/)", &[]),
    area(
        "sanitizer",
        "sanitizer and redaction",
        "package(atoll-guard) | test(/guard::|secrets::/)",
        &[],
    ),
    area(
        "templates",
        "recipes, builds and OCI images",
        "binary(image) | test(/template|image/)",
        &[],
    ),
    area(
        "wasm",
        "the tier wasm",
        "package(atoll-wasm) | binary(wasm) | test(/wasm/)",
        &[],
    ),
    area("container", "the tier container", "test(/container/)", &[]),
    area("gvisor", "the tier gvisor", "test(/gvisor/)", &[]),
    area("microvm", "the tier microvm", "test(/microvm/)", &[]),
    area("tiers", "one corpus of code in every tier", "binary(tiers)", &[]),
    area("fuzz", "parsers on mutated input", "binary(fuzz)", &[]),
    area(
        "dist",
        "the packages, installed into an empty root",
        "none()",
        &[Suite::Dist],
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_suite_is_in_an_area() {
        let names: BTreeSet<&str> = AREAS.iter().map(|area| area.name).collect();
        assert_eq!(names.len(), AREAS.len());
        for suite in FULL_SUITES {
            assert!(AREAS.iter().any(|area| area.suites.contains(suite)), "{suite:?}");
        }
    }
}
