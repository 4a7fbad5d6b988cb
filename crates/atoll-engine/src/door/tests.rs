//! The door while somebody else has the log: other tasks of the same thread go on.

use super::*;
use crate::audit::{AuditOptions, Index, Query, View};
use rustix::fs::{FlockOperation, flock};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

fn entries(dir: &Path) -> Vec<View> {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index.list(&Query::default(), 100).unwrap()
}

/// Holds the lock as another process would, until it is told to let go or has waited too long. Whether it was told.
fn holder(dir: &Path) -> (mpsc::Sender<()>, std::thread::JoinHandle<bool>) {
    let lock = std::fs::File::open(dir.join("lock")).unwrap();
    flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
    let (tell, told) = mpsc::channel();
    let waits = move || {
        let was_told = told.recv_timeout(Duration::from_secs(120)).is_ok();
        drop(lock);
        was_told
    };
    (tell, std::thread::spawn(waits))
}

#[tokio::test]
async fn a_lock_that_another_process_has_holds_no_thread_of_the_runtime() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let door = Door::new(Audit::Log(Arc::clone(&log)), Actor::local());
    let running = door.enter(Action::Execute, "runs already").await.unwrap();
    let (tell, holds) = holder(dir.path());
    // Both an end and a beginning, on the one thread that this test has.
    running.close(|| Closing::of(Ending::Ok));
    drop(door.begin_or_later(door.opening(Action::SandboxEnd)));
    let other = async {
        tokio::task::yield_now().await;
        tell.send(()).unwrap();
    };
    let (entered, ()) = tokio::join!(door.enter(Action::Command, "waits"), other);
    entered.unwrap().close(|| Closing::of(Ending::Ok));
    assert!(holds.join().unwrap(), "the other task had to wait for the lock");
    tokio::task::spawn_blocking(move || log.catch_up())
        .await
        .unwrap()
        .unwrap();
    let all = entries(dir.path());
    let find = |action| all.iter().find(|entry| entry.action == action).unwrap();
    assert_eq!(find(Action::Execute).outcome, Some(Ending::Ok));
    assert_eq!(find(Action::Command).outcome, Some(Ending::Ok));
    let end = find(Action::SandboxEnd);
    assert!(end.late.is_some() && end.outcome == Some(Ending::Abandoned));
}

#[tokio::test]
async fn what_is_never_refused_is_written_when_the_log_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let door = Door::new(Audit::Log(Arc::clone(&log)), Actor::local());
    let (path, aside) = (dir.path().join("000001.jsonl"), dir.path().join("aside"));
    std::fs::rename(&path, &aside).unwrap();
    assert!(door.enter(Action::KeyCreate, "n").await.is_err());
    let ticket = door.enter_anyway(Action::KeyRevoke, "k").await;
    assert!(ticket.is_late());
    ticket.close(|| Closing::of(Ending::Ok));
    std::fs::rename(&aside, &path).unwrap();
    tokio::task::spawn_blocking(move || log.checkpoint())
        .await
        .unwrap()
        .unwrap();
    let all = entries(dir.path());
    assert_eq!((all.len(), all[0].action), (1, Action::KeyRevoke));
    assert!(all[0].late.is_some() && all[0].outcome == Some(Ending::Ok));
}
