//! `/files`: files of a sandbox, streamed both ways, by token or by a signed address.

use super::E2b;
use super::error::{E2bError, lost};
use super::route::{ACCESS, Inside, Lost, Unchecked, unauthorized, word};
use super::tokens::Signed;
use atoll_core::wire::agent::Entry;
use atoll_engine::session::{Refused, Session, State};
use atoll_engine::{EngineError, Upload};
use axum::Json;
use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Multipart, Query, Request};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

/// What is read or written at once: large pieces make few turns.
const PIECE: usize = 1 << 20;
const METADATA: &str = "x-metadata-";
/// The one user of every sandbox.
const USER: &str = "user";

#[derive(Debug, Default, Deserialize)]
pub(super) struct FileQuery {
    path: Option<String>,
    username: Option<String>,
    signature: Option<String>,
    signature_expiration: Option<String>,
}

impl From<Refused> for E2bError {
    fn from(_: Refused) -> Self {
        Self::new(StatusCode::BAD_GATEWAY, "The sandbox was not found")
    }
}

/// A request for files whose right to it was checked.
struct Allowed {
    session: Arc<Session>,
    query: FileQuery,
}

async fn allowed(e2b: &Arc<E2b>, request: Request, operation: &str) -> Result<(Allowed, Request), Response> {
    let (mut parts, body) = request.into_parts();
    let query = Query::<FileQuery>::try_from_uri(&parts.uri)
        .map_err(|error| E2bError::bad(error.to_string()).into_response())?
        .0;
    let named = Unchecked::from_request_parts(&mut parts, e2b).await;
    let session = match (named, &query.signature) {
        (Ok(Unchecked(Inside { session })), _) => {
            let shown = word(&parts.headers, ACCESS);
            check(e2b, &session, shown, &query, operation).map_err(IntoResponse::into_response)?;
            session
        }
        (Err(Lost(answer)), None) => return Err(answer),
        (Err(_), Some(_)) => signed_for(e2b, &query, operation).map_err(IntoResponse::into_response)?,
    };
    check_user(&query).map_err(IntoResponse::into_response)?;
    let request = Request::from_parts(parts, body);
    Ok((Allowed { session, query }, request))
}

/// A token is enough; without one the address must be signed.
fn check(
    e2b: &E2b,
    session: &Session,
    shown: Option<&str>,
    query: &FileQuery,
    operation: &str,
) -> Result<(), E2bError> {
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
fn signed_for(e2b: &E2b, query: &FileQuery, operation: &str) -> Result<Arc<Session>, E2bError> {
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

fn check_expiration(query: &FileQuery) -> Result<(), E2bError> {
    let Some(text) = &query.signature_expiration else { return Ok(()) };
    let until: u64 = text.parse().map_err(|_| denied("invalid signature expiration"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    match until < now {
        true => Err(denied("signature is already expired")),
        false => Ok(()),
    }
}

fn check_user(query: &FileQuery) -> Result<(), E2bError> {
    match query.username.as_deref() {
        None | Some("" | USER) => Ok(()),
        Some(other) => Err(denied(&format!("there is no user '{other}' in the sandbox; the one user is '{USER}'"))),
    }
}

fn denied(message: &str) -> E2bError {
    E2bError::new(StatusCode::UNAUTHORIZED, message)
}

pub(super) async fn download(
    axum::extract::State(e2b): axum::extract::State<Arc<E2b>>,
    request: Request,
) -> Result<Response, Response> {
    let (allowed, _) = allowed(&e2b, request, "read").await?;
    let path = allowed.query.path.unwrap_or_default();
    let _using = allowed.session.begin_use().map_err(|_| lost(allowed.session.id().as_str()))?;
    let open = allowed.session.sandbox.read(&path).await.map_err(|e| E2bError::from(e).into_response())?;
    let size = open.size;
    let mut file = tokio::fs::File::from_std(open.file);
    file.set_max_buf_size(PIECE);
    // Not more than was promised, if it grows meanwhile.
    let body = Body::from_stream(ReaderStream::with_capacity(file.take(size), PIECE));
    let name = open.path.rsplit('/').next().unwrap_or_default();
    let disposition = format!("inline; filename*=utf-8''{}", crate::api::percent(name));
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_LENGTH, size.to_string()),
        (header::CONTENT_DISPOSITION, disposition),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, body).into_response())
}

pub(super) async fn upload(
    axum::extract::State(e2b): axum::extract::State<Arc<E2b>>,
    request: Request,
) -> Result<Json<Vec<Value>>, Response> {
    let (allowed, request) = allowed(&e2b, request, "write").await?;
    let _using = allowed.session.begin_use().map_err(|_| lost(allowed.session.id().as_str()))?;
    let written = take(&allowed, request).await;
    match (written, allowed.session.state()) {
        (Ok(entries), _) => Ok(Json(entries.iter().map(told).collect())),
        (Err(_), State::Ended) => Err(lost(allowed.session.id().as_str())),
        (Err(error), _) => Err(error.into_response()),
    }
}

async fn take(allowed: &Allowed, request: Request) -> Result<Vec<Entry>, E2bError> {
    let metadata = metadata(request.headers())?;
    let kind = word(request.headers(), header::CONTENT_TYPE.as_str()).unwrap_or_default().to_owned();
    if kind.starts_with("multipart/form-data") {
        return take_parts(allowed, request, metadata).await;
    }
    if !kind.starts_with("application/octet-stream") {
        let message = "the content type must be multipart/form-data or application/octet-stream";
        return Err(E2bError::bad(message));
    }
    let path = allowed.query.path.as_deref().ok_or_else(|| E2bError::bad("the query has no path"))?;
    let upload = begin(&allowed.session, path, metadata).await?;
    let pieces: BodyDataStream = request.into_body().into_data_stream();
    Ok(vec![fill(upload, pieces).await?])
}

/// One file, whose path the query says, or several, each with its own.
async fn take_parts(
    allowed: &Allowed,
    request: Request,
    metadata: BTreeMap<String, String>,
) -> Result<Vec<Entry>, E2bError> {
    let broken = |error: axum::extract::multipart::MultipartError| E2bError::bad(error.body_text());
    let parts = Multipart::from_request(request, &()).await;
    let mut parts = parts.map_err(|error| E2bError::bad(error.body_text()))?;
    let mut written = Vec::new();
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        if part.name() != Some("file") {
            continue;
        }
        let named = part.file_name().map(|name| name.replace("%22", "\""));
        let path = allowed.query.path.clone().or(named);
        let path = path.ok_or_else(|| E2bError::bad("a part has no file name and the query no path"))?;
        let upload = begin(&allowed.session, &path, metadata.clone()).await?;
        written.push(fill(upload, part).await?);
    }
    match written.is_empty() {
        true => Err(E2bError::bad("there is no part named `file`")),
        false => Ok(written),
    }
}

async fn begin<'a>(
    session: &'a Session,
    path: &str,
    metadata: BTreeMap<String, String>,
) -> Result<Upload<'a>, E2bError> {
    session.sandbox.write(path, metadata).await.map_err(E2bError::from)
}

/// Moves the bytes; what breaks off leaves nothing behind.
async fn fill<E>(
    mut upload: Upload<'_>,
    mut pieces: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> Result<Entry, E2bError> {
    while let Some(piece) = pieces.next().await {
        let Ok(piece) = piece else {
            upload.abort().await?;
            return Err(E2bError::bad("the upload broke off; nothing was written"));
        };
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
fn metadata(headers: &HeaderMap) -> Result<BTreeMap<String, String>, E2bError> {
    let mut found = BTreeMap::new();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(METADATA) {
            let value = value.to_str().map_err(|_| E2bError::bad(format!("metadata `{key}` is not plain text")))?;
            found.insert(key.to_owned(), value.to_owned());
        }
    }
    Ok(found)
}
