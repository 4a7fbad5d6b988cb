//! `atoll doctor --attack` itself: it passes here, it sees a missing wall, and it never takes a doubt for a pass.

use crate::lab::{bench, lab};
use crate::rootless::here;
use anyhow::{Context, Result, ensure};
use atoll_attack::{Finding, KERNEL, LOADS, Verdict, attack_only, loads, probes};
use atoll_core::outcome::ExitStatus;
use atoll_engine::{Wall, Walls};
use atoll_tests::census::Watch;
use atoll_tests::user::User;
use atoll_tests::{atoll, run_command};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const SILENT: fn(&str) = |_| {};
const USER: u32 = 12_348;

fn attacking(dir: &Path, report: &str) -> Command {
    let mut command = atoll();
    command.args(["doctor", "--attack", "--template", "python-min", "--report", report]);
    command.current_dir(dir).env("TMPDIR", dir.join("tmp"));
    command.env("ATOLL_AUDIT_DIR", audit_dir(dir));
    command
}

/// A log of its own: other tests write to the one of the data directory.
fn audit_dir(dir: &Path) -> PathBuf {
    dir.join("audit")
}

fn entries_are_marked(dir: &Path) -> Result<()> {
    let exported = run_command(atoll().args(["audit", "export"]).env("ATOLL_AUDIT_DIR", audit_dir(dir)))?;
    let entries = exported.stdout.lines().map(serde_json::from_str);
    let entries: Vec<Value> = entries.collect::<Result<_, _>>()?;
    ensure!(entries.iter().any(|entry| entry["action"] == "execute"), "{exported:?}");
    let unmarked = entries.iter().find(|entry| entry["attack"] != true);
    ensure!(unmarked.is_none(), "{unmarked:?}");
    Ok(())
}

fn is_empty(dir: &Path) -> Result<()> {
    let left: Vec<_> = std::fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect();
    ensure!(left.is_empty(), "left behind: {left:?}");
    Ok(())
}

fn finding<'a>(findings: &'a [Finding], id: &str) -> Result<&'a Finding> {
    let found = findings.iter().find(|finding| finding.id == id);
    found.with_context(|| format!("no finding {id}"))
}

#[test]
fn this_install_is_contained_and_the_report_has_the_evidence() -> Result<()> {
    let (dir, watch) = (tempfile::tempdir()?, Watch::start()?);
    std::fs::create_dir(dir.path().join("tmp"))?;
    let ran = run_command(&mut attacking(dir.path(), "r.json"))?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stdout
            .contains("0 breached, 0 inconclusive: all probes were contained"),
        "{}",
        ran.stdout
    );
    assert!(ran.stderr.starts_with("Runs escape probes"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("running F01\n") && ran.stderr.ends_with("report: r.json\n"),
        "{}",
        ran.stderr
    );
    let report: Value = serde_json::from_str(&std::fs::read_to_string(dir.path().join("r.json"))?)?;
    let findings = report["findings"].as_array().context("findings")?;
    let groups: BTreeSet<&str> = findings
        .iter()
        .filter_map(|finding| finding["id"].as_str()?.get(..1))
        .collect();
    assert_eq!(groups.into_iter().collect::<String>(), "CDFNPRZ");
    let has = |id: &str| findings.iter().any(|finding| finding["id"] == id);
    let missing: Vec<&str> = LOADS.iter().map(|load| load.id).filter(|id| !has(id)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    for finding in findings {
        assert_eq!(finding["verdict"], "contained", "{finding}");
        let told = |part: &str| finding[part].as_array().is_some_and(|lines| !lines.is_empty());
        assert!(told("seen") && told("control") && !told("why"), "{finding}");
    }
    assert_eq!(
        (&report["tier"], &report["host"]["mode"]),
        (&"jail".into(), &"root".into())
    );
    assert_eq!(report["template"]["digest"], report["receipt"]["template"]);
    assert!(
        report["date"].as_str().is_some_and(|date| date.ends_with('Z')),
        "{}",
        report["date"]
    );
    entries_are_marked(dir.path())?;
    is_empty(&dir.path().join("tmp"))?;
    watch.nothing_left()
}

#[tokio::test]
async fn a_missing_filter_is_a_breach_of_the_probes_that_it_holds() -> Result<()> {
    let mut weak = bench()?;
    weak.config.walls = Walls::default().without(Wall::Seccomp, "the attack must see it");
    let breached = ["P01", "P05", "P08s", "P15", "F17", "F19"];
    let contained = ["F01", "F22", "P03", "N01", "R01", "Z18", "C03", "C03b"];
    let report = attack_only(&weak, &[&breached[..], &contained].concat(), &SILENT).await?;
    for id in breached {
        let finding = finding(&report.findings, id)?;
        assert_eq!(finding.verdict, Verdict::Breached, "{finding:?}");
        assert!(!finding.why.is_empty(), "{finding:?}");
    }
    for id in contained {
        let finding = finding(&report.findings, id)?;
        assert_eq!(finding.verdict, Verdict::Contained, "{finding:?}");
    }
    assert_eq!(report.summary.exit_status(), ExitStatus::NoWall);
    let text = report.markdown();
    assert!(
        text.contains("isolation is broken") && text.contains("| P01 | **breached** |"),
        "{text}"
    );
    Ok(())
}

#[tokio::test]
async fn a_missing_landlock_is_a_breach_of_the_probes_that_it_holds() -> Result<()> {
    let mut weak = bench()?;
    weak.config.walls = Walls::default().without(Wall::Landlock, "the attack must see it");
    let list: Vec<_> = KERNEL
        .iter()
        .filter(|probe| ["P01", "P03"].contains(&probe.id))
        .collect();
    let findings = probes(&weak, &lab()?, here(), &list, &SILENT).await?;
    let verdict = |id: &str| finding(&findings, id).map(|finding| finding.verdict);
    assert_eq!(
        (verdict("P01")?, verdict("P03")?),
        (Verdict::Contained, Verdict::Breached),
        "{findings:?}"
    );
    Ok(())
}

#[tokio::test]
async fn a_load_that_meets_no_limit_is_a_breach() -> Result<()> {
    let mut weak = bench()?;
    let walls = Walls::default().without(Wall::Cgroups, "the attack must see it");
    weak.config.walls = walls.without(Wall::Rlimits, "the attack must see it");
    let list: Vec<_> = LOADS.iter().filter(|load| ["R01", "R04"].contains(&load.id)).collect();
    let findings = loads(&weak, here(), &list, &SILENT).await?;
    let verdict = |id: &str| finding(&findings, id).map(|finding| finding.verdict);
    assert_eq!(
        (verdict("R01")?, verdict("R04")?),
        (Verdict::Breached, Verdict::Contained),
        "{findings:?}"
    );
    Ok(())
}

/// An ordinary user cannot show everything: that is no pass, and says so.
#[test]
fn what_cannot_be_shown_is_inconclusive_and_no_pass() -> Result<()> {
    let user = User::new(USER)?;
    let ran = user.run(&[
        "doctor",
        "--attack",
        "--template",
        "python-min",
        "--report",
        "r.md",
        "--json",
    ])?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    let report: Value = serde_json::from_str(&ran.stdout)?;
    let (summary, host) = (&report["summary"], &report["host"]);
    assert_eq!(
        (&summary["breached"], &host["mode"]),
        (&0.into(), &"rootless".into()),
        "{}",
        ran.stdout
    );
    let doubtful = report["findings"].as_array().into_iter().flatten();
    let doubtful: Vec<&Value> = doubtful
        .filter(|finding| finding["verdict"] == "inconclusive")
        .collect();
    let ids: Vec<&str> = doubtful.iter().filter_map(|finding| finding["id"].as_str()).collect();
    assert_eq!(
        ids,
        ["F14", "P23b", "Z17", "R06", "R06b", "R06c", "R07c", "R08"],
        "{doubtful:#?}"
    );
    let text = std::fs::read_to_string(user.path("cwd/r.md"))?;
    assert!(text.contains("inconclusive probes do not count as passed"), "{text}");
    assert!(
        text.contains("- why: the control did not run: the control must use or drop root"),
        "{text}"
    );
    ensure!(
        user.processes().is_empty() && user.run_files().is_empty(),
        "left behind"
    );
    Ok(())
}

#[test]
fn a_signal_ends_the_attack_and_nothing_is_left() -> Result<()> {
    let (dir, watch) = (tempfile::tempdir()?, Watch::start()?);
    std::fs::create_dir(dir.path().join("tmp"))?;
    let mut running = attacking(dir.path(), "r.md")
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()?;
    let mut said = BufReader::new(running.stderr.take().context("stderr")?).lines();
    ensure!(
        said.any(|line| line.is_ok_and(|line| line == "running F03")),
        "it never came so far"
    );
    let pid = i32::try_from(running.id())
        .ok()
        .and_then(Pid::from_raw)
        .context("a pid")?;
    kill_process(pid, Signal::INT)?;
    let last = said.last().context("words")??;
    assert!(
        last.starts_with("error: interrupted: the attack did not finish"),
        "{last}"
    );
    assert_eq!(running.wait()?.code(), Some(1));
    assert!(!dir.path().join("r.md").exists(), "an empty report was left");
    is_empty(&dir.path().join("tmp"))?;
    watch.nothing_left()
}

#[test]
fn a_place_that_cannot_be_written_to_is_told_before_anything_is_done() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("there.md"), "mine")?;
    for report in ["there.md", "nowhere/r.md"] {
        let ran = run_command(&mut attacking(dir.path(), report))?;
        assert_eq!(ran.code, Some(2), "{ran:?}");
        assert!(
            ran.stderr
                .contains(&format!("cannot create the report file `{report}`")),
            "{ran:?}"
        );
    }
    assert_eq!(std::fs::read_to_string(dir.path().join("there.md"))?, "mine");
    let ran = run_command(attacking(dir.path(), "r.md").args(["--tier", "wasm"]))?;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    Ok(())
}
