//! The server as a whole: start in order, run, stop in the reverse order.

use crate::api::budget::Budget;
use crate::api::e2b::E2b;
use crate::api::{self, AppState, state::Shared};
use crate::approvals::Approvals;
use crate::approvals::webhook::{self, Post, WebhookError};
use crate::auth::KeyRing;
use crate::builds::{BuildTarget, LoggedBuild};
use crate::config::{Domain, Settings};
use crate::descriptors::{self, DescriptorBudget, DescriptorsError, SharedDescriptors};
use crate::first_key::{self, FirstKey, FirstKeyError};
use crate::http::{ConnectionLimits, HostRules, Hurry, bind, serve};
use crate::limits::Limits;
use crate::metrics::Metrics;
use crate::policies::{Policies, PoliciesError};
use crate::ready::{Readiness, Ready};
use crate::sandboxes::{Sandboxes, Usual};
use crate::spool::Spool;
use crate::store::{Store, StoreError, VISIBLE_FOR};
use crate::tls::{Tls, TlsError};
use crate::{Timestamp, admin, audit};
use atoll_core::Tier;
use atoll_engine::audit::{Actor, AuditError, AuditLog};
use atoll_engine::template::{TemplateError, TemplateStore};
use atoll_engine::{Audit, Node, NodeConfig, PoolSize};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How often records of long ended sandboxes are removed.
const PRUNE_EVERY: Duration = Duration::from_secs(600);
/// How often the depth of the pools is measured.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const ASK_EVERY: Duration = Duration::from_secs(10);
const CHARGE_EVERY: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("another server is using the data directory `{}`; stop it, or set a different ATOLL_HOME", home.display())]
    Running { home: PathBuf },
    #[error("cannot lock the data directory `{}`", home.display())]
    Lock { home: PathBuf, source: std::io::Error },
    #[error("cannot listen on `{address}`, the address in the setting `{setting}`")]
    Listen {
        setting: &'static str,
        address: SocketAddr,
        source: std::io::Error,
    },
    #[error(transparent)]
    Descriptors(#[from] DescriptorsError),
    #[error("cannot use the template from the setting `template`")]
    Template(#[source] TemplateError),
    #[error(transparent)]
    Policies(#[from] PoliciesError),
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    FirstKey(#[from] FirstKeyError),
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A server that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    pub state: AppState,
    pub first_key: Option<FirstKey>,
    listener: TcpListener,
    admin_listener: TcpListener,
    address: SocketAddr,
    admin_address: SocketAddr,
    tls: Option<Arc<Tls>>,
    log: Arc<AuditLog>,
    max_connections: u64,
    _lock: File,
}

impl Server {
    /// `program` is the `atoll` binary, which sandboxes are made with.
    pub async fn start(settings: Settings, home: &Path, program: &Path) -> Result<Self, ServerError> {
        let DescriptorBudget { connections, shared } = descriptors::budget(&settings)?;
        let templates = TemplateStore::new(home.to_owned());
        templates.show(&settings.template).map_err(ServerError::Template)?;
        let policies = Policies::load(&settings.policy)?;
        let post = webhook::open(&settings.approval)?;
        let path = Store::path(home);
        let opened = tokio::task::spawn_blocking(move || Store::open(&path)).await;
        let store = opened.map_err(|_| StoreError::Stopped)??;
        let lock = lock(home)?;
        Spool::new(home).sweep();
        let unanswered = store.cancel_lost_approvals().await?;
        if unanswered > 0 {
            tracing::warn!(
                unanswered,
                "approval requests left pending by the previous server were cancelled"
            );
        }
        store.lose_pending_answers().await?;
        let tls = Tls::open(&settings.tls, home, domain(&settings, settings.listen).name())?;
        let (listener, address) = listen("listen", settings.listen)?;
        let (admin_listener, admin_address) = listen("admin_listen", settings.admin_listen)?;
        let log = audit::open(&settings.audit, home)?;
        let first_key = match settings.insecure_no_auth {
            true => None,
            false => first_key::make(&store, home, &log).await?,
        };
        let node = Node::new(node_config(&settings, home, program, Audit::Log(Arc::clone(&log))));
        end_lost(&store, &node).await?;
        let state = share(settings, policies, post, store, address, node, shared).await?;
        for session in state.sandboxes.take_up_paused(&state.keys).await? {
            state.e2b.know_again(&session);
        }
        Ok(Self {
            state,
            first_key,
            listener,
            admin_listener,
            address,
            admin_address,
            tls,
            log,
            max_connections: connections,
            _lock: lock,
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls.is_some() { "https" } else { "http" }
    }

    /// The file with the CA that clients have to trust, if the server has made one.
    pub fn authority(&self) -> Option<PathBuf> {
        self.tls.as_ref()?.authority()
    }

    /// Serves until `stop` ends; then new work is refused and running requests get their time, unless what `stop` gives ends first.
    pub async fn run<H>(self, stop: impl Future<Output = Hurry<H>> + Send + 'static)
    where
        H: Future<Output = ()> + Send + 'static,
    {
        let Self {
            state,
            listener,
            admin_listener,
            tls,
            log,
            max_connections,
            ..
        } = self;
        let auditing = tokio::spawn(audit::tend(Arc::clone(&log), state.settings.audit.clone()));
        let fresh = tokio::spawn(state.keys.clone().keep_fresh(state.store.clone()));
        let pruning = tokio::spawn(prune(state.store.clone()));
        let warming = tokio::spawn(warm_up(state.clone()));
        let limits = connection_limits(&state.settings, max_connections);
        let (admin_stop, admin_stopped) = tokio::sync::oneshot::channel::<()>();
        let admin_app = admin::router(state.clone());
        let admin = tokio::spawn(serve(admin_listener, admin_app, limits, None, async move {
            admin_stopped.await.ok();
            Hurry(std::future::pending())
        }));
        let (ready, patience) = (state.ready.clone(), state.settings.drain_timeout);
        let quotas = state.limits.clone();
        let stopping = async move {
            let hurry = stop.await;
            tracing::info!("stopping: running requests have up to {patience} to finish; a second signal aborts them");
            ready.set(Ready::Draining);
            quotas.close_queue();
            hurry
        };
        // A task: the thread that waits for the whole would have to be woken for each connection.
        let drained = tokio::spawn(serve(listener, api::router(state.clone()), limits, tls, stopping)).await;
        let cut = drained.map_or(0, |drained| drained.cut);
        if cut > 0 {
            tracing::warn!(cut, "connections were closed before their requests finished");
        }
        warming.abort();
        state.sandboxes.node().stop().await;
        admin_stop.send(()).ok();
        admin.await.ok();
        fresh.abort();
        pruning.abort();
        auditing.abort();
        audit::close(log).await;
        state.keys.note_used(&state.store).await;
        state.store.settle().await.ok();
        tracing::info!("stopped");
    }
}

/// `address`: with the port that is really listened on, if the port matters.
fn domain(settings: &Settings, address: SocketAddr) -> Domain {
    let local = || Domain::local(address.port());
    settings.domain.clone().unwrap_or_else(local)
}

/// What lies on disk is not lost.
async fn end_lost(store: &Store, node: &Node) -> Result<(), StoreError> {
    let paused = node.paused();
    let on_disk: Vec<_> = paused.iter().map(|paused| paused.id().clone()).collect();
    let lost = store.end_lost_sandboxes(&on_disk).await?;
    if lost > 0 {
        tracing::warn!(
            lost,
            "sandboxes of a server that did not shut down cleanly were marked as lost"
        );
    }
    Ok(())
}

pub(crate) async fn share(
    settings: Settings,
    policies: Policies,
    post: Option<Post>,
    store: Store,
    address: SocketAddr,
    node: Arc<Node>,
    shared: SharedDescriptors,
) -> Result<AppState, ServerError> {
    let domain = domain(&settings, address);
    let limits = Limits::new(&settings);
    limits.load(&store, Timestamp::now()).await?;
    let metrics = Metrics::default();
    let spool = Spool::new(node.home());
    let policies = Arc::new(policies);
    let approvals = Approvals::new(Arc::clone(&node), store.clone(), settings.approval.clone(), post);
    let sandboxes = Sandboxes::new(
        node,
        store.clone(),
        limits.clone(),
        metrics.clone(),
        Usual {
            template: settings.template.clone(),
            longest: settings.lifetime.hard.duration(),
            policies: Arc::clone(&policies),
        },
        Arc::clone(&approvals),
        shared,
    );
    let e2b = E2b::new(
        Arc::clone(&sandboxes),
        domain.to_string(),
        atoll_core::Limits::of(settings.e2b.profile),
        settings.lifetime.hard.duration(),
    );
    Ok(AppState::new(Shared {
        sandboxes,
        policies,
        approvals,
        spool,
        budget: Budget::new(settings.max_body_bytes.get()),
        keyed_requests: Arc::default(),
        e2b,
        keys: KeyRing::load(&store).await?,
        limits,
        metrics,
        ready: Readiness::default(),
        hosts: HostRules::new(&settings, domain.clone()),
        domain,
        store,
        settings,
    }))
}

pub(crate) fn node_config(settings: &Settings, home: &Path, program: &Path, audit: Audit) -> NodeConfig {
    let size = |size: atoll_core::service::PoolSize| usize::try_from(size.get()).unwrap_or(usize::MAX);
    NodeConfig {
        home: home.to_owned(),
        program: program.to_owned(),
        pool: PoolSize {
            min: size(settings.pool.min),
            max: size(settings.pool.max),
        },
        limits: atoll_core::Limits::of(settings.profile),
        data_pool: size(settings.pool.data),
        max_sandboxes: usize::try_from(settings.max_sandboxes.get()).unwrap_or(usize::MAX),
        required: settings.required_layers.clone(),
        tiers: settings.tiers(),
        audit,
        remember: VISIBLE_FOR,
        progress: LoggedBuild::for_request,
    }
}

/// Builds the template and fills the pool; until then the server says that it is not ready.
async fn warm_up(state: AppState) {
    let target = BuildTarget::Template(state.settings.template.clone());
    let opened = state
        .sandboxes
        .node()
        .open(
            &state.settings.template,
            Tier::Jail,
            &Actor::system(),
            Arc::new(LoggedBuild::of(&target)),
        )
        .await;
    match opened {
        Ok(_) => {
            tracing::info!(template = state.settings.template, "ready: the pool is warm");
            state.ready.set(Ready::Ready);
        }
        Err(error) => {
            tracing::error!(error = %crate::chain(&error), "sandboxes cannot be created");
            state.ready.set(Ready::Failed);
        }
    }
    tokio::join!(watch_memory(&state), look(&state), charge(&state));
}

/// Asks agents, so not too often.
async fn watch_memory(state: &AppState) {
    loop {
        state.metrics.sandbox_memory(state.sandboxes.memory_bytes().await);
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// What runs between executions uses up a day, too.
async fn charge(state: &AppState) {
    loop {
        tokio::time::sleep(CHARGE_EVERY).await;
        state.sandboxes.charge_all_cpu();
    }
}

async fn look(state: &AppState) {
    loop {
        for (template, tier, depth) in state.sandboxes.node().depths() {
            state.metrics.pool_depth(&template, tier, depth);
        }
        state.sandboxes.tidy();
        state.approvals.tidy(|id| state.sandboxes.node().find(id).is_some());
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Two servers would take each other's sandboxes for lost.
fn lock(home: &Path) -> Result<File, ServerError> {
    let fail = |source| ServerError::Lock {
        home: home.to_owned(),
        source,
    };
    let options = std::fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(home.join("serve.lock"));
    let file = options.map_err(fail)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ServerError::Running { home: home.to_owned() }),
        Err(errno) => Err(fail(errno.into())),
    }
}

fn listen(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServerError> {
    let fail = |source| ServerError::Listen {
        setting,
        address,
        source,
    };
    let listener = bind(address).map_err(fail)?;
    let real = listener.local_addr().map_err(fail)?;
    Ok((listener, real))
}

fn connection_limits(settings: &Settings, max_connections: u64) -> ConnectionLimits {
    ConnectionLimits {
        max_connections: usize::try_from(max_connections).unwrap_or(usize::MAX >> 4),
        header_timeout: settings.header_timeout.duration(),
        idle_timeout: settings.idle_timeout.duration(),
        drain_timeout: settings.drain_timeout.duration(),
    }
}

async fn prune(store: Store) {
    let mut ticks = tokio::time::interval(PRUNE_EVERY);
    loop {
        ticks.tick().await;
        if let Err(error) = store.prune_sandboxes(Timestamp::now()).await {
            tracing::warn!(error = %crate::chain(&error), "records of ended sandboxes could not be deleted");
        }
        if let Err(error) = store.prune_approvals(Timestamp::now()).await {
            tracing::warn!(error = %crate::chain(&error), "records of approvals could not be deleted");
        }
        if let Err(error) = store.prune_answers(Timestamp::now()).await {
            tracing::warn!(error = %crate::chain(&error), "old answers to requests with an Idempotency-Key could not be deleted");
        }
    }
}
