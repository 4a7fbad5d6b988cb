//! Paused sandboxes: back among the live ones, or found again after a restart; and live ones that go back to a snapshot.

use super::Sandboxes;
use crate::api::ApiError;
use crate::auth::{Caller, KeyRing};
use crate::store::StoreError;
use atoll_engine::audit::Actor;
use atoll_engine::gate::Approver;
use atoll_engine::session::{PausedTo, Refused, Session, SessionError, Slot, State};
use atoll_engine::{EngineError, Paused, TierError};
use std::sync::Arc;
use std::time::Instant;

impl Sandboxes {
    /// Lets a paused sandbox go on. One that lies on disk needs a place of its maker among the live ones.
    pub async fn resume(&self, by: &Actor, session: &Arc<Session>) -> Result<(), ApiError> {
        match session.resume(by, self.place_for(session).await?).await {
            // It was on its way there.
            Err(SessionError::Refused(Refused::JustPaused)) => {
                Ok(session.resume(by, self.place_for(session).await?).await?)
            }
            done => Ok(done?),
        }
    }

    /// On a full server this waits, until a slot is free or another request has resumed or ended the sandbox.
    async fn place_for(&self, session: &Session) -> Result<Option<Slot>, ApiError> {
        let owner = self.owners.find(session.id());
        let Some(owner) = owner.filter(|_| session.paused_to() == Some(PausedTo::Disk)) else {
            return Ok(None);
        };
        let asked = Instant::now();
        let slot = tokio::select! {
            biased;
            slot = self.quotas.readmit(&owner) => Some(slot),
            () = goes_on(session) => None,
        };
        self.metrics.create_waited(asked.elapsed());
        let slot = slot.transpose()?;
        Ok(slot.map(|slot| Box::new(slot) as Slot))
    }

    /// Goes back to a snapshot of the same sandbox.
    pub async fn roll_back(&self, caller: &Caller, session: &Arc<Session>, name: &str) -> Result<(), ApiError> {
        if !session.saves() {
            return Err(EngineError::from(TierError::NotInTier(session.tier())).into());
        }
        let found = self.find_snapshot(caller, name);
        let snapshot = found.ok_or_else(|| ApiError::not_found("snapshot"))?;
        self.quotas.pace(caller)?;
        Ok(session.roll_back(&caller.actor(), snapshot).await?)
    }

    /// At the start: sandboxes that were paused when the last server ended are there again, each with its owner. What the store
    /// takes for ended is removed.
    pub async fn take_up_paused(self: &Arc<Self>, keys: &KeyRing) -> Result<Vec<Arc<Session>>, StoreError> {
        let mut taken = Vec::new();
        for paused in self.node.paused() {
            let record = self.store.find_sandbox(paused.tenant(), paused.id()).await?;
            let session = match record.filter(|record| record.ended.is_none()) {
                Some(record) => self.take_up(&paused, &keys.owner(&record.key_id, &record.tenant)),
                None => None,
            };
            match session {
                Some(session) => taken.push(session),
                None => self.drop_paused(&paused).await,
            }
        }
        Ok(taken)
    }

    fn take_up(self: &Arc<Self>, paused: &Paused, owner: &Caller) -> Option<Arc<Session>> {
        let policy = self.policies.still(paused.tenant(), paused.policy().ok()?);
        let approver = Arc::clone(&self.approvals) as Arc<dyn Approver>;
        let session = self.node.take_up(paused, policy, approver)?;
        self.own(owner, &session);
        // It was charged before.
        self.owners.uncharged(session.id(), session.cpu_ms());
        Some(session)
    }

    async fn drop_paused(&self, paused: &Paused) {
        if let Err(error) = self.node.drop_paused(paused).await {
            tracing::error!(error = %crate::chain(&error), "saved state of an ended sandbox could not be removed");
        }
    }
}

/// Waits until the sandbox is not paused any more.
async fn goes_on(session: &Session) {
    let (_, mut seen) = session.events.span();
    while session.state() == State::Paused {
        let new = session.events.after(seen).await;
        seen = new.last().map_or(seen, |event| event.number);
    }
}
