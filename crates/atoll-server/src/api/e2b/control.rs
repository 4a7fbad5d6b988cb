//! E2B's control API: find, list, end, pause and resume sandboxes. By key. Making one is in `create.rs`.

use super::E2b;
use super::connect::invalid;
use super::create::{Network, template};
use super::list::{ListQuery, page};
use super::route::plain_id;
use crate::api::object::Object;
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::clock::Timestamp;
use atoll_core::EndReason;
use atoll_core::service::Scope;
use atoll_engine::EngineError;
use atoll_engine::session::{Refused, Session, SessionError, State};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State as Extract};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;

/// The version of E2B's own service whose behaviour we show.
pub(super) const ENVD_VERSION: &str = "0.6.4";
pub(super) const DEFAULT_TIMEOUT: u64 = 300;
/// What the first version of the API has as its default.
pub(super) const OLD_TIMEOUT: u64 = 15;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TimeoutCall {
    timeout: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PauseCall {
    memory: Option<bool>,
}

fn no_sandbox(name: &str) -> ApiError {
    let message = format!("sandbox \"{name}\" doesn't exist or you don't have access to it");
    ApiError::new(ErrorCode::NotFound, message)
}

pub(super) fn read<T: for<'a> Deserialize<'a> + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    let read = serde_json::from_slice::<Object<T>>(body);
    read.map(|call| call.0)
        .map_err(|error| invalid(format!("invalid request body: {error}")))
}

impl E2b {
    /// What create and connect answer.
    pub(super) fn sandbox(&self, session: &Session) -> Value {
        json!({
            "templateID": session.template,
            "sandboxID": session.id(),
            "clientID": "",
            "envdVersion": ENVD_VERSION,
            "envdAccessToken": self.tokens.access(session.id()),
            "trafficAccessToken": self.tokens.traffic(session.id()),
            "domain": self.domain,
        })
    }

    /// What info and list answer.
    pub(super) fn detail(&self, session: &Session) -> Value {
        let limits = session.limits();
        let state = if session.state() == State::Paused {
            "paused"
        } else {
            "running"
        };
        json!({
            "templateID": session.template,
            "sandboxID": session.id(),
            "clientID": "",
            "startedAt": Timestamp::from(session.created),
            "endAt": Timestamp::from(session.ends_at()),
            "envdVersion": ENVD_VERSION,
            "cpuCount": limits.cpus.get().div_ceil(1000),
            "memoryMB": limits.memory.get() >> 20,
            "diskSizeMB": limits.scratch.get() >> 20,
            "state": state,
            "metadata": session.spec.metadata,
        })
    }

    /// A sandbox of the caller that has not ended.
    pub(super) fn own(&self, caller: &Caller, name: &str) -> Result<Arc<Session>, ApiError> {
        let found = plain_id(name).and_then(|id| self.sandboxes.find(caller, &id));
        found
            .filter(|session| session.state() != State::Ended && !session.spec.sealed)
            .inspect(|session| {
                if caller.require(Scope::Run).is_ok() {
                    self.sandboxes.token_given(caller, session.id());
                }
            })
            .ok_or_else(|| no_sandbox(name))
    }

    async fn resume(&self, caller: &Caller, session: &Arc<Session>, name: &str) -> Result<(), ApiError> {
        let resumed = self.sandboxes.resume(&caller.actor(), session).await;
        resumed.map_err(|error| match error.code() {
            ErrorCode::Ended => no_sandbox(name),
            _ => error,
        })
    }

    /// A lifetime in seconds, within what this server allows.
    pub(super) fn bounded(&self, seconds: u64) -> Result<Duration, ApiError> {
        let longest = self.longest.as_secs();
        match seconds <= longest {
            true => Ok(Duration::from_secs(seconds)),
            false => Err(invalid(format!("Timeout cannot be greater than {longest} seconds"))),
        }
    }
}

pub(super) async fn info(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let mut detail = state.e2b.detail(&session);
    // The token runs code: it is for those who may.
    if caller.require(Scope::Run).is_ok() {
        detail["envdAccessToken"] = json!(state.e2b.tokens.access(session.id()));
    }
    detail["domain"] = json!(state.e2b.domain);
    detail["allowInternetAccess"] = json!(false);
    let on_timeout = if session.spec.pause_at_end { "pause" } else { "kill" };
    let reach = state.e2b.reach.of(session.id());
    detail["lifecycle"] = json!({"onTimeout": on_timeout, "autoResume": reach.wakes});
    detail["network"] = json!({"allowPublicTraffic": reach.public});
    if let Some(host) = reach.host {
        detail["network"]["maskRequestHost"] = json!(host);
    }
    Ok(Json(detail))
}

pub(super) async fn list(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Query(mut query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    if let Some(name) = query.template.take_if(|name| !name.is_empty()) {
        query.template = Some(template(&name).unwrap_or_else(|| state.e2b.sandboxes.usual_template().to_owned()));
    }
    let (sessions, next) = page(state.e2b.sandboxes.of(&caller), &query)?;
    let told: Vec<Value> = sessions.iter().map(|session| state.e2b.detail(session)).collect();
    let mut response = Json(told).into_response();
    if let Some(next) = next.and_then(|next| next.parse().ok()) {
        response.headers_mut().insert("X-Next-Token", next);
    }
    Ok(response)
}

pub(super) async fn kill(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    // Of several at once, one has ended it.
    match session.end_by(&caller.actor(), EndReason::KilledByTenant) {
        true => session.gone().await,
        false => return Err(no_sandbox(&name)),
    }
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn set_timeout(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let call: TimeoutCall = read(&body)?;
    let seconds = call.timeout.ok_or_else(|| invalid("`timeout` is missing"))?;
    let long = state.e2b.bounded(seconds)?;
    let set = session.set_lifetime(&caller.actor(), long).await;
    set.map_err(|error| turn_refused(error, &name))?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn connect(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let call: TimeoutCall = read(&body)?;
    let long = state.e2b.bounded(call.timeout.unwrap_or(DEFAULT_TIMEOUT))?;
    // Its time first: one that was paused because its time was over would be paused again.
    let extended = session.extend_to(&caller.actor(), long).await;
    extended.map_err(|error| turn_refused(error, &name))?;
    let status = match session.state() {
        State::Paused => {
            state.e2b.sandboxes.adopt(&caller, session.id());
            match state.e2b.resume(&caller, &session, &name).await {
                // Another client that connects was first.
                Err(_) if session.state() == State::Running => StatusCode::OK,
                resumed => resumed.map(|()| StatusCode::CREATED)?,
            }
        }
        State::Running | State::Ended => StatusCode::OK,
    };
    state.e2b.sandboxes.adopt(&caller, session.id());
    Ok((status, Json(state.e2b.sandbox(&session))).into_response())
}

pub(super) async fn old_resume(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<Response, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let call: TimeoutCall = read(&body)?;
    let long = state.e2b.bounded(call.timeout.unwrap_or(OLD_TIMEOUT))?;
    if session.state() == State::Paused {
        let set = session.set_lifetime(&caller.actor(), long).await;
        set.map_err(|error| turn_refused(error, &name))?;
    }
    state.e2b.resume(&caller, &session, &name).await?;
    Ok((StatusCode::CREATED, Json(state.e2b.sandbox(&session))).into_response())
}

pub(super) async fn pause(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let call: PauseCall = read(&body)?;
    if call.memory == Some(false) {
        return Err(invalid("pausing without memory is not supported by this server"));
    }
    match session.pause(&caller.actor()).await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(turn_refused(error, &name)),
    }
}

fn turn_refused(error: SessionError, name: &str) -> ApiError {
    match error {
        SessionError::Refused(Refused::HasEnded(_)) => no_sandbox(name),
        SessionError::Refused(refused) => ApiError::new(ErrorCode::Conflict, refused.to_string()),
        SessionError::Engine(error @ EngineError::Audit(_)) => error.into(),
        SessionError::Engine(_) | SessionError::Node(_) => {
            ApiError::new(ErrorCode::Internal, "the sandbox operation failed")
        }
    }
}

/// Only saying again what holds anyhow is possible: nothing goes out.
pub(super) async fn network(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    state.e2b.own(&caller, &name)?;
    let call: Network = read(&body)?;
    match call.opens() {
        true => Err(invalid("network access is not supported by this server")),
        false => Ok(StatusCode::NO_CONTENT),
    }
}

pub(super) async fn template_alias(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let sandboxes = &state.e2b.sandboxes;
    let is_snapshot = sandboxes.find_snapshot(&caller, &name).is_some();
    let known = is_snapshot || template(&name).is_none_or(|name| sandboxes.has_template(&name));
    match known {
        true => Ok(Json(json!({"templateID": name, "public": true}))),
        false => Err(ApiError::new(
            ErrorCode::NotFound,
            format!("template '{name}' not found"),
        )),
    }
}
