//! Project commands, called as `cargo xtask <command>`. Nothing here is part of the product.
//!
//! `test` sets up the machine and runs every check; `tidy` runs the house rules alone;
//! `bench` builds in release and runs the benchmark package.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command line tool for developers; its output is what it prints"
)]

mod guest_kernel;
mod node;
mod packages;
mod project;
mod python;
mod steps;
mod suite;
mod tidy;

use std::process::ExitCode;

use anyhow::Result;

use crate::packages::NeedsInstall;
use crate::project::Project;

const USAGE: &str = "usage: cargo xtask <command>

  test               set up this machine, then run every check and every test
  tidy               run the house rules over the source tree
  bench [SCENARIO]   build in release and run the benchmarks; arguments are passed on";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            let usage = error.is::<NeedsInstall>();
            ExitCode::from(if usage { 2 } else { 1 })
        }
    }
}

fn dispatch(args: &[String]) -> Result<ExitCode> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test"] => suite::run(&Project::discover()?)?,
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

fn bench(project: &Project, args: &[&str]) -> Result<()> {
    let _lock = project.claim_target_dir()?;
    let mut build = project.cargo();
    build.args(["build", "--release", "-p", "atoll"]);
    steps::check(&mut build)?;
    let mut bench = project.cargo();
    bench.args(["run", "--release", "-p", "atoll-bench", "--"]).args(args);
    steps::check(&mut bench)
}
