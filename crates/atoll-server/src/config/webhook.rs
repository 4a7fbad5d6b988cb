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
    path: String,
}

impl WebhookUrl {
    pub fn is_https(&self) -> bool {
        self.https
    }

    /// All of it, for the request.
    pub fn reveal(&self) -> String {
        format!("{}{}", self.origin(), self.path)
    }

    fn origin(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.authority)
    }
}

impl std::fmt::Display for WebhookUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let rest = if self.path == "/" { "/" } else { "/…" };
        write!(f, "{}{rest}", self.origin())
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
        let (host, _) = split_port(authority).map_err(|_| bad)?;
        if !is_host_name(&host) && !is_bracketed(&host) {
            return Err(bad);
        }
        Ok(Self {
            https,
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
        for (text, all) in [
            ("http://[::1]:8080/hook?a=b", "http://[::1]:8080/hook?a=b"),
            ("https://a.test", "https://a.test/"),
        ] {
            assert_eq!(url(text).reveal(), all);
        }
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
