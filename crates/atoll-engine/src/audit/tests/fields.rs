//! Facts that were added to entries later: they are told, and a log from before them is read as it was written.

use super::*;
use atoll_core::Tier;

fn only_entry(dir: &Path) -> View {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index.list(&Query::default(), 1).unwrap().remove(0)
}

#[test]
fn an_entry_names_its_tier_its_policy_its_key_and_its_user() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let who = Actor {
        key_name: Some("ci".to_owned()),
        uid: Some(1000),
        ..actor()
    };
    let opening = Opening {
        behind: Behind::new(Tier::Jail, "/home/somebody/own.toml"),
        ..Opening::new(Action::Execute, &who)
    };
    log.begin(opening).unwrap().close(Closing::of(Ending::Ok));
    let view = only_entry(dir.path());
    assert_eq!(
        (view.tier, view.policy.as_deref()),
        (Some(Tier::Jail), Some("own.toml"))
    );
    assert_eq!(
        (view.key_name.as_deref(), view.uid, view.attack),
        (Some("ci"), Some(1000), false)
    );
    // The name of a key can be erased.
    log.redact(&[view.id].into(), "").unwrap();
    let view = only_entry(dir.path());
    assert_eq!((view.key_name, view.tier), (None, Some(Tier::Jail)));
    assert_eq!(check(dir.path()).problems, []);
}

#[test]
fn the_end_tells_the_tier_that_was_chosen_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let made = Closing {
        behind: Behind::new(Tier::Gvisor, "strict"),
        ..Closing::of(Ending::Ok)
    };
    let entry = log.begin(Opening::new(Action::SandboxCreate, &actor())).unwrap();
    entry.close(made);
    let view = only_entry(dir.path());
    assert_eq!(
        (view.tier, view.policy.as_deref()),
        (Some(Tier::Gvisor), Some("strict"))
    );
}

#[test]
fn entries_of_an_attack_on_this_install_are_marked() {
    let dir = tempfile::tempdir().unwrap();
    let log = AuditLog::open(small(dir.path())).unwrap();
    let entry = log.begin(Opening::new(Action::Execute, &Actor::attack())).unwrap();
    entry.close(Closing::of(Ending::Ok));
    let view = only_entry(dir.path());
    assert!(view.attack);
    assert_eq!((view.actor.tenant.as_str(), view.uid.is_some()), ("local", true));
}

/// A line as version 0.2 wrote it.
fn old_line(seq: u64, prev: Digest, private: &str, body: &str) -> String {
    let commitment = match private {
        "null" => "null".to_owned(),
        private => format!(
            "\"{}\"",
            Digest::of(format!("atoll audit private\0{private}").as_bytes())
        ),
    };
    let record = format!(
        r#"{{"v":1,"seq":{seq},"time":"2026-01-31T12:00:00.000000Z","prev":"{prev}","writer":"w","private":{commitment},"body":{body}}}"#
    );
    let hash = Digest::of(record.as_bytes());
    format!(r#"{{"record":{record},"hash":"{hash}","signature":null,"private":{private}}}"#)
}

#[test]
fn lines_without_these_facts_are_read_as_they_were_written() {
    let private = r#"{"salt":"000102030405060708090a0b0c0d0e0f","data":{"address":"192.0.2.1","code":null,"paths":["a"],"command":[],"error":null}}"#;
    let body = r#"{"kind":"opened","action":"execute","actor":{"tenant":"team","key":"key_a"},"sandbox":null,"execution":null,"language":null,"template":null,"code":null,"port":null}"#;
    let opened = decode(old_line(2, Digest::default(), private, body).as_bytes()).unwrap();
    let body = r#"{"kind":"closed","entry":2,"outcome":"ok","sandbox":null,"inputs":[],"outputs":[],"findings":[],"verdict":null,"approver":null,"usage":null,"receipt":null,"facts":null,"reason":null}"#;
    let closed = decode(old_line(3, opened.hash, "null", body).as_bytes()).unwrap();
    let view = View::of(&opened, Some(&closed)).unwrap();
    assert_eq!(
        (view.address.as_deref(), view.outcome),
        (Some("192.0.2.1"), Some(Ending::Ok))
    );
    assert_eq!((view.key_name, view.uid, view.attack), (None, None, false));
    assert_eq!((view.tier, view.policy), (None, None));
}
