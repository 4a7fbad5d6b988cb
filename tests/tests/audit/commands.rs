//! `atoll run` writes, `atoll audit` reads and checks.

use super::{atoll, exported, fresh_home, word};
use anyhow::Result;
use atoll_tests::run_command;
use atoll_tests::server::atoll_in;

const RUN: [&str; 4] = ["run", "--template", "python-min", "-c"];
const CODE: &str = "open('/data/output/x', 'w').write('hi')";

#[test]
fn a_run_is_written_down_from_its_making_to_its_end() -> Result<()> {
    let home = fresh_home()?;
    let out = home.path().join("out");
    let more = ["--out", &out.to_string_lossy()];
    assert_eq!(atoll(home.path(), &[&RUN[..], &[CODE], &more].concat())?.code, Some(0));
    let entries = exported(home.path())?;
    let actions: Vec<&str> = entries.iter().map(|entry| word(entry, "action")).collect();
    assert_eq!(actions, ["sandbox.create", "execute", "files.collect", "sandbox.end"]);
    assert!(
        entries
            .iter()
            .all(|entry| word(entry, "outcome") == "ok" && word(entry, "tenant") == "local")
    );
    let digest = |text: &str| atoll_engine::audit::Digest::of(text.as_bytes()).to_string();
    assert_eq!(word(&entries[1], "code_sha256"), digest(CODE));
    assert!(entries[1]["code"].is_null() && entries[1]["receipt"]["layers"].is_object());
    assert_eq!(entries[2]["outputs"][0]["sha256"], digest("hi"));
    let uid = rustix::process::getuid().as_raw();
    assert!(
        entries
            .iter()
            .all(|entry| entry["uid"] == uid && entry["attack"] == false)
    );
    assert!(
        entries
            .iter()
            .all(|entry| word(entry, "tier") == "jail" && word(entry, "policy") == "standard")
    );
    let seen = atoll(home.path(), &["audit", "tail"])?;
    assert_eq!(seen.stdout.lines().count(), 4);
    let told = format!("local uid={uid} ");
    assert!(
        seen.stdout
            .lines()
            .all(|line| line.contains(&told) && line.ends_with(" ok tier=jail policy=standard")),
        "{seen:?}"
    );
    let id = entries[1]["id"].to_string();
    assert!(
        atoll(home.path(), &["audit", "show", &id])?
            .stdout
            .contains("code_sha256")
    );
    assert_eq!(atoll(home.path(), &["audit", "show", "1"])?.code, Some(2));
    Ok(())
}

#[test]
fn an_export_whose_reader_has_gone_ends_silently() -> Result<()> {
    let home = fresh_home()?;
    assert_eq!(atoll(home.path(), &[&RUN[..], &["1"]].concat())?.code, Some(0));
    let (reader, writer) = std::io::pipe()?;
    drop(reader);
    let ran = run_command(atoll_in(home.path()).args(["audit", "export"]).stdout(writer))?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(0), ""));
    Ok(())
}

#[test]
fn entries_are_filtered_by_time_outcome_and_key() -> Result<()> {
    let home = fresh_home()?;
    assert_eq!(atoll(home.path(), &[&RUN[..], &["1"]].concat())?.code, Some(0));
    assert_eq!(atoll(home.path(), &[&RUN[..], &["1/0"]].concat())?.code, Some(1));
    let count = |words: &[&str]| {
        let ran = atoll(home.path(), &[&["audit", "tail"][..], words].concat())?;
        anyhow::Ok((ran.code, ran.stdout.lines().count()))
    };
    let all = count(&[])?;
    assert_eq!(count(&["--since", "1h", "--tenant", "local"])?, all);
    assert_eq!(count(&["--until", "2020-01-01T00:00:00Z"])?, (Some(0), 0));
    assert_eq!(count(&["--outcome", "error"])?, (Some(0), 1));
    assert_eq!(count(&["--api-key", "nobody"])?, (Some(0), 0));
    for wrong in [["--outcome", "bad"], ["--since", "yesterday"]] {
        assert_eq!(count(&wrong)?.0, Some(2), "{wrong:?}");
    }
    let failed = atoll(home.path(), &["audit", "export", "--outcome", "error"])?;
    let failed: serde_json::Value = serde_json::from_str(&failed.stdout)?;
    assert_eq!(word(&failed, "action"), "execute");
    Ok(())
}

#[test]
fn verify_says_0_for_a_whole_log_1_for_a_changed_one_and_2_for_none() -> Result<()> {
    let home = fresh_home()?;
    let none = atoll(home.path(), &["audit", "verify"])?;
    assert_eq!(none.code, Some(2));
    assert!(none.stderr.starts_with("error: no audit log in `"), "{none:?}");
    assert_eq!(atoll(home.path(), &[&RUN[..], &["1"]].concat())?.code, Some(0));
    let whole = atoll(home.path(), &["audit", "verify"])?;
    assert_eq!(whole.code, Some(0), "{whole:?}");
    assert!(whole.stdout.contains(" records in 1 segment, key "), "{whole:?}");
    let head = whole
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("head "))
        .unwrap_or_default()
        .to_owned();
    assert_eq!(
        atoll(home.path(), &["audit", "verify", "--expect", &head])?.code,
        Some(0)
    );
    let other = format!("{}:{}", 9999, head.split(':').next_back().unwrap_or_default());
    assert_eq!(
        atoll(home.path(), &["audit", "verify", "--expect", &other])?.code,
        Some(1)
    );
    let segment = home.path().join("audit/000001.jsonl");
    let text = std::fs::read_to_string(&segment)?;
    std::fs::write(&segment, text.replacen("local", "lokal", 1))?;
    let found = atoll(home.path(), &["audit", "verify"])?;
    assert_eq!(found.code, Some(1));
    assert!(found.stdout.contains("segment 1 line 2"), "{found:?}");
    Ok(())
}

#[test]
fn what_cannot_be_written_down_is_not_run() -> Result<()> {
    let home = fresh_home()?;
    std::fs::write(home.path().join("audit"), "in the way")?;
    let proof = home.path().join("out");
    let refused = atoll(
        home.path(),
        &[&RUN[..], &[CODE, "--out", &proof.to_string_lossy()]].concat(),
    )?;
    assert_eq!(refused.code, Some(6), "{refused:?}");
    assert!(refused.stderr.contains("audit log") && !proof.exists());
    Ok(())
}
