//! `/v1/policies`: which policies there are, and what they say. Which one a request asks for.

use super::Refusals;
use super::wire::{PolicyAnswer, PolicyDetail, PolicyList};
use crate::api::{ApiError, AppState, Json, Path};
use crate::auth::Caller;
use atoll_engine::policy::{Policy, inline};
use axum::extract::State;
use serde_json::Value;
use std::sync::Arc;

/// List the policies that requests can name
#[utoipa::path(
    get, path = "/v1/policies", tag = "policies", security(("key" = [])),
    responses((status = 200, body = PolicyList), Refusals)
)]
pub(crate) async fn list(State(state): State<AppState>, caller: Caller) -> Json<PolicyList> {
    Json(PolicyList {
        policies: state
            .policies
            .all()
            .map(|policy| PolicyAnswer::from(&**policy))
            .collect(),
        own: state.policies.of(&caller.tenant).name.clone(),
    })
}

/// Get a policy with its verdict for each rule
#[utoipa::path(
    get, path = "/v1/policies/{name}", tag = "policies", security(("key" = [])),
    params(("name" = String, Path, description = "Policy name")),
    responses((status = 200, body = PolicyDetail), Refusals)
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Json<PolicyDetail>, ApiError> {
    let found = state
        .policies
        .find(&name)
        .ok_or_else(|| ApiError::not_found("policy"))?;
    Ok(Json(PolicyDetail::from(&**found)))
}

/// The policy that a request asks for: by its name, or as it is.
pub(super) fn asked(state: &AppState, asked: Option<&Value>) -> Result<Option<Arc<Policy>>, ApiError> {
    let Some(asked) = asked else { return Ok(None) };
    let policy = match asked {
        Value::String(name) => {
            let found = state.policies.find(name).cloned();
            found.ok_or_else(|| {
                let known = state.policies.names();
                ApiError::invalid(format!("unknown policy `{}`; available: {known}", name.escape_debug()))
            })?
        }
        Value::Object(_) => {
            let read = inline(asked).map_err(|error| ApiError::invalid(crate::chain(&error)))?;
            Arc::new(read)
        }
        _ => {
            return Err(ApiError::invalid(
                "`policy` must be the name of a policy or a policy object",
            ));
        }
    };
    Ok(Some(policy))
}
