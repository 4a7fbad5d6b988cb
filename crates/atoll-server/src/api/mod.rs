//! The API: one router from the tables of all dialects, behind the checks that every request passes.
//!
//! The way of a request: connection limits (`http::listen`), notes and log line, Host and Origin, CORS, the
//! route, panics, its access class, the handler. A dialect is a folder: `routes` (the table and handlers), `wire` (its types),
//! `convert` (to and from ours), `error` (its shape of errors).

pub mod e2b;
mod engine_error;
mod error;
mod extract;
pub mod native;
mod openapi;
mod page;
pub(crate) mod state;
pub mod table;

pub use error::{ApiError, ErrorCode};
pub use extract::{Json, Path, Query};
pub use openapi::document;
pub use state::AppState;

use crate::http::{check_host, check_origin, cors, observe};
use axum::Router;
use axum::extract::Request;
use axum::middleware::from_fn_with_state;
use axum::response::IntoResponse;
use table::Route;

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
    // The last layer is the outermost.
    let router = router.layer(from_fn_with_state(state.clone(), e2b::ports_by_host));
    cors(router, &state.settings)
        .layer(from_fn_with_state(state.clone(), check_origin))
        .layer(from_fn_with_state(state.clone(), check_host))
        .layer(from_fn_with_state(state.clone(), observe))
        .with_state(state)
}

async fn unknown_path() -> ApiError {
    ApiError::not_found("path").hint("/docs shows what there is")
}

async fn unknown_method(request: Request) -> impl IntoResponse {
    ApiError::new(
        ErrorCode::MethodNotAllowed,
        format!("the method {} is not known here", request.method()),
    )
    .hint("the header Allow says which methods are")
}

#[cfg(test)]
mod tests;
