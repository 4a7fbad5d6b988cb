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
