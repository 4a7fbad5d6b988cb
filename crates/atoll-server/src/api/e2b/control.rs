//! E2B's control API: make, find, list, end, pause and resume sandboxes. By key.

use super::E2b;
use super::connect::invalid;
use super::list::{ListQuery, page};
use super::route::plain_id;
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::sandboxes::Wish;
use atoll_core::quantity::{CpuTimeMillis, WallMillis};
use atoll_core::{EndReason, Limits};
use atoll_engine::session::{Refused, Rule, Session, SessionError, State};
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State as Extract};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// The version of E2B's own service whose behaviour we show.
pub(super) const ENVD_VERSION: &str = "0.6.4";
const DEFAULT_TIMEOUT: u64 = 300;
/// What the first version of the API has as its default.
const OLD_TIMEOUT: u64 = 15;

/// What clients send. Fields that we cannot honour are refused, not ignored; others are of no meaning here.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct CreateCall {
    #[serde(rename = "templateID")]
    template_id: String,
    timeout: Option<u64>,
    metadata: Option<BTreeMap<String, String>>,
    env_vars: Option<BTreeMap<String, String>>,
    auto_pause: Option<bool>,
    // Only whether something is there: what is there is not kept.
    volume_mounts: Option<Vec<IgnoredAny>>,
    mcp: Option<IgnoredAny>,
    #[serde(rename = "allow_internet_access")]
    allow_internet_access: Option<bool>,
    network: Option<Network>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Network {
    allow_out: Option<IgnoredAny>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NetworkCall {
    #[serde(rename = "allowOut")]
    allow_out: Option<Vec<IgnoredAny>>,
    allow_internet_access: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TimeoutCall {
    timeout: Option<u64>,
}

pub(super) async fn create_v2(
    Extract(state): Extract<AppState>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    create(&state.e2b, &caller, read(&body)?, DEFAULT_TIMEOUT).await
}

/// Clients of this version ask for the internet in every call, whoever uses them; that is no wish, and `info` says what is.
pub(super) async fn create_v1(
    Extract(state): Extract<AppState>,
    caller: Caller,
    body: Bytes,
) -> Result<Response, ApiError> {
    let mut call: CreateCall = read(&body)?;
    call.allow_internet_access = None;
    create(&state.e2b, &caller, call, OLD_TIMEOUT).await
}

async fn create(e2b: &E2b, caller: &Caller, call: CreateCall, timeout: u64) -> Result<Response, ApiError> {
    refuse_what_is_not_there(&call)?;
    let timeout = call.timeout.unwrap_or(timeout);
    let wish = Wish {
        template: template(&call.template_id),
        limits: limits(e2b.limits),
        env: call.env_vars.unwrap_or_default(),
        metadata: call.metadata.unwrap_or_default(),
        rule: Rule::For(e2b.bounded(timeout)?),
        longest: None,
        pause_at_end: call.auto_pause.unwrap_or(false),
        inputs: Vec::new(),
        max_executions: None,
        once: false,
    };
    let made = e2b.sandboxes.create(caller, wish).await?;
    let mut response = (StatusCode::CREATED, Json(e2b.sandbox(&made.session))).into_response();
    if let Some(rate) = made.rate {
        rate.write(response.headers_mut());
    }
    Ok(response)
}

fn refuse_what_is_not_there(call: &CreateCall) -> Result<(), ApiError> {
    let refused = |what: &str| Err(invalid(format!("{what} cannot be had on this server")));
    if call.volume_mounts.as_ref().is_some_and(|mounts| !mounts.is_empty()) {
        return refused("a volume");
    }
    if call.mcp.is_some() {
        return refused("an MCP gateway");
    }
    // Nothing leaves a sandbox; asking for some of it, with rules, would be a promise we do not keep.
    if call.network.as_ref().is_some_and(|network| network.allow_out.is_some()) {
        return refused("access to named hosts");
    }
    if call.allow_internet_access == Some(true) {
        return refused("access to the internet (leave `allow_internet_access` out)");
    }
    Ok(())
}

/// Both of E2B's standard names mean ours.
fn template(name: &str) -> Option<String> {
    match name {
        "" | "base" | "code-interpreter-v1" => None,
        other => Some(other.to_owned()),
    }
}

/// Here a client limits its own executions: it goes away, and the code is interrupted. The sandbox's life is the bound.
fn limits(profile: Limits) -> Limits {
    Limits {
        wall: WallMillis::MAX,
        cpu_time: CpuTimeMillis::MAX,
        ..profile
    }
}

fn no_sandbox(name: &str) -> ApiError {
    let message = format!("sandbox \"{name}\" doesn't exist or you don't have access to it");
    ApiError::new(ErrorCode::NotFound, message)
}

fn read<T: for<'a> Deserialize<'a> + Default>(body: &[u8]) -> Result<T, ApiError> {
    if body.is_empty() {
        return Ok(T::default());
    }
    serde_json::from_slice(body).map_err(|error| invalid(format!("the request cannot be read: {error}")))
}

impl E2b {
    /// What create and connect answer.
    fn sandbox(&self, session: &Session) -> Value {
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
        let limits = session.sandbox.limits();
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
    fn own(&self, caller: &Caller, name: &str) -> Result<Arc<Session>, ApiError> {
        let found = plain_id(name).and_then(|id| self.sandboxes.find(caller, &id));
        found
            .filter(|session| session.state() != State::Ended)
            .ok_or_else(|| no_sandbox(name))
    }

    /// A lifetime in seconds, within what this server allows.
    fn bounded(&self, seconds: u64) -> Result<Duration, ApiError> {
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
    detail["envdAccessToken"] = json!(state.e2b.tokens.access(session.id()));
    detail["domain"] = json!(state.e2b.domain);
    detail["allowInternetAccess"] = json!(false);
    let on_timeout = if session.spec.pause_at_end { "pause" } else { "kill" };
    detail["lifecycle"] = json!({"onTimeout": on_timeout, "autoResume": false});
    Ok(Json(detail))
}

pub(super) async fn list(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
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
    session.end(EndReason::KilledByTenant);
    session.gone().await;
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
    let seconds = call.timeout.ok_or_else(|| invalid("the request has no `timeout`"))?;
    let long = state.e2b.bounded(seconds)?;
    session.set_lifetime(long).map_err(|_| no_sandbox(&name))?;
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
    let status = match session.state() {
        State::Paused => {
            resume(&session, &name).await?;
            StatusCode::CREATED
        }
        State::Running | State::Ended => StatusCode::OK,
    };
    session.extend_to(long).map_err(|_| no_sandbox(&name))?;
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
    resume(&session, &name).await?;
    session.set_lifetime(long).map_err(|_| no_sandbox(&name))?;
    Ok((StatusCode::CREATED, Json(state.e2b.sandbox(&session))).into_response())
}

async fn resume(session: &Session, name: &str) -> Result<(), ApiError> {
    match session.resume().await {
        Ok(()) => Ok(()),
        Err(error) => Err(turn_refused(&error, name)),
    }
}

pub(super) async fn pause(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    match session.pause().await {
        Ok(()) => Ok(StatusCode::NO_CONTENT),
        Err(error) => Err(turn_refused(&error, &name)),
    }
}

fn turn_refused(error: &SessionError, name: &str) -> ApiError {
    match error {
        SessionError::Refused(Refused::HasEnded(_)) => no_sandbox(name),
        SessionError::Refused(refused) => ApiError::new(ErrorCode::Conflict, refused.to_string()),
        SessionError::Engine(_) => ApiError::new(ErrorCode::Internal, "the sandbox could not do it"),
    }
}

/// One sample: what it uses now.
pub(super) async fn metrics(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    if session.state() == State::Paused {
        return Ok(Json(json!([])));
    }
    let limits = session.sandbox.limits();
    let now = Timestamp::now();
    let used = session.sandbox.usage().await?;
    Ok(Json(json!([{
        "timestamp": now,
        "timestampUnix": now.millis() / 1000,
        "cpuCount": limits.cpus.get().div_ceil(1000),
        "cpuUsedPct": used.cpu_percent,
        "memUsed": used.memory_bytes,
        "memTotal": limits.memory.get(),
        "memCache": 0,
        "diskUsed": used.disk_bytes,
        "diskTotal": limits.scratch.get(),
    }])))
}

/// What another tier can do and this one cannot.
pub(super) async fn not_in_this_tier(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    state.e2b.own(&caller, &name)?;
    let message = "snapshots and forks are not in the tier `jail`; the tiers gvisor and microvm are planned for them";
    Err(ApiError::new(ErrorCode::NotSupported, message))
}

pub(super) async fn no_snapshots(_caller: Caller) -> Json<Value> {
    Json(json!([]))
}

pub(super) async fn no_snapshot(_caller: Caller, Path(name): Path<String>) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("there is no snapshot '{name}'"))
}

/// Only saying again what holds anyhow is possible: nothing goes out.
pub(super) async fn network(
    Extract(state): Extract<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<StatusCode, ApiError> {
    state.e2b.own(&caller, &name)?;
    let call: NetworkCall = read(&body)?;
    let names_hosts = call.allow_out.is_some_and(|hosts| !hosts.is_empty());
    match names_hosts || call.allow_internet_access == Some(true) {
        true => Err(invalid("access to the network cannot be had on this server")),
        false => Ok(StatusCode::NO_CONTENT),
    }
}

pub(super) async fn template_alias(
    Extract(state): Extract<AppState>,
    _caller: Caller,
    Path(name): Path<String>,
) -> Result<Json<Value>, ApiError> {
    let known = template(&name).is_none_or(|name| state.e2b.sandboxes.has_template(&name));
    match known {
        true => Ok(Json(json!({"templateID": name, "public": true}))),
        false => Err(ApiError::new(
            ErrorCode::NotFound,
            format!("there is no template '{name}'"),
        )),
    }
}
