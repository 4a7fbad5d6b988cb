//! `/healthz` and `/readyz`: on the API's port for load balancers, on the admin port for operators.

use super::wire::Health;
use crate::api::{ApiError, AppState, Json};
use crate::ready::Ready;
use axum::extract::State;

/// Liveness: the server process responds
#[utoipa::path(get, path = "/healthz", tag = "health", responses((status = 200, body = Health)))]
pub(crate) async fn healthz() -> Json<Health> {
    Json(Health {
        status: "ok".to_owned(),
    })
}

/// Readiness: new sandboxes can be created
#[utoipa::path(
    get, path = "/readyz", tag = "health",
    responses((status = 200, body = Health), (status = 503, body = super::ErrorBody))
)]
pub(crate) async fn readyz(State(state): State<AppState>) -> Result<Json<Health>, ApiError> {
    match state.ready.now() {
        Ready::Ready => Ok(Json(Health {
            status: "ready".to_owned(),
        })),
        Ready::Starting => Err(ApiError::not_ready("the server is starting")),
        Ready::Draining => Err(ApiError::not_ready("the server is stopping")),
        Ready::Failed => {
            Err(ApiError::not_ready("the server cannot create sandboxes").hint("see the server log for the cause"))
        }
    }
}
