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
    /// In place of the key's own tenant; `local` is who started `atoll` on the machine, `system` is Atoll itself
    tenant: Option<String>,
    /// Entries from this time on, as RFC 3339
    since: Option<String>,
    /// Entries before this time
    until: Option<String>,
    /// The `next` of the page before
    before: Option<u64>,
    /// At most 100, which is the default
    #[param(minimum = 1, maximum = 100)]
    limit: Option<u32>,
}

/// Entries, newest first.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct AuditList {
    /// As `atoll audit export` prints them
    #[schema(value_type = Vec<Object>)]
    entries: Vec<View>,
    /// Where the next page begins; `null` after the last entry
    next: Option<u64>,
}

/// Entries of the audit log, newest first
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
            "limit is out of range: asked {most}, allowed 1 to {MAX_PAGE}"
        )));
    }
    let asked = Asked {
        tenant: Some(caller.tenant.to_string()),
        since: query.since.as_deref().map(moment).transpose()?,
        until: query.until.as_deref().map(moment).transpose()?,
        after: None,
        before: Some(query.before.unwrap_or(u64::MAX)),
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
    let bad = || ApiError::invalid("not a time; write it like 2026-01-31T12:00:00Z");
    Moment::parse(text).ok_or_else(bad)
}

fn read(dir: PathBuf, asked: &Asked, most: usize) -> Result<Vec<View>, AuditError> {
    let mut index = Index::open(&dir)?;
    index.update()?;
    index.list(asked, most)
}
