//! Who made a request, after the key was checked. Handlers take it as an argument.

use super::ring::KeyTable;
use super::{DEFAULT_TENANT, Scopes};
use crate::api::ApiError;
use crate::config::Quotas;
use crate::http::ConnectionInfo;
use atoll_core::KeyId;
use atoll_core::service::Scope;
use atoll_engine::audit::Actor;
use axum::extract::FromRequestParts;
use axum::http::Extensions;
use axum::http::request::Parts;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::sync::watch;

/// The owner of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    pub key_id: KeyId,
    /// Of the key; absent where requests need none.
    pub(crate) key_name: Option<Arc<str>>,
    pub tenant: Arc<str>,
    pub scopes: Arc<Scopes>,
    /// Where the request came from.
    pub(crate) address: Option<IpAddr>,
    pub(crate) quotas: Quotas,
    /// Absent where requests need no key: nothing can be revoked then.
    pub(crate) keys: Option<watch::Receiver<Arc<KeyTable>>>,
}

impl Caller {
    /// Of a server that asks for no key. Keys outlive such a server, so nobody makes one without a key.
    pub fn anonymous() -> Self {
        Self {
            key_id: KeyId::from_random([0; 16]),
            key_name: None,
            tenant: DEFAULT_TENANT.into(),
            scopes: Arc::new(Scopes::all().without(Scope::Admin)),
            address: None,
            quotas: Quotas::default(),
            keys: None,
        }
    }

    /// As the audit log tells of it.
    pub fn actor(&self) -> Actor {
        Actor {
            key: Some(self.key_id.to_string()),
            key_name: self.key_name.as_deref().map(str::to_owned),
            address: self.address.map(|address| address.to_string()),
            ..Actor::of(&self.tenant)
        }
    }

    /// The same, in a request from there.
    pub(crate) fn seen_in(mut self, extensions: &Extensions) -> Self {
        self.address = address(extensions);
        self
    }

    pub fn require(&self, scope: Scope) -> Result<(), ApiError> {
        if self.scopes.has(scope) {
            return Ok(());
        }
        Err(ApiError::scope_missing(scope))
    }

    /// The same caller as somebody of this tenant. Only an operator may be one of another.
    pub(crate) fn within(&self, tenant: Option<&str>) -> Result<Self, ApiError> {
        let Some(tenant) = tenant.filter(|tenant| *tenant != &*self.tenant) else {
            return Ok(self.clone());
        };
        self.require(Scope::Admin)?;
        super::check_tenant(tenant).map_err(|error| ApiError::invalid(error.to_string()))?;
        Ok(Self {
            tenant: tenant.into(),
            ..self.clone()
        })
    }

    pub fn is_revoked(&self) -> bool {
        let keys = self.keys.as_ref();
        keys.is_some_and(|keys| !keys.borrow().is_valid(&self.key_id))
    }

    /// Ends when the key is revoked. Long streams wait for it beside their work.
    pub async fn revoked(&self) {
        if let Some(mut keys) = self.keys.clone() {
            let gone = keys.wait_for(|table| !table.is_valid(&self.key_id)).await;
            if gone.is_ok() {
                return;
            }
        }
        std::future::pending().await
    }
}

/// Where a request came from, as the kernel says it: a proxy in front is what is seen.
pub(crate) fn address(extensions: &Extensions) -> Option<IpAddr> {
    extensions.get::<ConnectionInfo>().map(|info| info.peer.ip())
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // A route of an open class has no caller; asking for one there is our mistake.
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::internal)
    }
}
