//! `/v1/templates`: what sandboxes can be made of.

use super::Refusals;
use super::wire::{TemplateDetail, TemplateList};
use crate::api::{ApiError, AppState, Json, Path};
use atoll_engine::template::{TemplateError, TemplateStore};
use axum::extract::State;

/// List templates, built or not
#[utoipa::path(
    get, path = "/v1/templates", tag = "templates", security(("key" = [])),
    responses((status = 200, body = TemplateList), Refusals)
)]
pub(crate) async fn list(State(state): State<AppState>) -> Result<Json<TemplateList>, ApiError> {
    let templates = ask(&state, |store| store.list()).await?;
    let templates = templates.map_err(|error| ApiError::caused_by(&error))?;
    Ok(Json(TemplateList {
        templates: templates.into_iter().map(Into::into).collect(),
    }))
}

/// Get a template with its packages
#[utoipa::path(
    get, path = "/v1/templates/{name}", tag = "templates", security(("key" = [])),
    params(("name" = String, Path, description = "Template name")),
    responses((status = 200, body = TemplateDetail), Refusals)
)]
pub(crate) async fn show(
    State(state): State<AppState>,
    Path(name): Path<String>,
) -> Result<Json<TemplateDetail>, ApiError> {
    if !state.sandboxes.has_template(&name) {
        return Err(ApiError::not_found("template"));
    }
    let shown = ask(&state, move |store| store.show(&name)).await?;
    match shown {
        Ok(details) => Ok(Json(details.into())),
        // Built once from a recipe that is gone.
        Err(TemplateError::Recipe { .. }) => Err(ApiError::not_found("template")),
        Err(error) => Err(ApiError::caused_by(&error)),
    }
}

/// Files are read on a thread for that.
async fn ask<T: Send + 'static>(
    state: &AppState,
    work: impl FnOnce(TemplateStore) -> T + Send + 'static,
) -> Result<T, ApiError> {
    let store = state.sandboxes.node().templates().clone();
    let asked = tokio::task::spawn_blocking(move || work(store)).await;
    asked.map_err(|_| ApiError::internal())
}
