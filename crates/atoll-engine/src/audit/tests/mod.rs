//! The log as its users and its enemies see it. Crashes of real processes are in the package `tests`.

mod crash;
mod fields;
mod forget;
mod guards;
mod index;
mod later;
mod output;
mod quota;
mod report;
mod tamper;

use super::*;
use atoll_core::service::RecordLevel;
use std::path::Path;
use std::sync::Arc;

fn actor() -> Actor {
    Actor {
        key: Some("key_a".to_owned()),
        address: Some("127.0.0.1".to_owned()),
        ..Actor::of("team")
    }
}

fn small(dir: &Path) -> AuditOptions {
    AuditOptions {
        record: RecordLevel::Code,
        // Two or three entries.
        segment_bytes: 2_000,
        ..AuditOptions::new(dir.to_owned())
    }
}

fn write(log: &Arc<AuditLog>, count: usize) {
    for number in 0..count {
        let actor = actor();
        let code = format!("print({number})");
        let opening = Opening {
            code: Some(&code),
            ..Opening::new(Action::Execute, &actor)
        };
        let entry = log.begin(opening.at("a/path")).unwrap();
        entry.close(Closing::of(Ending::Ok));
    }
}

/// Four entries in two segments, closed cleanly.
fn sample(dir: &Path) {
    let log = AuditLog::open(small(dir)).unwrap();
    write(&log, 4);
}

fn check(dir: &Path) -> Report {
    verify(dir, &PublicKey::beside(dir).unwrap(), None).unwrap()
}

fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

#[test]
fn an_untouched_log_verifies() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let report = check(dir.path());
    assert_eq!(report.problems, []);
    assert_eq!((report.segments, report.unsigned), (3, 0));
    assert!(report.records >= 8);
    assert_eq!(report.notes, [""; 0]);
    sample(dir.path());
    let again = check(dir.path());
    assert_eq!(again.problems, []);
    assert!(again.records > report.records);
    assert_eq!(
        verify(dir.path(), &PublicKey::beside(dir.path()).unwrap(), report.head)
            .unwrap()
            .problems,
        []
    );
}

#[test]
fn an_entry_that_is_dropped_was_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    drop(log.begin(Opening::new(Action::Command, &actor())).unwrap());
    drop(log);
    let text = std::fs::read_to_string(dir.path().join("000001.jsonl")).unwrap();
    assert!(text.contains(r#""outcome":"abandoned""#));
}

#[test]
fn code_is_kept_only_by_setting_and_its_digest_always() {
    for record in [RecordLevel::Code, RecordLevel::None] {
        let dir = tempfile::tempdir().unwrap();
        let options = AuditOptions {
            record,
            ..small(dir.path())
        };
        write(&AuditLog::open(options).unwrap(), 1);
        let text = std::fs::read_to_string(dir.path().join("000001.jsonl")).unwrap();
        assert_eq!(text.contains("print(0)"), record == RecordLevel::Code);
        assert!(text.contains(&Digest::of(b"print(0)").to_string()));
    }
}

#[test]
fn many_threads_and_two_handles_write_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let logs = [small(dir.path()), small(dir.path())].map(|options| AuditLog::open(options).unwrap());
    std::thread::scope(|scope| {
        for log in logs.iter().chain(&logs) {
            scope.spawn(|| write(log, 50));
        }
    });
    drop(logs);
    let report = check(dir.path());
    assert_eq!(report.problems, []);
    assert!(report.records > 400, "{report:?}");
}

#[test]
fn a_log_that_cannot_be_written_opens_no_entry() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    // The file of this process is gone: there is nothing that could be appended to.
    std::fs::remove_file(dir.path().join("000001.jsonl")).unwrap();
    let refused = log.begin(Opening::new(Action::Execute, &actor())).unwrap_err();
    assert!(
        matches!(refused, AuditError::Broken { why: Break::Gone, .. }),
        "{refused}"
    );
    let nowhere = AuditLog::open(AuditOptions::new("/proc/nothing".into()));
    assert!(matches!(nowhere, Err(AuditError::Place { .. })));
}

#[test]
fn a_key_that_others_can_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let key = dir.path().join("key");
    assert_eq!(std::fs::metadata(&key).unwrap().permissions().mode() & 0o777, 0o600);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(AuditLog::open(small(dir.path())), Err(AuditError::Key { .. })));
}

#[test]
fn long_texts_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions {
        segment_bytes: 1 << 30,
        ..small(dir.path())
    })
    .unwrap();
    let (who, code) = (actor(), "\0".repeat(10 << 20));
    let mut opening = Opening {
        code: Some(&code),
        ..Opening::new(Action::Execute, &who)
    };
    opening.paths = vec!["\u{1}".repeat(1 << 20); 1000];
    opening.command = opening.paths.clone();
    let entry = log.begin(opening).unwrap();
    entry.close(Closing::failed(&std::io::Error::other("é".repeat(1 << 20))));
    drop(log);
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn many_open_entries_do_not_fill_a_segment_from_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let open: Vec<Entry> = (0..200)
        .map(|_| log.begin(Opening::new(Action::Command, &actor())).unwrap())
        .collect();
    let before = segment::list(dir.path()).unwrap().len();
    write(&log, 20);
    // Their list alone is longer than a segment.
    assert!(segment::list(dir.path()).unwrap().len() - before < 20);
    drop(open);
    drop(log);
    assert_eq!(check(dir.path()).problems, []);
}
