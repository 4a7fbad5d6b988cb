//! What a repeated request is told.

use crate::api::budget::{Hold, in_pieces};
use crate::api::{ApiError, ErrorCode};
use crate::store::{KeptAnswer, Known, MOST_KEYS, RequestName, Store};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// In an answer that is given again.
const REPLAYED: &str = "idempotent-replayed";
/// A tenant that has used up its keys comes back after so many seconds.
const FULL_RETRY: u64 = 3_600;

/// `hold` counts the memory of an answer, before it is read, until its client has it.
pub(super) async fn repeated(store: &Store, name: RequestName, known: Known, hold: Hold) -> Result<Response, ApiError> {
    match known {
        Known::Kept(length) => {
            hold.reach(length).await?;
            match store.kept_answer(name).await? {
                Some(answer) => replayed(answer, hold),
                None => Err(refused(Known::Lost)),
            }
        }
        known => Err(refused(known)),
    }
}

fn refused(known: Known) -> ApiError {
    let (code, message, hint) = match known {
        Known::Pending => {
            let message = "the first request with this Idempotency-Key is still running";
            return ApiError::new(ErrorCode::IdempotencyInProgress, message)
                .hint("send it again later to get its answer")
                .retry(1);
        }
        Known::Full => {
            let message = format!("quota exceeded: the tenant has used {MOST_KEYS} Idempotency-Keys in 24 hours");
            return ApiError::new(ErrorCode::QuotaExceeded, message)
                .hint("retry later, or send the request without the header")
                .retry(FULL_RETRY);
        }
        Known::Kept(_) | Known::Lost => (
            ErrorCode::IdempotencyNoAnswer,
            "a request with this Idempotency-Key was made, and its answer is not stored: it is too large, was cut off, made \
             room for newer ones, or the server ended or had no memory for it",
            "check whether the request took effect; to send it again, use a new Idempotency-Key",
        ),
        Known::Mismatch => (
            ErrorCode::IdempotencyMismatch,
            "the Idempotency-Key was used for another request: the path, the query, the sandbox, the Accept header or \
             the body differs",
            "use a new Idempotency-Key for each request; reuse one only to retry the same request",
        ),
    };
    ApiError::new(code, message).hint(hint)
}

fn replayed(answer: KeptAnswer, hold: Hold) -> Result<Response, ApiError> {
    let status = StatusCode::from_u16(answer.status).map_err(|error| ApiError::caused_by(&error))?;
    let length = [(CONTENT_LENGTH, HeaderValue::from(answer.body.len()))];
    let mut response = (status, length, in_pieces(answer.body, hold)).into_response();
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
