//! Which sandbox a request is for, and whether it may: by header, or by the name of the host.

use super::connect::invalid;
use super::{E2b, user};
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::{Caller, address};
use atoll_core::SandboxId;
use atoll_engine::Sandbox;
use atoll_engine::audit::Actor;
use atoll_engine::session::{Refused, Session, State};
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use std::sync::Arc;

pub(super) const ACCESS: &str = "x-access-token";
pub(super) const TRAFFIC: &str = "e2b-traffic-access-token";
pub(super) const ID: &str = "e2b-sandbox-id";
/// Where E2B's clients expect the sandbox's own service.
pub(super) const ENVD_PORT: u16 = 49983;
/// And the code interpreter.
pub(super) const INTERPRETER_PORT: u16 = 49999;

/// The sandbox that a request names, running. Whether it may was checked before, by one of the functions below.
#[derive(Debug)]
pub(super) struct Inside {
    pub(super) session: Arc<Session>,
    pub(super) actor: Actor,
}

impl Inside {
    /// What is done in it is done by who asks.
    pub(super) fn sandbox(&self) -> Result<Sandbox, Refused> {
        self.session.by(&self.actor)
    }
}

impl FromRequestParts<AppState> for Inside {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let session = awake(&state.e2b, parts).await?;
        let caller = Caller::from_request_parts(parts, state).await?;
        let actor = caller.actor();
        Ok(Self { session, actor })
    }
}

/// For what tells no more than whether a sandbox runs.
pub(super) fn is_there(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    let session = named(&state.e2b, &parts.headers)?;
    // A health check does not wake it.
    match session.state() {
        State::Running => owner(state, &session),
        State::Paused | State::Ended => Err(lost()),
    }
}

/// With the sandbox's access token.
pub(super) fn by_access(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    let session = named(&state.e2b, &parts.headers)?;
    let shown = word(&parts.headers, ACCESS).unwrap_or_default();
    match state.e2b.tokens.is_access(session.id(), shown) {
        true => user::check_headers(&parts.headers).and_then(|()| owner(state, &session)),
        false => Err(unauthorized()),
    }
}

/// With either token: clients of the interpreter do not always show the first.
pub(super) fn by_either(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    let session = named(&state.e2b, &parts.headers)?;
    let (tokens, id) = (&state.e2b.tokens, session.id());
    let access = word(&parts.headers, ACCESS).is_some_and(|shown| tokens.is_access(id, shown));
    let traffic = word(&parts.headers, TRAFFIC).is_some_and(|shown| tokens.is_traffic(id, shown));
    match access || traffic {
        true => owner(state, &session),
        false => Err(unauthorized()),
    }
}

/// Work in a sandbox counts for who made it. Its tokens end with the maker's key, until another key of the tenant
/// connects.
pub(super) fn owner(state: &AppState, session: &Session) -> Result<Caller, ApiError> {
    let owner = state.e2b.sandboxes.owner(session.id()).ok_or_else(lost)?;
    match owner.is_revoked() {
        true => Err(unauthorized()),
        false => Ok(owner),
    }
}

/// Somebody who shows no key: where servers inside answer everybody, only the address is known.
pub(super) fn stranger(session: &Session, extensions: &Extensions) -> Actor {
    Actor {
        address: Some(address(extensions).map_or_else(|| "unknown".to_owned(), |address| address.to_string())),
        ..Actor::of(&session.spec.owner)
    }
}

pub(super) fn unauthorized() -> ApiError {
    let message = "unauthorized access, please provide a valid access token or method signing if supported";
    ApiError::new(ErrorCode::Unauthenticated, message)
}

/// The sandbox that a request names, woken if it is paused and requests wake it: after the body was read, because it may
/// be paused meanwhile.
async fn awake(e2b: &E2b, parts: &Parts) -> Result<Arc<Session>, ApiError> {
    loop {
        let wakes = e2b.wake(&parts.headers, &parts.extensions, None).await?;
        let session = named(e2b, &parts.headers)?;
        match session.state() {
            State::Running => return Ok(session),
            // It was paused again since.
            State::Paused if wakes => {}
            State::Paused | State::Ended => return Err(lost()),
        }
    }
}

/// The sandbox that the headers name: one that runs, or that requests wake.
pub(super) fn named(e2b: &E2b, headers: &HeaderMap) -> Result<Arc<Session>, ApiError> {
    let name = name_in(headers)?;
    let name = name.ok_or_else(|| invalid("neither the E2b-Sandbox-Id header nor the host names a sandbox"))?;
    let session = by_name(e2b, &name).ok_or_else(lost)?;
    match session.state() {
        State::Running => Ok(session),
        State::Paused if e2b.reach.of(session.id()).wakes => Ok(session),
        State::Paused | State::Ended => Err(lost()),
    }
}

/// The sandbox that the header or the host names, as the client writes it.
pub(crate) fn name_in(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let by_header = header_id(headers)?.map(str::to_owned);
    Ok(by_header.or_else(|| of_host(headers).map(|(_, id)| id)))
}

/// The value of the header. Of two, a proxy in front of this server could check the other one.
pub(super) fn header_id(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    if headers.get_all(ID).iter().nth(1).is_some() {
        return Err(invalid("the E2b-Sandbox-Id header is repeated; send it once"));
    }
    Ok(word(headers, ID))
}

/// A sandbox by the id as a client writes it: perhaps with a suffix of older days.
pub(super) fn by_name(e2b: &E2b, name: &str) -> Option<Arc<Session>> {
    e2b.sandboxes.by_id(&plain_id(name)?)
}

/// In this dialect's words: 502, by which its clients know that a sandbox is gone.
pub(super) fn lost() -> ApiError {
    ApiError::new(ErrorCode::Ended, "The sandbox was not found")
}

/// Older clients send `<id>-<client id>`.
pub(super) fn plain_id(name: &str) -> Option<SandboxId> {
    SandboxId::parse(name.split('-').next().unwrap_or_default())
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
