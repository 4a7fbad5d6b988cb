//! What cannot be written at once: nobody waits who must not, and nothing is forgotten.

use super::*;
use rustix::fs::{FlockOperation, flock};

/// As another process would hold it.
fn hold(dir: &Path) -> std::fs::File {
    let file = std::fs::File::open(dir.join("lock")).unwrap();
    flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
    file
}

fn entries(dir: &Path) -> Vec<View> {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index.list(&Query::default(), 100).unwrap()
}

#[test]
fn who_must_not_wait_does_not_wait_for_another_process() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let entry = log.begin(Opening::new(Action::Execute, &actor())).unwrap();
    let held = hold(dir.path());
    let prepared = log.prepare(Opening::new(Action::Command, &actor()));
    let prepared = log.try_begin(prepared).unwrap().unwrap_err();
    let behind = entry.close_soon(Closing::of(Ending::Ok)).unwrap();
    assert_eq!((log.late(), entries(dir.path())[0].outcome), (1, None));
    let waiting = std::thread::spawn(move || behind.catch_up());
    drop(held);
    waiting.join().unwrap().unwrap();
    assert_eq!((log.late(), entries(dir.path())[0].outcome), (0, Some(Ending::Ok)));
    log.try_begin(prepared).unwrap().unwrap().close(Closing::of(Ending::Ok));
    assert_eq!(entries(dir.path()).len(), 2);
}

#[test]
fn a_log_that_flushes_each_record_is_never_written_by_who_must_not_wait() {
    let dir = tempfile::tempdir().unwrap();
    let options = AuditOptions {
        sync: true,
        ..AuditOptions::new(dir.path().to_owned())
    };
    let log = AuditLog::open(options).unwrap();
    let prepared = log.prepare(Opening::new(Action::Command, &actor()));
    let prepared = log.try_begin(prepared).unwrap().unwrap_err();
    let entry = log.begin_prepared(prepared).unwrap();
    entry.close_soon(Closing::of(Ending::Ok)).unwrap().catch_up().unwrap();
    drop(log);
    assert_eq!(entries(dir.path())[0].outcome, Some(Ending::Ok));
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn what_is_done_without_the_log_is_written_when_that_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let open = log.begin(Opening::new(Action::Execute, &actor())).unwrap();
    let (path, aside) = (segment::path(dir.path(), 1), dir.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    open.close(Closing::of(Ending::Timeout));
    let end = Closing {
        reason: Some("idle".to_owned()),
        ..Closing::of(Ending::Ok)
    };
    log.keep(log.prepare(Opening::new(Action::SandboxEnd, &actor())), end);
    assert!(log.catch_up().is_err());
    assert_eq!(log.late(), 2);
    std::fs::rename(&aside, &path).unwrap();
    write(&log, 1);
    let all = entries(dir.path());
    let told: Vec<(Action, Option<Ending>, bool)> = all
        .iter()
        .map(|entry| (entry.action, entry.outcome, entry.late.is_some()))
        .collect();
    let wanted = [
        (Action::Execute, Some(Ending::Timeout), false),
        (Action::SandboxEnd, Some(Ending::Ok), true),
        (Action::Execute, Some(Ending::Ok), false),
    ];
    assert_eq!(told, wanted);
    assert_eq!(all[1].reason.as_deref(), Some("idle"));
    drop(log);
    assert_eq!(check(dir.path()).problems, []);
}
