//! A handler that panics is our fault: the caller gets an error in the usual shape, the log gets the place.

use crate::api::ApiError;
use axum::response::{IntoResponse, Response};
use std::any::Any;
use tower_http::catch_panic::CatchPanicLayer;

type Answer = fn(Box<dyn Any + Send + 'static>) -> Response;

pub(crate) fn catch_panics() -> CatchPanicLayer<Answer> {
    CatchPanicLayer::custom(answer as Answer)
}

/// What the panic said may hold data of a request: it is dropped. The hook in `logs` has noted where it was.
fn answer(_said: Box<dyn Any + Send + 'static>) -> Response {
    ApiError::internal().into_response()
}
