//! As root: every limit is a control file of version 2, holds, and is gone at the end.

use super::machine;
use super::words::{FAMILY, FORKS, GREEDY, atoll, doctors_layer, execution, leave_a_group, nothing_is_left, run};
use anyhow::Result;
use atoll_core::Outcome;
use atoll_tests::guest::{Report, Who};

#[test]
fn version_2_limits_hold_on_a_kernel_that_boots_it() -> Result<()> {
    let reports = machine::run(&[
        atoll("doctor", Who::Root, &["doctor", "--json"]),
        run("plain", Who::Root, &["-c", "print(6 * 7)"]),
        run("greedy", Who::Root, &["--memory", "128MiB", "-c", GREEDY]),
        run("greedy with room", Who::Root, &["--memory", "512MiB", "-c", GREEDY]),
        run("family", Who::Root, &["--memory", "128MiB", "-c", FAMILY]),
        run("forks", Who::Root, &["-c", FORKS]),
        leave_a_group(),
    ])?;
    let doctor = doctors_layer(&reports, "doctor")?;
    assert_eq!((&doctor["available"], &doctor["detail"]), (&true.into(), &"v2".into()));
    every_limit_is_read_back(&reports)?;
    memory_is_limited(&reports)?;
    processes_are_limited(&reports)?;
    nothing_is_left(&reports);
    Ok(())
}

fn every_limit_is_read_back(reports: &[Report]) -> Result<()> {
    let plain = execution(reports, "plain")?;
    assert_eq!((plain.outcome, plain.stdout.as_str()), (Outcome::Ok, "42\n"));
    let groups = &plain.receipt.layers["cgroups"];
    for (name, want) in [
        ("memory_bytes", "536870912"),
        ("cpu_quota_us", "100000 100000"),
        ("processes", "65"),
        ("io_read_bytes", "104857600"),
        ("io_write_bytes", "104857600"),
        ("io_read_operations", "5000"),
        ("io_write_operations", "5000"),
    ] {
        assert_eq!(groups[name], want, "{name} of {groups}");
    }
    assert!(
        plain.usage.cpu_ms > 0 && plain.usage.peak_memory_bytes > 0,
        "{:?}",
        plain.usage
    );
    Ok(())
}

/// The same code with more room is the control.
fn memory_is_limited(reports: &[Report]) -> Result<()> {
    let greedy = execution(reports, "greedy")?;
    assert_eq!(
        (greedy.outcome, greedy.hint.map(|hint| hint.rule)),
        (Outcome::MemoryLimit, Some("memory_limit: 128 MiB".into()))
    );
    let family = execution(reports, "family")?;
    assert_eq!(
        (family.outcome, family.stdout.as_str()),
        (Outcome::Ok, "9\n"),
        "the kernel killed one of them"
    );
    for usage in [greedy.usage, family.usage] {
        assert!(usage.peak_memory_bytes <= 128 << 20, "{usage:?}");
    }
    let with_room = execution(reports, "greedy with room")?;
    assert_eq!(
        (with_room.outcome, with_room.stdout.as_str()),
        (Outcome::Ok, "209715200\n")
    );
    assert!(with_room.usage.peak_memory_bytes > 200 << 20, "{:?}", with_room.usage);
    Ok(())
}

fn processes_are_limited(reports: &[Report]) -> Result<()> {
    let forks = execution(reports, "forks")?;
    assert_eq!(
        (forks.outcome, forks.hint.map(|hint| hint.rule)),
        (Outcome::Error, Some("processes: 64".into()))
    );
    Ok(())
}
