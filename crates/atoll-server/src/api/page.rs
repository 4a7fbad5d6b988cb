//! `/docs`: a page that shows `/openapi.json`. Whole in itself: nothing is loaded from elsewhere.

use axum::http::header::CONTENT_SECURITY_POLICY;
use axum::response::{Html, IntoResponse, Response};

const PAGE: &str = include_str!("page.html");

/// Only this page's own script and style, and only this server to talk to.
const POLICY: &str = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; \
                      frame-ancestors 'none'; base-uri 'none'; form-action 'none'";

pub(crate) async fn html() -> Response {
    ([(CONTENT_SECURITY_POLICY, POLICY)], Html(PAGE)).into_response()
}
