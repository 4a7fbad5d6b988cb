//! What all handlers share.

use crate::api::budget::Budget;
use crate::api::e2b::E2b;
use crate::api::idempotency::KeyedRequests;
use crate::approvals::Approvals;
use crate::auth::KeyRing;
use crate::config::{Domain, Settings};
use crate::http::HostRules;
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::policies::Policies;
use crate::ready::Readiness;
use crate::sandboxes::Sandboxes;
use crate::spool::Spool;
use crate::store::Store;
use std::ops::Deref;
use std::sync::Arc;

/// A handle; copies are cheap.
#[derive(Clone, Debug)]
pub struct AppState(Arc<Shared>);

/// Seen through [`AppState`].
#[derive(Debug)]
pub struct Shared {
    pub settings: Settings,
    /// With the port that is really listened on.
    pub domain: Domain,
    pub store: Store,
    pub keys: KeyRing,
    pub limits: Limits,
    pub metrics: Metrics,
    pub ready: Readiness,
    pub hosts: HostRules,
    pub sandboxes: Arc<Sandboxes>,
    pub policies: Arc<Policies>,
    pub approvals: Arc<Approvals>,
    pub(crate) spool: Spool,
    pub(crate) budget: Arc<Budget>,
    pub(crate) keyed_requests: Arc<KeyedRequests>,
    pub(crate) e2b: Arc<E2b>,
}

impl AppState {
    pub fn new(shared: Shared) -> Self {
        Self(Arc::new(shared))
    }
}

impl Deref for AppState {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.0
    }
}
