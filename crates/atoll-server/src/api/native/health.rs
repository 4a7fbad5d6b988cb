//! `/healthz` and `/readyz`: on the API's port for load balancers, on the admin port for operators.

use super::wire::Health;
use crate::api::{ApiError, AppState, Json};
use crate::ready::Ready;
use axum::extract::State;
use std::path::Path;

/// With less left on the disk of the data directory or of the audit log, other servers are to get the work.
const LEAST_DISK_MIB: u64 = 1024;

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
        Ready::Ready => match low_disk(&state) {
            Some(why) => Err(ApiError::not_ready(&why)
                .hint("free disk space on the server, or bound the audit log with the setting audit.keep_bytes")),
            None => Ok(Json(Health {
                status: "ready".to_owned(),
            })),
        },
        Ready::Starting => Err(ApiError::not_ready("the server is starting")),
        Ready::Draining => Err(ApiError::not_ready("the server is stopping")),
        Ready::Failed => {
            Err(ApiError::not_ready("the server cannot create sandboxes").hint("see the server log for the cause"))
        }
    }
}

/// Why a disk that the server writes to has too little space left.
fn low_disk(state: &AppState) -> Option<String> {
    let home = state.sandboxes.node().home();
    let log = state.settings.audit.options(home).dir;
    low_disk_of("data directory", home).or_else(|| low_disk_of("audit log", &log))
}

/// A disk that cannot be queried is not reported.
fn low_disk_of(what: &str, path: &Path) -> Option<String> {
    let disk = rustix::fs::statvfs(path).ok()?;
    let left = disk.f_bavail.saturating_mul(disk.f_frsize) >> 20;
    let why = || format!("the disk of the {what} is nearly full: {left} MiB left, required {LEAST_DISK_MIB} MiB");
    (left < LEAST_DISK_MIB).then(why)
}
