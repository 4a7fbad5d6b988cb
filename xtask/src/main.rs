//! Project commands, called as `cargo xtask <command>`. Nothing here is part of the product.
//!
//! One module per command ([`suite`] holds `check` and `test`); what several commands share is in [`project`], [`steps`]
//! and [`packages`].
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for developers; its output is what it prints"
)]

mod apparmor;
mod archive;
mod areas;
mod deny;
mod dist;
mod guest_kernel;
mod host;
mod node;
mod packages;
mod project;
mod python;
mod request;
mod rust_tests;
mod steps;
mod stress;
mod suite;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;

use crate::packages::{NeedsInstall, Purpose};
use crate::project::Project;
use crate::request::{TestRequest, UsageError};

const USAGE: &str = "usage: cargo xtask <command>

  check               format, lints, house rules, licences and the unit tests that need no root
  test [AREA]...      install what is missing, build, then run the tests [default: all areas]
      --full          also run emulated guests, every escape probe in every tier and older clients
      --require-all   fail if this host cannot run a test [implied by CI=true]
  stress              run the Rust tests repeatedly beside two busy loops; continues an interrupted run
  dist                make the tarball and the Python wheel, with checksums and an SBOM
  tidy                check the house rules alone
  bench [SCENARIO]    build, then run the benchmarks; arguments are passed on";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            let needs_user = error.is::<NeedsInstall>() || error.is::<UsageError>();
            ExitCode::from(if needs_user { 2 } else { 1 })
        }
    }
}

fn dispatch(args: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["check"] => suite::check(&Project::discover()?)?,
        ["test", rest @ ..] => suite::test(&Project::discover()?, &TestRequest::parse(rest)?)?,
        ["stress"] => stress::run(&Project::discover()?)?,
        ["dist"] => dist::run(&Project::discover()?)?,
        ["tidy"] => tidy::run(&Project::discover()?.root)?,
        ["bench", rest @ ..] => bench(&Project::discover()?, rest)?,
        ["help" | "--help" | "-h"] => println!("{USAGE}"),
        _ => {
            eprintln!("{USAGE}");
            return Ok(ExitCode::from(2));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The product and the benchmarks in one build: alone, the benchmarks would get the shared crates with other features.
fn bench(project: &Project, args: &[&str]) -> Result<()> {
    let _lock = project.claim_target_dir()?;
    packages::ensure_packages(&[
        Purpose::Build,
        Purpose::Run,
        Purpose::Bench,
        Purpose::Container,
        Purpose::Gvisor,
        Purpose::Microvm,
    ])?;
    steps::check(
        project
            .cargo()
            .args(["build", "--release", "-p", "atoll", "-p", "atoll-bench"]),
    )?;
    steps::check(project.command(project.target.join("release/atoll-bench")).args(args))
}
