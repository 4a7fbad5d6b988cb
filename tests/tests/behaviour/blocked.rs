//! Readers that do not read: they hold the printing, never a clock, a limit or a signal.

use anyhow::{Context, Result, bail};
use atoll_tests::process::{descendants, eventually};
use atoll_tests::{atoll, run_command};
use rustix::process::{Pid, Signal, kill_process};
use std::fs::File;
use std::process::{Child, Stdio};

/// More than a pipe takes, then a child that would burn for ever.
const FLOOD: &str =
    "import os\nprint('x' * 900_000, flush=True)\nif os.fork() == 0:\n    while True: pass\nwhile True: pass";

fn flood(more: &[&str]) -> Result<Child> {
    let mut command = atoll();
    command
        .args(["run", "--template", "python-min", "-c", FLOOD])
        .args(more);
    Ok(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?)
}

/// A run whose deadline has ended its sandbox, which had a busy child: the first deadline that is late enough for that.
fn timed_out() -> Result<Child> {
    for deadline in ["2s", "8s", "32s"] {
        let mut child = flood(&["--timeout", deadline])?;
        let (pid, mut most) = (child.id(), 0);
        eventually("the sandbox to end at its deadline", || {
            let now = descendants(pid).len();
            most = most.max(now);
            most > 0 && now == 0
        })?;
        if most > 4 {
            return Ok(child);
        }
        child.kill()?;
        child.wait()?;
    }
    bail!("no sandbox had a busy child before its deadline")
}

#[test]
fn a_reader_that_does_not_read_stops_no_clock_and_no_signal() -> Result<()> {
    let mut child = timed_out()?;
    assert_eq!(child.try_wait()?, None, "it waits for its reader");
    kill_process(Pid::from_child(&child), Signal::TERM)?;
    let mut ended = None;
    eventually("the end after a signal", || {
        ended = child.try_wait().ok().flatten();
        ended.is_some()
    })?;
    assert_eq!(ended.context("ended")?.code(), Some(1));
    Ok(())
}

#[test]
fn a_signal_ends_the_code_while_nobody_reads() -> Result<()> {
    let mut child = flood(&[])?;
    let pid = child.id();
    eventually("a sandbox with a busy child", || descendants(pid).len() > 4)?;
    let mut tries = 0;
    eventually("the end", || {
        // One signal interrupts the code, the next ends the wait for the reader.
        tries += 1;
        if tries % 200 == 1 {
            kill_process(Pid::from_child(&child), Signal::TERM).ok();
        }
        child.try_wait().ok().flatten().is_some()
    })?;
    assert_eq!(descendants(pid), []);
    Ok(())
}

#[test]
fn a_full_disk_behind_standard_output_is_told() -> Result<()> {
    for json in [&[][..], &["--json"]] {
        let mut command = atoll();
        command
            .args(["run", "--template", "python-min", "-c", "print(1)"])
            .args(json);
        let full = File::options().write(true).open("/dev/full")?;
        let output = command.stdout(full).stderr(Stdio::piped()).output()?;
        let stderr = String::from_utf8(output.stderr)?;
        assert_eq!(output.status.code(), Some(6), "{stderr}");
        assert!(
            stderr.starts_with("error: cannot write to standard output: No space left"),
            "{stderr}"
        );
    }
    Ok(())
}

#[test]
fn a_failure_is_an_object_too() -> Result<()> {
    let cases: [(&[&str], i32, &str); 3] = [
        (&["--lang", "cobol", "-c", "x"], 2, "usage"),
        (&["--frobnicate"], 2, "usage"),
        (&["--tier", "microvm", "-c", "x"], 5, "no_wall"),
    ];
    for (args, code, word) in cases {
        let mut command = atoll();
        // Nothing to boot: a tier that this host cannot build.
        command.env("ATOLL_MICROVM_KERNEL", "/nonexistent");
        let ran = run_command(command.args(["run", "--json"]).args(args))?;
        let object: serde_json::Value = serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))?;
        assert_eq!(
            (ran.code, &object["error"]["code"]),
            (Some(code), &word.into()),
            "{ran:?}"
        );
        assert!(
            object["error"]["message"].as_str().is_some_and(|text| !text.is_empty()),
            "{ran:?}"
        );
    }
    Ok(())
}
