//! Which sandbox a request is for, and whether it may: by header, or by the name of the host.

use super::E2b;
use super::error::{E2bError, lost};
use atoll_core::SandboxId;
use atoll_engine::session::{Session, State};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

pub(super) const ACCESS: &str = "x-access-token";
const TRAFFIC: &str = "e2b-traffic-access-token";
const ID: &str = "e2b-sandbox-id";
/// Where E2B's clients expect the sandbox's own service.
pub(super) const ENVD_PORT: u16 = 49983;
/// And the code interpreter.
pub(super) const INTERPRETER_PORT: u16 = 49999;

/// The sandbox of a request that has shown the sandbox's access token. It runs.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) session: Arc<Session>,
}

/// The same for the interpreter, whose clients show either token.
#[derive(Debug)]
pub(super) struct Interpreter(pub(super) Inside);

/// The sandbox of a request that has shown nothing yet.
#[derive(Debug)]
pub(super) struct Unchecked(pub(super) Inside);

/// An answer instead of a sandbox.
#[derive(Debug)]
pub(super) struct Lost(pub(super) Response);

impl FromRequestParts<Arc<E2b>> for Unchecked {
    type Rejection = Lost;

    async fn from_request_parts(parts: &mut Parts, e2b: &Arc<E2b>) -> Result<Self, Lost> {
        let name = named(&parts.headers).ok_or_else(|| {
            let message = "no sandbox is named: neither the header E2b-Sandbox-Id nor the host says which";
            Lost(E2bError::bad(message).into_response())
        })?;
        match running(e2b, &name) {
            Some(session) => Ok(Self(Inside { session })),
            None => Err(Lost(lost(&name))),
        }
    }
}

impl FromRequestParts<Arc<E2b>> for Inside {
    type Rejection = Lost;

    async fn from_request_parts(parts: &mut Parts, e2b: &Arc<E2b>) -> Result<Self, Lost> {
        let Unchecked(inside) = Unchecked::from_request_parts(parts, e2b).await?;
        let shown = word(&parts.headers, ACCESS).unwrap_or_default();
        if e2b.tokens.is_access(inside.session.id(), shown) {
            return Ok(inside);
        }
        Err(Lost(unauthorized().into_response()))
    }
}

impl FromRequestParts<Arc<E2b>> for Interpreter {
    type Rejection = Lost;

    async fn from_request_parts(parts: &mut Parts, e2b: &Arc<E2b>) -> Result<Self, Lost> {
        let Unchecked(inside) = Unchecked::from_request_parts(parts, e2b).await?;
        let id = inside.session.id();
        let access = word(&parts.headers, ACCESS).is_some_and(|shown| e2b.tokens.is_access(id, shown));
        let traffic = word(&parts.headers, TRAFFIC).is_some_and(|shown| e2b.tokens.is_traffic(id, shown));
        if access || traffic {
            return Ok(Self(inside));
        }
        let message = "unauthorized access, please provide a valid access token";
        Err(Lost((StatusCode::UNAUTHORIZED, message).into_response()))
    }
}

pub(super) fn unauthorized() -> E2bError {
    let message = "unauthorized access, please provide a valid access token or method signing if supported";
    E2bError::new(StatusCode::UNAUTHORIZED, message)
}

/// A sandbox that runs, by the id as a client writes it: perhaps with a suffix of older days.
pub(super) fn running(e2b: &E2b, name: &str) -> Option<Arc<Session>> {
    let session = e2b.sandboxes.by_id(&plain_id(name)?)?;
    (session.state() == State::Running).then_some(session)
}

/// Older clients send `<id>-<client id>`.
pub(super) fn plain_id(name: &str) -> Option<SandboxId> {
    SandboxId::parse(name.split('-').next().unwrap_or_default())
}

fn named(headers: &HeaderMap) -> Option<String> {
    let by_header = word(headers, ID).map(str::to_owned);
    by_header.or_else(|| of_host(headers).map(|(_, id)| id))
}

/// `<port>-<id>.<domain>`: the port and the id that a host name carries.
pub(super) fn of_host(headers: &HeaderMap) -> Option<(u16, String)> {
    let host = word(headers, header::HOST.as_str())?;
    let (port, id) = host.split('.').next()?.split_once('-')?;
    Some((port.parse().ok()?, id.to_owned()))
}

pub(super) fn word<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    #[test]
    fn a_host_names_a_port_and_a_sandbox_or_nothing() {
        let of = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            of_host(&headers)
        };
        assert_eq!(of("8000-sbxabc.sbx.localhost:7070"), Some((8000, "sbxabc".into())));
        for host in ["localhost:7070", "127.0.0.1", "a-b.c", "99999-x.y", "-x.y", ""] {
            assert_eq!(of(host), None, "{host}");
        }
    }
}
