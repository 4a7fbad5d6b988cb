//! Sandboxes by their names, owners and states: live ones, and those that have ended and are still remembered.

use super::{Past, Sandboxes};
use crate::api::ApiError;
use crate::auth::Caller;
use atoll_core::SandboxId;
use atoll_engine::session::{Session, State};
use std::sync::Arc;
use std::time::Duration;

/// How long an agent may take to say what its sandbox uses.
const ASKED_FOR: Duration = Duration::from_millis(500);

impl Sandboxes {
    /// A sandbox of the caller's tenant; one that ended stays visible for a day.
    pub fn find(&self, caller: &Caller, id: &SandboxId) -> Option<Arc<Session>> {
        self.node
            .find(id)
            .filter(|session| session.spec.owner == *caller.tenant)
    }

    /// One of the caller's tenant that this process has seen off. The store hears of it a moment later.
    pub fn just_ended(&self, caller: &Caller, id: &SandboxId) -> Option<Past> {
        let ended = self.node.find_ended(id).filter(|ended| ended.owner == *caller.tenant)?;
        Some(Past {
            id: id.clone(),
            template: ended.template.clone(),
            tier: ended.tier,
            created: ended.created.into(),
            ended: ended.ended.into(),
            reason: ended.reason,
            metadata: ended.metadata.clone(),
            executions: ended.executions,
            events: Some(Arc::clone(&ended.events)),
        })
    }

    /// One of the caller's tenant that is gone, for as long as it is remembered: by this process, else by the store.
    pub async fn find_past(&self, caller: &Caller, id: &SandboxId) -> Result<Option<Past>, ApiError> {
        if let Some(past) = self.just_ended(caller, id) {
            return Ok(Some(past));
        }
        let record = self.store.find_sandbox(&caller.tenant, id).await?;
        Ok(record.and_then(|record| {
            Some(Past {
                id: record.id,
                template: record.template,
                tier: record.tier,
                created: record.created,
                ended: record.ended?,
                reason: record.reason?,
                metadata: record.metadata,
                executions: record.usage.executions,
                events: None,
            })
        }))
    }

    /// Whoever owns it: for requests that show the sandbox's own token. A sealed one has none.
    pub fn by_id(&self, id: &SandboxId) -> Option<Arc<Session>> {
        self.node.find(id).filter(|session| !session.spec.sealed)
    }

    /// The key that has made it.
    pub fn owner(&self, id: &SandboxId) -> Option<Caller> {
        self.owners.find(id)
    }

    /// A sandbox whose maker's key is revoked becomes this caller's, of the same tenant.
    pub fn adopt(&self, caller: &Caller, id: &SandboxId) {
        self.owners.adopt(id, caller);
    }

    /// Live sandboxes of all tenants.
    pub fn live(&self) -> Vec<Arc<Session>> {
        self.node.live()
    }

    /// Live sandboxes of the caller's tenant.
    pub fn of(&self, caller: &Caller) -> Vec<Arc<Session>> {
        let mut live = self.node.live();
        live.retain(|session| session.spec.owner == *caller.tenant);
        live
    }

    /// Memory that running sandboxes use together, as their agents say in time.
    pub async fn memory_bytes(&self) -> u64 {
        let mut sum = 0;
        for session in self.live() {
            if session.state() == State::Running
                && let Ok(Ok(bytes)) = tokio::time::timeout(ASKED_FOR, session.memory_bytes()).await
            {
                sum += bytes;
            }
        }
        sum
    }
}
