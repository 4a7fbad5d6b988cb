//! What one key may cause: short paths in each entry, and a number of bytes in a day.

use super::*;

const PATH: usize = 4_096;

fn entries(dir: &Path) -> Vec<View> {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index.list(&Query::default(), 1_000).unwrap()
}

#[test]
fn a_long_path_is_logged_as_its_beginning_and_a_digest() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    // Each byte becomes six in JSON.
    let (from, to) = ("\u{1}".repeat(PATH), "\u{2}".repeat(PATH));
    let who = actor();
    let entry = log
        .begin(Opening::new(Action::FileChange, &who).at(&from).at(&to))
        .unwrap();
    entry.close(Closing::failed(&std::io::Error::other(format!("{from} {to}"))));
    drop(log);
    let bytes = std::fs::metadata(segment::path(dir.path(), 1)).unwrap().len();
    assert!(bytes < 12_000, "{bytes}");
    let told = entries(dir.path()).remove(0);
    for (path, logged) in [from, to].iter().zip(&told.paths) {
        let wanted = format!("{}… sha256:{}", &path[..256], Digest::of(path.as_bytes()));
        assert_eq!(*logged, wanted);
    }
    assert!(told.error.unwrap().contains("… sha256:"));
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn a_key_that_has_caused_too_much_is_refused_and_that_is_recorded_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions {
        key_bytes_per_day: Some(10_000),
        ..AuditOptions::new(dir.path().to_owned())
    })
    .unwrap();
    let begin = |who: &Actor| log.begin(Opening::new(Action::FileRead, who));
    let first = begin(&actor()).unwrap();
    let refused = (0..1_000).find_map(|_| match begin(&actor()) {
        Ok(entry) => {
            entry.close(Closing::failed(&std::io::Error::other("no such file")));
            None
        }
        Err(error) => Some(error),
    });
    assert!(matches!(refused, Some(AuditError::Quota(10_000))), "{refused:?}");
    assert!(begin(&actor()).is_err());
    // Ends and other keys are not refused.
    first.close(Closing::of(Ending::Ok));
    log.keep(
        log.prepare(Opening::new(Action::SandboxEnd, &actor())),
        Closing::of(Ending::Ok),
    );
    let other = Actor {
        key: Some("key_b".to_owned()),
        ..actor()
    };
    begin(&other).unwrap().close(Closing::of(Ending::Ok));
    begin(&Actor::local()).unwrap().close(Closing::of(Ending::Ok));
    drop(log);
    let all = entries(dir.path());
    let noted: Vec<&View> = all.iter().filter(|entry| entry.action == Action::AuditQuota).collect();
    assert_eq!(noted.len(), 1);
    assert_eq!(
        (noted[0].actor.key.as_deref(), noted[0].outcome),
        (Some("key_a"), Some(Ending::Denied))
    );
    assert_eq!(noted[0].reason.as_deref(), Some("10000 bytes per day"));
    assert!(all.iter().any(|entry| entry.action == Action::SandboxEnd));
    assert!(all.iter().all(|entry| entry.outcome.is_some()));
    assert_eq!(check(dir.path()).problems, []);
}
