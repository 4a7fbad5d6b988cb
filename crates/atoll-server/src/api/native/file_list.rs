//! What is below a directory of a sandbox, in pages: no page is longer than the server can hold for many at once.

use super::Refusals;
use super::find::{blame, live};
use super::wire::FileList;
use crate::api::budget::{Hold, json_in_pieces};
use crate::api::{ApiError, AppState, Path, Query};
use crate::auth::Caller;
use atoll_core::wire::agent::ListBound;
use axum::extract::State;
use axum::response::Response;
use serde::Deserialize;
use utoipa::IntoParams;

const MAX_DEPTH: u32 = 1_000;
const MAX_PAGE: u32 = 10_000;
/// A page of long names ends sooner.
const MAX_PAGE_BYTES: u32 = 4 << 20;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ListQuery {
    /// Directory to list
    #[param(example = "/home/user")]
    path: String,
    /// Depth of the listing [default: 1]
    #[param(minimum = 1, maximum = 1000)]
    depth: Option<u32>,
    /// Page size [1 to 10,000, default: 10,000]. A page with long names can be shorter
    #[param(minimum = 1, maximum = 10000)]
    limit: Option<u32>,
    /// The `next` value of the previous page
    after: Option<String>,
}

/// List a directory, in lexical order
#[utoipa::path(
    get, path = "/v1/sandboxes/{id}/files/list", tag = "files", security(("key" = [])),
    params(("id" = String, Path, description = "Sandbox ID"), ListQuery),
    responses((status = 200, body = FileList), Refusals)
)]
pub(crate) async fn list(
    State(state): State<AppState>,
    caller: Caller,
    hold: Hold,
    Path(id): Path<String>,
    Query(query): Query<ListQuery>,
) -> Result<Response, ApiError> {
    let session = live(&state, &caller, &id).await?;
    let depth = within("depth", query.depth.unwrap_or(1), MAX_DEPTH)?;
    let most = ListBound {
        entries: within("limit", query.limit.unwrap_or(MAX_PAGE), MAX_PAGE)?,
        bytes: MAX_PAGE_BYTES,
    };
    state.sandboxes.check_day(&caller)?;
    let _using = session.begin_use()?;
    let sandbox = session.by(&caller.actor())?;
    let page = sandbox.list(&query.path, depth, query.after, most).await;
    let page = page.map_err(blame(&session))?;
    hold.reach(2 * page.bytes).await?;
    let list = FileList {
        entries: page.entries.into_iter().map(Into::into).collect(),
        next: page.next,
    };
    let body = serde_json::to_vec(&list).map_err(|error| ApiError::caused_by(&error))?;
    state.sandboxes.moved(&caller, 0, body.len() as u64);
    Ok(json_in_pieces(body.into(), ()))
}

fn within(what: &str, asked: u32, most: u32) -> Result<u32, ApiError> {
    match (1..=most).contains(&asked) {
        true => Ok(asked),
        false => Err(ApiError::invalid(format!(
            "`{what}` is out of range: requested {asked}, allowed 1 to {most}"
        ))),
    }
}
