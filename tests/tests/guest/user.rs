//! As an ordinary user: with a delegated group the limits are those of root, without one today's weaker ones, and both
//! the receipt and `doctor` say which.

use super::machine;
use super::words::{
    FAMILY, FORKS, GREEDY, atoll, doctors_layer, doctors_weaker, execution, killed, leave_a_group, nothing_is_left, run,
};
use anyhow::{Context, Result};
use atoll_core::Outcome;
use atoll_tests::guest::{Report, Who};
use serde_json::Value;

#[test]
fn a_delegated_group_limits_an_ordinary_user() -> Result<()> {
    let doctor = &["doctor", "--json"];
    let family: &[&str] = &["--memory", "128MiB", "-c", FAMILY];
    let reports = machine::run(&[
        atoll("doctor", Who::Delegated, doctor),
        run("plain", Who::Delegated, &["-c", "print(6 * 7)"]),
        run("greedy", Who::Delegated, &["--memory", "128MiB", "-c", GREEDY]),
        run(
            "greedy with room",
            Who::Delegated,
            &["--memory", "512MiB", "-c", GREEDY],
        ),
        run("family", Who::Delegated, family),
        run("forks", Who::Delegated, &["-c", FORKS]),
        killed(Who::Delegated),
        atoll("doctor alone", Who::User, doctor),
        run("family alone", Who::User, family),
        leave_a_group(),
    ])?;
    the_group_is_named(&reports)?;
    every_limit_is_read_back(&reports)?;
    limits_hold(&reports)?;
    without_a_group_it_is_weaker_and_says_so(&reports)?;
    nothing_is_left(&reports);
    Ok(())
}

fn the_group_is_named(reports: &[Report]) -> Result<()> {
    let layer = doctors_layer(reports, "doctor")?;
    assert_eq!(
        (&layer["available"], &layer["detail"]),
        (
            &true.into(),
            &"v2, delegated: /sys/fs/cgroup/user.slice/app.scope".into()
        )
    );
    Ok(())
}

/// The user's service manager delegates no `io`.
fn every_limit_is_read_back(reports: &[Report]) -> Result<()> {
    let plain = execution(reports, "plain")?;
    assert_eq!((plain.outcome, plain.stdout.as_str()), (Outcome::Ok, "42\n"));
    let layers = &plain.receipt.layers;
    assert_eq!(layers["mode"], "rootless");
    for (name, want) in [
        ("memory_bytes", "536870912"),
        ("cpu_quota_us", "100000 100000"),
        ("processes", "65"),
        ("io", "not limited: no cgroup controller available"),
    ] {
        assert_eq!(layers["cgroups"][name], want, "{name}");
    }
    assert_eq!(weak_points(&layers["weaker"])?, doctors_weaker(reports, "doctor")?);
    assert!(
        weak_points(&layers["weaker"])?
            .iter()
            .all(|point| !point.contains("cgroup"))
    );
    Ok(())
}

fn limits_hold(reports: &[Report]) -> Result<()> {
    let greedy = execution(reports, "greedy")?;
    assert_eq!(
        (greedy.outcome, greedy.hint.map(|hint| hint.rule)),
        (Outcome::MemoryLimit, Some("memory_limit: 128 MiB".into()))
    );
    // The kernel ended one of them, and no watcher all of them.
    let family = execution(reports, "family")?;
    assert_eq!((family.outcome, family.stdout.as_str()), (Outcome::Ok, "9\n"));
    assert!(family.usage.peak_memory_bytes <= 128 << 20, "{:?}", family.usage);
    let with_room = execution(reports, "greedy with room")?;
    assert_eq!(
        (with_room.outcome, with_room.stdout.as_str()),
        (Outcome::Ok, "209715200\n")
    );
    let forks = execution(reports, "forks")?;
    assert_eq!(
        (forks.outcome, forks.hint.map(|hint| hint.rule)),
        (Outcome::Error, Some("processes: 64".into()))
    );
    Ok(())
}

/// The control: the same user and code in a group of root. The watcher ends them all.
fn without_a_group_it_is_weaker_and_says_so(reports: &[Report]) -> Result<()> {
    let family = execution(reports, "family alone")?;
    assert_eq!((family.outcome, family.stdout.as_str()), (Outcome::MemoryLimit, ""));
    assert_eq!(family.receipt.layers["cgroups"], Value::Null);
    let weaker = weak_points(&family.receipt.layers["weaker"])?;
    let sentence = "no cgroup (the cgroup /sys/fs/cgroup is not delegated to this user): ";
    assert!(weaker.iter().any(|point| point.starts_with(sentence)), "{weaker:?}");
    assert_eq!(weaker, doctors_weaker(reports, "doctor alone")?);
    assert_eq!(doctors_layer(reports, "doctor alone")?["available"], false);
    Ok(())
}

fn weak_points(list: &Value) -> Result<Vec<String>> {
    let points = list.as_array().context("a list")?;
    points
        .iter()
        .map(|point| Ok(point.as_str().context("a sentence")?.to_owned()))
        .collect()
}
