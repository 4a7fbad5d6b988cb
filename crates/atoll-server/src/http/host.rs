//! Which names of hosts requests may carry. A web page that points its own name at this machine gets nothing
//! (DNS rebinding), and `<port>-<id>.<domain>` names a port of a sandbox.

use super::listen::ConnectionInfo;
use crate::api::{ApiError, AppState, ErrorCode};
use crate::config::{Domain, HostPattern, Settings, split_port};
use atoll_core::SandboxId;
use axum::extract::{Request, State};
use axum::http::header::HOST;
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::IpAddr;

/// A port of one sandbox, as the host of a request names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxHost {
    pub port: u16,
    pub id: SandboxId,
}

/// What a host means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostKind {
    Api,
    Sandbox(SandboxHost),
}

#[derive(Clone, Debug)]
pub struct HostRules {
    allowed: Vec<HostPattern>,
    domain: Domain,
    listen: IpAddr,
}

/// Names below the domain that mean the API itself: clients that know only a domain make these.
const API_LABELS: &[&str] = &["api", "sandbox"];

impl HostRules {
    pub fn new(settings: &Settings, domain: Domain) -> Self {
        Self {
            allowed: settings.allowed_hosts.clone(),
            domain,
            listen: settings.listen.ip(),
        }
    }

    /// What `host` means, or `None` if it is no host of ours. `local` is where the connection arrived.
    pub fn judge(&self, host: &str, local: Option<IpAddr>) -> Option<HostKind> {
        let (name, port) = split_port(host).ok()?;
        if let Some(kind) = self.below_domain(&name) {
            return kind;
        }
        let address = name
            .trim_start_matches('[')
            .trim_end_matches(']')
            .parse::<IpAddr>()
            .ok();
        let ours = match address {
            Some(address) => address.is_loopback() || address == self.listen || Some(address) == local,
            None => name == "localhost" || name.ends_with(".localhost") && name.matches('.').count() == 1,
        };
        let allowed = ours || self.allowed.iter().any(|pattern| pattern.fits(&name, port));
        allowed.then_some(HostKind::Api)
    }

    /// `None`: not below the domain. `Some(None)`: below it, and nothing there.
    fn below_domain(&self, name: &str) -> Option<Option<HostKind>> {
        if name == self.domain.name() {
            return Some(Some(HostKind::Api));
        }
        let label = name.strip_suffix(self.domain.name())?.strip_suffix('.')?;
        if API_LABELS.contains(&label) {
            return Some(Some(HostKind::Api));
        }
        Some(sandbox_label(label).map(HostKind::Sandbox))
    }
}

/// `3000-sbx…`; old clients put another word behind, which means nothing.
fn sandbox_label(label: &str) -> Option<SandboxHost> {
    let (port, rest) = label.split_once('-')?;
    let id = rest.split('-').next()?;
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.then(|| port.parse().ok()).flatten().filter(|port| *port != 0)?;
    Some(SandboxHost {
        port,
        id: SandboxId::parse(id)?,
    })
}

/// The first check of every request.
pub(crate) async fn check_host(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let (mut parts, body) = request.into_parts();
    match judge(&state.hosts, &parts) {
        Ok(HostKind::Api) => {}
        Ok(HostKind::Sandbox(host)) => {
            parts.extensions.insert(host);
        }
        Err(refused) => return refused.into_response(),
    }
    next.run(Request::from_parts(parts, body)).await
}

fn judge(rules: &HostRules, parts: &Parts) -> Result<HostKind, ApiError> {
    let host = named_host(parts)?;
    let local = parts.extensions.get::<ConnectionInfo>().map(|info| info.local.ip());
    let kind = rules.judge(host, local);
    kind.ok_or_else(|| {
        ApiError::new(ErrorCode::HostNotAllowed, "the Host header does not name this server")
            .hint("the operator can add host names with the setting allowed_hosts")
    })
}

/// The one host that a request names. A whole address in the first line must agree with the header.
fn named_host(parts: &Parts) -> Result<&str, ApiError> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err(ApiError::invalid("the request must have exactly one Host header"));
    };
    let host = host
        .to_str()
        .map_err(|_| ApiError::invalid("the Host header is not valid"))?;
    match parts.uri.authority() {
        Some(authority) if !authority.as_str().eq_ignore_ascii_case(host) => Err(ApiError::invalid(
            "the request URI and the Host header name different hosts",
        )),
        _ => Ok(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(allowed: &str) -> HostRules {
        let settings = Settings {
            allowed_hosts: allowed
                .split(',')
                .filter(|word| !word.is_empty())
                .map(|w| w.parse().unwrap())
                .collect(),
            ..Settings::default()
        };
        HostRules::new(&settings, Domain::local(7070))
    }

    #[test]
    fn loopback_the_own_address_and_listed_names_are_the_api() {
        let rules = rules("atoll.example.org,*.proxy.test");
        for host in [
            "localhost",
            "LOCALHOST:9999",
            "127.0.0.1:7070",
            "[::1]:7070",
            "127.9.9.9",
            "atoll.localhost:1",
            "sbx.localhost:7070",
            "api.sbx.localhost:7070",
            "atoll.example.org.",
            "x.proxy.test",
        ] {
            assert_eq!(rules.judge(host, None), Some(HostKind::Api), "{host}");
        }
        let local: IpAddr = "10.1.2.3".parse().unwrap();
        assert_eq!(rules.judge("10.1.2.3:7070", Some(local)), Some(HostKind::Api));
    }

    #[test]
    fn other_names_are_nobodys() {
        for host in [
            "",
            "evil.test",
            "localhost.evil.test",
            "127.0.0.1.evil.test",
            "10.1.2.3",
            "localhost:99999",
            "user@localhost",
            "a.b.localhost",
            "0-sbx.sbx.localhost",
            "x.sbx.localhost",
            "::1",
        ] {
            assert_eq!(rules("").judge(host, None), None, "{host}");
        }
    }

    #[test]
    fn a_name_below_the_domain_is_a_port_of_a_sandbox() {
        let id = SandboxId::from_random([3; 16]);
        let host = |port: &str| format!("{port}-{id}.sbx.localhost:7070");
        let wanted = SandboxHost {
            port: 3000,
            id: id.clone(),
        };
        assert_eq!(
            rules("").judge(&host("3000"), None),
            Some(HostKind::Sandbox(wanted.clone()))
        );
        let old = format!("3000-{id}-client.sbx.localhost");
        assert_eq!(rules("").judge(&old, None), Some(HostKind::Sandbox(wanted)));
        for bad in ["0", "65536", "+80", "", "x"] {
            assert_eq!(rules("").judge(&host(bad), None), None, "{bad}");
        }
    }
}
