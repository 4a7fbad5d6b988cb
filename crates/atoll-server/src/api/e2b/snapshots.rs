//! Snapshots and forks as E2B's clients ask for them. A snapshot's id stands where the name of a template does.

use super::connect::invalid;
use super::control::read;
use super::tier;
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_engine::session::Rule;
use atoll_engine::snapshot::Snapshot;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SnapshotCall {
    name: Option<String>,
    memory: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ForkCall {
    timeout: Option<u64>,
    count: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ListQuery {
    #[serde(rename = "sandboxID")]
    sandbox_id: Option<String>,
    name: Option<String>,
    limit: Option<usize>,
}

pub(super) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let call: SnapshotCall = read(&body)?;
    if call.memory == Some(false) {
        return Err(invalid("snapshots without memory are not supported by this server"));
    }
    let saved = state.sandboxes.save(&caller, &session, call.name).await;
    let snapshot = saved.map_err(tier::explain)?;
    Ok((StatusCode::CREATED, Json(told(&snapshot))))
}

/// At most as many as a tenant may have, so there is one page.
pub(super) async fn list(State(state): State<AppState>, caller: Caller, Query(query): Query<ListQuery>) -> Json<Value> {
    let all = state.sandboxes.snapshots(&caller);
    let of_sandbox = |one: &Snapshot| query.sandbox_id.as_deref().is_none_or(|id| one.sandbox.as_str() == id);
    let of_name = |one: &Snapshot| query.name.is_none() || one.name == query.name;
    let found = all.iter().filter(|one| of_sandbox(one) && of_name(one));
    let told: Vec<Value> = found
        .take(query.limit.unwrap_or(usize::MAX))
        .map(|one| told(one))
        .collect();
    Json(told.into())
}

/// The only templates that can be removed this way.
pub(super) async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<StatusCode, ApiError> {
    match state.sandboxes.remove_snapshot(&caller, &name).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::new(
            ErrorCode::NotFound,
            format!("snapshot '{name}' not found"),
        )),
    }
}

/// One answer for each: a sandbox, or why there is none.
pub(super) async fn make_forks(
    State(state): State<AppState>,
    caller: Caller,
    Path(name): Path<String>,
    body: Bytes,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let session = state.e2b.own(&caller, &name)?;
    let call: ForkCall = read(&body)?;
    let rule = match call.timeout {
        Some(seconds) => Rule::For(state.e2b.bounded(seconds)?),
        None => session.spec.rule,
    };
    let change = move |wish: Wish| Wish { rule, ..wish };
    let forks = state
        .sandboxes
        .make_forks(&caller, &session, call.count, change)
        .await
        .map_err(tier::explain)?;
    let reach = state.e2b.reach.of(session.id());
    let mut told = Vec::new();
    for fork in forks {
        told.push(match fork {
            Ok(made) => {
                let known = |id: &atoll_core::SandboxId| state.sandboxes.by_id(id).is_some();
                state.e2b.reach.set(made.session.id(), reach.clone(), known);
                json!({"sandbox": state.e2b.sandbox(&made.session)})
            }
            Err(error) => {
                json!({"error": {"code": error.code().status().as_u16(), "message": error.message()}})
            }
        });
    }
    Ok((StatusCode::CREATED, Json(told.into())))
}

fn told(snapshot: &Snapshot) -> Value {
    json!({"snapshotID": snapshot.id, "names": snapshot.name.as_slice()})
}
