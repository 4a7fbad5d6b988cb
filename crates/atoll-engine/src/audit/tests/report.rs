//! Reports: what they contain, and that none is believed after a change.

use super::*;
use crate::audit::digest::{Digest, to_hex};
use crate::audit::key::Key;

fn indexed(dir: &Path) -> Index {
    let mut index = Index::open(dir).unwrap();
    index.update().unwrap();
    index
}

/// An entry of a key whose name and code say whose it is.
fn write_as(log: &Arc<AuditLog>, name: &str) {
    let who = Actor {
        key: Some(format!("key_{name}")),
        key_name: Some(name.to_owned()),
        ..actor()
    };
    let code = format!("print('<code of {name}>')");
    let opening = Opening {
        code: Some(&code),
        ..Opening::new(Action::Execute, &who)
    };
    let approved = Closing {
        approver: Some("key_approver".to_owned()),
        ..Closing::of(Ending::Ok)
    };
    log.begin(opening).unwrap().close(approved);
}

/// Two entries of `mine` with many of `other` around them, in one segment.
fn mixed(dir: &Path) -> Arc<AuditLog> {
    let options = AuditOptions {
        segment_bytes: 1 << 30,
        ..small(dir)
    };
    let log = AuditLog::open(options).unwrap();
    for name in ["other", "mine", "other"] {
        write_as(&log, name);
    }
    log.checkpoint().unwrap();
    write_as(&log, "other");
    log.checkpoint().unwrap();
    write_as(&log, "mine");
    log
}

fn page_of(dir: &Path, name: &str) -> Result<String, ReportError> {
    let index = indexed(dir);
    let query = ReportQuery::default().of_key(&index, name.to_owned())?;
    make_page(&index, query)
}

fn sample_page(dir: &Path) -> (String, PublicKey) {
    drop(mixed(dir));
    (page_of(dir, "mine").unwrap(), PublicKey::beside(dir).unwrap())
}

#[test]
fn a_report_is_verified_with_the_file_and_the_public_key_only() {
    let dir = tempfile::tempdir().unwrap();
    let (page, key) = sample_page(dir.path());
    let head = check(dir.path()).head.unwrap();
    drop(dir);
    let report = check_page(page.as_bytes(), &key).unwrap();
    let told: Vec<_> = report
        .entries
        .iter()
        .map(|view| (view.key_name.as_deref(), view.outcome, view.redacted))
        .collect();
    assert_eq!(told, [(Some("mine"), Some(Ending::Ok), false); 2]);
    let is_approved = |view: &View| view.approver.as_deref() == Some("key_approver");
    assert!(report.entries.iter().all(is_approved), "{:?}", report.entries);
    assert_eq!(report.checkpoint, head);
    assert_eq!(report.query.keys, ["key_mine"]);
}

#[test]
fn a_report_has_records_of_others_without_their_private_part_and_only_as_needed() {
    let dir = tempfile::tempdir().unwrap();
    let (page, _) = sample_page(dir.path());
    assert!(page.contains("code of mine>") && !page.contains("code of other>"));
    // The one between `mine` and its checkpoint; its two records name the key once.
    assert_eq!(page.matches("key_other").count(), 1);
    // The text of code ends no element.
    assert!(!page.contains("<code of"));
}

#[test]
fn a_report_with_a_flipped_byte_does_not_verify() {
    let dir = tempfile::tempdir().unwrap();
    let (page, key) = sample_page(dir.path());
    let flipped = |at: usize, bit: u8| {
        let mut bytes = page.clone().into_bytes();
        bytes[at] ^= bit;
        check_page(&bytes, &key).is_err()
    };
    let data = page.find("id=\"proof\"").unwrap();
    // In front of the data is what all pages share.
    for at in (0..data).step_by(41).chain((data..page.len()).step_by(7)) {
        assert!(flipped(at, 1 << (at % 8)), "byte {at}");
    }
    let kinds = [
        "Content-Security-Policy",
        "<style>",
        "key_mine",
        "\\\"v\\\":1",
        "\\\"prev\\\":\\\"",
        "\\\"outcome\\\":\\\"ok",
        "\"hash\":\"",
        "\"signature\":\"",
        "\\\"salt\\\":\\\"",
        "code of mine",
        "\"key\":\"",
        "\"atoll\":\"",
        "\"api_key\":\"mine",
        "id=\"signature\">",
        "use strict",
        "</html>\n",
    ];
    for kind in kinds {
        let at = page.find(kind).unwrap_or_else(|| panic!("{kind}")) + kind.len() - 1;
        for at in [at, (at + 1).min(page.len() - 1)] {
            assert!((0..8).all(|bit| flipped(at, 1 << bit)), "{kind} at {at}");
        }
    }
    assert!(check_page(page.as_bytes(), &key).is_ok());
    assert_eq!(
        check_page(format!("{page}\n").as_bytes(), &key).unwrap_err(),
        BadReport::Page
    );
}

#[test]
fn a_report_of_another_log_is_refused_by_its_name() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (page, key) = sample_page(dir.path());
    sample(other.path());
    let stranger = PublicKey::beside(other.path()).unwrap();
    assert_eq!(check_page(page.as_bytes(), &stranger).unwrap_err(), BadReport::Key);
    // Its key alone makes nobody's report.
    let claimed = page.replace(&key.to_string(), &stranger.to_string());
    assert_eq!(
        check_page(claimed.as_bytes(), &stranger).unwrap_err(),
        BadReport::Signature
    );
    assert_eq!(check_page(b"<html>", &key).unwrap_err(), BadReport::NotAReport);
}

#[test]
fn a_report_of_another_version_is_verified_by_its_signature() {
    let dir = tempfile::tempdir().unwrap();
    let (page, key) = sample_page(dir.path());
    let version = concat!("\"atoll\":\"", env!("CARGO_PKG_VERSION"));
    let changed = page
        .replace(version, "\"atoll\":\"9.0.1")
        .replace("<title>", "<title>new ");
    assert_eq!(check_page(changed.as_bytes(), &key).unwrap_err(), BadReport::Signature);
    let data = between(&changed, "id=\"proof\">");
    let signature = Key::existing(dir.path())
        .unwrap()
        .sign_report(Digest::of(data.as_bytes()));
    let signed = changed.replace(between(&changed, "id=\"signature\">"), &to_hex(&signature));
    let report = check_page(signed.as_bytes(), &key).unwrap();
    assert_eq!(report.other_version.as_deref(), Some("9.0.1"));
    assert_eq!(report.entries.len(), 2);
}

fn between<'a>(page: &'a str, start: &str) -> &'a str {
    let (_, rest) = page.split_once(start).unwrap();
    rest.split_once("</script>").unwrap().0
}

#[test]
fn a_report_needs_entries_a_checkpoint_and_an_untouched_log() {
    let dir = tempfile::tempdir().unwrap();
    let log = mixed(dir.path());
    assert!(matches!(page_of(dir.path(), "mine"), Err(ReportError::Unsigned)));
    assert!(matches!(page_of(dir.path(), "nobody"), Err(ReportError::Empty)));
    drop(log);
    assert!(page_of(dir.path(), "mine").is_ok());
    let path = segment::path(dir.path(), 1);
    let text = std::fs::read_to_string(&path).unwrap();
    let other = text.find("key_other").unwrap();
    let covered = text[other + 1..].find("key_other").unwrap() + other + 1;
    std::fs::write(&path, [&text[..covered], "kex", &text[covered + 3..]].concat()).unwrap();
    assert!(page_of(dir.path(), "mine").is_err());
}

#[test]
fn a_report_of_a_copy_without_the_key_is_refused() {
    let (dir, copied) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    drop(mixed(dir.path()));
    copy(dir.path(), copied.path());
    std::fs::remove_file(copied.path().join("key")).unwrap();
    let refused = page_of(copied.path(), "mine").unwrap_err();
    assert!(matches!(refused, ReportError::Log(AuditError::Key { .. })), "{refused}");
    assert!(!copied.path().join("key").exists());
}
