//! The address of a webhook. Whatever comes after its host may be a secret of the receiver's, so that is never shown.

use super::value::{is_bracketed, is_host_name, split_port};
use axum::http::Uri;
use std::str::FromStr;

/// `https://hooks.example.org/path?query`; shown as `https://hooks.example.org/…`.
#[derive(Clone, PartialEq, Eq)]
pub struct WebhookUrl {
    https: bool,
    /// Host and port as they were written.
    authority: String,
    host: String,
    port: Option<u16>,
    path: String,
}

impl WebhookUrl {
    pub fn is_https(&self) -> bool {
        self.https
    }

    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// A name or an address, the latter without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port.unwrap_or(if self.https { 443 } else { 80 })
    }

    /// With the query.
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl std::fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.https { "https" } else { "http" };
        let rest = if self.path == "/" { "/" } else { "/…" };
        write!(f, "{scheme}://{}{rest}", self.authority)
    }
}

impl std::fmt::Debug for WebhookUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl FromStr for WebhookUrl {
    type Err = &'static str;

    /// Errors do not repeat what was written.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bad = "expected a URL like https://example.org/path";
        // What is shown has a character that no address has: copied into a file, it is refused.
        let uri: Uri = text.parse().ok().filter(|_| text.is_ascii()).ok_or(bad)?;
        let authority = uri.authority().ok_or(bad)?.as_str();
        if authority.contains('@') {
            return Err("the URL must not contain a user name or a password; requests are signed instead");
        }
        let https = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(bad),
        };
        let (host, port) = split_port(authority).map_err(|_| bad)?;
        if !is_host_name(&host) && !is_bracketed(&host) {
            return Err(bad);
        }
        Ok(Self {
            https,
            host: host.trim_matches(['[', ']']).to_owned(),
            port,
            path: uri.path_and_query().map_or("/", |path| path.as_str()).to_owned(),
            authority: authority.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_scheme_a_host_and_a_path() {
        let url = |text: &str| text.parse::<WebhookUrl>().unwrap();
        let plain = url("http://[::1]:8080/hook?a=b");
        assert_eq!(
            (plain.authority(), plain.host(), plain.port(), plain.path()),
            ("[::1]:8080", "::1", 8080, "/hook?a=b")
        );
        assert_eq!((url("http://a.test").port(), url("https://a.test").port()), (80, 443));
        assert_eq!(url("https://a.test").path(), "/");
        for bad in [
            "",
            "a.test/hook",
            "/hook",
            "ftp://a.test/",
            "http:///x",
            "http://a.test:99999/",
            "http://a.test:/",
            "http://a b/",
            "http://a.test/…",
        ] {
            assert!(bad.parse::<WebhookUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_may_be_a_secret_is_not_shown() {
        let url: WebhookUrl = "https://a.test:8443/hush?token=hush".parse().unwrap();
        for shown in [url.to_string(), format!("{url:?}")] {
            assert_eq!(shown, "https://a.test:8443/…");
        }
        let why = "https://hush:hush@a.test/".parse::<WebhookUrl>().unwrap_err();
        assert!(why.contains("a password") && !why.contains("hush"), "{why}");
    }
}
