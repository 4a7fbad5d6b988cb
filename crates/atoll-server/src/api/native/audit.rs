//! `/v1/audit`: entries of the audit log, for operators. Whether the log is whole, only `atoll audit verify` says.

use super::Refusals;
use crate::api::{ApiError, AppState, Json, Query};
use crate::auth::Caller;
use atoll_engine::audit::{AuditError, Index, Moment, Query as Asked, View};
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use utoipa::{IntoParams, ToSchema};

const MAX_PAGE: u32 = 100;

#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub(crate) struct AuditQuery {
    /// Tenant instead of the key's own; `local` is the user of the `atoll` command on the host, `system` is Atoll itself
    tenant: Option<String>,
    /// Only entries at or after this time (RFC 3339)
    since: Option<String>,
    /// Only entries before this time (RFC 3339)
    until: Option<String>,
    /// The `next` value of the previous page
    before: Option<u64>,
    /// Page size [1 to 100, default: 100]
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// One page of audit log entries, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditList {
    /// In the format of `atoll audit export`, without recorded output
    #[schema(value_type = Vec<Object>)]
    entries: Vec<View>,
    /// Pass as `before` to get the next page; `null` on the last page
    next: Option<u64>,
}

/// List audit log entries, newest first
#[utoipa::path(
    get, path = "/v1/audit", tag = "audit", security(("key" = [])), params(AuditQuery),
    responses((status = 200, body = AuditList), Refusals)
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    Query(query): Query<AuditQuery>,
) -> Result<Json<AuditList>, ApiError> {
    let caller = caller.within(query.tenant.as_deref())?;
    let most = query.limit.unwrap_or(MAX_PAGE);
    if !(1..=MAX_PAGE).contains(&most) {
        return Err(ApiError::invalid(format!(
            "`limit` is out of range: requested {most}, allowed 1 to {MAX_PAGE}"
        )));
    }
    let asked = Asked {
        tenant: Some(caller.tenant.to_string()),
        since: query.since.as_deref().map(moment).transpose()?,
        until: query.until.as_deref().map(moment).transpose()?,
        before: Some(query.before.unwrap_or(u64::MAX)),
        ..Asked::default()
    };
    let Some(dir) = state.sandboxes.node().audit_dir() else {
        return Err(ApiError::not_found("audit log"));
    };
    // Files are read on a thread for that.
    let read = tokio::task::spawn_blocking(move || read(dir, &asked, most as usize)).await;
    let entries = read.map_err(|_| ApiError::internal())?;
    let entries = entries.map_err(|error| ApiError::caused_by(&error))?;
    let next = entries
        .last()
        .filter(|_| entries.len() == most as usize)
        .map(|last| last.id);
    Ok(Json(AuditList { entries, next }))
}

fn moment(text: &str) -> Result<Moment, ApiError> {
    let bad = || ApiError::invalid("invalid time: expected RFC 3339, like 2026-01-31T12:00:00Z");
    Moment::parse(text).ok_or_else(bad)
}

fn read(dir: PathBuf, asked: &Asked, most: usize) -> Result<Vec<View>, AuditError> {
    let mut index = Index::open(&dir)?;
    index.update()?;
    let mut entries = index.list(asked, most)?;
    // Of a whole page it could be more than a request may take.
    for entry in &mut entries {
        entry.output = None;
    }
    Ok(entries)
}
