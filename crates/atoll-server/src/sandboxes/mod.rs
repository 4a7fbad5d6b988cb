//! Sandboxes as tenants see them: made within quotas, written down before anybody hears of them, found by their owner.
//!
//! All dialects come through here; the engine below knows neither keys nor records.

mod charges;
mod denials;
mod find;
mod pauses;
mod processes;
mod snapshots;
mod tier;
mod wish;

pub use wish::{Made, Past, Wish};

use crate::api::{ApiError, ErrorCode};
use crate::approvals::Approvals;
use crate::auth::Caller;
use crate::builds::{BuildTarget, Builds, LoggedBuild};
use crate::clock::Timestamp;
use crate::descriptors::SharedDescriptors;
use crate::limits::{Admission, Limits as Quotas, Rate, Slot};
use crate::metrics::{ClaimedFrom, Metrics};
use crate::owners::Owners;
use crate::policies::Policies;
use crate::store::{Store, Usage};
use atoll_core::{EndReason, SandboxId, Tier};
use atoll_engine::gate::Approver;
use atoll_engine::policy::Policy;
use atoll_engine::session::{LifeSpec, Session};
use atoll_engine::{ExpectedClaim, Node, Origin, SandboxSpec};
use processes::DescriptorLedger;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::Instrument;
use wish::{Unheard, check_metadata, record};

/// What sandboxes have that say nothing else.
#[derive(Debug)]
pub struct Usual {
    pub template: String,
    /// How long one may live at most.
    pub longest: Duration,
    pub policies: Arc<Policies>,
}

#[derive(Debug)]
pub struct Sandboxes {
    node: Arc<Node>,
    store: Store,
    quotas: Quotas,
    metrics: Metrics,
    template: String,
    longest: Duration,
    owners: Owners,
    builds: Builds,
    policies: Arc<Policies>,
    approvals: Arc<Approvals>,
    descriptors: DescriptorLedger,
}

impl Sandboxes {
    pub(crate) fn new(
        node: Arc<Node>,
        store: Store,
        quotas: Quotas,
        metrics: Metrics,
        usual: Usual,
        approvals: Arc<Approvals>,
        shared: SharedDescriptors,
    ) -> Arc<Self> {
        let Usual {
            template,
            longest,
            policies,
        } = usual;
        Arc::new(Self {
            node,
            store,
            quotas,
            metrics,
            template,
            longest,
            owners: Owners::default(),
            builds: Builds::default(),
            policies,
            approvals,
            descriptors: DescriptorLedger::new(shared),
        })
    }

    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// A key has been given the token of a sandbox: it may ask in the name of its maker.
    pub fn token_given(&self, caller: &Caller, id: &SandboxId) {
        self.approvals.token_given(id, &caller.key_id);
    }

    /// What the code of such a sandbox is held against.
    pub fn policy_of(&self, caller: &Caller, wish: &Wish) -> Arc<Policy> {
        self.policies.within(&caller.tenant, wish.policy.as_deref())
    }

    /// Makes a sandbox for a caller who may have one. A caller who goes away before it hears of it gets none.
    pub async fn create(self: &Arc<Self>, caller: &Caller, wish: Wish) -> Result<Made, ApiError> {
        self.create_in(None, caller, wish).await
    }

    /// The same in the slot of a sandbox that is gone: it does not wait, and is no second create of the caller.
    pub async fn replace(
        self: &Arc<Self>,
        slot: Arc<Slot>,
        caller: &Caller,
        wish: Wish,
    ) -> Result<Arc<Session>, ApiError> {
        let made = self.create_in(Some(slot), caller, wish).await?;
        Ok(made.session)
    }

    async fn create_in(
        self: &Arc<Self>,
        slot: Option<Arc<Slot>>,
        caller: &Caller,
        wish: Wish,
    ) -> Result<Made, ApiError> {
        let (mut tell, heard) = oneshot::channel();
        let (all, caller) = (Arc::clone(self), caller.clone());
        let work = async move {
            let made = all.make(slot, &caller, wish, &mut tell).await;
            // Nobody waits any more: what is dropped ends.
            tell.send(made.map(|made| Unheard(Some(made)))).ok();
        };
        tokio::spawn(work.in_current_span());
        let mut made = heard.await.map_err(|_| ApiError::internal())??;
        made.0.take().ok_or_else(ApiError::internal)
    }

    async fn make(
        self: &Arc<Self>,
        slot: Option<Arc<Slot>>,
        caller: &Caller,
        mut wish: Wish,
        tell: &mut oneshot::Sender<Result<Unheard, ApiError>>,
    ) -> Result<Made, ApiError> {
        if let Some(snapshot) = &wish.snapshot {
            (wish.tier, wish.template) = (Some(snapshot.tier), Some(snapshot.template.clone()));
        }
        check_metadata(&wish.metadata)?;
        let policy = self.policy_of(caller, &wish);
        let chosen = self.choose_built(caller, &policy, &wish)?;
        let tier = chosen.tier;
        let template = wish.template.unwrap_or_else(|| self.template.clone());
        let (is_claim, limits) = (wish.snapshot.is_none() && !wish.dry_run, wish.limits);
        let expect = || {
            let claim = is_claim.then(|| self.node.expect_claim(&template, tier, &limits));
            claim.flatten()
        };
        let (slot, rate) = match slot {
            Some(slot) => (slot, None),
            None => self.admit(caller, expect, tell).await?,
        };
        let began = Instant::now();
        let spec = SandboxSpec {
            tier,
            limits: wish.limits,
            inputs: wish.inputs,
            env: wish.env,
            secrets: wish.secrets,
            start: None,
            once: wish.once,
            dry_run: wish.dry_run,
            by: caller.actor(),
            policy: Some(policy),
            approver: Some(Arc::clone(&self.approvals) as Arc<dyn Approver>),
        };
        let life = LifeSpec {
            owner: caller.tenant.to_string(),
            metadata: wish.metadata,
            rule: wish.rule,
            longest: wish.longest.unwrap_or(self.longest).min(self.longest),
            pause_at_end: wish.pause_at_end,
            max_executions: wish.max_executions,
            // Its files are held: there is no other way to them.
            sealed: wish.dry_run,
            marks: wish.marks,
        };
        let made = match wish.snapshot {
            Some(snapshot) => self.node.create_from(snapshot, spec, life).await,
            None => self.node.create(&template, spec, life).await,
        };
        let session = made?;
        self.metrics
            .claimed(&template, session.tier(), from(session.origin()), began.elapsed());
        // Queued first, it shares the commit of the record.
        let one = Usage {
            sandboxes: 1,
            ..Usage::default()
        };
        self.used(caller, one);
        if let Err(error) = self.store.add_sandbox(record(caller, &session)).await {
            session.end(EndReason::Failed);
            return Err(error.into());
        }
        session.hold(Arc::clone(&slot));
        self.own(caller, &session);
        Ok(Made {
            session,
            chosen,
            rate,
            slot,
        })
    }

    /// A caller who goes away leaves the queue. While the create waits, the pool that it will claim from prepares for it.
    async fn admit(
        &self,
        caller: &Caller,
        expect: impl FnOnce() -> Option<ExpectedClaim>,
        tell: &mut oneshot::Sender<Result<Unheard, ApiError>>,
    ) -> Result<(Arc<Slot>, Option<Rate>), ApiError> {
        let asked = Instant::now();
        let admitted = tokio::select! {
            admitted = self.quotas.admit(caller, Timestamp::now(), expect) => admitted,
            () = tell.closed() => Err(ApiError::internal()),
        };
        self.metrics.create_waited(asked.elapsed());
        let Admission { slot, rate } = admitted?;
        Ok((Arc::new(slot), rate))
    }

    /// From now on it is the caller's, until it is seen off.
    fn own(self: &Arc<Self>, caller: &Caller, session: &Arc<Session>) {
        self.owners.add(session.id().clone(), caller.clone());
        tokio::spawn(Arc::clone(self).see_off(Arc::clone(session)));
    }

    /// One that is not there is refused; one that is not built is begun.
    fn check_template(&self, caller: &Caller, template: &str, tier: Tier) -> Result<(), ApiError> {
        if self.node.is_open(template, tier) {
            return Ok(());
        }
        if tier != Tier::Wasm && !self.has_template(template) {
            return Err(ApiError::new(
                ErrorCode::NotFound,
                format!("unknown template `{template}`; available: {}", self.template_names()),
            ));
        }
        if self.node.is_built(template, tier) {
            Ok(())
        } else {
            Err(self.build(caller, template, tier))
        }
    }

    /// A build beside the requests. It ends with an open pool, so that the next request is quick.
    fn build(&self, caller: &Caller, template: &str, tier: Tier) -> ApiError {
        let (node, name, by) = (Arc::clone(&self.node), template.to_owned(), caller.actor());
        let target = BuildTarget::of(template, tier);
        let progress = Arc::new(LoggedBuild::of(&target));
        self.builds.begin(target, async move {
            tracing::info!(template = name, %tier, "building what a request needs");
            let opened = node.open(&name, tier, &by, progress).await;
            opened.map(drop).map_err(|error| {
                tracing::error!(error = %crate::chain(&error), "the build failed");
                ApiError::from(error)
            })
        })
    }

    /// Writes down the end when nothing is left.
    async fn see_off(self: Arc<Self>, session: Arc<Session>) {
        session.gone().await;
        let reason = session.end_reason().map_or(EndReason::Failed, |(reason, _)| reason);
        self.metrics.sandbox_ended(reason);
        self.charge_cpu(&session);
        self.owners.seen_off(session.id());
        let usage = Usage {
            sandboxes: 1,
            executions: session.executions(),
            cpu_ms: session.cpu_ms().unwrap_or(0),
            ..Usage::default()
        };
        if let Err(error) = self.store.end_sandbox(session.id(), reason, usage).await {
            tracing::error!(error = %crate::chain(&error), "end of a sandbox could not be stored");
        }
    }

    /// The template of sandboxes that name none.
    pub fn usual_template(&self) -> &str {
        &self.template
    }

    fn template_names(&self) -> String {
        let known = self.node.templates().list().unwrap_or_default();
        let names: Vec<String> = known.iter().map(|one| one.name.clone()).collect();
        names.join(", ")
    }

    pub fn has_template(&self, name: &str) -> bool {
        let known = self.node.templates().list();
        known.is_ok_and(|known| known.iter().any(|one| one.name == name))
    }

    /// Forgets who owned sandboxes that the node has forgotten.
    pub fn tidy(&self) {
        self.owners.tidy(|id| self.node.find(id).is_some());
    }
}

fn from(origin: Origin) -> ClaimedFrom {
    match origin {
        Origin::Pool => ClaimedFrom::Pool,
        Origin::Made => ClaimedFrom::Demand,
    }
}
