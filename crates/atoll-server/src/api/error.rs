//! What a refused request is told, in no dialect's words yet. Each dialect renders it in its own shape.
//!
//! The message never holds a path of the host, a number of a user or the text of an inner error: those go to the log.

use crate::limits::Rate;
use atoll_core::choice::UnknownChoice;
use atoll_core::service::Scope;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

macro_rules! codes {
    ($($variant:ident = $word:literal, $status:ident, $doc:literal;)+) => {
        /// Every code that an answer can carry. Stable: people's programs match on them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum ErrorCode { $(#[doc = $doc] $variant),+ }

        impl ErrorCode {
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status),+ }
            }

            pub fn about(self) -> &'static str {
                match self { $(Self::$variant => $doc),+ }
            }
        }
    };
}

codes! {
    InvalidRequest = "invalid_request", BAD_REQUEST, "A value, a type or a field of the request is wrong";
    MalformedJson = "malformed_json", BAD_REQUEST, "The body is not JSON in UTF-8";
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "No key, or none that is valid";
    ScopeMissing = "scope_missing", FORBIDDEN, "The key does not have the scope that this needs";
    OriginNotAllowed = "origin_not_allowed", FORBIDDEN, "A web page of another origin asked";
    HostNotAllowed = "host_not_allowed", MISDIRECTED_REQUEST, "The Host header names no host of this server";
    NotFound = "not_found", NOT_FOUND, "There is no such thing, or it belongs to somebody else";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The path exists, the method does not";
    Forbidden = "forbidden", FORBIDDEN, "The sandbox does not allow this";
    PolicyDenied = "policy_denied", FORBIDDEN, "The policy does not let it run";
    ApprovalDenied = "approval_denied", FORBIDDEN, "The policy asks about it, and nobody has said yes";
    ApprovalExpired = "approval_expired", FORBIDDEN, "The policy asks about it, and nobody has answered in time";
    Exists = "already_exists", CONFLICT, "It is there already";
    Conflict = "conflict", CONFLICT, "The thing is in a state that does not allow this";
    NotInTier = "not_in_tier", CONFLICT, "The tier of this sandbox does not do that; the message names one that does";
    Ended = "ended", GONE, "The sandbox has ended";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body is larger than allowed";
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, "The body did not arrive in time";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is of a type or an encoding that is not taken here";
    NoRoom = "no_room", INSUFFICIENT_STORAGE, "The files of the sandbox have no room left";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "Too many sandboxes in a short time";
    QuotaExceeded = "quota_exceeded", TOO_MANY_REQUESTS, "The key has used what it may use";
    AtCapacity = "at_capacity", SERVICE_UNAVAILABLE, "The server has as many sandboxes, connections or bytes of requests as it may have";
    NotReady = "not_ready", SERVICE_UNAVAILABLE, "The server is starting or stopping, or the template is being built";
    AuditUnavailable = "audit_unavailable", SERVICE_UNAVAILABLE, "The audit log cannot be written, so nothing is done";
    NoWall = "no_wall", NOT_IMPLEMENTED, "This host cannot build the wall that was asked for";
    NotSupported = "not_supported", NOT_IMPLEMENTED, "This version of Atoll does not do that";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Our fault; the log has more under the request's id";
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    code: ErrorCode,
    message: String,
    hint: Option<String>,
    retry_after: Option<u64>,
    rate: Option<Rate>,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            retry_after: None,
            rate: None,
        }
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Seconds after which it makes sense to come back.
    #[must_use]
    pub fn retry(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds.max(1));
        self
    }

    pub fn code(&self) -> ErrorCode {
        self.code
    }

    pub fn message(&self) -> &str {
        &self.message
    }

    pub fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    pub fn retry_after(&self) -> Option<u64> {
        self.retry_after
    }

    /// Headers that every dialect sends.
    pub(crate) fn write_headers(&self, headers: &mut axum::http::HeaderMap) {
        if let Some(seconds) = self.retry_after {
            headers.insert(axum::http::header::RETRY_AFTER, seconds.into());
        }
        if let Some(rate) = &self.rate {
            rate.write(headers);
        }
        if self.code == ErrorCode::Unauthenticated {
            let bearer = axum::http::HeaderValue::from_static("Bearer");
            headers.insert(axum::http::header::WWW_AUTHENTICATE, bearer);
        }
    }
}

/// What is refused in more than one place, in the same words each time.
impl ApiError {
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorCode::InvalidRequest, message)
    }

    /// For unknown and for foreign ids alike.
    pub fn not_found(what: &str) -> Self {
        Self::new(ErrorCode::NotFound, format!("no such {what}"))
    }

    pub fn internal() -> Self {
        Self::new(ErrorCode::Internal, "something went wrong on our side")
            .hint("try again; if it stays, give the operator the x-request-id of this answer")
    }

    /// Writes the cause to the log and keeps it out of the answer.
    pub fn caused_by(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = %crate::chain(error), "a request failed");
        Self::internal()
    }

    pub fn unauthenticated(message: &str) -> Self {
        Self::new(ErrorCode::Unauthenticated, message)
            .hint("send a key as X-API-KEY or as Authorization: Bearer; `atoll keys create --name NAME` makes one")
    }

    pub fn scope_missing(scope: Scope) -> Self {
        Self::new(
            ErrorCode::ScopeMissing,
            format!("the key does not have the scope `{scope}`"),
        )
        .hint(format!("use a key that was created with --scope {scope}"))
    }

    pub(crate) fn rate_limited(rate: Rate) -> Self {
        let message = format!("more than {} sandboxes in a minute", rate.limit);
        let error = Self::new(ErrorCode::RateLimited, message).retry(rate.reset);
        Self {
            rate: Some(rate),
            ..error
        }
        .hint(format!(
            "try again in {} s, or ask the operator for a higher quota",
            rate.reset.max(1)
        ))
    }

    pub(crate) fn quota_of_sandboxes(limit: u64) -> Self {
        Self::new(
            ErrorCode::QuotaExceeded,
            format!("the key has {limit} live sandboxes, its quota"),
        )
        .hint("end one, or ask the operator for a higher quota")
        .retry(5)
    }

    pub(crate) fn quota_of_day(what: &str, seconds: u64) -> Self {
        Self::new(
            ErrorCode::QuotaExceeded,
            format!("the key has used its {what} of today"),
        )
        .hint("come back tomorrow (UTC), or ask the operator for a higher quota")
        .retry(seconds)
    }

    pub(crate) fn at_capacity(most: u64) -> Self {
        Self::new(
            ErrorCode::AtCapacity,
            format!("the server has {most} live sandboxes, as many as it may have"),
        )
        .hint("end one or wait; the setting max_sandboxes raises the limit")
        .retry(5)
    }

    /// At the first start that may last; at the end another server takes over.
    pub fn not_ready(why: &str) -> Self {
        Self::new(ErrorCode::NotReady, why).retry(2)
    }
}

impl From<UnknownChoice> for ApiError {
    fn from(error: UnknownChoice) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<atoll_core::quantity::QuantityError> for ApiError {
    fn from(error: atoll_core::quantity::QuantityError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<crate::store::StoreError> for ApiError {
    fn from(error: crate::store::StoreError) -> Self {
        Self::caused_by(&error)
    }
}

/// In the native shape. The error itself rides along, so that the layer of another dialect can render it anew.
impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let mut response = super::native::error::render(&self);
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_different_words_with_an_error_status() {
        let mut words: Vec<&str> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
        words.sort_unstable();
        words.dedup();
        assert_eq!(words.len(), ErrorCode::ALL.len());
        for code in ErrorCode::ALL {
            assert!(
                code.status().is_client_error() || code.status().is_server_error(),
                "{code:?}"
            );
        }
    }

    #[test]
    fn a_cause_stays_out_of_the_answer() {
        let error = ApiError::caused_by(&std::io::Error::other("/secret/path"));
        assert!(!format!("{error:?}").contains("secret"));
    }
}
