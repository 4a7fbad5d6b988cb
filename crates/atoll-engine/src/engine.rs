//! The engine: sandboxes of one template in one tier. Started by `atoll run` and by the server.

use crate::backend::{self, Backend, Files, Fresh, JailBackend, Made, Saved, TierError, TierSettings};
use crate::contexts::Contexts;
use crate::door::{Audit, Door, Sandbox};
use crate::environment::with_secrets;
use crate::input::prepare_inputs;
use crate::node::Quiet;
use crate::routing::Guests;
use crate::sandbox::{Origin, SandboxSpec, Walled};
use crate::snapshot::{SavedState, Snapshot, SnapshotError};
use crate::spool::Spool;
use crate::template::{NODE, Programs, Progress, Template};
use atoll_core::{Gives, Language, Limits, Tier};
use atoll_jail::plan::{Rotation, Walls};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;

/// How much is done before the first request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Warmth {
    /// For one run: the interpreter starts with nothing that the code may not use.
    Cold,
    /// For many: the template's packages are imported and have been used once.
    Warm,
}

#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// The data directory.
    pub home: PathBuf,
    /// The `atoll` binary, which is started again as jailer and spawner.
    pub program: PathBuf,
    /// Never `auto`: whoever starts an engine has chosen.
    pub tier: Tier,
    /// What the operator says about tiers that others' programs build.
    pub settings: TierSettings,
    pub warmth: Warmth,
    /// Always whole in the product. A test that must see a breach takes one away.
    pub walls: Walls,
    /// Where every dispatch is written down.
    pub audit: Audit,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("refused: the audit log cannot be written")]
    Audit(#[from] crate::audit::AuditError),
    #[error(transparent)]
    Tier(#[from] TierError),
    #[error(transparent)]
    Input(#[from] crate::input::InputError),
    #[error(transparent)]
    Files(#[from] crate::files::FilesError),
    #[error(transparent)]
    Environment(#[from] crate::environment::EnvironmentError),
    #[error(transparent)]
    Secrets(#[from] atoll_guard::redact::SecretsError),
    #[error("interrupted before the code started")]
    Interrupted,
    #[error(
        "language `{0}` is planned but not supported yet; the jail tier runs python, javascript, typescript and bash"
    )]
    Language(atoll_core::Language),
    #[error("language `{0}` requires Node.js on the host, and {NODE} does not exist")]
    NoNode(atoll_core::Language),
    #[error(transparent)]
    NoProgram(#[from] crate::template::NoProgram),
    #[error("{0}")]
    Policy(Box<crate::gate::RefusedCommand>),
    #[error(transparent)]
    Snapshot(#[from] crate::snapshot::SnapshotError),
    #[error("there is no context `{0}` in this sandbox")]
    NoContext(String),
    #[error("a sandbox can have at most {0} contexts; delete one first")]
    TooManyContexts(usize),
}

#[derive(Debug)]
pub struct Engine {
    backend: Arc<dyn Backend>,
    /// The same, if it is the jail.
    jail: Option<Arc<JailBackend>>,
    template: Option<Template>,
    pub(crate) digest: String,
    pub(crate) spool: Spool,
    pub(crate) audit: Audit,
    pub(crate) guests: Arc<Guests>,
}

impl Engine {
    /// `wasm` needs no template: it brings its Python along.
    pub async fn start(config: EngineConfig, template: impl Into<Option<Template>>) -> Result<Self, EngineError> {
        Self::start_with(config, template, Rotation::default()).await
    }

    /// The same with other rules for the life of a warm interpreter.
    pub async fn start_with(
        config: EngineConfig,
        template: impl Into<Option<Template>>,
        rotation: Rotation,
    ) -> Result<Self, EngineError> {
        Self::open(config, template.into(), rotation, Arc::new(Quiet)).await
    }

    /// The same with reports: in tier `microvm` the first use of a template and of a guest size takes minutes.
    pub async fn start_reporting(
        config: EngineConfig,
        template: impl Into<Option<Template>>,
        progress: Arc<dyn Progress + Send>,
    ) -> Result<Self, EngineError> {
        Self::open(config, template.into(), Rotation::default(), progress).await
    }

    async fn open(
        config: EngineConfig,
        template: Option<Template>,
        rotation: Rotation,
        progress: Arc<dyn Progress + Send>,
    ) -> Result<Self, EngineError> {
        let (spool, audit) = (Spool::open(&config.home), config.audit.clone());
        let guests = Arc::new(Guests::of(&config));
        let opened = backend::open(config, template.as_ref(), rotation, progress).await?;
        Ok(Self {
            backend: opened.backend,
            jail: opened.jail,
            digest: opened.digest,
            template,
            spool,
            audit,
            guests,
        })
    }

    /// Makes a sandbox now and applies what is personal.
    pub async fn create(&self, spec: SandboxSpec) -> Result<Sandbox, EngineError> {
        let door = Door::new(self.audit.clone(), spec.by.clone());
        let wish = spec.clone();
        door.create(&self.digest, &wish, self.make(spec)).await
    }

    pub(crate) async fn make(&self, spec: SandboxSpec) -> Result<Walled, EngineError> {
        with_secrets(&spec.env, &spec.secrets)?;
        let python = spec.start == Some(Language::Python);
        if python {
            self.programs().of(Language::Python)?;
        }
        let (inputs, _copies) = prepare_inputs(&spec.inputs, &self.spool)?;
        let made = Made {
            limits: spec.limits,
            inputs,
            python,
            watched: spec.dry_run,
            gives: spec.gives(),
        };
        let (bare, context) = self.backend.make(made).await?;
        Ok(Walled::with(self, bare, context, spec, Origin::Made))
    }

    /// Makes a sandbox from a snapshot, whose files are open and checked. Its limits are those that it was saved with, and its
    /// variables are there as well.
    pub(crate) async fn create_from(
        &self,
        mut spec: SandboxSpec,
        snapshot: &Snapshot,
        files: Files,
    ) -> Result<Sandbox, EngineError> {
        let door = Door::new(self.audit.clone(), spec.by.clone());
        let mut env = snapshot.env.clone();
        env.append(&mut spec.env);
        (spec.env, spec.limits) = (env, snapshot.limits);
        let wish = spec.clone();
        door.create(&self.digest, &wish, self.bring_back(spec, snapshot, files))
            .await
    }

    /// A sandbox that goes on from a snapshot, behind a wall of its own.
    pub(crate) async fn bring_back(
        &self,
        spec: SandboxSpec,
        snapshot: &Snapshot,
        files: Files,
    ) -> Result<Walled, EngineError> {
        with_secrets(&spec.env, &spec.secrets)?;
        if self.saves_for() != Some(&snapshot.saves_for) {
            return Err(snapshot.blame(SnapshotError::OtherBuild(snapshot.id.clone())).into());
        }
        let made = Made {
            limits: snapshot.limits,
            inputs: Vec::new(),
            python: false,
            watched: false,
            gives: Gives::ALL,
        };
        let SavedState { talk, slots } = &snapshot.state;
        let saved = Saved {
            talk: *talk,
            contexts: slots.iter().filter_map(|slot| slot.context).collect(),
        };
        let (bare, contexts) = self.backend.restore(made, saved, files).await?;
        let contexts = Contexts::resumed(slots, contexts);
        Ok(Walled::with(self, bare, None, spec, Origin::Made).having(contexts))
    }

    /// What a saved sandbox of this engine belongs to, if its tier saves them.
    pub(crate) fn saves_for(&self) -> Option<&str> {
        self.backend.saves_for()
    }

    /// Makes a sandbox with a Python context that waits for its owner.
    pub(crate) async fn prepare(&self, limits: atoll_core::Limits) -> Result<Fresh, EngineError> {
        let made = Made {
            limits,
            inputs: Vec::new(),
            python: true,
            watched: false,
            gives: Gives::ALL,
        };
        Ok(self.backend.make(made).await?)
    }

    /// Waits until what every sandbox starts from is there; the facts say what it is and how long it took.
    pub async fn ready(&self) -> Result<Map<String, Value>, EngineError> {
        Ok(self.backend.ready().await?)
    }

    /// Replaces the warm interpreter of a jail by a fresh one as soon as that is warm; running contexts go on.
    pub async fn rotate(&self) -> Result<(), EngineError> {
        match &self.jail {
            Some(jail) => Ok(jail.rotate().await?),
            None => Ok(()),
        }
    }

    /// Ends every sandbox and waits until nothing of them is left.
    pub async fn stop(&self) {
        self.backend.stop().await;
    }

    /// Whether a prepared sandbox can be given these limits.
    pub(crate) fn may_become(&self, limits: &Limits) -> bool {
        self.backend.may_become(limits)
    }

    pub fn tier(&self) -> Tier {
        self.backend.tier()
    }

    /// The jailer's pid, for those who count what is left of an engine; 0 in a tier without one.
    pub fn jailer_pid(&self) -> u32 {
        self.jail.as_ref().map_or(0, |jail| jail.jailer_pid())
    }

    /// What this host gave the jail, if this is one.
    pub fn host(&self) -> Option<&atoll_jail::plan::HostFacts> {
        self.jail.as_ref().map(|jail| jail.host())
    }

    /// The tier without a template brings its own.
    pub(crate) fn programs(&self) -> Programs {
        let template = self.template.as_ref();
        template.map_or_else(Programs::of_wasm, |template| template.programs.clone())
    }

    pub fn template(&self) -> Option<&Template> {
        self.template.as_ref()
    }
}
