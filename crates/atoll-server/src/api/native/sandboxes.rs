//! `/v1/sandboxes`: make, list, show, extend, pause, resume and end sandboxes that live on.

use super::body::{Call, read};
use super::find::{Found, any, live};
use super::wire::{ExtendRequest, SandboxAnswer, SandboxForm, SandboxList, SandboxRequest};
use super::wish::{Place, checked_env};
use super::{Refusals, pages, policies};
use crate::api::{ApiError, AppState, Json, Path, Query};
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_core::EndReason;
use atoll_core::service::LifetimeMillis;
use atoll_engine::session::Rule;
use atoll_engine::snapshot::Snapshot;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use utoipa::IntoParams;

/// Create a sandbox
#[utoipa::path(
    post, path = "/v1/sandboxes", tag = "sandboxes", security(("key" = [])),
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Repeats of the request with the same key get the same answer for 24 hours")
    ),
    request_body(content((SandboxRequest = "application/json"), (SandboxForm = "multipart/form-data"))),
    responses((status = 201, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    request: Request,
) -> Result<Response, ApiError> {
    state.sandboxes.check_day(&caller)?;
    let Call {
        call, inputs, folder, ..
    } = read::<SandboxRequest>(&state, &caller, request).await?;
    let snapshot = snapshot(&state, &caller, &call, inputs.is_empty())?;
    let place = Place::of(&state, call.tier, call.template, call.profile, call.limits)?;
    let idle = lifetime(&state, call.idle_ms)?;
    let wish = Wish {
        inputs,
        policy: policies::asked(&state, call.policy.as_ref())?,
        metadata: call.metadata,
        rule: Rule::Idle(idle.unwrap_or(state.settings.lifetime.idle.duration())),
        longest: lifetime(&state, call.lifetime_ms)?,
        pause_at_end: call.pause_when_idle,
        max_executions: checked_count(call.max_executions)?,
        snapshot,
        ..place.wish(&state, checked_env(call.env, call.secrets).await?)
    };
    let made = state.sandboxes.create(&caller, wish).await?;
    // The sandbox has them now.
    drop(folder);
    let answer = (StatusCode::CREATED, Json(SandboxAnswer::from(&*made.session))).into_response();
    Ok(match made.rate {
        Some(rate) => (rate, answer).into_response(),
        None => answer,
    })
}

/// What it goes on from, if it does. What is fixed by then cannot be asked for.
fn snapshot(
    state: &AppState,
    caller: &Caller,
    call: &SandboxRequest,
    no_inputs: bool,
) -> Result<Option<Arc<Snapshot>>, ApiError> {
    let Some(name) = &call.snapshot else { return Ok(None) };
    let free = call.tier.is_none() && call.template.is_none() && call.profile.is_none() && call.limits.is_none();
    if !free || !no_inputs {
        let message = "`tier`, `template`, `profile`, `limits` and `inputs` cannot be combined with `snapshot`";
        return Err(ApiError::invalid(message));
    }
    let found = state.sandboxes.find_snapshot(caller, name);
    found.map(Some).ok_or_else(|| ApiError::not_found("snapshot"))
}

fn checked_count(count: Option<u64>) -> Result<Option<u64>, ApiError> {
    match count {
        Some(0) => Err(ApiError::invalid(
            "`max_executions` is out of range: requested 0, minimum 1",
        )),
        count => Ok(count),
    }
}

/// A time to live, within what this server allows.
fn lifetime(state: &AppState, asked: Option<u64>) -> Result<Option<Duration>, ApiError> {
    let Some(asked) = asked else { return Ok(None) };
    let (asked, most) = (LifetimeMillis::try_from(asked)?, state.settings.lifetime.hard);
    match asked <= most {
        true => Ok(Some(asked.duration())),
        false => Err(ApiError::invalid(format!(
            "lifetime too long: requested {asked}, this server allows at most {most}"
        ))),
    }
}

/// List the sandboxes of the caller's tenant, newest first; ended sandboxes are listed for 24 hours
#[utoipa::path(
    get, path = "/v1/sandboxes", tag = "sandboxes", security(("key" = [])), params(pages::ListQuery),
    responses((status = 200, body = SandboxList), Refusals)
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<pages::ListQuery>,
) -> Result<Json<SandboxList>, ApiError> {
    pages::page(&state, &caller, &query).await.map(Json)
}

/// Whose sandbox it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct TenantQuery {
    /// Tenant to act for instead of the key's own; requires the `admin` scope
    tenant: Option<String>,
}

/// Get a sandbox; an ended sandbox is available for 24 hours, with its end reason
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), TenantQuery),
    responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<TenantQuery>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    Ok(Json(match any(&state, &caller, &id).await? {
        Found::Live(session) => (&*session).into(),
        Found::Past(past) => past.into(),
    }))
}

/// End a sandbox; no effect if it has already ended
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), TenantQuery),
    responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn end(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<TenantQuery>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    let owner = caller.within(query.tenant.as_deref())?;
    let reason = match owner.tenant == caller.tenant {
        true => EndReason::KilledByTenant,
        false => EndReason::KilledByOperator,
    };
    Ok(Json(match any(&state, &owner, &id).await? {
        Found::Live(session) => {
            session.end_by(&caller.actor(), reason);
            session.gone().await;
            (&*session).into()
        }
        Found::Past(past) => past.into(),
    }))
}

/// Extend the lifetime of a sandbox
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/extend", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = ExtendRequest,
    responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn extend(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<ExtendRequest>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    if let Some(long) = lifetime(&state, Some(call.ms))? {
        session.extend_to(&caller.actor(), long).await?;
    }
    Ok(Json((&*session).into()))
}

/// Pause a sandbox: stop its processes and timers, and keep its state
///
/// `paused_to` is `disk` if the tier supports snapshots, nothing is running in the sandbox, and it has neither secrets nor
/// inputs. A sandbox paused to disk uses no memory, does not count as live, and survives a server restart. Otherwise
/// `paused_to` is `memory`.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/pause", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")),
    responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn pause(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    session.pause(&caller.actor()).await?;
    Ok(Json((&*session).into()))
}

/// Resume a paused sandbox
///
/// A sandbox that was paused to disk counts as live again, so quotas and the server's sandbox limit apply.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/resume", tag = "sandboxes", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")),
    responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn resume(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    state.sandboxes.resume(&caller.actor(), &session).await?;
    Ok(Json((&*session).into()))
}
