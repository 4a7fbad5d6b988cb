//! Redaction and retention: what is forgotten is gone, and the rest still verifies.

use super::*;
use std::collections::BTreeSet;
use std::time::Duration;

fn all_text(dir: &Path) -> String {
    let numbers = segment::list(dir).unwrap();
    numbers
        .iter()
        .map(|number| std::fs::read_to_string(segment::path(dir, *number)).unwrap())
        .collect()
}

#[test]
fn what_was_redacted_is_gone_and_the_chain_holds() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 4);
    let entry = all_text(dir.path()).lines().find_map(|line| {
        let line = decode(line.as_bytes()).unwrap();
        line.private
            .is_some_and(|private| private.data.code.as_deref() == Some("print(2)"))
            .then_some(line.record.seq)
    });
    let other = AuditLog::open(small(dir.path())).unwrap();
    let hit = log.redact(&BTreeSet::from([entry.unwrap()]), "asked for").unwrap();
    assert_eq!(hit, [entry.unwrap()]);
    let text = all_text(dir.path());
    assert!(!text.contains("print(2)") && text.contains("print(1)") && text.contains("asked for"));
    // Both who did it and who only heard of it go on.
    write(&other, 2);
    write(&log, 2);
    drop((log, other));
    let report = check(dir.path());
    assert_eq!(report.problems, []);
    assert_eq!(report.redacted, 1);
}

#[test]
fn retention_removes_old_segments_and_leaves_their_last_hash() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let silent = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 8);
    assert_eq!(log.retain(Duration::from_secs(3600)).unwrap(), 0);
    let before = segment::list(dir.path()).unwrap().len();
    assert_eq!(log.retain(Duration::ZERO).unwrap(), before - 1);
    assert_eq!(segment::list(dir.path()).unwrap().len(), 1);
    write(&log, 2);
    // One that slept meanwhile finds its way.
    write(&silent, 2);
    drop((log, silent));
    let report = check(dir.path());
    assert_eq!(report.problems, []);
    assert!(report.first.unwrap() > 1);
    assert!(report.notes.iter().any(|note| note.contains("retention")));
}

#[test]
fn an_entry_that_is_open_keeps_its_segment() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let entry = log.begin(Opening::new(Action::Command, &actor())).unwrap();
    write(&log, 8);
    assert_eq!(log.retain(Duration::ZERO).unwrap(), 0);
    entry.close(Closing::of(Ending::Ok));
    assert!(log.retain(Duration::ZERO).unwrap() > 0);
}

#[test]
fn removed_segments_without_a_record_are_missed_also_after_retention() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 8);
    log.retain(Duration::ZERO).unwrap();
    write(&log, 8);
    drop(log);
    let first = segment::list(dir.path()).unwrap()[0];
    std::fs::remove_file(segment::path(dir.path(), first)).unwrap();
    assert!(!check(dir.path()).is_clean());
}

#[test]
fn an_entry_that_is_redacted_while_it_is_open_ends_without_what_is_private() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let other = AuditLog::open(small(dir.path())).unwrap();
    let entry = log.begin(Opening::new(Action::Execute, &actor()).at("secret")).unwrap();
    assert_eq!(other.redact(&[entry.seq].into(), "asked for").unwrap(), [entry.seq]);
    // It is remembered over segments and by who reads from there only.
    write(&other, 8);
    assert!(all_text(dir.path()).lines().last().is_some());
    let third = AuditLog::open(small(dir.path())).unwrap();
    write(&third, 1);
    let newest = *segment::list(dir.path()).unwrap().last().unwrap();
    let start = std::fs::read_to_string(segment::path(dir.path(), newest)).unwrap();
    assert!(start.lines().next().unwrap().contains(r#""redacted":true"#));
    entry.close(Closing {
        paths: vec!["secret too".to_owned()],
        ..Closing::failed(&std::io::Error::other("secret words"))
    });
    drop((log, other, third));
    assert!(!all_text(dir.path()).contains("secret"));
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn a_log_that_is_too_large_loses_its_oldest_segments() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions {
        keep_bytes: Some(12_000),
        ..small(dir.path())
    })
    .unwrap();
    // Somebody who keeps an entry open does not let it grow.
    let open = log.begin(Opening::new(Action::Port, &actor())).unwrap();
    write(&log, 100);
    let size = |number: &u64| std::fs::metadata(segment::path(dir.path(), *number)).unwrap().len();
    let all: u64 = segment::list(dir.path()).unwrap().iter().map(size).sum();
    // The newest may be longer by its last record and what signs it.
    assert!((6_000..16_000).contains(&all), "{all}");
    open.close(Closing::of(Ending::Ok));
    drop(log);
    let report = check(dir.path());
    assert_eq!(report.problems, []);
    assert!(report.first.unwrap() > 100);
    let left = AuditLog::open(small(dir.path())).unwrap();
    assert!(left.shrink(4_000).unwrap() > 0);
    drop(left);
    assert_eq!(check(dir.path()).problems, []);
}
