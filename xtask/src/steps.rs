//! Runs named steps one after another, prints each name and time, and stops at the first failure.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub(crate) struct Steps {
    started: Instant,
    done: Vec<(&'static str, Duration)>,
}

impl Steps {
    pub(crate) fn new() -> Self {
        Self {
            started: Instant::now(),
            done: Vec::new(),
        }
    }

    /// Runs one step. The error of a failed step names the step and keeps the cause.
    pub(crate) fn step(&mut self, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        println!("==> {name}");
        let start = Instant::now();
        let outcome = work();
        let took = start.elapsed();
        match outcome {
            Ok(()) => {
                println!("    {name}: ok in {:.1} s", took.as_secs_f64());
                self.done.push((name, took));
                Ok(())
            }
            Err(error) => {
                println!("    {name}: failed after {:.1} s", took.as_secs_f64());
                Err(error.context(format!("stopped at step `{name}`")))
            }
        }
    }

    /// Prints every step with its time, then `last_lines`.
    pub(crate) fn summary(&self, last_lines: &[String]) {
        println!("\nall steps passed:");
        for (name, took) in &self.done {
            println!("  {:>7.1} s  {name}", took.as_secs_f64());
        }
        println!("  {:>7.1} s  total", self.started.elapsed().as_secs_f64());
        for line in last_lines {
            println!("{line}");
        }
    }
}

/// Runs a child with our own stdout and stderr; anything but exit code 0 is an error.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let line = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` ended with {status}");
    }
    Ok(())
}

/// Runs lanes of children at the same time, each lane in order. A child's output is printed when it has ended.
pub(crate) fn side_by_side(lanes: Vec<Vec<Command>>) -> Result<()> {
    std::thread::scope(|scope| {
        let started: Vec<_> = lanes.into_iter().map(|lane| scope.spawn(|| lane_of(lane))).collect();
        let ended: Vec<Result<()>> = started
            .into_iter()
            .map(|lane| lane.join().unwrap_or_else(|_| bail!("a lane of children panicked")))
            .collect();
        ended.into_iter().collect()
    })
}

fn lane_of(children: Vec<Command>) -> Result<()> {
    for mut child in children {
        let (line, start) = (shown(&child), Instant::now());
        let output = child.output().with_context(|| format!("cannot start `{line}`"))?;
        let said = [output.stdout, output.stderr].concat();
        let took = start.elapsed().as_secs_f64();
        println!(
            "{}\n    `{line}`: {took:.1} s",
            String::from_utf8_lossy(&said).trim_end()
        );
        if !output.status.success() {
            bail!("`{line}` ended with {}", output.status);
        }
    }
    Ok(())
}

/// A child's stdout; anything but exit code 0 is an error.
pub(crate) fn said(command: &mut Command) -> Result<String> {
    let line = shown(command);
    let output = command.output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        bail!("`{line}` ended with {}: {}", output.status, why.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// True when the child starts and ends with exit code 0. Its output is discarded.
pub(crate) fn succeeds(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

fn shown(command: &Command) -> String {
    let program = std::path::Path::new(command.get_program());
    let name = program.file_name().unwrap_or(command.get_program());
    let words = std::iter::once(name).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_step_names_itself_and_the_command() {
        let mut steps = Steps::new();
        let error = steps.step("sample", || check(&mut Command::new("false"))).unwrap_err();
        let text = format!("{error:#}");
        assert!(
            text.starts_with("stopped at step `sample`: `false` ended with"),
            "{text}"
        );
        assert!(steps.done.is_empty());
    }

    #[test]
    fn lanes_run_to_their_end_and_a_failed_child_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let touch = |name: &str| {
            let mut command = Command::new("touch");
            command.arg(dir.path().join(name));
            command
        };
        let failing = vec![Command::new("false"), touch("after the failed one")];
        let error = side_by_side(vec![failing, vec![touch("a"), touch("b")]]).unwrap_err();
        assert!(error.to_string().starts_with("`false` ended with"), "{error}");
        let left = |name: &str| dir.path().join(name).exists();
        assert!(left("a") && left("b") && !left("after the failed one"));
        assert!(side_by_side(vec![vec![Command::new("true")]]).is_ok());
    }

    #[test]
    fn missing_program_is_an_error_with_its_name() {
        let error = check(&mut Command::new("no-such-program-here")).unwrap_err();
        assert!(error.to_string().contains("cannot start `no-such-program-here`"));
        assert!(!succeeds(&mut Command::new("no-such-program-here")));
    }
}
