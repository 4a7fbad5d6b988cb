//! What is missing at a start, what is replaced under a running process, what others may read, and what has a bound.

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

fn only_problem(dir: &Path) -> String {
    let report = check(dir);
    assert_eq!(report.problems.len(), 1, "{report:?}");
    report.problems[0].what.clone()
}

fn remove_segments(dir: &Path) {
    for number in segment::list(dir).unwrap() {
        std::fs::remove_file(segment::path(dir, number)).unwrap();
    }
}

#[test]
fn a_head_that_is_gone_or_unreadable_at_a_start_is_said_for_ever() {
    let other = tempfile::tempdir().unwrap();
    sample(other.path());
    for head in [
        None,
        Some(b"{}".to_vec()),
        std::fs::read(other.path().join("head")).ok(),
    ] {
        let dir = tempfile::tempdir().unwrap();
        sample(dir.path());
        match head {
            None => std::fs::remove_file(dir.path().join("head")).unwrap(),
            Some(bytes) => std::fs::write(dir.path().join("head"), bytes).unwrap(),
        }
        sample(dir.path());
        sample(dir.path());
        assert!(only_problem(dir.path()).contains("`head` was missing"));
    }
}

#[test]
fn a_log_that_lost_all_its_records_says_so() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    remove_segments(dir.path());
    sample(dir.path());
    assert!(
        only_problem(dir.path()).contains("previously reached"),
        "the head is left"
    );

    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    remove_segments(dir.path());
    std::fs::remove_file(dir.path().join("head")).unwrap();
    sample(dir.path());
    assert!(only_problem(dir.path()).contains("no record"), "the key is left");

    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    Index::open(dir.path()).unwrap().update().unwrap();
    remove_segments(dir.path());
    for name in ["head", "key", "key.pub"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    sample(dir.path());
    assert!(only_problem(dir.path()).contains("no record"), "the index is left");
}

#[test]
fn a_crash_right_behind_the_first_line_is_no_loss() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let log = AuditLog::open(small(dir.path())).unwrap();
    copy(dir.path(), copied.path());
    std::fs::remove_file(copied.path().join("head")).unwrap();
    sample(copied.path());
    assert_eq!(check(copied.path()).problems, []);
    drop(log);
}

#[test]
fn a_segment_or_a_lock_that_was_replaced_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    write(&log, 1);
    let (path, aside) = (segment::path(dir.path(), 1), dir.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    std::fs::copy(&aside, &path).unwrap();
    let begin = || log.begin(Opening::new(Action::Execute, &actor())).map(drop);
    let refused = begin().unwrap_err();
    let replaced = matches!(
        refused,
        AuditError::Broken {
            why: Break::Replaced,
            ..
        }
    );
    assert!(replaced, "{refused}");
    std::fs::rename(&aside, &path).unwrap();
    begin().unwrap();
    std::fs::rename(dir.path().join("lock"), &aside).unwrap();
    assert!(matches!(begin(), Err(AuditError::Lock)), "it is gone");
    std::fs::write(dir.path().join("lock"), "").unwrap();
    assert!(matches!(begin(), Err(AuditError::Lock)), "it is another one");
    std::fs::rename(&aside, dir.path().join("lock")).unwrap();
    begin().unwrap();
    drop(log);
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn others_can_read_nothing_and_links_lead_nowhere() {
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().mode() & 0o777;
    let (place, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (dir, victim) = (place.path().join("audit"), victim.path().join("victim"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(&victim, "kept").unwrap();
    for name in ["head.part", "key.part", "segment.part"] {
        std::os::unix::fs::symlink(&victim, dir.join(name)).unwrap();
    }
    let log = AuditLog::open(small(&dir)).unwrap();
    write(&log, 4);
    log.redact(&[3].into(), "").unwrap();
    drop(log);
    let newest = *segment::list(&dir).unwrap().last().unwrap();
    let mut torn = std::fs::OpenOptions::new()
        .append(true)
        .open(segment::path(&dir, newest))
        .unwrap();
    std::io::Write::write_all(&mut torn, b"{\"rec").unwrap();
    sample(&dir);
    assert_eq!(check(&dir).problems, []);
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "kept");
    assert_eq!((mode(&dir), mode(&dir.join("cut"))), (0o700, 0o700));
    assert_eq!(mode(&dir.join("writers")), 0o700);
    let kept = std::fs::read_dir(dir.join("cut")).unwrap().next().unwrap().unwrap();
    assert_eq!((mode(&kept.path()), mode(&dir.join("head"))), (0o600, 0o600));
}

#[test]
fn entries_that_are_open_have_a_bound_and_their_ends_have_none() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let begin = || log.begin(Opening::new(Action::Command, &actor()));
    let mut open = Vec::new();
    let refused = loop {
        match begin() {
            Ok(entry) => open.push(entry),
            Err(error) => break error,
        }
        assert!(open.len() < 100_000);
    };
    assert!(matches!(refused, AuditError::TooManyOpen(_)), "{refused}");
    // What is never refused goes on.
    let prepared = log.prepare(Opening::new(Action::SandboxEnd, &actor()));
    log.keep(prepared, Closing::of(Ending::Ok));
    log.catch_up().unwrap();
    open.pop().unwrap().close(Closing::of(Ending::Ok));
    begin().unwrap();
    drop(open);
    drop(log);
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn the_longest_list_of_open_entries_fits_a_line() {
    let entry = record::OpenEntry {
        seq: u64::MAX,
        writer: "0".repeat(16),
        redacted: true,
    };
    let longest = serde_json::to_vec(&entry).unwrap().len() + 1;
    assert!(longest * log::MOST_OPEN + 4_096 < MAX_LINE);
}
