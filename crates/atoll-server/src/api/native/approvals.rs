//! `/v1/approvals`: what policies ask about, and the answers of those who may give them.

use super::Refusals;
use super::wire::{ApprovalList, ApprovalView, ApproveRequest, DenyRequest};
use crate::api::{ApiError, AppState, Json, Path, Query};
use crate::approvals::Decision;
use crate::auth::Caller;
use crate::store::ApprovalPage;
use atoll_core::ApprovalId;
use axum::extract::State;
use serde::Deserialize;
use utoipa::IntoParams;

const MAX_PAGE: u32 = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct ApprovalQuery {
    /// `pending`, `approved`, `denied`, `expired`, `cancelled` or `revoked` [default: all]
    status: Option<String>,
    /// Tenant to act for instead of the key's own; requires the `admin` scope
    tenant: Option<String>,
    /// The `next` value of the previous page
    after: Option<String>,
    /// Page size [1 to 100, default: 100]
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// Whose approval it is.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct OwnerQuery {
    /// Tenant to act for instead of the key's own; requires the `admin` scope
    tenant: Option<String>,
}

/// List the approvals of the caller's tenant, newest first, without code
#[utoipa::path(
    get, path = "/v1/approvals", tag = "approvals", security(("key" = [])), params(ApprovalQuery),
    responses((status = 200, body = ApprovalList), Refusals)
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<ApprovalQuery>,
) -> Result<Json<ApprovalList>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    let limit = query.limit.unwrap_or(MAX_PAGE);
    if !(1..=MAX_PAGE).contains(&limit) {
        return Err(ApiError::invalid(format!(
            "`limit` is out of range: requested {limit}, allowed 1 to {MAX_PAGE}"
        )));
    }
    let status = query.status.as_deref().filter(|status| !status.is_empty());
    let page = ApprovalPage {
        status: status.map(str::parse).transpose()?,
        after: query.after.as_deref().map(parse).transpose()?,
        limit,
    };
    let found = state.store.list_approvals(&caller.tenant, page).await?;
    let approvals: Vec<ApprovalView> = found
        .into_iter()
        .map(|one| ApprovalView::from(one).in_short())
        .collect();
    let full = approvals.len() == limit as usize;
    let next = approvals.last().filter(|_| full).map(|last| last.id.clone());
    Ok(Json(ApprovalList { approvals, next }))
}

/// Get an approval with its code
#[utoipa::path(
    get, path = "/v1/approvals/{id}", tag = "approvals", security(("key" = [])),
    params(("id" = String, Path, description = "Approval ID"), OwnerQuery),
    responses((status = 200, body = ApprovalView), Refusals)
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<OwnerQuery>,
) -> Result<Json<ApprovalView>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    let found = state.approvals.find(&caller, &parse(&id)?).await?;
    Ok(Json(found.into()))
}

/// Approve a request; the key that made the request cannot approve it
#[utoipa::path(
    post, path = "/v1/approvals/{id}/approve", tag = "approvals", security(("key" = [])),
    params(("id" = String, Path, description = "Approval ID"), OwnerQuery), request_body = ApproveRequest,
    responses((status = 200, body = ApprovalView), Refusals)
)]
pub(crate) async fn approve(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<OwnerQuery>,
    Json(call): Json<ApproveRequest>,
) -> Result<Json<ApprovalView>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    let decision = Decision::Approve(call.scope);
    let answered = state.approvals.answer(&caller, &parse(&id)?, decision).await?;
    Ok(Json(answered.into()))
}

/// Deny a request; the key that made the request cannot deny it
#[utoipa::path(
    post, path = "/v1/approvals/{id}/deny", tag = "approvals", security(("key" = [])),
    params(("id" = String, Path, description = "Approval ID"), OwnerQuery), request_body = DenyRequest,
    responses((status = 200, body = ApprovalView), Refusals)
)]
pub(crate) async fn deny(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<OwnerQuery>,
    Json(call): Json<DenyRequest>,
) -> Result<Json<ApprovalView>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    let decision = Decision::Deny(call.reason);
    let answered = state.approvals.answer(&caller, &parse(&id)?, decision).await?;
    Ok(Json(answered.into()))
}

/// Revoke an approval with the scope `session` or `digest`
#[utoipa::path(
    post, path = "/v1/approvals/{id}/revoke", tag = "approvals", security(("key" = [])),
    params(("id" = String, Path, description = "Approval ID"), OwnerQuery),
    responses((status = 200, body = ApprovalView), Refusals)
)]
pub(crate) async fn revoke(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<OwnerQuery>,
) -> Result<Json<ApprovalView>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    let revoked = state.approvals.revoke(&caller, &parse(&id)?).await?;
    Ok(Json(revoked.into()))
}

fn parse(id: &str) -> Result<ApprovalId, ApiError> {
    ApprovalId::parse(id).ok_or_else(|| ApiError::not_found("approval"))
}
