//! What a refused request is told, in no dialect's words yet. Each dialect renders it in its own shape.
//!
//! The message never holds a path of the host, a number of a user or the text of an inner error: those go to the log.

use super::exhausted::{is_disk_full, is_out_of_descriptors};
use crate::limits::Rate;
use atoll_core::choice::UnknownChoice;
use atoll_core::quantity::show_bytes;
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
    InvalidRequest = "invalid_request", BAD_REQUEST, "A field or value of the request is missing, unknown, of the wrong type or out of range";
    MalformedJson = "malformed_json", BAD_REQUEST, "The body is not valid JSON in UTF-8";
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "The key is missing, invalid or revoked";
    ScopeMissing = "scope_missing", FORBIDDEN, "The key lacks the scope that this request requires";
    OriginNotAllowed = "origin_not_allowed", FORBIDDEN, "The request comes from a web origin that is not allowed";
    HostNotAllowed = "host_not_allowed", MISDIRECTED_REQUEST, "The Host header does not name this server";
    NotFound = "not_found", NOT_FOUND, "The resource does not exist, or it belongs to another tenant";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The path does not support this method";
    Forbidden = "forbidden", FORBIDDEN, "The operation is not permitted";
    PolicyDenied = "policy_denied", FORBIDDEN, "The policy denies this code";
    ApprovalDenied = "approval_denied", FORBIDDEN, "The policy requires approval, and approval was not granted";
    ApprovalExpired = "approval_expired", FORBIDDEN, "The policy requires approval, and the approval request expired";
    Exists = "already_exists", CONFLICT, "The resource already exists";
    Conflict = "conflict", CONFLICT, "The current state of the resource does not allow this operation";
    NotInTier = "not_in_tier", CONFLICT, "The tier of this sandbox does not support the operation; the message names a tier that does";
    IdempotencyInProgress = "idempotency_in_progress", CONFLICT, "The first request with this Idempotency-Key is still running";
    IdempotencyNoAnswer = "idempotency_no_answer", CONFLICT, "A request with this Idempotency-Key was made, and its answer is not stored";
    IdempotencyMismatch = "idempotency_mismatch", UNPROCESSABLE_ENTITY, "The Idempotency-Key was used for another request";
    Ended = "ended", GONE, "The sandbox has ended";
    BodyTooLarge = "body_too_large", PAYLOAD_TOO_LARGE, "The body exceeds the size limit";
    BodyTimeout = "body_timeout", REQUEST_TIMEOUT, "The body did not arrive before the deadline";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The Content-Type or Content-Encoding of the body is not supported";
    NoRoom = "no_room", INSUFFICIENT_STORAGE, "The scratch disk of the sandbox is full";
    DiskFull = "disk_full", INSUFFICIENT_STORAGE, "The disk of the server is full";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "The rate limit for creating sandboxes is exceeded";
    QuotaExceeded = "quota_exceeded", TOO_MANY_REQUESTS, "A quota of the key, or a limit of the sandbox, is exhausted";
    AuditQuota = "audit_quota", TOO_MANY_REQUESTS, "The key has used up its daily audit log quota";
    ServerFull = "server_full", TOO_MANY_REQUESTS, "The server has reached its limit of live sandboxes, and no slot became free in time";
    AtCapacity = "at_capacity", SERVICE_UNAVAILABLE, "The server has reached its limit of connections, file descriptors or request memory";
    NotReady = "not_ready", SERVICE_UNAVAILABLE, "The server is starting or stopping, one of its processes is being replaced, or the template is still being built";
    AuditUnavailable = "audit_unavailable", SERVICE_UNAVAILABLE, "The audit log cannot be written, so the operation was refused";
    NoWall = "no_wall", NOT_IMPLEMENTED, "This host cannot provide the requested isolation tier";
    NotSupported = "not_supported", NOT_IMPLEMENTED, "This version of Atoll does not support the operation";
    Internal = "internal", INTERNAL_SERVER_ERROR, "Internal server error; the server log has the cause under the request ID";
}

/// A refused request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiError {
    code: ErrorCode,
    message: String,
    hint: Option<String>,
    retry_after: Option<u64>,
    rate: Option<Rate>,
    /// The work had begun: a repeat could do it twice.
    has_begun: bool,
}

impl ApiError {
    pub fn new(code: ErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            hint: None,
            retry_after: None,
            rate: None,
            has_begun: false,
        }
    }

    /// An error that comes when the work had begun: it does not free an `Idempotency-Key`.
    #[must_use]
    pub(crate) fn after_begin(mut self) -> Self {
        self.has_begun = true;
        self
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
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
        Self::new(ErrorCode::Internal, "internal server error")
            .hint("retry; if the error persists, give the operator the x-request-id of this response")
    }

    /// Writes the cause to the log and keeps it out of the answer.
    pub fn caused_by(error: &(dyn std::error::Error + 'static)) -> Self {
        tracing::error!(error = %crate::chain(error), "request failed");
        if is_disk_full(error) {
            Self::disk_full()
        } else if is_out_of_descriptors(error) {
            Self::no_descriptors()
        } else {
            Self::internal()
        }
    }

    pub(crate) fn disk_full() -> Self {
        Self::new(ErrorCode::DiskFull, "the disk of the server is full")
            .hint("retry later; the operator must free disk space in the server's data directory")
    }

    pub fn unauthenticated(message: &str) -> Self {
        Self::new(ErrorCode::Unauthenticated, message).hint(
            "send a key as X-API-KEY or as Authorization: Bearer; create one with `atoll keys create --name NAME`",
        )
    }

    pub fn scope_missing(scope: Scope) -> Self {
        Self::new(
            ErrorCode::ScopeMissing,
            format!("the key does not have the scope `{scope}`"),
        )
        .hint(format!("use a key created with --scope {scope}"))
    }

    pub(crate) fn rate_limited(rate: Rate) -> Self {
        let message = format!("rate limit exceeded: {} sandboxes per minute", rate.limit);
        let error = Self::new(ErrorCode::RateLimited, message).retry(rate.reset);
        Self {
            rate: Some(rate),
            ..error
        }
        .hint(format!(
            "retry in {} s, or ask the operator for a higher quota",
            rate.reset.max(1)
        ))
    }

    pub(crate) fn quota_of_sandboxes(limit: u64) -> Self {
        Self::new(
            ErrorCode::QuotaExceeded,
            format!("quota exceeded: the key already has {limit} live sandboxes"),
        )
        .hint("end a sandbox, or ask the operator for a higher quota")
        .retry(5)
    }

    pub(crate) fn quota_of_tenant(share: u64) -> Self {
        Self::new(
            ErrorCode::QuotaExceeded,
            format!("quota exceeded: the tenant already has {share} live sandboxes, its share of this server"),
        )
        .hint("end a sandbox; the operator can raise the share with the setting max_tenant_sandboxes")
        .retry(5)
    }

    pub(crate) fn quota_of_day(what: &str, seconds: u64) -> Self {
        Self::new(
            ErrorCode::QuotaExceeded,
            format!("daily quota of the key exhausted: {what}"),
        )
        .hint("retry after 00:00 UTC, or ask the operator for a higher quota")
        .retry(seconds)
    }

    pub(crate) fn audit_quota(limit: u64, seconds: u64) -> Self {
        Self::new(
            ErrorCode::AuditQuota,
            format!("audit log quota of the key exhausted: {} per day", show_bytes(limit)),
        )
        .hint("retry after 00:00 UTC; the operator can raise the limit with the setting audit.key_bytes_per_day")
        .retry(seconds)
    }

    pub(crate) fn server_full(most: u64) -> Self {
        Self::new(
            ErrorCode::ServerFull,
            format!("the server has reached its limit of {most} live sandboxes"),
        )
        .hint("end a sandbox or retry later; the operator can raise the limit with the setting max_sandboxes")
        .retry(5)
    }

    pub(crate) fn no_descriptors() -> Self {
        Self::new(ErrorCode::AtCapacity, "the server has no file descriptors left")
            .hint("retry later; the operator can raise the open file limit of the server (LimitNOFILE)")
            .retry(1)
    }

    pub(crate) fn quota_of_descriptors() -> Self {
        Self::new(
            ErrorCode::QuotaExceeded,
            "open file limit of the server: the sandboxes of the tenant hold its share of file descriptors",
        )
        .hint("end a command or a context; the operator can raise the open file limit of the server (LimitNOFILE)")
        .retry(5)
    }

    pub(crate) fn spawner_ended() -> Self {
        Self::not_ready(
            "the spawner (the process that forks sandboxes) ended unexpectedly before the sandbox was created",
        )
        .hint("retry the request: the server starts a new spawner; if the error persists, see the server log")
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
