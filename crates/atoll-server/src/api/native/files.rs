//! Files of a sandbox, streamed both ways. The agent inside does the work; paths are its own.

use super::Refusals;
use super::find::{blame, live};
use super::sheet;
use super::wire::{DirRequest, FileEntry, MoveRequest};
use crate::api::extract::body_error;
use crate::api::lent::lend;
use crate::api::{ApiError, AppState, ErrorCode, Json, Meter, Path, Query, download, redacted};
use crate::auth::Caller;
use atoll_engine::Upload;
use atoll_engine::session::Session;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Deserialize;
use std::collections::BTreeMap;
use utoipa::IntoParams;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct PathQuery {
    /// Path in the sandbox; relative paths start at `/home/user`
    #[param(example = "/home/user/data.csv")]
    path: String,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ReadQuery {
    /// Path in the sandbox; relative paths start at `/home/user`
    #[param(example = "/home/user/data.csv")]
    path: String,
    /// Escape cells of a CSV or TSV file that a spreadsheet would interpret as formulas
    #[serde(default)]
    spreadsheet: bool,
}

/// Read a file
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), ReadQuery),
    responses((status = 200, body = Vec<u8>, content_type = "application/octet-stream"), Refusals)
)]
pub(crate) async fn read(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<ReadQuery>,
) -> Result<Response, ApiError> {
    let session = live(&state, &caller, &id).await?;
    state.sandboxes.check_day(&caller)?;
    if query.spreadsheet {
        sheet::check_name(&query.path)?;
    }
    let using = session.begin_long_use()?;
    let open = session
        .by(&caller.actor())?
        .read(&query.path)
        .await
        .map_err(blame(&session))?;
    let headers = download::headers(&open.path, open.delivered_bytes());
    let note = redacted::note(&open);
    let answer = match query.spreadsheet {
        false => {
            let body = lend(&session, using, open.file, open.size);
            (headers, note, redacted::through(body, open.redaction)).into_response()
        }
        true => {
            let file = sheet::check_text(open.file).await?;
            let body = redacted::through(lend(&session, using, file, open.size), open.redaction);
            let mut answer = (headers, note, sheet::through(body)).into_response();
            // Nobody knows yet.
            answer.headers_mut().remove(header::CONTENT_LENGTH);
            answer
        }
    };
    Ok(Meter::new(&state.sandboxes, caller).answer(answer))
}

/// Write a file atomically
#[utoipa::path(
    put, path = "/v1/sandboxes/{id}/files", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), PathQuery),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, body = FileEntry), Refusals)
)]
pub(crate) async fn write(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<PathQuery>,
    request: Request,
) -> Result<(StatusCode, Json<FileEntry>), ApiError> {
    let session = live(&state, &caller, &id).await?;
    state.sandboxes.check_day(&caller)?;
    if request
        .headers()
        .get(header::CONTENT_ENCODING)
        .is_some_and(|packed| packed != "identity")
    {
        let message = "Content-Encoding is not supported";
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message).hint("send the file uncompressed"));
    }
    let kind = request.headers().get(header::CONTENT_TYPE);
    if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"multipart/")) {
        let message = "multipart forms are not supported here; the body must be the file itself";
        return Err(ApiError::new(ErrorCode::UnsupportedMediaType, message).hint("with curl, use --data-binary @FILE"));
    }
    let _using = session.begin_use()?;
    let sandbox = session.by(&caller.actor())?;
    let upload = sandbox.write(&query.path, BTreeMap::new()).await;
    let upload = upload.map_err(blame(&session))?;
    let mut taken = 0;
    let written = fill(&state, &session, upload, request.into_body(), &mut taken).await;
    state.sandboxes.moved(&caller, taken, 0);
    Ok((StatusCode::CREATED, Json(written?)))
}

/// Moves the bytes; what breaks off leaves nothing behind.
async fn fill(
    state: &AppState,
    session: &Session,
    mut upload: Upload<'_>,
    body: Body,
    taken: &mut u64,
) -> Result<FileEntry, ApiError> {
    let mut pieces = body.into_data_stream();
    while let Some(piece) = pieces.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                upload.abort().await.map_err(blame(session))?;
                return Err(body_error(&error, state));
            }
        };
        *taken += piece.len() as u64;
        upload.push(&piece).await.map_err(blame(session))?;
        if upload.is_refused() {
            break;
        }
    }
    Ok(upload.commit().await.map_err(blame(session))?.into())
}

/// Delete a file, or a directory with its contents
#[utoipa::path(
    delete, path = "/v1/sandboxes/{id}/files", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), PathQuery),
    responses((status = 204), Refusals)
)]
pub(crate) async fn remove(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<PathQuery>,
) -> Result<StatusCode, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let _using = session.begin_use()?;
    let sandbox = session.by(&caller.actor())?;
    sandbox.remove(&query.path).await.map_err(blame(&session))?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get the metadata of a file or directory
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files/stat", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), PathQuery),
    responses((status = 200, body = FileEntry), Refusals)
)]
pub(crate) async fn stat(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Query(query): Query<PathQuery>,
) -> Result<Json<FileEntry>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let _using = session.begin_use()?;
    let entry = session
        .by(&caller.actor())?
        .stat(&query.path)
        .await
        .map_err(blame(&session))?;
    Ok(Json(entry.into()))
}

/// Move a file or directory
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/files/move", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = MoveRequest,
    responses((status = 200, body = FileEntry), Refusals)
)]
pub(crate) async fn rename(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<MoveRequest>,
) -> Result<Json<FileEntry>, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let _using = session.begin_use()?;
    let moved = session
        .by(&caller.actor())?
        .rename(&call.from, &call.to)
        .await
        .map_err(blame(&session))?;
    Ok(Json(moved.into()))
}

/// Create a directory and its parents
#[utoipa::path(
    post, path = "/v1/sandboxes/{id}/files/directory", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID")), request_body = DirRequest,
    responses((status = 201, body = FileEntry), Refusals)
)]
pub(crate) async fn make_dir(
    State(state): State<AppState>,
    caller: Caller,
    Path(id): Path<String>,
    Json(call): Json<DirRequest>,
) -> Result<(StatusCode, Json<FileEntry>), ApiError> {
    let session = live(&state, &caller, &id).await?;
    let _using = session.begin_use()?;
    let sandbox = session.by(&caller.actor())?;
    let made = sandbox.make_dir(&call.path).await.map_err(blame(&session))?;
    Ok((StatusCode::CREATED, Json(made.into())))
}
