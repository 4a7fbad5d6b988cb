//! Questions to a log.

use super::*;

fn indexed(dir: &Path) -> Index {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index
}

fn codes(index: &Index, query: &Query, most: usize) -> Vec<String> {
    index
        .list(query, most)
        .unwrap()
        .into_iter()
        .filter_map(|view| view.code)
        .collect()
}

#[test]
fn entries_are_found_with_their_ends_and_only_those_that_were_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 4);
    let mut index = indexed(dir.path());
    let all = index.list(&Query::default(), 100).unwrap();
    assert_eq!(all.len(), 4);
    assert!(all.iter().all(|view| view.outcome == Some(Ending::Ok)));
    assert_eq!(index.find(all[2].id).unwrap().code.as_deref(), Some("print(2)"));
    assert!(matches!(index.find(1), Err(AuditError::NoEntry(1))));
    let newest = Query {
        before: Some(u64::MAX),
        ..Query::default()
    };
    assert_eq!(codes(&index, &newest, 2), ["print(3)", "print(2)"]);
    let after = Query {
        after: Some(all[2].id),
        ..Query::default()
    };
    assert_eq!(codes(&index, &after, 9), ["print(3)"]);
    for nobody in [
        Query {
            tenant: Some("other".to_owned()),
            ..Query::default()
        },
        Query {
            until: Some(all[0].time),
            ..Query::default()
        },
        Query {
            since: Some(Moment::from_micros(i64::MAX)),
            ..Query::default()
        },
    ] {
        assert_eq!(codes(&index, &nobody, 9), [""; 0], "{nobody:?}");
    }
    let seen = index.changed(0, 100).unwrap().last().unwrap().0;
    let entry = log.begin(Opening::new(Action::Command, &actor())).unwrap();
    index.update().unwrap();
    let (opened, view) = index.changed(seen, 100).unwrap().pop().unwrap();
    assert_eq!((view.action, view.outcome), (Action::Command, None));
    entry.close(Closing::of(Ending::Killed));
    index.update().unwrap();
    assert_eq!(index.changed(opened, 100).unwrap()[0].1.outcome, Some(Ending::Killed));
}

#[test]
fn entries_are_found_by_their_outcome_and_their_key_however_far_back() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap();
    let named = Actor {
        key: Some("key_b".to_owned()),
        key_name: Some("ci".to_owned()),
        ..actor()
    };
    for ending in [Ending::Denied, Ending::Ok, Ending::Denied] {
        let entry = log.begin(Opening::new(Action::Execute, &named)).unwrap();
        entry.close(Closing::of(ending));
    }
    write(&log, 600);
    let index = indexed(dir.path());
    let all = index.list(&Query::default(), 1_000).unwrap();
    let found = |query: &Query, most| {
        let found = index.list(query, most).unwrap();
        found.iter().map(|view| view.id).collect::<Vec<_>>()
    };
    let denied = Query {
        outcome: Some(Ending::Denied),
        ..Query::default()
    };
    assert_eq!(found(&denied, 9), [all[0].id, all[2].id]);
    let newest = Query {
        before: Some(u64::MAX),
        ..denied.clone()
    };
    assert_eq!(found(&newest, 1), [all[2].id]);
    let rest = Query {
        after: Some(all[0].id),
        ..denied.clone()
    };
    assert_eq!(found(&rest, 9), [all[2].id]);
    for key in ["ci", "key_b"] {
        let of_key = Query {
            api_key: Some(key.to_owned()),
            ..Query::default()
        };
        assert_eq!(found(&of_key, 9), [all[0].id, all[1].id, all[2].id], "{key}");
    }
    assert!(denied.takes(&all[0]) && !denied.takes(&all[1]));
}

#[test]
fn the_log_is_the_truth_whatever_the_index_says() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 4);
    drop(indexed(dir.path()));
    // Lines move, and segments go.
    let first = indexed(dir.path()).list(&Query::default(), 1).unwrap()[0].id;
    log.redact(&[first].into(), "").unwrap();
    let view = indexed(dir.path()).find(first).unwrap();
    assert!(view.redacted && view.code.is_none() && view.code_sha256.is_some());
    assert_eq!(codes(&indexed(dir.path()), &Query::default(), 9).len(), 3);
    log.retain(std::time::Duration::ZERO).unwrap();
    write(&log, 1);
    assert_eq!(codes(&indexed(dir.path()), &Query::default(), 9), ["print(0)"]);
    // Another log in its place.
    drop(log);
    for number in segment::list(dir.path()).unwrap() {
        std::fs::remove_file(segment::path(dir.path(), number)).unwrap();
    }
    let log = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 2);
    assert_eq!(codes(&indexed(dir.path()), &Query::default(), 9).len(), 2);
    std::fs::remove_file(dir.path().join("index.db")).unwrap();
    assert_eq!(codes(&indexed(dir.path()), &Query::default(), 9).len(), 2);
}

#[test]
fn an_entry_in_the_words_of_ocsf() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path());
    let view = indexed(dir.path()).list(&Query::default(), 1).unwrap().remove(0);
    let event = ocsf(&view);
    assert_eq!(
        (&event["class_uid"], &event["type_uid"]),
        (&6003.into(), &600_399.into())
    );
    assert_eq!(
        (&event["api"]["operation"], &event["status_id"]),
        (&"execute".into(), &1.into())
    );
    assert_eq!(
        (&event["src_endpoint"]["ip"], &event["actor"]["user"]["org"]["uid"]),
        (&"127.0.0.1".into(), &"team".into())
    );
}

#[test]
fn a_line_that_was_bad_for_a_while_is_found_when_it_is_mended() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    write(&log, 4);
    let path = segment::path(dir.path(), 1);
    let good = std::fs::read_to_string(&path).unwrap();
    let bad = good.replacen("\"action\":\"execute\"", "\"action\":\"exekute\"", 1);
    assert_ne!(good, bad);
    std::fs::write(&path, bad).unwrap();
    for _ in 0..2 {
        assert_eq!(codes(&indexed(dir.path()), &Query::default(), 9).len(), 3);
    }
    std::fs::write(&path, good).unwrap();
    write(&log, 1);
    let all = indexed(dir.path()).list(&Query::default(), 9).unwrap();
    assert_eq!(all.len(), 5);
    assert!(all.iter().all(|view| view.outcome == Some(Ending::Ok)));
}

#[test]
fn all_that_was_done_in_a_sandbox_is_found_by_its_id() {
    use atoll_core::{ExecutionId, SandboxId};
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let (sandbox, execution) = (SandboxId::from_random([1; 16]), ExecutionId::from_random([2; 16]));
    let who = actor();
    let made = Closing {
        sandbox: Some(sandbox.clone()),
        ..Closing::of(Ending::Ok)
    };
    log.begin(Opening::new(Action::SandboxCreate, &who))
        .unwrap()
        .close(made);
    let opening = Opening {
        execution: Some(execution.clone()),
        ..Opening::new(Action::Execute, &who).within(&sandbox)
    };
    log.begin(opening).unwrap().close(Closing::of(Ending::Ok));
    write(&log, 1);
    let index = indexed(dir.path());
    let actions = |id: &str, after| {
        let all = index.about(id, after, 9).unwrap();
        all.iter().map(|view| view.action).collect::<Vec<_>>()
    };
    assert_eq!(actions(sandbox.as_str(), 0), [Action::SandboxCreate, Action::Execute]);
    assert_eq!(actions(execution.as_str(), 0), [Action::Execute]);
    assert_eq!(actions(sandbox.as_str(), 2), [Action::Execute]);
    assert_eq!(actions("sbx", 0), []);
}
