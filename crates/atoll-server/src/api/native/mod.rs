//! The native dialect: `/v1/...`, health, and the description of the API itself.

mod approvals;
mod audit;
mod body;
mod convert;
mod dry;
pub(crate) mod error;
mod events;
mod execute;
mod executions;
mod file_list;
mod files;
mod find;
mod health;
mod keys;
mod moves;
mod outputs;
mod pages;
mod policies;
mod refusals;
mod released;
mod run;
mod sandboxes;
mod sheet;
mod snapshots;
mod sse;
mod templates;
mod wire;
mod wish;

pub use error::{ErrorBody, ErrorWords};
pub(crate) use health::{healthz, readyz};
pub(crate) use refusals::{Refusals, shared as shared_refusals};
pub use wire::*;

use crate::api::AppState;
use crate::api::table::{Access, Dialect, Route};
use crate::api::{ErrorCode, openapi, page};
use atoll_core::service::Scope;
use axum::http::Method;
use axum::routing::{self as on, MethodRouter};
use utoipa::OpenApi;

/// Every route of this dialect.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = open_routes();
    routes.extend(admin_routes());
    routes.extend(approval_routes());
    routes.extend(sandbox_routes());
    routes.extend(inside_routes());
    routes
}

fn open_routes() -> Vec<Route> {
    let route = |path, handler| Route::of(Method::GET, path, Access::Open, Dialect::Native, handler);
    vec![
        route("/healthz", on::get(health::healthz)),
        route("/readyz", on::get(health::readyz)),
        route("/openapi.json", on::get(openapi::json)),
        route("/docs", on::get(page::html)),
    ]
}

fn keyed(method: &Method, path: &'static str, scope: Scope, handler: MethodRouter<AppState>) -> Route {
    Route::of(method.clone(), path, Access::Key(scope), Dialect::Native, handler)
}

fn admin_routes() -> Vec<Route> {
    let admin = Scope::Admin;
    vec![
        keyed(&Method::POST, "/v1/keys", admin, on::post(keys::create)),
        keyed(&Method::GET, "/v1/keys", admin, on::get(keys::list)),
        keyed(&Method::DELETE, "/v1/keys/{id}", admin, on::delete(keys::revoke)),
        keyed(&Method::GET, "/v1/audit", admin, on::get(audit::list)),
    ]
}

fn approval_routes() -> Vec<Route> {
    let (read, approve) = (Scope::Read, Scope::Approve);
    let (get, post) = (&Method::GET, &Method::POST);
    vec![
        keyed(get, "/v1/approvals", read, on::get(approvals::list)),
        keyed(get, "/v1/approvals/{id}", read, on::get(approvals::show)),
        keyed(get, "/v1/approvals/{id}/files", read, on::get(released::read)),
        keyed(
            post,
            "/v1/approvals/{id}/approve",
            approve,
            on::post(approvals::approve),
        ),
        keyed(post, "/v1/approvals/{id}/deny", approve, on::post(approvals::deny)),
        keyed(post, "/v1/approvals/{id}/revoke", approve, on::post(approvals::revoke)),
    ]
}

fn sandbox_routes() -> Vec<Route> {
    let (run, read) = (Scope::Run, Scope::Read);
    let (get, post, delete) = (&Method::GET, &Method::POST, &Method::DELETE);
    vec![
        keyed(post, "/v1/run", run, on::post(run::run)).with_idempotency(),
        keyed(get, "/v1/templates", read, on::get(templates::list)),
        keyed(get, "/v1/templates/{name}", read, on::get(templates::show)),
        keyed(get, "/v1/policies", read, on::get(policies::list)),
        keyed(get, "/v1/policies/{name}", read, on::get(policies::show)),
        keyed(post, "/v1/sandboxes", run, on::post(sandboxes::create)).with_idempotency(),
        keyed(get, "/v1/sandboxes", read, on::get(sandboxes::list)),
        keyed(get, "/v1/sandboxes/{id}", read, on::get(sandboxes::show)),
        keyed(delete, "/v1/sandboxes/{id}", run, on::delete(sandboxes::end)),
        keyed(post, "/v1/sandboxes/{id}/extend", run, on::post(sandboxes::extend)),
        keyed(post, "/v1/sandboxes/{id}/pause", run, on::post(sandboxes::pause)),
        keyed(post, "/v1/sandboxes/{id}/resume", run, on::post(sandboxes::resume)),
        keyed(get, "/v1/sandboxes/{id}/events", read, on::get(events::follow)),
        keyed(post, "/v1/sandboxes/{id}/snapshots", run, on::post(snapshots::create)),
        keyed(post, "/v1/sandboxes/{id}/fork", run, on::post(snapshots::make_forks)),
        keyed(post, "/v1/sandboxes/{id}/rollback", run, on::post(snapshots::roll_back)),
        keyed(get, "/v1/snapshots", read, on::get(snapshots::list)),
        keyed(delete, "/v1/snapshots/{id}", run, on::delete(snapshots::remove)),
    ]
}

fn inside_routes() -> Vec<Route> {
    let (run, read) = (Scope::Run, Scope::Read);
    let (get, post, put, delete) = (&Method::GET, &Method::POST, &Method::PUT, &Method::DELETE);
    let execution = |path, handler| keyed(post, path, run, handler);
    vec![
        execution("/v1/sandboxes/{id}/run", on::post(executions::run)).with_idempotency(),
        execution(
            "/v1/sandboxes/{id}/executions/{execution}/interrupt",
            on::post(executions::interrupt),
        ),
        execution(
            "/v1/sandboxes/{id}/executions/{execution}/extend",
            on::post(executions::extend),
        ),
        keyed(get, "/v1/sandboxes/{id}/contexts", read, on::get(executions::contexts)),
        execution("/v1/sandboxes/{id}/contexts", on::post(executions::create_context)),
        execution(
            "/v1/sandboxes/{id}/contexts/{context}/restart",
            on::post(executions::restart_context),
        ),
        keyed(
            delete,
            "/v1/sandboxes/{id}/contexts/{context}",
            run,
            on::delete(executions::end_context),
        ),
        keyed(get, "/v1/sandboxes/{id}/files", read, on::get(files::read)),
        keyed(put, "/v1/sandboxes/{id}/files", run, on::put(files::write)),
        keyed(delete, "/v1/sandboxes/{id}/files", run, on::delete(files::remove)),
        keyed(get, "/v1/sandboxes/{id}/files/list", read, on::get(file_list::list)),
        keyed(get, "/v1/sandboxes/{id}/files/stat", read, on::get(files::stat)),
        keyed(post, "/v1/sandboxes/{id}/files/move", run, on::post(files::rename)),
        keyed(
            post,
            "/v1/sandboxes/{id}/files/directory",
            run,
            on::post(files::make_dir),
        ),
    ]
}

/// This dialect's part of the description of the API.
#[derive(Debug, OpenApi)]
#[openapi(
    paths(
        health::healthz,
        health::readyz,
        keys::create,
        keys::list,
        keys::revoke,
        audit::list,
        approvals::list,
        approvals::show,
        released::read,
        approvals::approve,
        approvals::deny,
        approvals::revoke,
        run::run,
        templates::list,
        templates::show,
        policies::list,
        policies::show,
        sandboxes::create,
        sandboxes::list,
        sandboxes::show,
        sandboxes::end,
        sandboxes::extend,
        sandboxes::pause,
        sandboxes::resume,
        snapshots::create,
        snapshots::make_forks,
        snapshots::roll_back,
        snapshots::list,
        snapshots::remove,
        events::follow,
        executions::run,
        executions::interrupt,
        executions::extend,
        executions::contexts,
        executions::create_context,
        executions::restart_context,
        executions::end_context,
        files::read,
        files::write,
        files::remove,
        file_list::list,
        files::stat,
        files::rename,
        files::make_dir,
    ),
    components(schemas(ErrorBody))
)]
pub(crate) struct Description;

/// The closed list of codes, for the description.
pub(crate) fn code_list() -> String {
    let row = |code: &ErrorCode| {
        format!(
            "| `{}` | {} | {} |\n",
            code.as_str(),
            code.status().as_u16(),
            code.about()
        )
    };
    let rows: String = ErrorCode::ALL.iter().map(row).collect();
    format!("| code | status | meaning |\n|---|---|---|\n{rows}")
}
