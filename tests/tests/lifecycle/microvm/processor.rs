//! What a virtual machine needs of its host, and whether the processor runs it or software, which is no wall.

use super::{Run, command};
use anyhow::{Context, Result};
use atoll_tests::process::{Process, descendants, eventually};
use atoll_tests::{home, run_command};
use std::collections::BTreeSet;
use std::process::Stdio;

#[test]
fn without_qemu_or_a_kernel_the_tier_is_refused_and_no_other_takes_its_place() -> Result<()> {
    for (name, value, word) in [
        ("PATH", "/nonexistent", "qemu"),
        ("ATOLL_MICROVM_KERNEL", "/nonexistent", "vmlinuz"),
    ] {
        let ran = run_command(command("1").env(name, value))?;
        assert_eq!(ran.code, Some(5), "{ran:?}");
        assert!(format!("{ran:?}").contains(word), "{ran:?}");
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

/// Whether a process has made a machine of the processor's.
fn has_made_a_machine(process: Process) -> bool {
    let fds = std::fs::read_dir(format!("/proc/{}/fd", process.pid));
    let mut links = fds
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|fd| std::fs::read_link(fd.path()).ok());
    links.any(|link| link.to_string_lossy().contains("kvm-vm"))
}

/// How far the guest gets depends on the processor; here it is only looked at whether QEMU, without powers, may begin.
#[test]
fn where_the_processor_is_trusted_its_device_is_shown_to_qemu_and_nothing_else() -> Result<()> {
    // Everything that is made once is made.
    assert_eq!(run_command(&mut command("1"))?.code, Some(0));
    let software = Run::start("while True: pass")?;
    let seen = |run: &Run| {
        let below = run.jailer().map(|jailer| descendants(jailer.pid)).unwrap_or_default();
        let mut machines = below
            .into_iter()
            .filter(|process| process.command().starts_with("qemu"));
        machines.next()
    };
    let devices = |process: Process| -> Result<BTreeSet<String>> {
        let entries = std::fs::read_dir(format!("/proc/{}/root/dev", process.pid))?.flatten();
        Ok(entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect())
    };
    eventually("a machine", || seen(&software).is_some())?;
    let without = devices(seen(&software).context("no machine")?)?;
    let home = trusting_home()?;
    let mut command = command("1");
    command.env("ATOLL_HOME", home.path());
    if !std::path::Path::new("/dev/kvm").exists() {
        assert_eq!(run_command(&mut command)?.code, Some(5));
        return Ok(());
    }
    let hard = Run(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?);
    eventually("a machine of the processor's", || {
        seen(&hard).is_some_and(has_made_a_machine)
    })?;
    let with = devices(seen(&hard).context("no machine")?)?;
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
