//! Files of a dry run that somebody has approved.

use super::Refusals;
use crate::api::{ApiError, AppState, Meter, Path, Query, download};
use crate::approvals::HeldFiles;
use crate::auth::Caller;
use atoll_core::ApprovalId;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Deserialize;
use std::io;
use std::sync::Arc;
use tokio::io::AsyncReadExt;
use utoipa::IntoParams;

const PIECE: u64 = 1 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReleasedQuery {
    /// Path as listed in the dry-run response
    #[param(example = "report.csv")]
    path: String,
}

/// A file that is being read, and what keeps it there.
struct Reading {
    file: tokio::fs::File,
    left: u64,
    _held: Arc<HeldFiles>,
}

/// Download a file of a dry run after approval
#[utoipa::path(
    get, path = "/v1/approvals/{id}/files", tag = "approvals", security(("key" = [])),
    params(("id" = String, Path, description = "Approval ID"), ReleasedQuery),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), Refusals)
)]
pub(crate) async fn read(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ReleasedQuery>,
) -> Result<Response, ApiError> {
    let id = ApprovalId::parse(&id).ok_or_else(|| ApiError::not_found("approval"))?;
    state.sandboxes.check_day(&caller)?;
    let (held, place) = state.approvals.released(&caller, &id, &query.path).await?;
    let file = tokio::fs::File::open(place)
        .await
        .map_err(|error| ApiError::caused_by(&error))?;
    let size = file
        .metadata()
        .await
        .map_err(|error| ApiError::caused_by(&error))?
        .len();
    let headers = download::headers(&query.path, size);
    let reading = Reading {
        file,
        left: size,
        _held: held,
    };
    let body = Body::from_stream(stream::unfold(reading, async |reading| reading.next().await));
    Ok(Meter::new(&state.sandboxes, caller).answer((headers, body).into_response()))
}

impl Reading {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let length = usize::try_from(PIECE.min(self.left))
            .ok()
            .filter(|length| *length > 0)?;
        let mut piece = vec![0; length];
        let read = self.file.read_exact(&mut piece).await;
        self.left = match read {
            Ok(_) => self.left - length as u64,
            Err(_) => 0,
        };
        Some((read.map(|_| piece.into()), self))
    }
}
