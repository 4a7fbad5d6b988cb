//! Cookies that servers inside set: each stays with the host name of its port.

use axum::http::{HeaderMap, HeaderValue, header};

/// A cookie with a domain would be sent to the ports of all other sandboxes as well, also to those of other tenants.
pub(super) fn strip_domains(headers: &mut HeaderMap) {
    let cookies = headers.get_all(header::SET_COOKIE).iter();
    let kept: Vec<HeaderValue> = cookies.filter_map(without_domain).collect();
    headers.remove(header::SET_COOKIE);
    for cookie in kept {
        headers.append(header::SET_COOKIE, cookie);
    }
}

/// The first part is the name and the value of the cookie, whatever they are.
fn without_domain(cookie: &HeaderValue) -> Option<HeaderValue> {
    let parts = cookie.as_bytes().split(|byte| *byte == b';').enumerate();
    let kept = parts.filter(|(at, part)| *at == 0 || !is_named(part, b"domain"));
    let kept: Vec<&[u8]> = kept.map(|(_, part)| part).collect();
    HeaderValue::from_bytes(&kept.join(&b';')).ok()
}

fn is_named(attribute: &[u8], wanted: &[u8]) -> bool {
    let name = attribute.split(|byte| *byte == b'=').next().unwrap_or_default();
    name.trim_ascii().eq_ignore_ascii_case(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stripped(cookie: &'static str) -> String {
        let kept = without_domain(&HeaderValue::from_static(cookie)).unwrap();
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
    fn cookies_keep_their_number_and_order() {
        let mut headers = HeaderMap::new();
        for cookie in ["a=1; Domain=x", "b=2"] {
            headers.append(header::SET_COOKIE, HeaderValue::from_static(cookie));
        }
        strip_domains(&mut headers);
        let left: Vec<&HeaderValue> = headers.get_all(header::SET_COOKIE).iter().collect();
        assert_eq!(left, ["a=1", "b=2"]);
    }
}
