//! Orders for the guest, and what is read out of its reports.

use anyhow::{Context, Result};
use atoll_core::execution::Execution;
use atoll_tests::guest::{Order, Report, Who};
use serde_json::Value;

/// Takes 200 MiB in one process.
pub(super) const GREEDY: &str = "x = b'x' * (200 << 20)\nprint(len(x))";
/// Four processes take 60 MiB each: no one of them is too large. Prints by which signal the first one dies.
pub(super) const FAMILY: &str = "import os, signal\nfor _ in range(4):\n    if os.fork() == 0:\n        x = b'x' * (60 << 20)\n\
                                 \x20       signal.pause()\nprint(os.wait()[1])";
/// More processes than the small limits allow.
pub(super) const FORKS: &str = "import os, signal\nwhile True:\n    if os.fork() == 0: signal.pause()";

/// `atoll` with these words.
pub(super) fn atoll(name: &str, who: Who, words: &[&str]) -> Order {
    order(name, who, &[&["/usr/bin/atoll"], words].concat())
}

/// An emulated processor is slow.
const PATIENT: [&str; 4] = ["--timeout", "10m", "--cpu-time", "10m"];

/// `atoll run --json` of the small template.
pub(super) fn run(name: &str, who: Who, words: &[&str]) -> Order {
    atoll(
        name,
        who,
        &[&["run", "--json", "--template", "python-min"], &PATIENT[..], words].concat(),
    )
}

pub(super) fn order(name: &str, who: Who, words: &[&str]) -> Order {
    Order {
        name: name.to_owned(),
        who,
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        kill_after: None,
    }
}

/// `atoll run`, killed while the code runs.
pub(super) fn killed(who: Who) -> Order {
    let code = "print('up', flush=True)\nimport time\ntime.sleep(1000)";
    Order {
        kill_after: Some("up".to_owned()),
        ..atoll("killed", who, &["run", "--template", "python-min", "-c", code])
    }
}

pub(super) fn find<'a>(reports: &'a [Report], name: &str) -> Result<&'a Report> {
    reports
        .iter()
        .find(|report| report.name == name)
        .with_context(|| format!("no report `{name}`"))
}

/// The answer of `atoll run --json`.
pub(super) fn execution(reports: &[Report], name: &str) -> Result<Execution> {
    let report = find(reports, name)?;
    serde_json::from_str(&report.stdout).with_context(|| format!("not an answer: {report:?}"))
}

/// The layer `cgroups` of `atoll doctor --json`.
pub(super) fn doctors_layer(reports: &[Report], name: &str) -> Result<Value> {
    let report: Value = serde_json::from_str(&find(reports, name)?.stdout)?;
    let layers = report["tiers"][0]["layers"].as_array().context("layers")?;
    let found = layers.iter().find(|layer| layer["name"] == "cgroups");
    Ok(found.context("no layer `cgroups`")?.clone())
}

/// What `atoll doctor --json` says is weaker.
pub(super) fn doctors_weaker(reports: &[Report], name: &str) -> Result<Vec<String>> {
    let report: Value = serde_json::from_str(&find(reports, name)?.stdout)?;
    Ok(serde_json::from_value(report["tiers"][0]["weaker"].clone())?)
}

/// Nothing is left behind, except by the control that does so.
pub(super) fn nothing_is_left(reports: &[Report]) {
    for report in reports {
        let left: &[&str] = if report.name == LEAVES {
            &["/sys/fs/cgroup/left"]
        } else {
            &[]
        };
        assert_eq!(report.groups_left, left, "{}", report.name);
        assert_eq!(report.processes_left, Vec::<String>::new(), "{}", report.name);
    }
}

const LEAVES: &str = "leaves a group";

/// The control of [`nothing_is_left`].
pub(super) fn leave_a_group() -> Order {
    order(LEAVES, Who::Root, &["/guest/init", "leave", "/sys/fs/cgroup/left"])
}
