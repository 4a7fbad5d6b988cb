//! Snapshots and forks of sandboxes, in the tiers that have them. Others answer `not_in_tier` and name one that does.

use super::Refusals;
use super::find::live;
use super::wire::{
    ForkAnswer, ForkRequest, RollbackRequest, SandboxAnswer, SnapshotAnswer, SnapshotList, SnapshotRequest,
};
use crate::api::{ApiError, AppState, Json, Path};
use crate::auth::Caller;
use atoll_core::EndReason;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Take a snapshot of a sandbox, with its files and the state of its contexts; the sandbox keeps running
///
/// Waits for running executions. JavaScript contexts are restarted in sandboxes created from the snapshot. A sandbox with
/// secrets or inputs cannot be saved.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/snapshots", tag = "snapshots", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = SnapshotRequest,
    responses((status = 201, body = SnapshotAnswer), Refusals)
)]
pub(crate) async fn create(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<SnapshotRequest>,
) -> Result<Response, ApiError> {
    state.sandboxes.check_day(&caller)?;
    let session = live(&state, &caller, &id).await?;
    let snapshot = state.sandboxes.save(&caller, &session, call.name).await?;
    Ok((StatusCode::CREATED, Json(SnapshotAnswer::from(&*snapshot))).into_response())
}

/// Fork a sandbox: create new sandboxes from its current state; the original keeps running
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/fork", tag = "snapshots", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = ForkRequest,
    responses((status = 201, body = ForkAnswer), Refusals)
)]
pub(crate) async fn make_forks(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<ForkRequest>,
) -> Result<Response, ApiError> {
    state.sandboxes.check_day(&caller)?;
    let session = live(&state, &caller, &id).await?;
    let forks = state
        .sandboxes
        .make_forks(&caller, &session, call.count, |wish| wish)
        .await?;
    let (mut made, mut refused) = (Vec::new(), None);
    for fork in forks {
        match fork {
            Ok(fork) => made.push(fork),
            Err(error) => refused = Some(error),
        }
    }
    // All or none: who asks for three cannot use two.
    if let Some(error) = refused {
        made.iter().for_each(|fork| fork.session.end(EndReason::Closed));
        return Err(error);
    }
    let sandboxes = made.iter().map(|fork| (&*fork.session).into()).collect();
    Ok((StatusCode::CREATED, Json(ForkAnswer { sandboxes })).into_response())
}

/// Roll a sandbox back to one of its snapshots: contexts, files and programs, under the same ID
///
/// Running executions end. The lifetime of the sandbox is not reset. If the snapshot cannot be used, the sandbox is unchanged.
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/rollback", tag = "snapshots", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = RollbackRequest,
    responses((status = 200, body = SandboxAnswer), Refusals)
)]
pub(crate) async fn roll_back(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<RollbackRequest>,
) -> Result<Json<SandboxAnswer>, ApiError> {
    state.sandboxes.check_day(&caller)?;
    let session = live(&state, &caller, &id).await?;
    state.sandboxes.roll_back(&caller, &session, &call.snapshot).await?;
    Ok(Json((&*session).into()))
}

/// List the snapshots of the caller's tenant, newest first
#[utoipa::path(
    get, path = "/v1/snapshots", tag = "snapshots", security(("key" = [])),
    responses((status = 200, body = SnapshotList), Refusals)
)]
pub(crate) async fn list(State(state): State<AppState>, caller: Caller) -> Json<SnapshotList> {
    let snapshots = state.sandboxes.snapshots(&caller);
    Json(SnapshotList {
        snapshots: snapshots.iter().map(|one| (&**one).into()).collect(),
    })
}

/// Delete a snapshot; sandboxes created from it keep running
#[utoipa::path(
    delete, path = "/v1/snapshots/{id}", tag = "snapshots", security(("key" = [])),
    params(("id" = String, Path, description = "Snapshot ID")),
    responses((status = 204), Refusals)
)]
pub(crate) async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    match state.sandboxes.remove_snapshot(&caller, &id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(ApiError::not_found("snapshot")),
    }
}
