//! What is saved of the sandboxes of this machine: snapshots, sandboxes that are made from them, and paused ones, which are
//! found again after a restart.

use super::{Node, NodeError, kind};
use crate::audit::{Action, Actor, Closing, Ending};
use crate::backend::TierError;
use crate::door::{Door, Sandbox};
use crate::engine::EngineError;
use crate::gate::{Approver, RefusedCommand};
use crate::policy::{Policy, PolicyError};
use crate::pool::Pool;
use crate::routing::{floor, refusal_in};
use crate::sandbox::SandboxSpec;
use crate::session::{LifeSpec, Session, SessionError};
use crate::snapshot::{Snapshot, Snapshots};
use atoll_core::{SandboxId, SnapshotId, Tier};
use atoll_guard::redact::Secrets;
use std::sync::Arc;

/// A sandbox that was paused before this process began.
#[derive(Clone, Debug)]
pub struct Paused(Arc<Snapshot>);

impl Paused {
    pub fn id(&self) -> &SandboxId {
        &self.0.sandbox
    }

    pub fn tenant(&self) -> &str {
        &self.0.tenant
    }

    /// What its code was held against.
    pub fn policy(&self) -> Result<Policy, PolicyError> {
        match &self.0.life {
            Some(life) => life.policy.read(),
            None => Err(PolicyError::NoDefault),
        }
    }
}

impl Node {
    /// Makes a sandbox that goes on from where another one was saved: with its limits, and in its tier.
    pub async fn create_from(
        self: &Arc<Self>,
        snapshot: Arc<Snapshot>,
        spec: SandboxSpec,
        life: LifeSpec,
    ) -> Result<Arc<Session>, NodeError> {
        let room = self.take_room()?;
        let sandbox = match self.made_from(&snapshot, &spec).await {
            Err(error) if is_gone(&error) => self.made_from(&snapshot, &spec).await?,
            made => made?,
        };
        Ok(self.begin_life(sandbox, &snapshot.template, (life, spec), room))
    }

    async fn made_from(&self, snapshot: &Arc<Snapshot>, spec: &SandboxSpec) -> Result<Sandbox, NodeError> {
        let pool = self.pool_of(snapshot, &spec.by).await?;
        let files = self.files_of(snapshot).await?;
        let made = pool.engine().create_from(spec.clone(), snapshot, files).await;
        self.seen(snapshot, &pool, made)
    }

    /// Brings a sandbox back to where it was saved, under its own name. Nothing is restored behind a wall below the policy's floor.
    pub(crate) async fn bring_back(
        &self,
        door: &Door,
        action: Action,
        id: &SandboxId,
        spec: &SandboxSpec,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Sandbox, NodeError> {
        if let Some(refused) = self.below_floor(spec, snapshot.tier) {
            let work = async { Err(refused) };
            return Ok(door.bring_back(action, (id, &snapshot.id), work).await?);
        }
        match self.brought_back(door, action, id, spec, snapshot).await {
            Err(error) if is_gone(&error) => self.brought_back(door, action, id, spec, snapshot).await,
            back => back,
        }
    }

    /// What a policy says that has become stricter meanwhile.
    fn below_floor(&self, spec: &SandboxSpec, tier: Tier) -> Option<EngineError> {
        let floor = floor(spec.policy.as_deref()?, &[]);
        let refusal = refusal_in(tier, floor, || self.emulated())?;
        Some(EngineError::Policy(Box::new(RefusedCommand {
            refusal,
            findings: Vec::new(),
            approver: None,
        })))
    }

    async fn brought_back(
        &self,
        door: &Door,
        action: Action,
        id: &SandboxId,
        spec: &SandboxSpec,
        snapshot: &Arc<Snapshot>,
    ) -> Result<Sandbox, NodeError> {
        let pool = self.pool_of(snapshot, &spec.by).await?;
        let work = async {
            let files = self.files_of(snapshot).await?;
            pool.engine().bring_back(spec.clone(), snapshot, files).await
        };
        let back = door.bring_back(action, (id, &snapshot.id), work).await;
        self.seen(snapshot, &pool, back)
    }

    /// Where a jailer is gone, the next try has another one.
    fn seen(
        &self,
        snapshot: &Snapshot,
        pool: &Arc<Pool>,
        made: Result<Sandbox, EngineError>,
    ) -> Result<Sandbox, NodeError> {
        let made = made.map_err(NodeError::from);
        if made.as_ref().is_err_and(is_gone) {
            self.forget(&kind(&snapshot.template, snapshot.tier), pool);
        }
        made
    }

    async fn pool_of(&self, snapshot: &Snapshot, by: &Actor) -> Result<Arc<Pool>, NodeError> {
        let progress = (self.config.progress)(&snapshot.template, snapshot.tier);
        self.open(&snapshot.template, snapshot.tier, by, progress).await
    }

    /// Open, and read once: they are what was saved.
    async fn files_of(&self, snapshot: &Arc<Snapshot>) -> Result<crate::backend::Files, EngineError> {
        let (all, one) = (Arc::clone(&self.snapshots), Arc::clone(snapshot));
        let files = tokio::task::spawn_blocking(move || all.files(&one)).await;
        Ok(files.map_err(|_| EngineError::Interrupted)??)
    }

    /// Saves a sandbox, which goes on. One that is only made for forks is listed nowhere.
    pub async fn save(
        &self,
        session: &Arc<Session>,
        by: &Actor,
        name: Option<String>,
        passing: bool,
    ) -> Result<Arc<Snapshot>, SessionError> {
        session.save(by, &self.snapshots, (name, passing)).await
    }

    /// Of a tenant, the newest first.
    pub fn snapshots(&self, tenant: &str) -> Vec<Arc<Snapshot>> {
        self.snapshots.of(tenant)
    }

    pub fn find_snapshot(&self, tenant: &str, id: &SnapshotId) -> Option<Arc<Snapshot>> {
        self.snapshots.find(tenant, id)
    }

    pub(crate) fn all_snapshots(&self) -> &Arc<Snapshots> {
        &self.snapshots
    }

    /// Whether it was there. Sandboxes that were made from it go on.
    pub async fn remove_snapshot(&self, by: &Actor, tenant: &str, id: &SnapshotId) -> Result<bool, EngineError> {
        let door = self.door(by.clone());
        let ticket = door.enter(Action::SnapshotRemove, id.as_str()).await?;
        let removed = self.remove_files(tenant, id).await;
        ticket.close(|| match &removed {
            Ok(true) => Closing::of(Ending::Ok),
            Ok(false) => Closing::of(Ending::Failed),
            Err(error) => Closing::failed(error),
        });
        removed
    }

    async fn remove_files(&self, tenant: &str, id: &SnapshotId) -> Result<bool, EngineError> {
        let (all, tenant, id) = (Arc::clone(&self.snapshots), tenant.to_owned(), id.clone());
        let removed = tokio::task::spawn_blocking(move || all.remove(&tenant, &id)).await;
        Ok(removed.map_err(|_| EngineError::Interrupted)??)
    }

    /// The files of a pause, which is over. The entry of the resume or of the end tells of it.
    pub(crate) async fn forget_paused(&self, saved: &Snapshot) -> Result<(), EngineError> {
        self.remove_files(&saved.tenant, &saved.id).await.map(drop)
    }

    /// Sandboxes that lie on disk and that nobody has taken up yet.
    pub fn paused(&self) -> Vec<Paused> {
        let all = self.snapshots.paused().into_iter().map(Paused);
        all.filter(|paused| self.find(paused.id()).is_none()).collect()
    }

    /// Goes on with one: it is paused, and held against this from now on.
    pub fn take_up(
        self: &Arc<Self>,
        paused: &Paused,
        policy: Arc<Policy>,
        approver: Arc<dyn Approver>,
    ) -> Option<Arc<Session>> {
        let (saved, life) = (&paused.0, paused.0.life.as_ref()?);
        let made = SandboxSpec {
            tier: saved.tier,
            limits: saved.limits,
            inputs: Vec::new(),
            env: saved.env.clone(),
            secrets: Secrets::default(),
            start: None,
            once: false,
            dry_run: false,
            by: life.by.clone(),
            policy: Some(policy),
            approver: Some(approver),
        };
        let door = self.door(life.by.clone());
        let session = Session::revived(saved, life, made, door, Arc::downgrade(self));
        self.know(&session);
        Some(session)
    }

    /// Removes one whose end is written down.
    pub async fn drop_paused(&self, paused: &Paused) -> Result<(), EngineError> {
        self.forget_paused(&paused.0).await
    }
}

fn is_gone(error: &NodeError) -> bool {
    let gone = |error: &EngineError| matches!(error, EngineError::Tier(TierError::Gone(_)));
    matches!(error, NodeError::Engine(error) if gone(error))
}
