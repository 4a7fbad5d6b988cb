//! Cookies that servers inside set: each stays with the host name of its port, or with its path.

use axum::http::{HeaderMap, HeaderValue, header};

/// A cookie with a domain would be sent to the ports of all other sandboxes as well, also to those of other tenants. So
/// would one of a server below a path (`prefix`) that names a path outside.
pub(super) fn confine(headers: &mut HeaderMap, prefix: Option<&str>) {
    let cookies = headers.get_all(header::SET_COOKIE).iter();
    let kept: Vec<HeaderValue> = cookies.filter_map(|cookie| confined(cookie, prefix)).collect();
    headers.remove(header::SET_COOKIE);
    for cookie in kept {
        headers.append(header::SET_COOKIE, cookie);
    }
}

/// The first part is the name and the value of the cookie, whatever they are.
fn confined(cookie: &HeaderValue, prefix: Option<&str>) -> Option<HeaderValue> {
    let parts = cookie.as_bytes().split(|byte| *byte == b';').enumerate();
    let kept = parts.filter(|(at, part)| *at == 0 || !is_named(part, b"domain"));
    let kept: Vec<&[u8]> = kept.map(|(_, part)| part).collect();
    match prefix {
        Some(prefix) => below(&kept, prefix),
        None => HeaderValue::from_bytes(&kept.join(&b';')).ok(),
    }
}

/// The same cookie for its path below the prefix. Browsers take the last of several paths.
fn below(parts: &[&[u8]], prefix: &str) -> Option<HeaderValue> {
    let (pair, attributes) = parts.split_first()?;
    let attributes = attributes.iter().copied();
    let (paths, others): (Vec<&[u8]>, Vec<&[u8]>) = attributes.partition(|part| is_named(part, b"path"));
    let path = paths
        .last()
        .and_then(|path| path.splitn(2, |byte| *byte == b'=').nth(1));
    let path = path.map(<[u8]>::trim_ascii).filter(|path| path.starts_with(b"/"));
    let mut all = pair.to_vec();
    for other in others {
        all.push(b';');
        all.extend_from_slice(other);
    }
    all.extend_from_slice(b"; Path=");
    all.extend_from_slice(prefix.as_bytes());
    all.extend_from_slice(path.unwrap_or_default());
    HeaderValue::from_bytes(&all).ok()
}

fn is_named(attribute: &[u8], wanted: &[u8]) -> bool {
    let name = attribute.split(|byte| *byte == b'=').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(cookie: &'static str) -> String {
        let kept = confined(&HeaderValue::from_static(cookie), None).unwrap();
        kept.to_str().unwrap().to_owned()
    }

    #[test]
    fn only_the_domain_of_a_cookie_is_stripped() {
        assert_eq!(stripped("a=1; Domain=sbx.test; Path=/"), "a=1; Path=/");
        assert_eq!(stripped("a=1;DOMAIN = .sbx.test; Secure;domain"), "a=1; Secure");
        for cookie in ["domain=x", "a=\"domain=x\"; Path=/domain=y", "a=1; Domains=x", "", ";"] {
            assert_eq!(stripped(cookie), cookie);
        }
    }

    #[test]
    fn a_cookie_of_a_server_below_a_path_stays_below_it() {
        let prefix = "/sandboxes/s/ports/80";
        for (cookie, path) in [
            ("a=1", ""),
            ("a=1; Path=/", "/"),
            ("a=1; PATH = /b ; Domain=sbx.test", "/b"),
            ("a=1; Path=/b; path=/c", "/c"),
            ("a=1; Path=b", ""),
            ("a=1; Path", ""),
        ] {
            let kept = confined(&HeaderValue::from_static(cookie), Some(prefix)).unwrap();
            assert_eq!(kept.to_str().unwrap(), format!("a=1; Path={prefix}{path}"), "{cookie}");
        }
        let kept = confined(&HeaderValue::from_static("path=/; Secure"), Some(prefix)).unwrap();
        assert_eq!(kept.to_str().unwrap(), format!("path=/; Secure; Path={prefix}"));
    }

    #[test]
    fn cookies_keep_their_number_and_order() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1; Domain=x", "b=2"] {
            headers.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        confine(&mut headers, None);
        let left: Vec<&HeaderValue> = headers.get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(left, ["a=1", "b=2"]);
    }
}
