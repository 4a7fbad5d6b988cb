//! `cargo xtask check` and `cargo xtask test`: every step from a bare host to the last test, in this order.

use std::fs::{self, File};
use std::process::Command;

use anyhow::Result;

use crate::areas::{FULL_SUITES, QUICK_SUITES, Suite};
use crate::guest_kernel;
use crate::host::{Skipped, describe, has_node};
use crate::packages::{Purpose, ensure_nextest, ensure_packages};
use crate::project::Project;
use crate::request::TestRequest;
use crate::rust_tests::{self, Selection};
use crate::steps::{Steps, check as run_child, side_by_side};
use crate::{deny, dist, node, python, tidy};

const TEMPLATES: &[&str] = &["python-min", "python-data"];
/// Its tests run with `--full` and in these areas.
const LARGE_TEMPLATE: &str = "python-full";
const AREAS_OF_LARGE_TEMPLATE: [&str; 2] = ["cli", "templates"];
/// Their tests start no sandbox from a template of the tests, so nothing is downloaded for one.
const AREAS_WITHOUT_TEMPLATES: [&str; 3] = ["engine", "fuzz", "dist"];

pub(crate) fn check(project: &Project) -> Result<()> {
    let (mut steps, _lock) = begin(project)?;
    steps.step("system packages", || {
        ensure_packages(&[Purpose::Build, Purpose::Run, Purpose::Node])
    })?;
    steps.step("cargo-nextest", || ensure_nextest(project))?;
    steps.step("format", || cargo(project, &["fmt", "--all", "--check"]))?;
    steps.step("clippy", || {
        let mut clippy = project.cargo();
        // The product's profile: build scripts and macros are shared with the release build.
        clippy.args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--release",
            "--",
            "-D",
            "warnings",
        ]);
        run_child(&mut clippy)
    })?;
    steps.step("tidy", || tidy::run(&project.root))?;
    steps.step("licences and bans", || deny::run(project))?;
    steps.step("unit tests", || {
        rust_tests::run(project, &Selection::profile("unit"), false).map(drop)
    })?;
    steps.summary(&[]);
    Ok(())
}

pub(crate) fn test(project: &Project, request: &TestRequest) -> Result<()> {
    let (mut steps, _lock) = begin(project)?;
    let suites = suites(request);
    prepare(project, request, &mut steps)?;
    run_suites(project, &suites, &mut steps)?;
    let mut skipped = Vec::new();
    steps.step("Rust tests", || {
        skipped = rust_tests::run(project, &Selection::of(request), request.require_all)?;
        Ok(())
    })?;
    steps.summary(&last_lines(&skipped, &suites));
    if request.covers_test() {
        record_success(project)?;
    }
    Ok(())
}

/// Everything that the Rust tests of a request need before they run.
pub(crate) fn prepare(project: &Project, request: &TestRequest, steps: &mut Steps) -> Result<()> {
    let purposes = purposes(request, &suites(request));
    steps.step("system packages", || ensure_packages(&purposes))?;
    steps.step("guest kernels", || guest_kernel::ensure(project, request))?;
    steps.step("cargo-nextest", || ensure_nextest(project))?;
    steps.step("build atoll", || build_atoll(project))?;
    steps.step("build the Rust tests", || rust_tests::build(project))?;
    steps.step("templates", || build_templates(project, request))
}

fn begin(project: &Project) -> Result<(Steps, File)> {
    println!("target directory: {}", project.target.display());
    Ok((Steps::new(), project.claim_target_dir()?))
}

fn suites(request: &TestRequest) -> Vec<Suite> {
    let areas = request.areas.iter().flat_map(|area| area.suites.iter().copied());
    match (request.areas.is_empty(), request.full) {
        (true, true) => FULL_SUITES.to_vec(),
        (true, false) => QUICK_SUITES.to_vec(),
        (false, _) => areas.collect(),
    }
}

fn purposes(request: &TestRequest, suites: &[Suite]) -> Vec<Purpose> {
    let mut purposes = vec![Purpose::Build, Purpose::Run];
    if starts_sandboxes(request) {
        purposes.push(Purpose::Node);
    }
    let named = |name: &str| request.areas.iter().any(|area| area.name == name);
    let all = request.covers_test() || named("tiers");
    for (area, purpose) in [
        ("container", Purpose::Container),
        ("gvisor", Purpose::Gvisor),
        ("microvm", Purpose::Microvm),
        ("kernels", Purpose::Microvm),
        ("sanitizer", Purpose::Browser),
    ] {
        if all || named(area) {
            purposes.push(purpose);
        }
    }
    if suites.contains(&Suite::Dist) {
        purposes.push(Purpose::Dist);
    }
    purposes
}

fn run_suites(project: &Project, suites: &[Suite], steps: &mut Steps) -> Result<()> {
    let has = |suite| suites.contains(&suite);
    if has(Suite::PythonKernel) {
        steps.step("Python kernel tests", || python::run_kernel_tests(project))?;
    }
    if has(Suite::NodeKernel) && has_node() {
        steps.step("JavaScript kernel tests", || run_node_tests(project))?;
    }
    let lanes = client_lanes(project, suites)?;
    if lanes.iter().any(|lane| !lane.is_empty()) {
        steps.step("clients over HTTP", || side_by_side(lanes))?;
    }
    if has(Suite::Dist) {
        steps.step("packages in an empty root", || dist::test(project))?;
    }
    if has(Suite::Otlp) {
        steps.step("traces to a collector", || rust_tests::run_otlp(project))?;
    }
    Ok(())
}

/// Python clients in one lane, JavaScript clients in the other.
fn client_lanes(project: &Project, suites: &[Suite]) -> Result<Vec<Vec<Command>>> {
    let (mut python_lane, mut node_lane) = (Vec::new(), Vec::new());
    for suite in suites {
        match suite {
            Suite::E2b => {
                python_lane.push(python::E2B.command(project)?);
                node_lane.push(node::NEWEST.command(project)?);
            }
            Suite::E2bOlder => {
                python_lane.push(python::E2B_OLDER.command(project)?);
                node_lane.push(node::OLDER.command(project)?);
            }
            Suite::OpenApi => python_lane.push(python::OPENAPI.command(project)?),
            Suite::PythonKernel | Suite::NodeKernel | Suite::Dist | Suite::Otlp => {}
        }
    }
    Ok(vec![python_lane, node_lane])
}

fn last_lines(skipped: &[Skipped], suites: &[Suite]) -> Vec<String> {
    let mut lines: Vec<String> = describe(skipped).into_iter().collect();
    if suites.contains(&Suite::NodeKernel) && !has_node() {
        lines.push("JavaScript kernel tests not run: no Node".to_owned());
    }
    lines
}

fn cargo(project: &Project, args: &[&str]) -> Result<()> {
    run_child(project.cargo().args(args))
}

pub(crate) fn build_atoll(project: &Project) -> Result<()> {
    cargo(project, &["build", "--release", "-p", "atoll"])
}

/// On the Node that contexts run on.
fn run_node_tests(project: &Project) -> Result<()> {
    let kernel = project.root.join("crates/atoll-guest/node");
    let mut tests = Vec::new();
    for entry in fs::read_dir(kernel.join("tests"))? {
        tests.push(entry?.path());
    }
    // Node 18 accepts no pattern here, and Node 22 no directory.
    tests.retain(|path| path.to_string_lossy().ends_with(".test.cjs"));
    tests.sort();
    let mut node = project.command("/usr/bin/node");
    run_child(node.current_dir(kernel).arg("--test").args(tests))
}

fn starts_sandboxes(request: &TestRequest) -> bool {
    let mut areas = request.areas.iter();
    request.covers_test() || areas.any(|area| !AREAS_WITHOUT_TEMPLATES.contains(&area.name))
}

fn templates(request: &TestRequest) -> Vec<&'static str> {
    let mut areas = request.areas.iter();
    let is_tested = areas.any(|area| AREAS_OF_LARGE_TEMPLATE.contains(&area.name));
    let large = (is_tested || request.full).then_some(LARGE_TEMPLATE);
    TEMPLATES.iter().copied().chain(large).collect()
}

fn build_templates(project: &Project, request: &TestRequest) -> Result<()> {
    if !starts_sandboxes(request) {
        return Ok(());
    }
    for template in templates(request) {
        let mut build = project.command(project.atoll_binary());
        run_child(build.args(["template", "build", template]))?;
    }
    let mut wasm = project.command(project.atoll_binary());
    run_child(wasm.args(["run", "--tier", "wasm", "-c", "pass"]))
}

/// Writes the commit's hash to `xtask.green`, unless the tree differs from that commit.
fn record_success(project: &Project) -> Result<()> {
    if let Some(commit) = project.clean_commit() {
        fs::write(project.target.join("xtask.green"), format!("{commit}\n"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_downloaded_for_areas_without_sandboxes() {
        for (words, expected) in [(&["fuzz", "dist"][..], false), (&["fuzz", "jail"], true), (&[], true)] {
            let request = TestRequest::parse(words).unwrap();
            assert_eq!(starts_sandboxes(&request), expected, "{words:?}");
            let purposes = purposes(&request, &suites(&request));
            assert_eq!(purposes.contains(&Purpose::Node), expected, "{words:?}");
        }
    }

    #[test]
    fn the_large_template_is_built_for_the_runs_that_test_it() {
        let cases: [(&[&str], bool); 5] = [
            (&[], false),
            (&["server"], false),
            (&["--full"], true),
            (&["server", "cli"], true),
            (&["templates"], true),
        ];
        for (words, is_built) in cases {
            let templates = templates(&TestRequest::parse(words).unwrap());
            assert_eq!(templates.contains(&LARGE_TEMPLATE), is_built, "{words:?}");
        }
    }
}
