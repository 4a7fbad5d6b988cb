//! How a file of a sandbox is given over HTTP: as bytes to save, never as a page. Its name and its content are the code's.

use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, X_CONTENT_TYPE_OPTIONS,
};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// What RFC 8187 lets stand in a name.
const NAME: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Whatever a browser would like to make of it: it is saved, its type is not guessed, and nothing in it runs or loads.
pub(crate) fn headers(path: &str, size: u64) -> [(HeaderName, String); 5] {
    [
        (CONTENT_TYPE, "application/octet-stream".to_owned()),
        (CONTENT_LENGTH, size.to_string()),
        (CONTENT_DISPOSITION, disposition(path)),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CONTENT_SECURITY_POLICY, "sandbox; default-src 'none'".to_owned()),
    ]
}

/// The plain name for old readers, the whole name for the others (RFC 6266).
fn disposition(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._ ".contains(c);
    let plain: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    format!(
        "attachment; filename=\"{plain}\"; filename*=UTF-8''{}",
        utf8_percent_encode(name, NAME)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_name_whatever_is_in_it() {
        assert_eq!(
            disposition("/home/user/a b.csv"),
            "attachment; filename=\"a b.csv\"; filename*=UTF-8''a%20b.csv"
        );
        let hostile = "/x/ü\"; filename=\"evil.html\r\nSet-Cookie: a=b\\";
        let written = disposition(hostile);
        assert!(
            written.ends_with("''%C3%BC%22%3B%20filename%3D%22evil.html%0D%0ASet-Cookie%3A%20a%3Db%5C"),
            "{written}"
        );
        assert!(written.is_ascii() && !written.contains(['\r', '\n']) && written.matches('"').count() == 2);
    }
}
