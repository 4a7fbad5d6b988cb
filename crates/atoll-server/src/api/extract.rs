//! Reading requests: JSON bodies, path and query, each refused with a clear sentence when it is not what was asked for.

use super::budget::Hold;
use super::object::Object;
use super::{ApiError, AppState, ErrorCode};
use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request, State};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A JSON body, in and out.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned> FromRequest<AppState> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, ApiError> {
        read_json(request, state).await.map(Self)
    }
}

pub(crate) async fn read_json<T: DeserializeOwned>(request: Request, state: &AppState) -> Result<T, ApiError> {
    check_media(request.headers())?;
    let (parts, body) = request.into_parts();
    let bytes = whole_body(&parts, body, state).await?;
    parse(&bytes)
}

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        axum::Json(self.0).into_response()
    }
}

fn check_media(headers: &HeaderMap) -> Result<(), ApiError> {
    let refuse = |what: &str| {
        Err(ApiError::new(ErrorCode::UnsupportedMediaType, what).hint("send Content-Type: application/json"))
    };
    if headers
        .get(CONTENT_ENCODING)
        .is_some_and(|encoding| encoding != "identity")
    {
        return refuse("Content-Encoding is not supported; send the body uncompressed");
    }
    let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).map(str::trim);
    match kind {
        Some(kind) if kind.eq_ignore_ascii_case("application/json") => Ok(()),
        Some(_) => refuse("the Content-Type must be application/json"),
        None => refuse("the Content-Type header is missing"),
    }
}

/// The whole body, within the server's limits of size, time and memory. With or without a length in its head.
pub(crate) async fn whole_body(parts: &Parts, body: Body, state: &AppState) -> Result<Bytes, ApiError> {
    let most = usize::try_from(state.settings.max_body_bytes.get()).unwrap_or(usize::MAX);
    let told = parts
        .headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<usize>().ok());
    if told.is_some_and(|told| told > most) {
        return Err(too_large(state));
    }
    let gathering = gather(body, most, parts.extensions.get::<Hold>(), state);
    let gathered = tokio::time::timeout(state.settings.read_timeout.duration(), gathering).await;
    gathered.unwrap_or_else(|_| Err(too_slow(state)))
}

async fn gather(body: Body, most: usize, hold: Option<&Hold>, state: &AppState) -> Result<Bytes, ApiError> {
    let mut pieces = body.into_data_stream();
    let mut whole = Vec::new();
    while let Some(piece) = pieces.next().await {
        let piece = piece.map_err(|error| body_error(&error, state))?;
        let length = whole.len() + piece.len();
        if length > most {
            return Err(too_large(state));
        }
        if let Some(hold) = hold {
            hold.reach(length).await?;
        }
        whole.extend_from_slice(&piece);
    }
    Ok(whole.into())
}

/// Reads the body before the handler does, who then gets it whole: for handlers that take bytes as they are.
pub(crate) async fn read_whole(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let (parts, body) = request.into_parts();
    match whole_body(&parts, body, &state).await {
        Ok(bytes) => next.run(Request::from_parts(parts, Body::from(bytes))).await,
        Err(refused) => refused.into_response(),
    }
}

/// What a broken body means. Also for handlers that take a body piece by piece.
pub(crate) fn body_error(error: &(dyn std::error::Error + 'static), state: &AppState) -> ApiError {
    let mut cause = Some(error);
    while let Some(inner) = cause {
        if inner.is::<crate::http::BodyStalled>() {
            return too_slow(state);
        }
        cause = inner.source();
    }
    ApiError::invalid("the request body ended before it was complete")
}

fn too_large(state: &AppState) -> ApiError {
    let most = state.settings.max_body_bytes;
    ApiError::new(
        ErrorCode::BodyTooLarge,
        format!("the request body exceeds the limit of {most}"),
    )
    .hint("upload large files with the file routes; the operator can raise the limit with the setting max_body_bytes")
}

fn too_slow(state: &AppState) -> ApiError {
    let most = state.settings.read_timeout;
    ApiError::new(
        ErrorCode::BodyTimeout,
        format!("the request body did not arrive within {most}"),
    )
}

pub(crate) fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, ApiError> {
    let malformed = |why: String| ApiError::new(ErrorCode::MalformedJson, why);
    let text = std::str::from_utf8(bytes)
        .map_err(|error| malformed(format!("the body is not valid UTF-8 at byte {}", error.valid_up_to())))?;
    serde_json::from_str::<Object<T>>(text)
        .map(|body| body.0)
        .map_err(|error| match error.classify() {
            serde_json::error::Category::Data => ApiError::invalid(error.to_string()),
            _ => malformed(format!("the body is not valid JSON: {error}")),
        })
}

/// Parameters of the path. One that cannot be read names nothing that exists.
#[derive(Clone, Copy, Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequestParts<AppState> for Path<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Self, ApiError> {
        let found = axum::extract::Path::<T>::from_request_parts(parts, state).await;
        found.map(|path| Self(path.0)).map_err(|_| ApiError::not_found("path"))
    }
}

/// Parameters of the query. The type says `deny_unknown_fields`.
#[derive(Clone, Copy, Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned> FromRequestParts<AppState> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &AppState) -> Result<Self, ApiError> {
        let found = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        found.map(|query| Self(query.0)).map_err(|error| {
            let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            ApiError::invalid(format!("invalid query string: {why}"))
        })
    }
}
