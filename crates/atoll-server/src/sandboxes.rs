//! Sandboxes as tenants see them: made within quotas, written down before anybody hears of them, found by their owner.
//!
//! All dialects come through here; the engine below knows neither keys nor records.

use crate::api::{ApiError, ErrorCode};
use crate::auth::Caller;
use crate::builds::Builds;
use crate::clock::Timestamp;
use crate::limits::{Admission, Limits as Quotas, Rate, Slot};
use crate::metrics::{ClaimedFrom, LimitHit, Metrics};
use crate::owners::Owners;
use crate::store::{SandboxRecord, Store, Usage};
use atoll_core::execution::Execution;
use atoll_core::service::SandboxState;
use atoll_core::{EndReason, KeyId, Limits, SandboxId, Tier};
use atoll_engine::audit::Actor;
use atoll_engine::session::{EventLog, LifeSpec, Rule, Session, SessionError, State};
use atoll_engine::{Input, Node, NodeError, Origin, Quiet, Request, SandboxSpec, Sink};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tracing::Instrument;

/// Kept for a day after the end, of every sandbox.
const MAX_METADATA_BYTES: usize = 16 << 10;

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let length: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    match length <= MAX_METADATA_BYTES {
        true => Ok(()),
        false => Err(ApiError::invalid(format!(
            "the metadata is {length} bytes long, at most {MAX_METADATA_BYTES} are kept"
        ))),
    }
}

/// How long an agent may take to say what its sandbox uses.
const ASKED_FOR: Duration = Duration::from_millis(500);

/// A sandbox that is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// `None`: the server's own.
    pub template: Option<String>,
    pub limits: Limits,
    pub env: BTreeMap<String, String>,
    pub inputs: Vec<Input>,
    pub metadata: BTreeMap<String, String>,
    pub rule: Rule,
    /// `None`: as long as the server allows.
    pub longest: Option<Duration>,
    pub pause_at_end: bool,
    pub max_executions: Option<u64>,
    /// For one execution, after which it ends.
    pub once: bool,
}

/// What is still known of a sandbox that has ended.
#[derive(Clone, Debug)]
pub struct Past {
    pub id: SandboxId,
    pub template: String,
    pub created: Timestamp,
    pub ended: Timestamp,
    pub reason: EndReason,
    pub metadata: BTreeMap<String, String>,
    pub executions: u64,
    /// Gone with the process that saw them.
    pub events: Option<Arc<EventLog>>,
}

/// A new sandbox, and what its maker may still make.
#[derive(Debug)]
pub struct Made {
    pub session: Arc<Session>,
    pub rate: Option<Rate>,
    /// Its place among the live ones. Whoever keeps files of it keeps the place, too.
    pub slot: Arc<Slot>,
}

/// A sandbox whose owner has not heard of it yet.
struct Unheard(Option<Made>);

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(made) = &self.0 {
            made.session.end(EndReason::Closed);
        }
    }
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
}

impl Sandboxes {
    pub fn new(
        node: Arc<Node>,
        store: Store,
        quotas: Quotas,
        metrics: Metrics,
        template: String,
        longest: Duration,
    ) -> Arc<Self> {
        Arc::new(Self {
            node,
            store,
            quotas,
            metrics,
            template,
            longest,
            owners: Owners::default(),
            builds: Builds::default(),
        })
    }

    pub fn node(&self) -> &Arc<Node> {
        &self.node
    }

    /// Makes a sandbox for a caller who may have one. A caller who goes away before it hears of it gets none.
    pub async fn create(self: &Arc<Self>, caller: &Caller, wish: Wish) -> Result<Made, ApiError> {
        let (tell, heard) = oneshot::channel();
        let (all, caller) = (Arc::clone(self), caller.clone());
        let work = async move {
            let made = all.make(&caller, wish).await;
            // Nobody waits any more: what is dropped ends.
            tell.send(made.map(|made| Unheard(Some(made)))).ok();
        };
        tokio::spawn(work.in_current_span());
        let mut made = heard.await.map_err(|_| ApiError::internal())??;
        made.0.take().ok_or_else(ApiError::internal)
    }

    async fn make(self: &Arc<Self>, caller: &Caller, wish: Wish) -> Result<Made, ApiError> {
        let began = Instant::now();
        check_metadata(&wish.metadata)?;
        let template = wish.template.unwrap_or_else(|| self.template.clone());
        if !self.node.is_open(&template) {
            self.check_template(caller, &template)?;
        }
        let Admission { slot, rate } = self.quotas.admit(caller, Timestamp::now())?;
        let spec = SandboxSpec {
            limits: wish.limits,
            inputs: wish.inputs,
            env: wish.env,
            start: None,
            once: wish.once,
            by: caller.actor(),
            policy: None,
        };
        let life = LifeSpec {
            owner: caller.tenant.to_string(),
            metadata: wish.metadata,
            rule: wish.rule,
            longest: wish.longest.unwrap_or(self.longest).min(self.longest),
            pause_at_end: wish.pause_at_end,
            max_executions: wish.max_executions,
        };
        let session = self.node.create(&template, spec, life).await.map_err(refused)?;
        self.metrics
            .claimed(&template, Tier::Jail, from(session.origin()), began.elapsed());
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
        self.owners.add(session.id().clone(), caller.clone());
        let slot = Arc::new(slot);
        session.hold(Arc::clone(&slot));
        tokio::spawn(Arc::clone(self).see_off(Arc::clone(&session)));
        Ok(Made { session, rate, slot })
    }

    /// One that is not there is refused; one that is not built is begun.
    fn check_template(&self, caller: &Caller, template: &str) -> Result<(), ApiError> {
        match self.has_template(template) {
            false => Err(ApiError::new(
                ErrorCode::NotFound,
                format!("there is no template `{template}`; known are {}", self.template_names()),
            )),
            true if self.node.is_built(template) => Ok(()),
            true => Err(self.build(caller, template)),
        }
    }

    /// A build beside the requests. It ends with an open pool, so that the next request is quick.
    fn build(&self, caller: &Caller, template: &str) -> ApiError {
        let (node, name, by) = (Arc::clone(&self.node), template.to_owned(), caller.actor());
        self.builds.begin(template, async move {
            tracing::info!(template = name, "a template is built because a request asked for it");
            let opened = node.open(&name, &by, Arc::new(Quiet)).await;
            if let Err(error) = &opened {
                tracing::error!(error = %crate::chain(error), "a template could not be made ready");
            }
            opened.is_ok()
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
            tracing::error!(error = %crate::chain(&error), "the end of a sandbox could not be written down");
        }
    }

    /// Runs code, counted for who owns the sandbox.
    pub async fn execute(
        &self,
        session: &Session,
        by: &Actor,
        request: Request<'_>,
        sink: Sink<'_>,
    ) -> Result<Execution, SessionError> {
        let bytes_in = request.code.len() as u64;
        let began = Instant::now();
        let execution = session.execute(by, request, sink).await?;
        self.metrics.execution_ended(execution.outcome, began.elapsed());
        let cut = execution.truncated;
        if cut.stdout || cut.stderr || cut.results {
            self.metrics.limit_hit(LimitHit::Output);
        }
        let cpu_ms = session.cpu_ms();
        if let Some((owner, more)) = self.owners.uncharged(session.id(), cpu_ms) {
            let more = Usage {
                executions: 1,
                // What all of the sandbox has used since it was last asked, or at least this execution.
                cpu_ms: cpu_ms.map_or(execution.usage.cpu_ms, |_| more),
                wall_ms: execution.usage.wall_ms,
                bytes_in,
                bytes_out: execution.usage.output_bytes,
                ..Usage::default()
            };
            self.used(&owner, more);
        }
        Ok(execution)
    }

    /// Charges for what runs besides executions: commands, terminals, what code has left behind.
    pub fn charge_all_cpu(&self) {
        let mut of_keys: HashMap<KeyId, (Caller, u64)> = HashMap::new();
        for session in self.live() {
            if let Some((owner, more)) = self.owners.uncharged(session.id(), session.cpu_ms()) {
                of_keys.entry(owner.key_id.clone()).or_insert((owner, 0)).1 += more;
            }
        }
        for (owner, cpu_ms) in of_keys.into_values() {
            self.used_cpu(&owner, cpu_ms);
        }
    }

    fn charge_cpu(&self, session: &Session) {
        if let Some((owner, more)) = self.owners.uncharged(session.id(), session.cpu_ms()) {
            self.used_cpu(&owner, more);
        }
    }

    fn used_cpu(&self, owner: &Caller, cpu_ms: u64) {
        if cpu_ms > 0 {
            let more = Usage {
                cpu_ms,
                ..Usage::default()
            };
            self.used(owner, more);
        }
    }

    /// Counts what a caller has used.
    pub fn used(&self, caller: &Caller, more: Usage) {
        self.metrics.tenant_used(&caller.tenant, more);
        self.quotas.charge(&self.store, caller, more);
    }

    /// Counts bytes of files that a caller has moved.
    pub fn moved(&self, caller: &Caller, bytes_in: u64, bytes_out: u64) {
        if bytes_in > 0 || bytes_out > 0 {
            let more = Usage {
                bytes_in,
                bytes_out,
                ..Usage::default()
            };
            self.used(caller, more);
        }
    }

    /// Refuses work of a key that has used up its day.
    pub fn check_day(&self, caller: &Caller) -> Result<(), ApiError> {
        self.quotas.check_day(caller, Timestamp::now())
    }

    /// The same for whoever pays for what runs in this sandbox: its maker.
    pub fn check_day_of(&self, id: &SandboxId) -> Result<(), ApiError> {
        self.owners.find(id).map_or(Ok(()), |owner| self.check_day(&owner))
    }

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
                created: record.created,
                ended: record.ended?,
                reason: record.reason?,
                metadata: record.metadata,
                executions: record.usage.executions,
                events: None,
            })
        }))
    }

    /// Whoever owns it: for requests that show the sandbox's own token.
    pub fn by_id(&self, id: &SandboxId) -> Option<Arc<Session>> {
        self.node.find(id)
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

fn record(caller: &Caller, session: &Session) -> SandboxRecord {
    SandboxRecord {
        id: session.id().clone(),
        tenant: caller.tenant.to_string(),
        key_id: caller.key_id.clone(),
        template: session.template.clone(),
        tier: Tier::Jail,
        state: SandboxState::Running,
        created: session.created.into(),
        ended: None,
        reason: None,
        metadata: session.spec.metadata.clone(),
        usage: Usage::default(),
    }
}

fn refused(error: NodeError) -> ApiError {
    match error {
        NodeError::Full(most) => ApiError::at_capacity(most as u64),
        NodeError::Stopping => ApiError::new(ErrorCode::NotReady, "the server is stopping"),
        NodeError::Engine(error) => error.into(),
        NodeError::Template(error) => {
            tracing::error!(error = %crate::chain(&error), "a template could not be made ready");
            ApiError::new(ErrorCode::Internal, "the template could not be made ready")
        }
    }
}
