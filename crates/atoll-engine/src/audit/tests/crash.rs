//! A log that ends anywhere is taken up again, and says what was lost.

use super::*;

#[test]
fn a_log_cut_at_every_byte_goes_on_and_says_so() {
    let whole = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(whole.path().to_owned())).unwrap();
    write(&log, 1);
    drop(log);
    let path = segment::path(whole.path(), 1);
    let bytes = std::fs::read(&path).unwrap();
    for end in 0..bytes.len() {
        let dir = tempfile::tempdir().unwrap();
        copy(whole.path(), dir.path());
        std::fs::write(segment::path(dir.path(), 1), &bytes[..end]).unwrap();
        assert!(!check(dir.path()).is_clean(), "cut at {end}");
        drop(AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap());
        let report = check(dir.path());
        // The head says that more was there; nothing else is wrong.
        assert_eq!(report.problems.len(), 1, "cut at {end}: {report:?}");
        assert!(report.problems[0].what.contains("previously reached"), "{report:?}");
        let unfinished = end > 0 && bytes[end - 1] != b'\n';
        assert_eq!(report.notes.len(), usize::from(unfinished), "cut at {end}: {report:?}");
        let left = dir.path().join("cut");
        assert_eq!(left.exists(), unfinished);
    }
}

#[test]
fn without_a_signed_end_a_cut_is_what_a_crash_leaves_and_no_problem() {
    let whole = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(whole.path().to_owned())).unwrap();
    let head = std::fs::read(whole.path().join("head")).unwrap();
    write(&log, 2);
    let path = segment::path(whole.path(), 1);
    let bytes = std::fs::read(&path).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for end in first..bytes.len() {
        let dir = tempfile::tempdir().unwrap();
        copy(whole.path(), dir.path());
        std::fs::write(dir.path().join("head"), &head).unwrap();
        std::fs::write(segment::path(dir.path(), 1), &bytes[..end]).unwrap();
        drop(AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap());
        let report = check(dir.path());
        assert_eq!(report.problems, [], "cut at {end}");
        assert_eq!(report.unsigned, 0);
    }
}

#[test]
fn a_roll_that_was_cut_at_every_byte_is_done_again() {
    let whole = tempfile::tempdir().unwrap();
    sample(whole.path());
    let path = segment::path(whole.path(), 3);
    let bytes = std::fs::read(&path).unwrap();
    let first = bytes.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    // As it was before the roll: `head` names the start of the segment before.
    let before = std::fs::read(segment::path(whole.path(), 2)).unwrap();
    let start = decode(before.split(|byte| *byte == b'\n').next().unwrap()).unwrap();
    let place = Place {
        seq: start.record.seq,
        hash: start.hash,
    };
    for end in 0..first {
        let dir = tempfile::tempdir().unwrap();
        copy(whole.path(), dir.path());
        head::Head::new(2, 0, place, start.signature.unwrap())
            .write(dir.path(), false)
            .unwrap();
        std::fs::write(segment::path(dir.path(), 3), &bytes[..end]).unwrap();
        let log = AuditLog::open(small(dir.path())).unwrap();
        write(&log, 1);
        drop(log);
        assert_eq!(check(dir.path()).problems, [], "cut at {end}");
    }
}

#[test]
fn an_entry_of_a_dead_process_is_closed_as_lost_and_one_of_a_living_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let entry = log.begin(Opening::new(Action::Execute, &actor())).unwrap();
    let lost = |dir: &Path| {
        let text = std::fs::read_to_string(segment::path(dir, 1)).unwrap();
        text.matches(r#""outcome":"lost""#).count()
    };
    drop(AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap());
    assert_eq!(lost(dir.path()), 0);
    // A copy has no living writers.
    let dead = tempfile::tempdir().unwrap();
    copy(dir.path(), dead.path());
    for _ in 0..2 {
        drop(AuditLog::open(AuditOptions::new(dead.path().to_owned())).unwrap());
        assert_eq!(lost(dead.path()), 1);
    }
    assert_eq!(check(dead.path()).problems, []);
    entry.close(Closing::of(Ending::Ok));
}

#[test]
fn a_whole_line_that_is_no_record_is_not_swept_away() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let newest = *segment::list(dir.path()).unwrap().last().unwrap();
    let path = segment::path(dir.path(), newest);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.extend(b"{}\n");
    std::fs::write(&path, bytes).unwrap();
    let refused = AuditLog::open(small(dir.path())).unwrap_err();
    assert!(
        matches!(
            refused,
            AuditError::Broken {
                why: Break::Line(_),
                ..
            }
        ),
        "{refused}"
    );
}
