//! `/files`: files of a sandbox, streamed both ways, by token or by a signed address.

use super::connect::invalid;
use super::route::{ACCESS, header_id, lost, named, owner, unauthorized, word};
use super::tokens::Signed;
use super::unpack::unpacked;
use super::{E2b, user};
use crate::api::gentle::Gentle;
use crate::api::lent::lend;
use crate::api::{ApiError, AppState, ErrorCode, Meter, download, redacted};
use crate::auth::Caller;
use atoll_core::wire::agent::Entry;
use atoll_engine::session::{Session, State as Life};
use atoll_engine::{EngineError, Sandbox, Upload};
use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Query, Request, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

const METADATA: &str = "x-metadata-";

#[derive(Debug, Default, Deserialize)]
pub(super) struct FileQuery {
    path: Option<String>,
    username: Option<String>,
    signature: Option<String>,
    signature_expiration: Option<String>,
}

/// A request for files whose right to it was checked.
struct Allowed {
    session: Arc<Session>,
    query: FileQuery,
}

/// Who may read or write which file: by the sandbox's token, or by an address that was signed with it.
fn allowed(state: &AppState, headers: &HeaderMap, uri: &Uri, operation: &str) -> Result<Allowed, ApiError> {
    header_id(headers)?;
    let query = Query::<FileQuery>::try_from_uri(uri)
        .map_err(|error| invalid(error.body_text()))?
        .0;
    let session = match (named(&state.e2b, headers), &query.signature) {
        (Ok(session), _) => {
            check(&state.e2b, &session, word(headers, ACCESS), &query, operation)?;
            session
        }
        (Err(error), None) => return Err(error),
        (Err(_), Some(_)) => signed_for(&state.e2b, &query, operation)?,
    };
    user::check(query.username.as_deref())?;
    Ok(Allowed { session, query })
}

/// The check of the route's table.
pub(super) fn may_read(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    let allowed = allowed(state, &parts.headers, &parts.uri, "read")?;
    owner(state, &allowed.session)
}

pub(super) fn may_write(state: &AppState, parts: &Parts) -> Result<Caller, ApiError> {
    let allowed = allowed(state, &parts.headers, &parts.uri, "write")?;
    owner(state, &allowed.session)
}

/// A token is enough; without one the address must be signed.
fn check(
    e2b: &E2b,
    session: &Session,
    shown: Option<&str>,
    query: &FileQuery,
    operation: &str,
) -> Result<(), ApiError> {
    match (shown, &query.signature) {
        (Some(token), _) if e2b.tokens.is_access(session.id(), token) => Ok(()),
        (Some(_), None) => Err(unauthorized()),
        (None, None) => Err(denied("missing signature query parameter")),
        (_, Some(signature)) => match e2b.tokens.is_signed(session.id(), signed(query, operation), signature) {
            true => check_expiration(query),
            false => Err(denied("invalid signature")),
        },
    }
}

/// An address that names no sandbox: the one whose token has signed it.
fn signed_for(e2b: &E2b, query: &FileQuery, operation: &str) -> Result<Arc<Session>, ApiError> {
    let signature = query.signature.as_deref().unwrap_or_default();
    let asked = signed(query, operation);
    let mut live = e2b.sandboxes.live().into_iter();
    let found = live.find(|session| e2b.tokens.is_signed(session.id(), asked, signature));
    let session = found.ok_or_else(|| denied("invalid signature"))?;
    check_expiration(query)?;
    Ok(session)
}

fn signed<'a>(query: &'a FileQuery, operation: &'a str) -> Signed<'a> {
    Signed {
        path: query.path.as_deref().unwrap_or_default(),
        operation,
        user: query.username.as_deref().unwrap_or_default(),
        expiration: query.signature_expiration.as_deref(),
    }
}

fn check_expiration(query: &FileQuery) -> Result<(), ApiError> {
    let Some(text) = &query.signature_expiration else {
        return Ok(());
    };
    let until: u64 = text.parse().map_err(|_| denied("invalid signature expiration"))?;
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs();
    match until < now {
        true => Err(denied("signature is already expired")),
        false => Ok(()),
    }
}

fn denied(message: &str) -> ApiError {
    ApiError::new(ErrorCode::Unauthenticated, message)
}

pub(super) async fn download(State(state): State<AppState>, request: Request) -> Result<Response, ApiError> {
    state.e2b.wake(request.headers(), request.extensions(), None).await?;
    let allowed = allowed(&state, request.headers(), request.uri(), "read")?;
    let path = allowed.query.path.unwrap_or_default();
    let whose = owner(&state, &allowed.session)?.seen_in(request.extensions());
    state.sandboxes.check_day(&whose)?;
    let using = allowed.session.begin_long_use()?;
    let open = allowed.session.by(&whose.actor())?.read(&path).await?;
    let headers = download::headers(&open.path, open.delivered_bytes());
    let note = redacted::note(&open);
    let body = lend(&allowed.session, using, open.file, open.size);
    let answer = (headers, note, redacted::through(body, open.redaction)).into_response();
    Ok(Meter::new(&state.sandboxes, whose).answer(answer))
}

pub(super) async fn upload(State(state): State<AppState>, request: Request) -> Result<Json<Vec<Value>>, ApiError> {
    state.e2b.wake(request.headers(), request.extensions(), None).await?;
    let allowed = allowed(&state, request.headers(), request.uri(), "write")?;
    let whose = owner(&state, &allowed.session)?.seen_in(request.extensions());
    state.sandboxes.check_day(&whose)?;
    let _using = allowed.session.begin_use()?;
    let sandbox = allowed.session.by(&whose.actor())?;
    let mut moved = 0;
    let written = take(&sandbox, &allowed.query, request, &mut moved).await;
    state.sandboxes.moved(&whose, moved, 0);
    match (written, allowed.session.state()) {
        (Ok(entries), _) => Ok(Json(entries.iter().map(told).collect())),
        (Err(_), Life::Ended) => Err(lost()),
        (Err(error), _) => Err(error.in_limits(allowed.session.limits())),
    }
}

async fn take(sandbox: &Sandbox, query: &FileQuery, request: Request, moved: &mut u64) -> Result<Vec<Entry>, ApiError> {
    let request = unpacked(request)?;
    let metadata = metadata(request.headers())?;
    let kind = word(request.headers(), header::CONTENT_TYPE.as_str())
        .unwrap_or_default()
        .to_owned();
    if kind.starts_with("multipart/form-data") {
        return take_parts(sandbox, query, request, metadata, moved).await;
    }
    if !kind.starts_with("application/octet-stream") {
        let message = "the Content-Type must be multipart/form-data or application/octet-stream";
        return Err(invalid(message));
    }
    let path = query
        .path
        .as_deref()
        .ok_or_else(|| invalid("the query parameter `path` is missing"))?;
    let upload = begin(sandbox, path, metadata).await?;
    let pieces: BodyDataStream = request.into_body().into_data_stream();
    Ok(vec![fill(upload, pieces, moved).await?])
}

/// One file, whose path the query says, or several, each with its own.
async fn take_parts(
    sandbox: &Sandbox,
    query: &FileQuery,
    request: Request,
    metadata: BTreeMap<String, String>,
    moved: &mut u64,
) -> Result<Vec<Entry>, ApiError> {
    let broken = |error: axum::extract::multipart::MultipartError| invalid(error.body_text());
    let (head, body) = request.into_parts();
    let (gentle, progress) = Gentle::new(body, u64::MAX);
    let mut request = Request::from_parts(head, Body::from_stream(gentle));
    // A file is bounded by the sandbox's disk.
    DefaultBodyLimit::disable().apply(&mut request);
    let parts = Multipart::from_request(request, &()).await;
    let mut parts = parts.map_err(|error| invalid(error.body_text()))?;
    let mut written = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        if part.name() != Some("file") {
            continue;
        }
        let named = part.file_name().map(|name| name.replace("%22", "\""));
        let path = query.path.clone().or(named);
        let path =
            path.ok_or_else(|| invalid("a form part has no file name, and the query parameter `path` is missing"))?;
        let upload = begin(sandbox, &path, metadata.clone()).await?;
        let pieces = part.inspect(|_| progress.passed_on());
        written.push(fill(upload, pieces, moved).await?);
    }
    match written.is_empty() {
        true => Err(invalid("the form has no part named `file`")),
        false => Ok(written),
    }
}

async fn begin<'a>(
    sandbox: &'a Sandbox,
    path: &str,
    metadata: BTreeMap<String, String>,
) -> Result<Upload<'a>, ApiError> {
    Ok(sandbox.write(path, metadata).await?)
}

/// Moves the bytes; what breaks off leaves nothing behind.
async fn fill<E: std::fmt::Display>(
    mut upload: Upload<'_>,
    mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
    moved: &mut u64,
) -> Result<Entry, ApiError> {
    while let Some(piece) = pieces.next().await {
        let piece = match piece {
            Ok(piece) => piece,
            Err(error) => {
                upload.abort().await?;
                return Err(invalid(format!(
                    "the upload was interrupted and nothing was written: {error}"
                )));
            }
        };
        *moved += piece.len() as u64;
        let pushed: Result<(), EngineError> = upload.push(&piece).await;
        pushed?;
        if upload.is_refused() {
            break;
        }
    }
    Ok(upload.commit().await?)
}

fn told(entry: &Entry) -> Value {
    let name = entry.path.rsplit('/').next().unwrap_or_default();
    let mut told = json!({"name": name, "type": "file", "path": entry.path});
    if !entry.metadata.is_empty() {
        told["metadata"] = json!(entry.metadata);
    }
    told
}

/// `X-Metadata-<key>: <value>`; keys in lower case.
fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, ApiError> {
    let mut found = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(METADATA) {
            let value = value
                .to_str()
                .map_err(|_| invalid(format!("metadata `{key}` is not plain ASCII text")))?;
            found.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(found)
}
