//! Text files lose their secrets wherever a piece is cut; other files stay whole, and name what is in them.

use super::*;

/// Both passes, in pieces of this length, with the names that are told.
fn passed(bytes: &[u8], length: usize) -> (Vec<u8>, Vec<String>) {
    let redactor = redactor(&[("KEY", "hunter22 hünter22"), ("OTHER", "correct horse")]);
    let mut scan = FileScan::new(&redactor);
    bytes.chunks(length).for_each(|piece| scan.push(piece));
    let mut redaction = scan.finish();
    let mut out = Vec::new();
    for piece in bytes.chunks(length) {
        out.extend_from_slice(&redaction.pass(piece));
    }
    out.extend(redaction.finish());
    assert_eq!(redaction.bytes(), out.len() as u64, "{length}");
    (out, redaction.unredacted().to_vec())
}

#[test]
fn a_text_file_is_redacted_wherever_its_pieces_are_cut() {
    let text = "é hunter22 hünter22, correct horse – 𝄞 hunter22 hünter2";
    let clean = format!("é {MARKER}, [redacted: OTHER] – 𝄞 hunter22 hünter2");
    for length in 1..=text.len() {
        assert_eq!(
            passed(text.as_bytes(), length),
            (clean.clone().into_bytes(), Vec::new())
        );
    }
    assert_eq!(passed(b"", 1), (Vec::new(), Vec::new()));
}

#[test]
fn a_file_that_is_not_text_stays_as_it_is_and_its_secrets_are_named() {
    let secret = "hunter22 hünter22".as_bytes();
    for (before, after) in [
        (&b"\0"[..], &b""[..]),
        (b"\xff", b"text"),
        (b"", b"\xc3"),
        (b"text", b"\x80"),
    ] {
        let bytes = [before, secret, after].concat();
        for length in 1..=bytes.len() {
            assert_eq!(passed(&bytes, length), (bytes.clone(), vec!["KEY".to_owned()]));
        }
    }
    let bytes = b"\0 correct horse correct horse 22retn\xc3\xbch 22retnuh";
    assert_eq!(
        passed(bytes, 3),
        (bytes.to_vec(), vec!["KEY".to_owned(), "OTHER".to_owned()])
    );
    assert_eq!(passed(b"\0 nothing", 3), (b"\0 nothing".to_vec(), Vec::new()));
}
