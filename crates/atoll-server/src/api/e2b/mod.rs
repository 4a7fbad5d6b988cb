//! E2B's protocol, as its published clients speak it: control API, a sandbox's own service, the code interpreter.
//!
//! All of it on one listener. A request for a sandbox names it by header or by host; the sandbox itself knows nothing
//! of HTTP: its agent does the work.

mod ascii;
mod connect;
mod control;
mod counts;
mod error;
mod files;
mod filesystem;
mod interpreter;
mod list;
mod ports;
mod process;
mod route;
mod tokens;
mod watchers;

use crate::sandboxes::Sandboxes;
use atoll_core::Limits;
use axum::extract::FromRef;
use axum::http::StatusCode;
use counts::Counts;
use route::Unchecked;
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
    /// Under which the names of ports are.
    domain: String,
    limits: Limits,
    longest: Duration,
}

impl E2b {
    pub(crate) fn new(sandboxes: Arc<Sandboxes>, domain: String, limits: Limits, longest: Duration) -> Arc<Self> {
        Arc::new(Self {
            sandboxes,
            tokens: Tokens::new(crate::random()),
            watchers: Arc::default(),
            counts: Counts::default(),
            domain,
            limits,
            longest,
        })
    }
}

impl FromRef<Arc<E2b>> for Arc<Watchers> {
    fn from_ref(e2b: &Arc<E2b>) -> Self {
        Arc::clone(&e2b.watchers)
    }
}

/// Whether a sandbox runs. Says nothing else, so it needs no token.
async fn health(_running: Unchecked) -> StatusCode {
    StatusCode::NO_CONTENT
}
