//! All sandboxes of this machine: one engine and one pool per template and tier, the sessions, the bound on how many there are.
//! What is saved of them is in `saved.rs`.

mod saved;

pub use saved::Paused;

use crate::audit::{Action, Actor, Closing, Ending};
use crate::backend::{TierError, TierSettings, microvm_host, missing_tiers};
use crate::door::{Audit, Door, Sandbox};
use crate::engine::{Engine, EngineConfig, EngineError, Warmth};
use crate::lock::lock;
use crate::past::{Ended, Past};
use crate::pool::{ExpectedClaim, Pool, PoolSize};
use crate::sandbox::SandboxSpec;
use crate::session::{LifeSpec, Session, State};
use crate::snapshot::Snapshots;
use crate::template::{Progress, Template, TemplateError, TemplateStore};
use atoll_core::{Limits, SandboxId, Tier};
use atoll_jail::plan::{Layer, Walls};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore, watch};

/// How long the end of a build is waited for.
const BUILD_ENDS: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct NodeConfig {
    pub home: PathBuf,
    pub program: PathBuf,
    pub pool: PoolSize,
    /// What prepared sandboxes are made with.
    pub limits: Limits,
    /// How many more are prepared with the limits of the profile `data`.
    pub data_pool: usize,
    pub max_sandboxes: usize,
    /// Walls without which nothing starts, besides the usual ones.
    pub required: Vec<Layer>,
    /// What the operator says about programs that build tiers.
    pub tiers: TierSettings,
    pub audit: Audit,
    /// How long an ended sandbox is still found, with its reason.
    pub remember: Duration,
    /// Reports what the first sandbox of a template and tier waits for.
    pub progress: fn(&str, Tier) -> Arc<dyn Progress + Send>,
}

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("the limit of {0} live sandboxes is reached")]
    Full(usize),
    #[error("Atoll is shutting down")]
    Stopping,
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Which sandboxes a pool has: their template and tier. Those of `wasm` have no template.
type Kind = (Option<String>, Tier);
type Open = Arc<OnceCell<Arc<Pool>>>;

#[derive(Debug)]
pub struct Node {
    config: NodeConfig,
    store: TemplateStore,
    pools: Mutex<HashMap<Kind, Open>>,
    sessions: Mutex<HashMap<SandboxId, Arc<Session>>>,
    past: Past,
    snapshots: Arc<Snapshots>,
    room: Arc<Semaphore>,
    /// What this host cannot build.
    missing: BTreeMap<Tier, String>,
    /// Why guests run in software, once somebody had to know.
    emulated: OnceLock<Option<String>>,
    /// Templates that are being opened or built on threads of their own.
    building: watch::Sender<usize>,
}

impl Node {
    pub fn new(config: NodeConfig) -> Arc<Self> {
        let room = config.max_sandboxes.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            store: TemplateStore::new(config.home.clone()),
            pools: Mutex::default(),
            sessions: Mutex::default(),
            past: Past::new(config.remember),
            snapshots: Arc::new(Snapshots::open(&config.home)),
            room: Arc::new(Semaphore::new(room)),
            missing: missing_tiers(&config.tiers, |_| true),
            emulated: OnceLock::new(),
            building: watch::Sender::new(0),
            config,
        })
    }

    /// The tiers that this host cannot build, with the reason.
    pub fn missing_tiers(&self) -> &BTreeMap<Tier, String> {
        &self.missing
    }

    /// Why guests of virtual machines run in software here, if they do.
    pub fn emulated(&self) -> Option<String> {
        let look = || {
            let kernel = self.config.tiers.microvm_kernel.as_deref();
            let host = microvm_host(&self.config.home, &self.config.program, kernel);
            host.ok().and_then(|host| host.emulated)
        };
        self.emulated.get_or_init(look).clone()
    }

    /// Whether sandboxes of it can be made without a build. The disk is looked at only before its pool is open.
    pub fn is_built(&self, template: &str, tier: Tier) -> bool {
        self.is_open(template, tier)
            || match tier {
                Tier::Wasm => self.has_component(),
                _ => self.store.show(template).is_ok_and(|shown| shown.info.built),
            }
    }

    /// Whether its sandboxes can be made at once. Looks at memory only, unlike the two questions to the store.
    pub fn is_open(&self, template: &str, tier: Tier) -> bool {
        let pools = lock(&self.pools);
        pools.get(&kind(template, tier)).is_some_and(|open| open.initialized())
    }

    /// Has the pool of such a sandbox prepare for a create that waits. `None`: there is no pool, or it would not serve it.
    pub fn expect_claim(&self, template: &str, tier: Tier, limits: &Limits) -> Option<ExpectedClaim> {
        let pools = lock(&self.pools);
        pools.get(&kind(template, tier))?.get()?.expect_claim(limits)
    }

    /// Builds a template if it is not, warms its interpreter and fills its pool. Many callers do it once.
    pub async fn open(
        &self,
        template: &str,
        tier: Tier,
        by: &Actor,
        progress: Arc<dyn Progress + Send>,
    ) -> Result<Arc<Pool>, NodeError> {
        let kind = kind(template, tier);
        let open = Arc::clone(lock(&self.pools).entry(kind.clone()).or_default());
        let pool = open.get_or_try_init(|| self.start_pool(kind, by, progress)).await?;
        Ok(Arc::clone(pool))
    }

    async fn start_pool(
        &self,
        (template, tier): Kind,
        by: &Actor,
        progress: Arc<dyn Progress + Send>,
    ) -> Result<Arc<Pool>, NodeError> {
        let template = match template {
            Some(name) => Some(self.template(&name, by, Arc::clone(&progress)).await?),
            None => {
                self.component(by, Arc::clone(&progress)).await?;
                None
            }
        };
        let config = EngineConfig {
            tier,
            settings: self.config.tiers.clone(),
            home: self.config.home.clone(),
            program: self.config.program.clone(),
            warmth: Warmth::Warm,
            walls: self
                .config
                .required
                .iter()
                .fold(Walls::default(), |all, layer| all.requiring(*layer)),
            audit: self.config.audit.clone(),
        };
        let engine = Arc::new(Engine::start_reporting(config, template, progress).await?);
        let classes = [
            (self.config.pool, self.config.limits),
            (PoolSize::exactly(self.config.data_pool), Limits::DATA),
        ];
        Ok(Arc::new(Pool::start_classes(engine, &classes).await?))
    }

    async fn template(
        &self,
        name: &str,
        by: &Actor,
        progress: Arc<dyn Progress + Send>,
    ) -> Result<Template, NodeError> {
        let is_new = self.store.show(name).is_ok_and(|shown| !shown.info.built);
        match is_new {
            true => self.build(name, by, progress).await,
            false => self.ensure(name, progress).await,
        }
    }

    /// A build is written down: it brings packages from elsewhere.
    async fn build(&self, name: &str, by: &Actor, progress: Arc<dyn Progress + Send>) -> Result<Template, NodeError> {
        let ticket = self.door(by.clone()).enter(Action::TemplateBuild, name).await?;
        let built = self.ensure(name, progress).await;
        ticket.close(|| match &built {
            Ok(template) => Closing {
                reason: Some(template.digest.clone()),
                ..Closing::of(Ending::Ok)
            },
            Err(error) => Closing::failed(error),
        });
        built
    }

    async fn ensure(&self, name: &str, progress: Arc<dyn Progress + Send>) -> Result<Template, NodeError> {
        let (store, wanted) = (self.store.clone(), name.to_owned());
        let built = self.build_beside(move || store.ensure(&wanted, progress.as_ref()));
        Ok(built.await??)
    }

    /// Runs a build on a thread of its own; [`Node::stop`] waits for it.
    async fn build_beside<T: Send + 'static>(
        &self,
        build: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, NodeError> {
        let building = Building::begin(&self.building);
        let work = move || {
            let built = build();
            drop(building);
            built
        };
        let built = tokio::task::spawn_blocking(work).await;
        built.map_err(|_| NodeError::Stopping)
    }

    /// Builds Python for tier `wasm` if it is not, so that its engine only has to open it.
    #[cfg(feature = "wasm")]
    async fn component(&self, by: &Actor, progress: Arc<dyn Progress + Send>) -> Result<(), NodeError> {
        if self.has_component() {
            return Ok(());
        }
        let ticket = self.door(by.clone()).enter(Action::TemplateBuild, "wasm").await?;
        let (store, program) = (self.store.clone(), self.config.program.clone());
        let built = self.build_beside(move || store.ensure_component(&program, progress.as_ref()));
        let built = built.await?.map_err(|error| EngineError::from(TierError::from(error)));
        ticket.close(|| match &built {
            Ok(component) => Closing {
                reason: Some(format!("sha256:{}", component.checked.digest)),
                ..Closing::of(Ending::Ok)
            },
            Err(error) => Closing::failed(error),
        });
        built.map(drop).map_err(NodeError::from)
    }

    #[cfg(not(feature = "wasm"))]
    async fn component(&self, _: &Actor, _: Arc<dyn Progress + Send>) -> Result<(), NodeError> {
        Ok(())
    }

    #[cfg(feature = "wasm")]
    fn has_component(&self) -> bool {
        atoll_wasm::component::is_built(&self.config.home)
    }

    /// There is nothing to build; the engine reports the missing feature.
    #[cfg(not(feature = "wasm"))]
    fn has_component(&self) -> bool {
        true
    }

    /// Makes a sandbox with a life of its own. Never more of them than there is room for.
    pub async fn create(
        self: &Arc<Self>,
        template: &str,
        spec: SandboxSpec,
        life: LifeSpec,
    ) -> Result<Arc<Session>, NodeError> {
        let (room, by, tier) = (self.take_room()?, spec.by.clone(), spec.tier);
        let progress = || (self.config.progress)(template, tier);
        let pool = self.open(template, tier, &by, progress()).await?;
        let sandbox = match pool.claim(spec.clone()).await {
            Err(EngineError::Tier(TierError::Gone(_))) => {
                self.forget(&kind(template, tier), &pool);
                self.open(template, tier, &by, progress())
                    .await?
                    .claim(spec.clone())
                    .await?
            }
            claimed => claimed?,
        };
        Ok(self.begin_life(sandbox, template, (life, spec), room))
    }

    fn begin_life(
        self: &Arc<Self>,
        sandbox: Sandbox,
        template: &str,
        made: (LifeSpec, SandboxSpec),
        room: OwnedSemaphorePermit,
    ) -> Arc<Session> {
        let session = Session::start(sandbox, template.to_owned(), made, Arc::downgrade(self));
        session.hold(room);
        self.know(&session);
        session
    }

    /// From now on it is found by its name, until nothing is left of it.
    fn know(self: &Arc<Self>, session: &Arc<Session>) {
        lock(&self.sessions).insert(session.id().clone(), Arc::clone(session));
        tokio::spawn(Arc::clone(self).remember(Arc::clone(session)));
    }

    /// Before the work begins.
    pub(crate) fn take_room(&self) -> Result<OwnedSemaphorePermit, NodeError> {
        let room = Arc::clone(&self.room).try_acquire_owned();
        room.map_err(|_| self.no_room())
    }

    fn no_room(&self) -> NodeError {
        match self.room.is_closed() {
            true => NodeError::Stopping,
            false => NodeError::Full(self.config.max_sandboxes),
        }
    }

    /// The jailer of a pool is gone: the next one who asks starts another.
    fn forget(&self, kind: &Kind, lost: &Arc<Pool>) {
        let mut pools = lock(&self.pools);
        let same = pools
            .get(kind)
            .and_then(|open| open.get())
            .is_some_and(|pool| Arc::ptr_eq(pool, lost));
        if same {
            pools.remove(kind);
        }
    }

    /// When nothing is left of a sandbox, what is known of it stays for a while.
    async fn remember(self: Arc<Self>, session: Arc<Session>) {
        session.gone().await;
        let id = session.id().clone();
        self.past.add(id.clone(), Ended::of(&session));
        lock(&self.sessions).remove(&id);
    }

    pub fn find(&self, id: &SandboxId) -> Option<Arc<Session>> {
        lock(&self.sessions).get(id).cloned()
    }

    /// One that is gone, for as long as it is remembered and not too many have ended since.
    pub fn find_ended(&self, id: &SandboxId) -> Option<Arc<Ended>> {
        self.past.find(id)
    }

    /// Sandboxes that have not ended.
    pub fn live(&self) -> Vec<Arc<Session>> {
        let sessions = lock(&self.sessions);
        sessions
            .values()
            .filter(|session| session.state() != State::Ended)
            .cloned()
            .collect()
    }

    /// Ready sandboxes per template and tier.
    pub fn depths(&self) -> Vec<(String, Tier, usize)> {
        let pools = lock(&self.pools);
        let depth = |((template, tier), open): (&Kind, &Open)| {
            let name = template.clone().unwrap_or_else(|| tier.to_string());
            Some((name, *tier, open.get()?.depth()))
        };
        pools.iter().filter_map(depth).collect()
    }

    /// The door for what is done on this machine and not in a sandbox.
    pub fn door(&self, actor: Actor) -> Door {
        Door::new(self.config.audit.clone(), actor)
    }

    /// Where the audit log is, if there is one.
    pub fn audit_dir(&self) -> Option<PathBuf> {
        match &self.config.audit {
            Audit::Log(log) => Some(log.dir().to_owned()),
            Audit::Off { .. } => None,
        }
    }

    /// The data directory.
    pub fn home(&self) -> &std::path::Path {
        &self.config.home
    }

    pub fn templates(&self) -> &TemplateStore {
        &self.store
    }

    /// Refuses new sandboxes, ends all but those that lie on disk, and waits until every jailer has removed what it made.
    pub async fn stop(&self) {
        self.room.close();
        self.store.stop().stop();
        let live = self.live();
        for session in &live {
            session.stop().await;
        }
        for session in live.iter().filter(|session| session.end_reason().is_some()) {
            session.gone().await;
        }
        let pools: Vec<Open> = lock(&self.pools).drain().map(|(_, open)| open).collect();
        for pool in pools.iter().filter_map(|open| open.get()) {
            pool.engine().stop().await;
        }
        // The installer of a build is ended within half a second; what it began is removed then.
        let mut building = self.building.subscribe();
        let done = building.wait_for(|count| *count == 0);
        tokio::time::timeout(BUILD_ENDS, done).await.ok();
    }
}

fn kind(template: &str, tier: Tier) -> Kind {
    ((tier != Tier::Wasm).then(|| template.to_owned()), tier)
}

/// Counted while it lives, also when nobody waits for the build any more.
struct Building(watch::Sender<usize>);

impl Building {
    fn begin(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// Reports nothing.
#[derive(Debug)]
pub struct Quiet;

impl Progress for Quiet {
    fn step(&self, _text: &str, _done: u64, _total: u64) {}
}
