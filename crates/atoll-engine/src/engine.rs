//! The engine: one jailer, one open template, sandboxes made from it. Started by `atoll run` and by the server.

use crate::door::{Audit, Door, Sandbox};
use crate::environment::with_secrets;
use crate::input::prepare_inputs;
use crate::jail::{Inspected, JailError, JailSandbox, Link, Made, ZygoteState, run_dir};
use crate::sandbox::{Origin, SandboxSpec, Walled};
use crate::spool::Spool;
use crate::template::{BIN, Template};
use atoll_jail::plan::{Rotation, TemplatePlan, Walls, ZygotePlan};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch;

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
    pub warmth: Warmth,
    /// Always whole in the product. A test that must see a breach takes one away.
    pub walls: Walls,
    /// Where every dispatch is written down.
    pub audit: Audit,
}

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("refused, because it cannot be written down")]
    Audit(#[from] crate::audit::AuditError),
    #[error(transparent)]
    Jail(#[from] JailError),
    #[error(transparent)]
    Input(#[from] crate::input::InputError),
    #[error(transparent)]
    Files(#[from] crate::files::FilesError),
    #[error(transparent)]
    Environment(#[from] crate::environment::EnvironmentError),
    #[error(transparent)]
    Secrets(#[from] atoll_guard::redact::SecretsError),
    #[error("interrupted before the code began")]
    Interrupted,
    #[error("language `{0}` is planned, not there yet; the jail runs python, javascript, typescript and bash")]
    Language(atoll_core::Language),
    #[error("language `{0}` runs on the machine's Node, and there is none at {NODE}")]
    NoNode(atoll_core::Language),
    #[error("{0}")]
    Policy(Box<crate::gate::RefusedCommand>),
    #[error("there is no context `{0}` in this sandbox")]
    NoContext(String),
    #[error("a sandbox keeps at most {0} contexts; remove one first")]
    TooManyContexts(usize),
}

/// Templates with the base `host` see the host's programs.
pub(crate) const NODE: &str = "/usr/bin/node";

/// The one template that an engine has open.
const TEMPLATE: u32 = 0;

#[derive(Debug)]
pub struct Engine {
    pub(crate) link: Arc<Link>,
    pub(crate) template: Template,
    pub(crate) spool: Spool,
    pub(crate) audit: Audit,
    zygote: watch::Receiver<ZygoteState>,
}

impl Engine {
    pub async fn start(config: EngineConfig, template: Template) -> Result<Self, EngineError> {
        Self::start_with(config, template, Rotation::default()).await
    }

    /// The same with other rules for the life of a warm interpreter.
    pub async fn start_with(config: EngineConfig, template: Template, rotation: Rotation) -> Result<Self, EngineError> {
        let instance = atoll_core::SandboxId::from_random(crate::random_bytes()).as_str()[3..].to_owned();
        let run_dir = run_dir(&config.home);
        let link = Link::start(&config.program, &instance, &run_dir).await?;
        let plan = plan(&template, config.warmth, config.walls, rotation);
        let zygote = link.open_template(TEMPLATE, plan).await?;
        Ok(Self {
            link: Arc::new(link),
            template,
            spool: Spool::open(&config.home),
            audit: config.audit,
            zygote,
        })
    }

    /// Makes a sandbox now and applies what is personal.
    pub async fn create(&self, spec: SandboxSpec) -> Result<Sandbox, EngineError> {
        let door = Door::new(self.audit.clone(), spec.by.clone());
        let wish = spec.clone();
        door.create(&self.template.digest, &wish, self.make(spec)).await
    }

    pub(crate) async fn make(&self, spec: SandboxSpec) -> Result<Walled, EngineError> {
        with_secrets(&spec.env, &spec.secrets)?;
        let (inputs, _copies) = prepare_inputs(&spec.inputs, &self.spool)?;
        let python = spec.start == Some(atoll_core::Language::Python);
        let made = Made {
            template: TEMPLATE,
            limits: spec.limits,
            inputs,
            python,
            watched: spec.dry_run,
        };
        let (jail, context) = JailSandbox::create(Arc::clone(&self.link), made).await?;
        Ok(Walled::with(self, jail, context, spec, Origin::Made))
    }

    /// Makes a sandbox with a Python context that waits for its owner.
    pub(crate) async fn prepare(
        &self,
        limits: atoll_core::Limits,
    ) -> Result<(JailSandbox, Option<Inspected>), EngineError> {
        let made = Made {
            template: TEMPLATE,
            limits,
            inputs: Vec::new(),
            python: true,
            watched: false,
        };
        Ok(JailSandbox::create(Arc::clone(&self.link), made).await?)
    }

    /// Waits until the interpreter is warm; the facts say how long it took.
    pub async fn ready(&self) -> Result<Map<String, Value>, EngineError> {
        let mut zygote = self.zygote.clone();
        let state = zygote.wait_for(|state| !matches!(state, ZygoteState::Starting)).await;
        match state.map(|state| state.clone()) {
            Ok(ZygoteState::Ready(facts)) => Ok(facts),
            Ok(ZygoteState::Down(message)) => {
                Err(JailError::Zygote(format!("{message}{}", self.link.complaint())).into())
            }
            Ok(ZygoteState::Starting) | Err(_) => Err(JailError::Gone(self.link.complaint()).into()),
        }
    }

    /// Replaces the warm interpreter by a fresh one as soon as that is warm; running contexts go on.
    pub async fn rotate(&self) -> Result<(), EngineError> {
        let message = atoll_jail::plan::ToJailer::RotateZygote { template: TEMPLATE };
        Ok(self.link.send(&message, &[]).await?)
    }

    /// Ends every sandbox and waits until the jailer has removed all that it made.
    pub async fn stop(&self) {
        self.link.stop().await;
    }

    /// The jailer's pid, for those who count what is left of an engine.
    pub fn jailer_pid(&self) -> u32 {
        self.link.jailer_pid
    }

    /// What this host gave the jail.
    pub fn host(&self) -> &atoll_jail::plan::HostFacts {
        &self.link.host
    }

    pub fn template(&self) -> &Template {
        &self.template
    }
}

fn plan(template: &Template, warmth: Warmth, walls: Walls, rotation: Rotation) -> TemplatePlan {
    let start = "from atoll_kernel import zygote; zygote.main()";
    let argv = [template.interpreter.as_str(), "-I", "-X", "utf8", "-c", start];
    let warm = warmth == Warmth::Warm;
    let config = json!({
        "native": "/opt/atoll/kernel/libatoll_zygote.so",
        "warm": warm,
        "preload": if warm { template.preload.clone() } else { Vec::new() },
        "warm_up": if warm { template.warmup.clone().unwrap_or_default() } else { String::new() },
        "immortal": warm,
    });
    let config = config.as_object().cloned().unwrap_or_default();
    TemplatePlan {
        tree: template.tree.clone(),
        kernel: template.kernel.clone(),
        links: template.links.clone(),
        env: with_our_commands(template.env.clone()),
        zygote: Some(ZygotePlan {
            argv: argv.map(str::to_owned).to_vec(),
            config,
            rotation,
        }),
        walls,
    }
}

/// Ours come before the template's and the machine's.
fn with_our_commands(mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
    if let Some(path) = env.get_mut("PATH") {
        *path = format!("{BIN}:{path}");
    }
    env
}
