//! The operators' listener: metrics, health, readiness. On an address of its own, never on the API's.

use crate::api::native::{healthz, readyz};
use crate::api::{ApiError, AppState};
use crate::http::check_host;
use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

/// What Prometheus asks for since 2.5.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

pub(crate) fn router(state: AppState) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .fallback(async || ApiError::not_found("path"))
        .layer(from_fn_with_state(state.clone(), check_host))
        .with_state(state)
}

async fn metrics(State(state): State<AppState>) -> Result<Response, ApiError> {
    let text = state.metrics.show(&state.ready, &state.limits);
    let text = text.map_err(|error| ApiError::caused_by(&error))?;
    Ok(([(CONTENT_TYPE, OPEN_METRICS)], text).into_response())
}
