//! What is searched for, what is left, and that pieces give what the whole gives.

mod answers;
mod files;
mod spellings;
mod streams;

use super::*;

const MARKER: &str = "[redacted: KEY]";

fn secrets(all: &[(&str, &str)]) -> Secrets {
    let owned = all
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Secrets::new(owned.collect()).unwrap()
}

fn redactor(all: &[(&str, &str)]) -> Arc<Redactor> {
    Arc::clone(secrets(all).redactor().unwrap())
}

fn refused(name: &str, value: &str) -> SecretsError {
    Secrets::new(BTreeMap::from([(name.to_owned(), value.to_owned())])).unwrap_err()
}

#[test]
fn what_cannot_be_redacted_without_harm_is_refused_and_not_shown() {
    assert!(matches!(refused("A", "1234567"), SecretsError::Short { length: 7, .. }));
    assert!(matches!(
        refused("A", "  1234567  \n"),
        SecretsError::Short { length: 7, .. }
    ));
    assert!(matches!(refused("A", &"x".repeat(4097)), SecretsError::Long { .. }));
    assert!(matches!(refused("A", "12345678\0"), SecretsError::Nul { .. }));
    let long = "A".repeat(65);
    for name in ["", "1A", "A B", "A=B", "Ä", "a-b", long.as_str()] {
        assert_eq!(refused(name, "12345678"), SecretsError::Name, "{name}");
    }
    for (name, value) in [
        ("A", "redacted"),
        ("my_password", "MY_PASSWORD"),
        ("A", "[redacted: A]"),
    ] {
        assert!(matches!(refused(name, value), SecretsError::InWords { .. }), "{value}");
    }
    for error in [
        refused("A", "s3cr3t"),
        refused("s3cr3t=", "12345678"),
        refused("A", &"s3cr3t".repeat(999)),
    ] {
        assert!(!format!("{error} {error:?}").contains("s3cr3t"), "{error}");
    }
}

#[test]
fn there_is_a_bound_on_how_many_and_how_long() {
    let many = |count, size| (0..count).map(|n| (format!("A{n}"), format!("{n:0size$}"))).collect();
    assert!(Secrets::new(many(32, 100)).is_ok());
    assert!(matches!(
        Secrets::new(many(33, 100)),
        Err(SecretsError::Many { count: 33 })
    ));
    assert!(matches!(
        Secrets::new(many(9, 1000)),
        Err(SecretsError::Large { bytes: 9000 })
    ));
}

#[test]
fn nothing_prints_a_value() {
    let secrets = secrets(&[("KEY", "hunter22hunter22")]);
    let redactor = Arc::clone(secrets.redactor().unwrap());
    let mut stream = Stream::new(Arc::clone(&redactor));
    stream.push(b"hunter22hunter2");
    let printed = format!("{secrets:?} {redactor:?} {stream:?} {secrets:#?}");
    assert!(printed.contains("KEY") && !printed.contains("hunter"), "{printed}");
}

#[test]
fn without_secrets_there_is_nothing_to_search_for() {
    let none = Secrets::new(BTreeMap::new()).unwrap();
    assert!(none.is_empty() && none.redactor().is_none());
    assert!(Secrets::default().redactor().is_none());
}

#[test]
fn a_sandbox_keeps_the_newest_in_mind() {
    let first = secrets(&[("A", "the first one"), ("B", "the second one")]);
    assert!(Arc::ptr_eq(&first.with(&first).unwrap().all, &first.all));
    let both = first.with(&secrets(&[("A", "another value")])).unwrap();
    let shown = both
        .redactor()
        .unwrap()
        .text("the first one, another value")
        .into_owned();
    assert_eq!(shown, "[redacted: A], [redacted: A]");
    let number = |n: usize| format!("number {n:08}");
    let many = (0..MOST_KNOWN + 1).fold(both, |known, n| known.with(&secrets(&[("N", &number(n))])).unwrap());
    let redactor = many.redactor().unwrap();
    assert_eq!(many.names().count(), MOST_KNOWN);
    assert_eq!(redactor.find(number(MOST_KNOWN).as_bytes()), Some("N"));
    assert_eq!(redactor.find(number(0).as_bytes()), None);
    // One that is given again is new again.
    let again = many
        .with(&secrets(&[("N", &number(1))]))
        .unwrap()
        .with(&secrets(&[("N", "a newer one")]))
        .unwrap();
    assert!(again.redactor().unwrap().find(number(1).as_bytes()).is_none());
    let long = (0..5).fold(Secrets::default(), |known, n| {
        known.with(&secrets(&[("L", &format!("{n:04000}"))])).unwrap()
    });
    assert_eq!(long.names().count(), 4, "16 KiB of them");
}
