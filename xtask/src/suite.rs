//! `cargo xtask test`: every step from a bare machine to the last test, in this order.

use std::fs;

use anyhow::Result;

use crate::guest_kernel::ensure_guest_kernels;
use crate::node;
use crate::packages::{ensure_nextest, ensure_system_packages};
use crate::project::Project;
use crate::python::{self, run_kernel_tests};
use crate::steps::{Steps, check, side_by_side};
use crate::tidy;

const TEMPLATES: &[&str] = &["python-min", "python-data"];

pub(crate) fn run(project: &Project) -> Result<()> {
    println!("target directory: {}", project.target.display());
    let _lock = project.claim_target_dir()?;
    let mut steps = Steps::new();
    steps.step("system packages", ensure_system_packages)?;
    steps.step("guest kernels", || ensure_guest_kernels(project))?;
    steps.step("cargo-nextest", || ensure_nextest(project))?;
    steps.step("format", || cargo(project, &["fmt", "--all", "--check"]))?;
    steps.step("clippy", || {
        cargo(
            project,
            &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"],
        )
    })?;
    steps.step("tidy", || tidy::run(&project.root))?;
    steps.step("build atoll", || cargo(project, &["build", "--release", "-p", "atoll"]))?;
    steps.step("templates", || build_templates(project))?;
    steps.step("Python kernel tests", || run_kernel_tests(project))?;
    steps.step("JavaScript kernel tests", || run_node_tests(project))?;
    steps.step("clients over HTTP", || {
        side_by_side(vec![python::client_tests(project)?, node::client_tests(project)?])
    })?;
    steps.step("Rust tests", || run_rust_tests(project))?;
    steps.summary();
    Ok(())
}

fn cargo(project: &Project, args: &[&str]) -> Result<()> {
    check(project.cargo().args(args))
}

/// A test that fails tells why; fifty lines of frames of its own runner would hide it.
fn run_rust_tests(project: &Project) -> Result<()> {
    let mut tests = project.cargo();
    tests.args(["nextest", "run", "--workspace", "--release"]);
    check(tests.env("RUST_BACKTRACE", "0"))
}

/// On the Node that contexts run on.
fn run_node_tests(project: &Project) -> Result<()> {
    let kernel = project.root.join("crates/atoll-guest/node");
    let mut tests = Vec::new();
    for entry in fs::read_dir(kernel.join("tests"))? {
        tests.push(entry?.path());
    }
    // Node 18 takes no pattern here, and Node 22 no directory.
    tests.retain(|path| path.to_string_lossy().ends_with(".test.cjs"));
    tests.sort();
    let mut node = project.command("/usr/bin/node");
    check(node.current_dir(kernel).arg("--test").args(tests))
}

fn build_templates(project: &Project) -> Result<()> {
    for template in TEMPLATES {
        let mut build = project.command(project.atoll_binary());
        check(build.args(["template", "build", template]))?;
    }
    Ok(())
}
