//! The API: one router from the tables of all dialects, behind the checks that every request passes.
//!
//! The way of a request: connection limits (`http::listen`), notes and log line, Host and Origin, CORS, the
//! route, panics, its access class, the handler. A dialect is a folder: `routes` (the table and handlers), `wire` (its types),
//! `convert` (to and from ours), `error` (its shape of errors).

pub(crate) mod budget;
mod download;
pub mod e2b;
mod engine_error;
mod error;
mod exhausted;
mod extract;
mod gentle;
mod idempotency;
mod lent;
mod meter;
pub mod native;
pub mod object;
mod openapi;
mod page;
mod redacted;
mod said;
pub(crate) mod state;
pub mod table;

pub use error::{ApiError, ErrorCode};
pub use extract::{Json, Path, Query};
pub(crate) use meter::Meter;
pub use openapi::document;
pub use state::AppState;

use crate::http::{check_host, check_origin, cors, observe};
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::sync::LazyLock;
use table::{Dialect, Route};

/// Every route of every dialect.
pub fn routes() -> Vec<Route> {
    let mut routes = native::routes();
    routes.extend(e2b::routes());
    routes
}

/// The whole API as one service.
pub fn router(state: AppState) -> Router {
    router_of(routes(), state)
}

/// The same with other routes: for tests that need one which misbehaves.
pub(crate) fn router_of(routes: Vec<Route>, state: AppState) -> Router {
    let router = table::build(routes, &state)
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method);
    // What is read whole by its extractor; streams have bounds of their own.
    let most = usize::try_from(state.settings.max_body_bytes.get()).unwrap_or(usize::MAX);
    let router = router.layer(DefaultBodyLimit::max(most));
    // The last layer is the outermost.
    let router = router.layer(from_fn_with_state(state.clone(), e2b::dispatch_ports));
    cors(router, &state.settings)
        .layer(from_fn_with_state(state.clone(), check_origin))
        .layer(from_fn_with_state(state.clone(), check_host))
        .layer(from_fn_with_state(state.clone(), observe))
        .with_state(state)
}

async fn unknown_path(request: Request) -> Response {
    let path = request.uri().path();
    let (dialect, error) = match e2b::lacks(path) {
        Some(error) => (Dialect::E2bApi, error),
        None => (
            dialect_of(path),
            ApiError::not_found("path").hint("see /docs for the available routes"),
        ),
    };
    table::spoken(dialect, error.into_response())
}

/// A path that nobody has belongs to the dialect whose paths begin like it.
fn dialect_of(path: &str) -> Dialect {
    fn first(path: &str) -> &str {
        path.trim_start_matches('/').split('/').next().unwrap_or_default()
    }
    static FIRST: LazyLock<HashMap<&'static str, Dialect>> = LazyLock::new(|| {
        let all = routes().into_iter().rev();
        all.map(|route| (first(route.path), route.dialect)).collect()
    });
    FIRST.get(first(path)).copied().unwrap_or(Dialect::Native)
}

async fn unknown_method(request: Request) -> Response {
    let dialect = dialect_of(request.uri().path());
    let error = ApiError::new(
        ErrorCode::MethodNotAllowed,
        format!("the method {} is not supported for this path", request.method()),
    )
    .hint("the Allow header lists the supported methods");
    table::spoken(dialect, error.into_response())
}

#[cfg(test)]
mod tests;
