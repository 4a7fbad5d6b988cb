//! The sandbox that a request names. Unknown and foreign ids look the same; one that has ended says why.

use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::sandboxes::Past;
use atoll_core::{EndReason, SandboxId};
use atoll_engine::EngineError;
use atoll_engine::session::Session;
use std::sync::Arc;

/// As it is now, or what is still known of it.
#[derive(Debug)]
pub(super) enum Found {
    Live(Arc<Session>),
    Past(Past),
}

pub(super) async fn any(state: &AppState, caller: &Caller, name: &str) -> Result<Found, ApiError> {
    let id = SandboxId::parse(name).ok_or_else(unknown)?;
    if let Some(session) = state.sandboxes.find(caller, &id) {
        return Ok(Found::Live(session));
    }
    let past = state.sandboxes.find_past(caller, &id).await?;
    past.map(Found::Past).ok_or_else(unknown)
}

/// One that has not ended, and into which others than its maker's call may reach.
pub(super) async fn live(state: &AppState, caller: &Caller, name: &str) -> Result<Arc<Session>, ApiError> {
    let session = not_ended(state, caller, name).await?;
    match session.spec.sealed {
        false => Ok(session),
        true => Err(ApiError::new(
            ErrorCode::Conflict,
            "the sandbox belongs to a dry run and cannot be accessed",
        )
        .hint("the response of the dry run lists its effects; its files can be downloaded once they are approved")),
    }
}

/// One that has not ended.
pub(super) async fn not_ended(state: &AppState, caller: &Caller, name: &str) -> Result<Arc<Session>, ApiError> {
    match any(state, caller, name).await? {
        Found::Live(session) => match session.end_reason() {
            None => Ok(session),
            Some((reason, _)) => Err(ended(reason)),
        },
        Found::Past(past) => Err(ended(past.reason)),
    }
}

fn unknown() -> ApiError {
    ApiError::not_found("sandbox")
}

pub(super) fn ended(reason: EndReason) -> ApiError {
    ApiError::new(ErrorCode::Ended, format!("the sandbox has ended: {reason}"))
}

/// What went wrong because the sandbox has ended is told as its end.
pub(super) fn blame(session: &Session) -> impl Fn(EngineError) -> ApiError + '_ {
    |error| ApiError::from(session.blame(error)).in_limits(session.limits())
}
