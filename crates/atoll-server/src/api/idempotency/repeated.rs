//! What a repeated request is told.

use crate::api::{ApiError, ErrorCode};
use crate::store::{KeptAnswer, Known, MOST_KEYS};
use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// In an answer that is given again.
const REPLAYED: &str = "idempotent-replayed";
/// A tenant that has used up its keys comes back after so many seconds.
const FULL_RETRY: u64 = 3_600;

pub(super) fn repeated(known: Known) -> Result<Response, ApiError> {
    let (code, message, hint) = match known {
        Known::Kept(answer) => return replayed(answer),
        Known::Pending => {
            let message = "the first request with this Idempotency-Key is still running";
            return Err(ApiError::new(ErrorCode::IdempotencyInProgress, message)
                .hint("send it again later to get its answer")
                .retry(1));
        }
        Known::Full => {
            let message = format!("quota exceeded: the tenant has used {MOST_KEYS} Idempotency-Keys in 24 hours");
            return Err(ApiError::new(ErrorCode::QuotaExceeded, message)
                .hint("retry later, or send the request without the header")
                .retry(FULL_RETRY));
        }
        Known::Lost => (
            ErrorCode::IdempotencyNoAnswer,
            "a request with this Idempotency-Key was made, and its answer is not stored: it is too large, was cut off, or \
             made room for newer ones",
            "look at what the request has done; to do it again, send it with another key",
        ),
        Known::Mismatch => (
            ErrorCode::IdempotencyMismatch,
            "the Idempotency-Key was used for another request: the path, the query, the sandbox or the body differs",
            "send each request with a key of its own, and the same key only to repeat the same request",
        ),
    };
    Err(ApiError::new(code, message).hint(hint))
}

fn replayed(answer: KeptAnswer) -> Result<Response, ApiError> {
    let status = StatusCode::from_u16(answer.status).map_err(|error| ApiError::caused_by(&error))?;
    let mut response = (status, Body::from(answer.body)).into_response();
    for (name, value) in answer.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            response.headers_mut().insert(name, value);
        }
    }
    response
        .headers_mut()
        .insert(REPLAYED, HeaderValue::from_static("true"));
    Ok(response)
}
