//! `atoll audit report` as text and as a page, which is checked by `verify-report` and by its own script.

use super::{atoll, check, exported, fresh_home, word};
use anyhow::{Context, Result};
use atoll_tests::server::{Server, atoll_in};
use atoll_tests::terminal::typed;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const RUN: [&str; 3] = ["run", "--template", "python-min"];
const NODE: &str = "/usr/bin/node";

/// Runs code that leaves a file, and other code that fails; gives the sandbox of the first.
fn two_runs(home: &Path) -> Result<String> {
    let out = home.join("out").to_string_lossy().into_owned();
    let code = "open('/data/output/left.txt', 'w').write('hi')";
    let ran = atoll(home, &[&RUN[..], &["-c", code, "--out", &out]].concat())?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(atoll(home, &[&RUN[..], &["-c", "1/0"]].concat())?.code, Some(1));
    let entries = exported(home)?;
    let first = entries.iter().find(|entry| word(entry, "action") == "execute");
    Ok(word(first.context("no execution")?, "sandbox").to_owned())
}

fn page_of(home: &Path, sandbox: &str) -> Result<PathBuf> {
    let path = home.join("report.html");
    let ran = atoll(
        home,
        &[
            "audit",
            "report",
            "--sandbox",
            sandbox,
            "--html",
            &path.to_string_lossy(),
        ],
    )?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    Ok(path)
}

#[test]
fn a_report_says_what_ran_who_allowed_it_behind_what_and_what_left() -> Result<()> {
    let home = fresh_home()?;
    let sandbox = two_runs(home.path())?;
    let report = |words: &[&str]| atoll(home.path(), &[&["audit", "report"][..], words].concat());
    let told = report(&["--sandbox", &sandbox])?;
    assert_eq!(told.code, Some(0), "{told:?}");
    for part in [
        "execute: ok",
        "policy standard",
        "isolation    jail",
        "left.txt 2 bytes sha256:",
    ] {
        assert!(told.stdout.contains(part), "{part}: {}", told.stdout);
    }
    assert!(!told.stdout.contains("execute: error"));
    let hour = report(&["--since", "1h"])?;
    assert!(
        hour.stdout.contains("execute: ok") && hour.stdout.contains("execute: error"),
        "{hour:?}"
    );
    let refused: [&[&str]; 4] = [
        &[],
        &["--sandbox", "x"],
        &["--api-key", "nobody"],
        &["--until", "2020-01-01T00:00:00Z"],
    ];
    for wrong in refused {
        assert_eq!(report(wrong)?.code, Some(2), "{wrong:?}");
    }
    Ok(())
}

#[test]
fn denials_are_counted_by_policy_and_rule_in_a_report() -> Result<()> {
    let home = fresh_home()?;
    for _ in 0..2 {
        let code = ["--policy", "strict", "-c", "import socket"];
        assert_eq!(atoll(home.path(), &[&RUN[..], &code].concat())?.code, Some(3));
    }
    let told = atoll(home.path(), &["audit", "report", "--since", "1h"])?;
    assert!(
        told.stdout
            .ends_with("\nDenied\n  2 policy strict: import.module = deny\n"),
        "{told:?}"
    );
    Ok(())
}

#[test]
fn a_page_is_verified_with_the_public_key_only_and_not_after_a_change() -> Result<()> {
    let home = fresh_home()?;
    let sandbox = two_runs(home.path())?;
    let page = page_of(home.path(), &sandbox)?;
    let elsewhere = tempfile::tempdir()?;
    let key = elsewhere.path().join("key.pub").to_string_lossy().into_owned();
    std::fs::copy(home.path().join("audit/key.pub"), &key)?;
    let copy = elsewhere.path().join("copy.html");
    let whole = std::fs::read_to_string(&page)?;
    let verify = |text: &str| {
        std::fs::write(&copy, text)?;
        atoll(
            elsewhere.path(),
            &["audit", "verify-report", &copy.to_string_lossy(), "--key", &key],
        )
    };
    let good = verify(&whole)?;
    assert_eq!(good.code, Some(0), "{good:?}");
    assert!(good.stdout.contains("report verified: ") && good.stdout.contains("left.txt 2 bytes"));
    for (from, to) in [
        ("left.txt", "lost.txt"),
        ("default-src 'none'", "default-src *"),
        ("use strict", "use Strict"),
    ] {
        let bad = verify(&whole.replace(from, to))?;
        assert_eq!(bad.code, Some(1), "{from}: {bad:?}");
        assert!(bad.stdout.contains("report not verified: "), "{bad:?}");
    }
    std::fs::write(&key, format!("{}\n", "00".repeat(32)))?;
    assert_ne!(verify(&whole)?.code, Some(0));
    Ok(())
}

#[test]
fn a_report_of_a_live_server_needs_no_wait_for_its_checkpoint() -> Result<()> {
    let home = tempfile::tempdir()?;
    let server = Server::start(home.path(), &[])?;
    let run = || anyhow::Ok(server.json("POST", "/v1/run", &json!({"code": "1"}))?.status);
    let page = home.path().join("report.html").to_string_lossy().into_owned();
    for _ in 0..5 {
        assert_eq!(run()?, 200);
        let ran = atoll(home.path(), &["audit", "report", "--since", "1d", "--html", &page])?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
    }
    assert_eq!(run()?, 200);
    drop(server);
    check(&home.path().join("audit"))?;
    Ok(())
}

/// What the page shows, without something that a browser may lack.
fn shown(page: &Path, lacks: &str) -> Result<Value> {
    let harness = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/audit/page.cjs");
    let ran = atoll_tests::run_command(std::process::Command::new(NODE).arg(harness).arg(page).arg(lacks))?;
    serde_json::from_str(&ran.stdout).with_context(|| format!("{ran:?}"))
}

#[test]
fn a_report_names_the_approver_as_text_and_as_a_page() -> Result<()> {
    let home = fresh_home()?;
    let mut command = atoll_in(home.path());
    command
        .args(RUN)
        .args(["--policy", "guarded", "-c", "import os; os.nice(0)"]);
    assert_eq!(typed(command, "y\n")?.code, Some(0));
    let entries = exported(home.path())?;
    let ran = entries.iter().find(|entry| word(entry, "action") == "execute");
    let sandbox = word(ran.context("no execution")?, "sandbox");
    let text = atoll(home.path(), &["audit", "report", "--sandbox", sandbox])?;
    assert!(text.stdout.contains("approver local"), "{text:?}");
    let page = shown(&page_of(home.path(), sandbox)?, "ed25519")?;
    assert!(page["rows"].to_string().contains("approver local"), "{page}");
    Ok(())
}

#[test]
fn a_page_verifies_itself_and_says_what_it_cannot() -> Result<()> {
    let home = fresh_home()?;
    let page = page_of(home.path(), &two_runs(home.path())?)?;
    let good = shown(&page, "")?;
    assert_eq!(word(&good, "kind"), "good", "{good}");
    assert_eq!(good["unnoticed"], serde_json::json!([]));
    let text = good["rows"].to_string();
    assert!(text.contains("left.txt 2 bytes") && text.contains("policy standard") && text.contains("jail"));
    for (lacks, says) in [
        ("ed25519", "this browser has no Ed25519"),
        ("webcrypto", "this browser has no WebCrypto"),
    ] {
        let told = shown(&page, lacks)?;
        assert_eq!(word(&told, "kind"), "", "{told}");
        assert!(word(&told, "verdict").contains(says), "{told}");
    }
    Ok(())
}
