//! E2B's protocol, as its published clients speak it: control API, a sandbox's own service, the code interpreter.
//!
//! All of it on one listener. A request for a sandbox names it by header, by host or by path; the sandbox itself knows nothing
//! of HTTP: its agent does the work.

mod ascii;
mod connect;
mod control;
mod cookies;
mod counts;
mod create;
pub(crate) mod error;
mod files;
mod filesystem;
mod inner;
mod interpreter;
mod lines;
mod list;
mod list_dir;
mod metrics;
mod pages;
mod ports;
mod process;
mod reach;
mod route;
mod snapshots;
mod target;
mod tier;
mod tokens;
mod unpack;
mod user;
mod waiting;
mod waking;
mod watchers;
mod words;

use crate::api::table::{Access, Dialect, Route};
use crate::api::{ApiError, AppState, ErrorCode};
use crate::sandboxes::Sandboxes;
use atoll_core::Limits;
use atoll_core::service::Scope;
use axum::http::{Method, StatusCode};
use axum::routing::MethodRouter;
use counts::Counts;
pub(crate) use ports::dispatch as dispatch_ports;
use reach::Reaches;
pub(crate) use route::name_in;
use std::sync::Arc;
use std::time::Duration;
use tokens::Tokens;
use watchers::Watchers;

/// What the handlers of this dialect share.
#[derive(Debug)]
pub(crate) struct E2b {
    sandboxes: Arc<Sandboxes>,
    tokens: Tokens,
    watchers: Arc<Watchers>,
    counts: Counts,
    reach: Reaches,
    /// Under which the names of ports are.
    domain: String,
    limits: Limits,
    longest: Duration,
}

impl E2b {
    pub(crate) fn new(sandboxes: Arc<Sandboxes>, domain: String, limits: Limits, longest: Duration) -> Arc<Self> {
        Arc::new(Self {
            sandboxes,
            tokens: Tokens::new(crate::random_bytes()),
            watchers: Arc::default(),
            counts: Counts::default(),
            reach: Reaches::default(),
            domain,
            limits,
            longest,
        })
    }
}

/// Whether a sandbox runs. Says nothing else, so it needs no token.
async fn health() -> StatusCode {
    StatusCode::NO_CONTENT
}

/// Parts of E2B's API that this server has not: said in words, where a bare 404 would leave people guessing.
pub(crate) fn lacks(path: &str) -> Option<ApiError> {
    let mut parts = path.trim_start_matches('/').split('/');
    let first = parts.next().unwrap_or_default();
    let first = match first {
        "v2" | "v3" => parts.next().unwrap_or_default(),
        first => first,
    };
    let message = match first {
        "volumes" | "volumecontent" => "volumes are not supported by this server; write files into each sandbox",
        "secrets" => "stored secrets are not supported by this server; pass variables with `envs`",
        "templates" => "templates cannot be built over HTTP; run `atoll template build` on the server",
        _ => return None,
    };
    Some(ApiError::new(ErrorCode::NotSupported, message))
}

/// Bodies that are taken piece by piece; all others are read whole.
const STREAMED: [&str; 2] = ["/files", "/process.Process/StreamInput"];

/// Every route of this dialect.
pub(crate) fn routes() -> Vec<Route> {
    let mut routes = control_routes();
    routes.extend(inside_routes());
    routes.extend(interpreter_routes());
    let whole = |route: Route| match STREAMED.contains(&route.path) || route.method == Method::GET {
        true => route,
        false => route.with_whole_body(),
    };
    routes.into_iter().map(whole).collect()
}

fn control_routes() -> Vec<Route> {
    let route = |method: &Method, path, scope, handler: MethodRouter<AppState>| {
        Route::of(method.clone(), path, Access::Key(scope), Dialect::E2bApi, handler)
    };
    let (run, read) = (Scope::Run, Scope::Read);
    let (get, post, put, delete) = (&Method::GET, &Method::POST, &Method::PUT, &Method::DELETE);
    use axum::routing as on;
    vec![
        route(post, "/v2/sandboxes", run, on::post(create::create_v2)).with_idempotency(),
        route(post, "/sandboxes", run, on::post(create::create_v1)).with_idempotency(),
        route(get, "/v2/sandboxes", read, on::get(control::list)),
        route(get, "/sandboxes", read, on::get(control::list)),
        route(get, "/sandboxes/{id}", read, on::get(control::info)),
        route(delete, "/sandboxes/{id}", run, on::delete(control::kill)),
        route(post, "/v2/sandboxes/{id}/connect", run, on::post(control::connect)),
        route(post, "/sandboxes/{id}/connect", run, on::post(control::connect)),
        route(post, "/sandboxes/{id}/resume", run, on::post(control::old_resume)),
        route(post, "/sandboxes/{id}/timeout", run, on::post(control::set_timeout)),
        route(post, "/sandboxes/{id}/pause", run, on::post(control::pause)),
        route(get, "/sandboxes/{id}/metrics", read, on::get(metrics::metrics)),
        route(post, "/sandboxes/{id}/snapshots", run, on::post(snapshots::create)),
        route(post, "/sandboxes/{id}/fork", run, on::post(snapshots::make_forks)),
        route(put, "/sandboxes/{id}/network", run, on::put(control::network)),
        route(get, "/snapshots", read, on::get(snapshots::list)),
        route(delete, "/templates/{id}", run, on::delete(snapshots::remove)),
        route(
            get,
            "/templates/aliases/{alias}",
            read,
            on::get(control::template_alias),
        ),
    ]
}

fn inside_routes() -> Vec<Route> {
    use axum::routing as on;
    let access = Access::Token(route::by_access);
    let rpc = |path, handler| Route::of(Method::POST, path, access, Dialect::E2bRpc, handler);
    let api =
        |method: Method, check, handler| Route::of(method, "/files", Access::Token(check), Dialect::E2bApi, handler);
    vec![
        Route::of(
            Method::GET,
            "/health",
            Access::Named(route::is_there),
            Dialect::E2bApi,
            on::get(health),
        ),
        api(Method::GET, files::may_read, on::get(files::download)),
        api(Method::POST, files::may_write, on::post(files::upload)),
        rpc("/process.Process/Start", on::post(process::start)),
        rpc("/process.Process/Connect", on::post(process::connect)),
        rpc("/process.Process/List", on::post(process::list)),
        rpc("/process.Process/SendInput", on::post(process::send_input)),
        rpc("/process.Process/StreamInput", on::post(process::stream_input)),
        rpc("/process.Process/SendSignal", on::post(process::send_signal)),
        rpc("/process.Process/CloseStdin", on::post(process::close_stdin)),
        rpc("/process.Process/Update", on::post(process::update)),
        rpc("/filesystem.Filesystem/Stat", on::post(filesystem::stat)),
        rpc("/filesystem.Filesystem/MakeDir", on::post(filesystem::make_dir)),
        rpc("/filesystem.Filesystem/Move", on::post(filesystem::rename)),
        rpc("/filesystem.Filesystem/ListDir", on::post(list_dir::list_dir)),
        rpc("/filesystem.Filesystem/Remove", on::post(filesystem::remove)),
        rpc("/filesystem.Filesystem/WatchDir", on::post(filesystem::watch_dir)),
        rpc(
            "/filesystem.Filesystem/CreateWatcher",
            on::post(filesystem::create_watcher),
        ),
        rpc(
            "/filesystem.Filesystem/GetWatcherEvents",
            on::post(filesystem::watcher_events),
        ),
        rpc(
            "/filesystem.Filesystem/RemoveWatcher",
            on::post(filesystem::remove_watcher),
        ),
    ]
}

fn interpreter_routes() -> Vec<Route> {
    use axum::routing as on;
    let either = Access::Token(route::by_either);
    let route = |method: Method, path, handler| Route::of(method, path, either, Dialect::E2bInterpreter, handler);
    vec![
        route(Method::POST, "/execute", on::post(interpreter::execute)).with_idempotency(),
        route(Method::POST, "/contexts", on::post(interpreter::create_context)),
        route(Method::GET, "/contexts", on::get(interpreter::list_contexts)),
        route(
            Method::POST,
            "/contexts/{id}/restart",
            on::post(interpreter::restart_context),
        ),
        route(
            Method::DELETE,
            "/contexts/{id}",
            on::delete(interpreter::remove_context),
        ),
    ]
}
