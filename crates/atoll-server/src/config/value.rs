//! Values of settings that are more than a number or a word: names of hosts, origins of web pages.

use std::str::FromStr;

/// The name below which sandboxes have their own names, with the port that clients see: `sbx.localhost:7070`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    name: String,
    port: Option<u16>,
}

impl Domain {
    pub fn local(port: u16) -> Self {
        Self {
            name: "sbx.localhost".to_owned(),
            port: Some(port),
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }
}

impl std::fmt::Display for Domain {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&with_port(&self.name, self.port))
    }
}

impl FromStr for Domain {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, port) = split_port(text)?;
        if !is_host_name(&name) {
            return Err(format!(
                "invalid host name `{text}`; expected a name like sbx.example.org:443"
            ));
        }
        Ok(Self { name, port })
    }
}

/// A host that requests may name: `atoll.example.org`, `10.0.0.7:7070`, or `*.example.org` for one label or more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    any_below: bool,
    name: String,
    port: Option<u16>,
}

impl HostPattern {
    /// A pattern without a port fits any.
    pub fn fits(&self, name: &str, port: Option<u16>) -> bool {
        let below = || {
            name.strip_suffix(self.name.as_str())
                .is_some_and(|rest| rest.ends_with('.') && rest.len() > 1)
        };
        let same = if self.any_below { below() } else { name == self.name };
        same && self.port.is_none_or(|wanted| port == Some(wanted))
    }
}

impl std::fmt::Display for HostPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let star = if self.any_below { "*." } else { "" };
        write!(f, "{star}{}", with_port(&self.name, self.port))
    }
}

impl FromStr for HostPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (any_below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (name, port) = split_port(rest)?;
        if !is_host_name(&name) && (any_below || !is_bracketed(&name)) {
            return Err(format!(
                "invalid host `{text}`; expected a name like atoll.example.org or *.example.org"
            ));
        }
        Ok(Self { any_below, name, port })
    }
}

/// Where a web page comes from: `https://app.example.org`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebOrigin(String);

impl WebOrigin {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for WebOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for WebOrigin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
        let parts = host.and_then(|host| split_port(host).ok());
        match parts {
            Some((name, _)) if is_host_name(&name) || is_bracketed(&name) => Ok(Self(text.to_ascii_lowercase())),
            _ => Err(format!(
                "invalid origin `{text}`; expected an origin like https://app.example.org"
            )),
        }
    }
}

/// Splits `name:port`, `[::1]:port` or a bare name. The name comes in lower case, a trailing dot removed.
pub(crate) fn split_port(text: &str) -> Result<(String, Option<u16>), String> {
    let end = match text.rfind(']') {
        Some(bracket) => bracket + 1,
        None => text.find(':').unwrap_or(text.len()),
    };
    let (name, port) = text.split_at(end);
    let port = match port.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().map_err(|_| format!("invalid port `{digits}`"))?)
        }
        None if port.is_empty() => None,
        _ => return Err(format!("expected HOST or HOST:PORT, found `{text}`")),
    };
    let name = name.strip_suffix('.').unwrap_or(name);
    Ok((name.to_ascii_lowercase(), port))
}

pub(super) fn is_host_name(name: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    name.len() <= 253 && name.split('.').all(label)
}

pub(super) fn is_bracketed(name: &str) -> bool {
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    inner.is_some_and(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
}

fn with_port(name: &str, port: Option<u16>) -> String {
    port.map_or_else(|| name.to_owned(), |port| format!("{name}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_its_name_and_with_a_star_what_is_below() {
        let exact: HostPattern = "Atoll.example.org".parse().unwrap();
        assert!(exact.fits("atoll.example.org", Some(80)) && !exact.fits("x.atoll.example.org", None));
        let below: HostPattern = "*.example.org:443".parse().unwrap();
        assert!(below.fits("a.b.example.org", Some(443)));
        assert!(!below.fits("example.org", Some(443)) && !below.fits("a.example.org", Some(80)));
        assert!(!below.fits("evilexample.org", Some(443)) && !below.fits(".example.org", Some(443)));
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for text in [
            "", "*", "*.", "a b", "http://x", "x:99999", "x:y", "[::1", "a..b", "x/y", "u@x",
        ] {
            assert!(text.parse::<HostPattern>().is_err(), "{text}");
        }
        assert!("[::1]:7070".parse::<HostPattern>().unwrap().fits("[::1]", Some(7070)));
    }

    #[test]
    fn an_origin_is_a_scheme_and_a_host() {
        assert!("https://app.example.org:8443".parse::<WebOrigin>().is_ok());
        for text in ["*", "app.example.org", "https://", "https://x/y", "ftp://x", "null"] {
            assert!(text.parse::<WebOrigin>().is_err(), "{text}");
        }
    }
}
