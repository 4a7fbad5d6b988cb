//! Errors in E2B's words: JSON with a number as `code` for its API, plain text for its interpreter.

use super::connect::{Code, RpcError};
use atoll_core::wire::agent::Refusal;
use atoll_engine::session::{Refused, SessionError};
use atoll_engine::{EngineError, JailError};
use axum::Json;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// An error of the control API or of a sandbox's plain HTTP routes.
#[derive(Clone, Debug)]
pub(super) struct E2bError {
    pub(super) status: StatusCode,
    pub(super) message: String,
    /// Seconds after which another try makes sense.
    pub(super) retry_after: Option<u64>,
}

impl E2bError {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self {
            status,
            message: message.into(),
            retry_after: None,
        }
    }

    pub(super) fn bad(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn no_sandbox(id: &str) -> Self {
        Self::new(StatusCode::NOT_FOUND, format!("sandbox \"{id}\" doesn't exist or you don't have access to it"))
    }
}

impl IntoResponse for E2bError {
    fn into_response(self) -> Response {
        let body = json!({"code": self.status.as_u16(), "message": self.message});
        let mut response = (self.status, Json(body)).into_response();
        let deliberate = matches!(self.status.as_u16(), 429 | 502 | 503 | 504);
        if deliberate {
            // Without it Python's client tries a refused create three times more.
            response.headers_mut().insert("Should-Retry", HeaderValue::from_static("false"));
        }
        if let Some(seconds) = self.retry_after {
            response.headers_mut().insert("Retry-After", HeaderValue::from(seconds));
        }
        response
    }
}

/// The sandbox of a request is not there: what E2B's proxy answers, and its clients look for.
pub(super) fn lost(id: &str) -> Response {
    let body = json!({"sandboxId": id, "message": "The sandbox was not found", "code": 502});
    let mut response = (StatusCode::BAD_GATEWAY, Json(body)).into_response();
    response.headers_mut().insert("Should-Retry", HeaderValue::from_static("false"));
    response
}

/// What the agent refused, or what failed, as an RPC error.
impl From<EngineError> for RpcError {
    fn from(error: EngineError) -> Self {
        match &error {
            EngineError::Jail(JailError::Refused { why, message }) => Self::new(code(*why), message.clone()),
            EngineError::Jail(JailError::Over | JailError::Agent | JailError::Gone(_)) => {
                Self::new(Code::Unavailable, "the sandbox was not found")
            }
            _ => Self::new(Code::Internal, "the sandbox could not do it"),
        }
    }
}

impl From<SessionError> for RpcError {
    fn from(error: SessionError) -> Self {
        match error {
            SessionError::Refused(refused) => refused.into(),
            SessionError::Engine(error) => error.into(),
        }
    }
}

impl From<Refused> for RpcError {
    fn from(_: Refused) -> Self {
        Self::new(Code::Unavailable, "The sandbox was not found")
    }
}

fn code(why: Refusal) -> Code {
    match why {
        Refusal::NotFound => Code::NotFound,
        Refusal::Exists => Code::AlreadyExists,
        Refusal::NotADirectory | Refusal::IsADirectory | Refusal::NotAFile | Refusal::Invalid => Code::InvalidArgument,
        Refusal::NoRoom => Code::ResourceExhausted,
        Refusal::Denied => Code::PermissionDenied,
        Refusal::NotListening => Code::Unavailable,
        Refusal::Failed => Code::Internal,
    }
}

/// The same for plain HTTP routes.
impl From<EngineError> for E2bError {
    fn from(error: EngineError) -> Self {
        match &error {
            EngineError::Jail(JailError::Refused { why, message }) => Self::new(status(*why), message.clone()),
            EngineError::Jail(JailError::Over | JailError::Agent | JailError::Gone(_)) => {
                Self::new(StatusCode::BAD_GATEWAY, "The sandbox was not found")
            }
            _ => Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the sandbox could not do it"),
        }
    }
}

fn status(why: Refusal) -> StatusCode {
    match why {
        Refusal::NotFound => StatusCode::NOT_FOUND,
        Refusal::Exists => StatusCode::CONFLICT,
        Refusal::NotADirectory | Refusal::IsADirectory | Refusal::NotAFile | Refusal::Invalid => StatusCode::BAD_REQUEST,
        Refusal::NoRoom => StatusCode::INSUFFICIENT_STORAGE,
        Refusal::Denied => StatusCode::FORBIDDEN,
        Refusal::NotListening => StatusCode::BAD_GATEWAY,
        Refusal::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
