//! What a virtual machine needs of its host, and whether the processor runs it or software, which is no wall.

use super::command;
use crate::parts::Run;
use anyhow::{Context, Result};
use atoll_tests::process::{Process, descendants, eventually};
use atoll_tests::{home, run_command};
use std::collections::BTreeSet;
use std::process::Stdio;

#[test]
fn without_qemu_or_a_kernel_the_tier_is_refused_and_no_other_takes_its_place() -> Result<()> {
    for (name, value, word) in [
        ("PATH", "/nonexistent", "hint: apt-get install qemu-system-x86"),
        (
            "ATOLL_MICROVM_KERNEL",
            "/nonexistent",
            "hint: apt-get install linux-image-cloud-amd64",
        ),
    ] {
        let ran = run_command(command("1").env(name, value))?;
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(ran.stderr.contains(word), "{ran:?}");
    }
    Ok(())
}

/// A data directory whose verdict of this boot is that the processor can be trusted, whatever the processor is.
fn trusting_home() -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("microvm"))?;
    for shared in ["templates", "kernels", "microvm/images"] {
        std::os::unix::fs::symlink(home().join(shared), at(shared))?;
    }
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let verdict = serde_json::json!({"usable": true, "passed": [], "reason": ""});
    let kept = serde_json::json!({"boot": boot, "verdict": verdict});
    std::fs::write(at("microvm/kvm.json"), kept.to_string())?;
    Ok(dir)
}

/// The first process below a run that is QEMU.
fn machine(run: &Run) -> Option<Process> {
    let below = descendants(run.jailer()?.pid).into_iter();
    below
        .filter(|process| process.command().starts_with("qemu"))
        .find(|process| process.is_alive())
}

/// The names in a directory of `/proc` of a process; none when it is gone.
fn names(process: Process, directory: &str) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(format!("/proc/{}/{directory}", process.pid));
    let entries = entries.into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

fn devices(process: Process) -> BTreeSet<String> {
    let paths = names(process, "root/dev").into_iter();
    paths
        .filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()))
        .collect()
}

/// Whether a process has made a machine of the processor's.
fn has_made_a_machine(process: Process) -> bool {
    let mut fds = names(process, "fd").into_iter();
    fds.any(|fd| std::fs::read_link(fd).is_ok_and(|link| link.to_string_lossy().contains("kvm-vm")))
}

/// The devices of a QEMU that has made a machine of the processor's; `None` when it went before it was seen to have one,
/// which a processor may do to it at once.
fn devices_with_a_machine(mut run: Run) -> Result<Option<BTreeSet<String>>> {
    while run.0.try_wait()?.is_none() {
        let Some(found) = machine(&run) else { continue };
        while found.is_alive() {
            let seen = devices(found);
            if !seen.is_empty() && has_made_a_machine(found) {
                return Ok(Some(seen));
            }
        }
    }
    Ok(None)
}

/// How far the guest gets depends on the processor; here it is only looked at whether QEMU, without powers, may begin.
#[test]
fn where_the_processor_is_trusted_its_device_is_shown_to_qemu_and_nothing_else() -> Result<()> {
    // Everything that is made once is made.
    assert_eq!(run_command(&mut command("1"))?.code, Some(0));
    let software = Run::start(&mut command("while True: pass"))?;
    let mut without = BTreeSet::new();
    eventually("a machine", || {
        without = machine(&software).map(devices).unwrap_or_default();
        !without.is_empty()
    })?;
    let home = trusting_home()?;
    let mut command = command("1");
    command.env("ATOLL_HOME", home.path());
    if !std::path::Path::new("/dev/kvm").exists() {
        assert_eq!(run_command(&mut command)?.code, Some(5));
        return Ok(());
    }
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut with = None;
    eventually("a machine of the processor's", || {
        let run = command.spawn().map(Run);
        with = run.ok().and_then(|run| devices_with_a_machine(run).ok()?);
        with.is_some()
    })?;
    let with = with.context("no machine")?;
    let more: Vec<&String> = with.difference(&without).collect();
    assert_eq!(more, ["kvm"]);
    Ok(())
}

/// Software emulation is not a wall. Where the processor runs guests, the same policy is met.
#[test]
fn a_policy_that_demands_a_wall_is_not_met_by_software() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let policy = dir.path().join("policy.toml");
    std::fs::write(&policy, "inherit = \"standard\"\n[tiers]\nfloor = \"microvm\"\n")?;
    let free = run_command(command("1").arg("--json"))?;
    let told: serde_json::Value = serde_json::from_str(&free.stdout)?;
    let is_wall = told["receipt"]["layers"]["vm"]["wall"].as_bool().context("not told")?;
    let ran = run_command(command("1").arg("--policy").arg(&policy))?;
    assert_eq!(ran.code, Some(if is_wall { 0 } else { 5 }), "{ran:?}");
    Ok(())
}
