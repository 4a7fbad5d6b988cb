//! Errors in E2B's three shapes: JSON with a number for the API and for files, with a word for RPC, plain text for the
//! code interpreter. Its clients decide by these, not by the status.

use crate::api::{ApiError, ErrorCode};
use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// `{"code":404,"message":"…"}`; the number equals the status.
pub(crate) fn render_api(error: &ApiError) -> Response {
    let status = status(error.code());
    let body = json!({"code": status.as_u16(), "message": words(error)});
    finish((status, Json(body)).into_response(), error)
}

/// The same for a port of a sandbox, with which it was: `{"code":502,"message":"…","sandboxId":"…","port":3000}`.
pub(super) fn render_port(error: &ApiError, sandbox: &str, port: u16) -> Response {
    let status = status(error.code());
    let body = json!({"code": status.as_u16(), "message": words(error), "sandboxId": sandbox, "port": port});
    finish((status, Json(body)).into_response(), error)
}

/// `{"code":"not_found","message":"…"}`, Connect's words. For unary calls; a stream has its own end frame.
pub(crate) fn render_rpc(error: &ApiError) -> Response {
    finish((status(error.code()), Json(rpc_body(error))).into_response(), error)
}

/// The same as the end of a stream.
pub(super) fn rpc_body(error: &ApiError) -> serde_json::Value {
    json!({"code": rpc_code(error.code()), "message": words(error)})
}

/// The bare message.
pub(crate) fn render_text(error: &ApiError) -> Response {
    finish((status(error.code()), words(error)).into_response(), error)
}

fn words(error: &ApiError) -> String {
    match error.hint_text() {
        Some(hint) => format!("{}; {hint}", error.message()),
        None => error.message().to_owned(),
    }
}

/// Python's clients know the statuses of the standard library only, and one of ours is young.
fn status(code: ErrorCode) -> StatusCode {
    match code.status() {
        StatusCode::MISDIRECTED_REQUEST => StatusCode::FORBIDDEN,
        // Its clients know a lost sandbox by the answer of E2B's proxy.
        StatusCode::GONE => StatusCode::BAD_GATEWAY,
        other => other,
    }
}

/// Python repeats a create up to three times on these statuses unless told otherwise, and we mean what we say.
fn finish(mut response: Response, error: &ApiError) -> Response {
    error.write_headers(response.headers_mut());
    let repeated = [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ];
    if repeated.contains(&response.status()) {
        let never = HeaderValue::from_static("false");
        response.headers_mut().insert("should-retry", never);
    }
    response
}

pub(crate) fn rpc_code(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::InvalidRequest
        | ErrorCode::MalformedJson
        | ErrorCode::UnsupportedMediaType
        | ErrorCode::IdempotencyMismatch => "invalid_argument",
        ErrorCode::Unauthenticated => "unauthenticated",
        ErrorCode::ScopeMissing
        | ErrorCode::OriginNotAllowed
        | ErrorCode::HostNotAllowed
        | ErrorCode::Forbidden
        | ErrorCode::PolicyDenied
        | ErrorCode::ApprovalDenied
        | ErrorCode::ApprovalExpired => "permission_denied",
        ErrorCode::NotFound => "not_found",
        ErrorCode::MethodNotAllowed | ErrorCode::NotSupported | ErrorCode::NotInTier | ErrorCode::NoWall => {
            "unimplemented"
        }
        ErrorCode::Exists => "already_exists",
        ErrorCode::Conflict | ErrorCode::IdempotencyInProgress | ErrorCode::IdempotencyNoAnswer => {
            "failed_precondition"
        }
        ErrorCode::BodyTooLarge
        | ErrorCode::RateLimited
        | ErrorCode::QuotaExceeded
        | ErrorCode::AuditQuota
        | ErrorCode::ServerFull
        | ErrorCode::NoRoom
        | ErrorCode::DiskFull => "resource_exhausted",
        ErrorCode::BodyTimeout => "deadline_exceeded",
        ErrorCode::AtCapacity | ErrorCode::NotReady | ErrorCode::Ended => "unavailable",
        // Its clients take `unavailable` for a sandbox that is gone.
        ErrorCode::Internal | ErrorCode::AuditUnavailable => "internal",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    async fn body(response: Response) -> String {
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    }

    #[tokio::test]
    async fn the_api_says_the_status_as_a_number() {
        let response = render_api(&ApiError::not_found("sandbox"));
        assert_eq!(response.status(), StatusCode::NOT_FOUND);
        assert!(!response.headers().contains_key("should-retry"));
        assert_eq!(body(response).await, r#"{"code":404,"message":"no such sandbox"}"#);
    }

    #[tokio::test]
    async fn a_deliberate_refusal_is_not_to_be_repeated() {
        for error in [ApiError::server_full(1), ApiError::quota_of_sandboxes(1)] {
            for render in [render_api, render_rpc, render_text] {
                let response = render(&error);
                assert_eq!(response.headers()["should-retry"], "false");
                assert_eq!(response.headers()["retry-after"], "5");
            }
        }
    }

    #[tokio::test]
    async fn rpc_says_a_word_and_the_interpreter_plain_text() {
        let error = ApiError::not_found("context");
        assert_eq!(
            body(render_rpc(&error)).await,
            r#"{"code":"not_found","message":"no such context"}"#
        );
        assert_eq!(body(render_text(&error)).await, "no such context");
    }
}
