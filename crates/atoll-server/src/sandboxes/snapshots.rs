//! Snapshots of a tenant's sandboxes, and forks: sandboxes that go on from where another one is now.

use super::{Made, Sandboxes, Unheard, Wish};
use crate::api::ApiError;
use crate::auth::Caller;
use atoll_core::SnapshotId;
use atoll_engine::Secrets;
use atoll_engine::session::Session;
use atoll_engine::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tracing::Instrument;

/// Sandboxes that end if nobody hears of them; each, or why there is none.
type Forks = Result<Vec<Result<Unheard, ApiError>>, ApiError>;

/// Bytes of a snapshot's name.
const LONGEST_NAME: usize = 128;
/// Forks of one call.
const MOST_FORKS: u64 = 20;

impl Sandboxes {
    /// Saves a sandbox, which goes on.
    pub async fn save(
        &self,
        caller: &Caller,
        session: &Arc<Session>,
        name: Option<String>,
    ) -> Result<Arc<Snapshot>, ApiError> {
        let name = name.map(checked_name).transpose()?;
        if session.saves() {
            self.quotas.pace(caller)?;
        }
        Ok(self.node.save(session, &caller.actor(), name, false).await?)
    }

    /// Of the caller's tenant, the newest first.
    pub fn snapshots(&self, caller: &Caller) -> Vec<Arc<Snapshot>> {
        self.node.snapshots(&caller.tenant)
    }

    /// One of the caller's tenant.
    pub fn find_snapshot(&self, caller: &Caller, name: &str) -> Option<Arc<Snapshot>> {
        self.node.find_snapshot(&caller.tenant, &SnapshotId::parse(name)?)
    }

    /// Whether it was there.
    pub async fn remove_snapshot(&self, caller: &Caller, name: &str) -> Result<bool, ApiError> {
        match self.find_snapshot(caller, name) {
            Some(found) => Ok(self
                .node
                .remove_snapshot(&caller.actor(), &caller.tenant, &found.id)
                .await?),
            None => Ok(false),
        }
    }

    /// So many new sandboxes like this one, each with what `change` makes of the wish. What cannot be made is told in its place.
    /// A caller who goes away before it hears of them gets none, and nothing of it stays.
    pub async fn make_forks(
        self: &Arc<Self>,
        caller: &Caller,
        session: &Arc<Session>,
        count: Option<u64>,
        change: impl Fn(Wish) -> Wish + Send + Sync + 'static,
    ) -> Result<Vec<Result<Made, ApiError>>, ApiError> {
        let count = count.unwrap_or(1);
        if !(1..=MOST_FORKS).contains(&count) {
            let message = format!("`count` is out of range: requested {count}, allowed 1 to {MOST_FORKS}");
            return Err(ApiError::invalid(message));
        }
        let (tell, heard) = oneshot::channel();
        let (all, caller, session) = (Arc::clone(self), caller.clone(), Arc::clone(session));
        let work = async move {
            let forks = all.forked(&caller, &session, (count, &change), &tell).await;
            tell.send(forks).ok();
        };
        tokio::spawn(work.in_current_span());
        let forks = heard.await.map_err(|_| ApiError::internal())??;
        let taken = |mut fork: Unheard| fork.0.take().ok_or_else(ApiError::internal);
        Ok(forks.into_iter().map(|fork| fork.and_then(taken)).collect())
    }

    async fn forked(
        self: &Arc<Self>,
        caller: &Caller,
        session: &Arc<Session>,
        (count, change): (u64, &(impl Fn(Wish) -> Wish + Sync)),
        asked: &oneshot::Sender<Forks>,
    ) -> Forks {
        let snapshot = self.node.save(session, &caller.actor(), None, true).await?;
        let mut made = Vec::new();
        for _ in (0..count).take_while(|_| !asked.is_closed()) {
            let wish = change(wish(session, &snapshot));
            let fork = self.create(caller, wish).await;
            made.push(fork.map(|fork| Unheard(Some(fork))));
        }
        let by = caller.actor();
        let removed = self.node.remove_snapshot(&by, &caller.tenant, &snapshot.id);
        if let Err(error) = removed.await {
            tracing::error!(error = %crate::chain(&error), "temporary snapshot of a fork could not be removed");
        }
        Ok(made)
    }
}

fn checked_name(name: String) -> Result<String, ApiError> {
    let fine = (1..=LONGEST_NAME).contains(&name.len()) && !name.chars().any(char::is_control);
    match fine {
        true => Ok(name),
        false => Err(ApiError::invalid(format!(
            "a snapshot name must have 1 to {LONGEST_NAME} bytes and no control characters"
        ))),
    }
}

/// With the life and the policy of the sandbox that it is a copy of.
fn wish(session: &Session, snapshot: &Arc<Snapshot>) -> Wish {
    Wish {
        tier: None,
        code: None,
        template: None,
        limits: snapshot.limits,
        env: BTreeMap::new(),
        secrets: Secrets::default(),
        inputs: Vec::new(),
        metadata: session.spec.metadata.clone(),
        rule: session.spec.rule,
        longest: Some(session.spec.longest),
        pause_at_end: session.spec.pause_at_end,
        max_executions: session.spec.max_executions,
        once: false,
        dry_run: false,
        marks: session.spec.marks.clone(),
        policy: Some(Arc::new(session.policy().clone())),
        snapshot: Some(Arc::clone(snapshot)),
    }
}
