//! Each request gets an id, one log line and its place in the metrics. Never in them: bodies, queries, keys, raw paths.

use super::body::Timed;
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::metrics::{LimitHit, Metrics};
use atoll_core::RequestId;
use axum::body::{Body, Bytes};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::CONTENT_LENGTH;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::Response;
use http_body::{Body as _, Frame, SizeHint};
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;
use tracing::{Instrument, Span};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// What is learnt about a request on its way in. In the request's extensions.
#[derive(Clone, Debug)]
pub struct RequestNotes {
    id: Arc<str>,
    tenant: Arc<OnceLock<Arc<str>>>,
    span: Span,
}

impl RequestNotes {
    pub fn id(&self) -> &str {
        &self.id
    }

    pub(crate) fn set_caller(&self, caller: &Caller) {
        self.tenant.set(Arc::clone(&caller.tenant)).ok();
        self.span.record("tenant", &*caller.tenant);
        self.span.record("key", caller.key_id.as_str());
    }
}

pub(crate) async fn observe(State(state): State<AppState>, mut request: Request, next: Next) -> Response {
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("unknown", MatchedPath::as_str)
        .to_owned();
    let id = request_id(request.headers());
    // Of the highest level, so that it is there whatever level is logged.
    let span = tracing::error_span!(
        "request",
        id = &*id,
        tenant = tracing::field::Empty,
        key = tracing::field::Empty
    );
    let notes = RequestNotes {
        id,
        tenant: Arc::default(),
        span: span.clone(),
    };
    request.extensions_mut().insert(notes.clone());
    let wait = state.settings.read_timeout.duration();
    let method = method_word(request.method());
    let request = request.map(|body| Body::new(Timed::new(body, wait)));
    let mut line = LogLine::new(method, route, notes, state.metrics.clone());
    let mut response = next.run(request).instrument(span).await;
    line.take(&response);
    add_headers(&line.notes, &mut response);
    response.map(|body| Body::new(Observed { body, line }))
}

/// A method of the standard; any other word is the client's and stays out of the log.
fn method_word(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known
        .into_iter()
        .find(|word| *word == method.as_str())
        .unwrap_or("other")
}

/// The client's own id if it is a plain one, else a new one.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    let plain = |id: &&str| {
        (1..=64).contains(&id.len())
            && id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let sent = headers
        .get(REQUEST_ID)
        .and_then(|value| value.to_str().ok())
        .filter(plain);
    // What looks like a key does not belong into a log.
    let sent = sent.filter(|id| !id.starts_with("e2b_"));
    sent.map_or_else(
        || RequestId::from_random(crate::random_bytes()).as_str().into(),
        Into::into,
    )
}

fn add_headers(notes: &RequestNotes, response: &mut Response) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(&notes.id) {
        headers.insert(REQUEST_ID, id);
    }
    let fixed = [
        ("x-content-type-options", "nosniff"),
        ("cache-control", "no-store"),
        ("referrer-policy", "no-referrer"),
    ];
    for (name, value) in fixed {
        let name = HeaderName::from_static(name);
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
}

/// Written when the answer has gone out, or when nobody waits for it any more.
struct LogLine {
    method: &'static str,
    route: String,
    notes: RequestNotes,
    metrics: Metrics,
    began: Instant,
    status: Option<u16>,
    code: Option<ErrorCode>,
    bytes: u64,
    /// Bytes that the headers announce. No more are asked of the body: its end is never seen.
    announced: Option<u64>,
    /// Whether the whole body was handed to the connection.
    whole: bool,
}

impl LogLine {
    fn new(method: &'static str, route: String, notes: RequestNotes, metrics: Metrics) -> Self {
        Self {
            method,
            route,
            notes,
            metrics,
            began: Instant::now(),
            status: None,
            code: None,
            bytes: 0,
            announced: None,
            whole: false,
        }
    }

    fn take(&mut self, response: &Response) {
        self.status = Some(response.status().as_u16());
        let extensions = response.extensions();
        let unspoken = extensions.get::<ApiError>().map(ApiError::code);
        self.code = unspoken.or_else(|| extensions.get::<ErrorCode>().copied());
        let announced = response.headers().get(CONTENT_LENGTH);
        self.announced = announced
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.parse().ok());
        self.whole = response.body().is_end_stream();
    }
}

impl Drop for LogLine {
    fn drop(&mut self) {
        let took = self.began.elapsed();
        self.metrics.request_ended(self.method, &self.route, self.status, took);
        if let Some(limit) = self.code.and_then(limit_of) {
            self.metrics.limit_hit(limit);
        }
        let _in_span = self.notes.span.enter();
        tracing::info!(
            method = self.method,
            route = self.route,
            status = self.status,
            code = self.code.map(ErrorCode::as_str),
            duration_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            bytes_out = self.bytes,
            whole = self.whole,
            "request"
        );
    }
}

fn limit_of(code: ErrorCode) -> Option<LimitHit> {
    match code {
        ErrorCode::RateLimited => Some(LimitHit::RateOfCreates),
        ErrorCode::QuotaExceeded => Some(LimitHit::QuotaOfKey),
        ErrorCode::AtCapacity | ErrorCode::ServerFull => Some(LimitHit::Capacity),
        _ => None,
    }
}

/// A body that counts what goes out and keeps the log line until it has.
struct Observed {
    body: Body,
    line: LogLine,
}

impl http_body::Body for Observed {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                let length = frame.data_ref().map_or(0, Bytes::len);
                this.line.bytes += u64::try_from(length).unwrap_or(0);
                this.line.whole = this.body.is_end_stream() || this.line.announced == Some(this.line.bytes);
            }
            Poll::Ready(None) => this.line.whole = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    fn id_for(sent: &str) -> String {
        let headers: HeaderMap = [(REQUEST_ID, HeaderValue::from_str(sent).unwrap())]
            .into_iter()
            .collect();
        request_id(&headers).to_string()
    }

    #[test]
    fn a_plain_id_is_kept_and_any_other_replaced() {
        assert_eq!(id_for("trace-1.a_B"), "trace-1.a_B");
        for strange in ["", "a b", "a\"b", &"x".repeat(65), "e2b_0123456789"] {
            assert!(id_for(strange).starts_with("req_"), "{strange}");
        }
    }

    #[tokio::test]
    async fn a_body_in_pieces_is_whole_at_its_announced_length() {
        let pieces = ["ab", "cd"].map(|piece| Ok::<_, std::io::Error>(Bytes::from(piece)));
        let mut response = Response::new(Body::from_stream(futures_util::stream::iter(pieces)));
        response
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from_static("4"));
        let notes = RequestNotes {
            id: "x".into(),
            tenant: Arc::default(),
            span: Span::none(),
        };
        let mut line = LogLine::new("GET", "/".to_owned(), notes, Metrics::default());
        line.take(&response);
        let body = response.into_body();
        let mut observed = Observed { body, line };
        for whole in [false, true] {
            observed.frame().await.unwrap().unwrap();
            assert_eq!(observed.line.whole, whole);
        }
    }
}
