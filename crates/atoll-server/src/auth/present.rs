//! The key that a request shows: `X-API-KEY`, or `Authorization: Bearer`. Never in the address.

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;

/// What a request shows.
#[derive(Debug, PartialEq, Eq)]
pub enum Presented<'a> {
    Nothing,
    Key(&'a [u8]),
    /// Two different keys, or a header that cannot be read: refused, because a proxy may have read the other one.
    Unclear,
}

pub fn presented(headers: &HeaderMap) -> Presented<'_> {
    let api_keys = headers.get_all("x-api-key").iter().map(|value| value.as_bytes());
    let tokens = headers
        .get_all(AUTHORIZATION)
        .iter()
        .filter_map(|value| bearer(value.as_bytes()));
    let mut found = api_keys.chain(tokens);
    let Some(first) = found.next() else {
        return Presented::Nothing;
    };
    if found.all(|other| other == first) && !first.is_empty() {
        Presented::Key(first)
    } else {
        Presented::Unclear
    }
}

/// Other kinds of authorization are none of a key's: E2B's clients name the Linux user by `Basic`.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = value.split_at_checked(7)?;
    scheme.eq_ignore_ascii_case(b"bearer ").then(|| token.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::{HeaderName, HeaderValue};

    fn headers(lines: &[(&str, &str)]) -> HeaderMap {
        let line = |(name, value): &(&str, &str)| {
            let name: HeaderName = name.parse().unwrap();
            (name, HeaderValue::from_str(value).unwrap())
        };
        lines.iter().map(line).collect()
    }

    #[test]
    fn both_headers_carry_a_key() {
        assert_eq!(presented(&headers(&[("x-api-key", "k")])), Presented::Key(b"k"));
        assert_eq!(
            presented(&headers(&[("authorization", "bEARER  k ")])),
            Presented::Key(b"k")
        );
        assert_eq!(
            presented(&headers(&[("authorization", "Basic dXNlcjo=")])),
            Presented::Nothing
        );
    }

    #[test]
    fn two_different_keys_are_unclear_and_two_equal_ones_are_one() {
        let two = headers(&[("x-api-key", "a"), ("authorization", "Bearer b")]);
        assert_eq!(presented(&two), Presented::Unclear);
        let same = headers(&[("x-api-key", "a"), ("x-api-key", "a")]);
        assert_eq!(presented(&same), Presented::Key(b"a"));
        assert_eq!(presented(&headers(&[("x-api-key", "")])), Presented::Unclear);
    }
}
