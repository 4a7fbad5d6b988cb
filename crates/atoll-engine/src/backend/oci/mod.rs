//! The `container` tier: sandboxes that an OCI runtime makes, `crun` or `runc`, whichever is there.
//!
//! The jailer runs the runtime, without powers over the host, and does for a container what it does for a sandbox of the
//! jail: host ids, cgroups, inputs, the receipt, the end. What differs is here: which runtime there is, and that a Python
//! context is a program of the agent, warmed up after its start, where the jail forks a warm one.

pub(super) mod libraries;
mod python;
mod runtime;
mod wall;

use super::jail::{JailBackend, JailPlan};
use super::{Backend, Fresh, Later, Made, TierError};
use atoll_core::Tier;
use atoll_jail::plan::{RuntimeKind, RuntimePlan};
pub(super) use libraries::lay as lay_libraries;
pub(crate) use python::PythonStart;
use runtime::Runtime;
pub(super) use runtime::find;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use wall::ContainerWall;

/// What the operator says about programs that build tiers. Saying nothing means: whichever is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierSettings {
    /// The runtime of containers, and no other.
    pub runtime: Option<RuntimeKind>,
    /// The oldest release of gVisor that is taken, as the day of it: `20221219`.
    pub gvisor_min_release: Option<u32>,
    /// A directory with the kernel that guests boot; absent: the host's own.
    pub microvm_kernel: Option<PathBuf>,
}

impl TierSettings {
    /// As the environment says it: `ATOLL_MICROVM_KERNEL`.
    pub fn from_environment() -> Self {
        Self {
            microvm_kernel: std::env::var_os("ATOLL_MICROVM_KERNEL").map(PathBuf::from),
            ..Self::default()
        }
    }
}

#[derive(Debug)]
pub(crate) struct ContainerBackend {
    jail: Arc<JailBackend>,
    runtime: Arc<Runtime>,
    python: Arc<PythonStart>,
}

impl ContainerBackend {
    /// The plan is the jail's, without a zygote; who makes the sandboxes is added.
    pub(crate) async fn start(
        mut plan: JailPlan,
        runtime: Runtime,
        home: &Path,
        python: PythonStart,
    ) -> Result<Self, TierError> {
        plan.template.runtime = Some(RuntimePlan {
            kind: runtime.kind,
            program: runtime.program.clone(),
            agent: plan.program.clone(),
            libraries: libraries::lay(home, &plan.program)?,
            options: Vec::new(),
            saved: None,
        });
        Ok(Self {
            jail: Arc::new(JailBackend::start(plan).await?),
            runtime: Arc::new(runtime),
            python: Arc::new(python),
        })
    }

    /// Whose jailer makes the containers.
    pub(crate) fn jail(&self) -> &Arc<JailBackend> {
        &self.jail
    }

    async fn make_one(&self, made: Made) -> Result<Fresh, TierError> {
        let wants_python = made.python;
        let (mut sandbox, _) = self.jail.make(Made { python: false, ..made }).await?;
        sandbox.tier = Tier::Container;
        let sandbox = sandbox.put_behind(|inner| {
            Box::new(ContainerWall {
                inner,
                runtime: Arc::clone(&self.runtime),
                python: Arc::clone(&self.python),
            })
        });
        let python = match wants_python {
            true => Some(sandbox.start_python().await.map_err(|error| self.jail.blame(error))?),
            false => None,
        };
        Ok((sandbox, python))
    }
}

impl Backend for ContainerBackend {
    fn tier(&self) -> Tier {
        Tier::Container
    }

    fn ready(&self) -> Later<'_, Result<Map<String, Value>, TierError>> {
        let facts = [("runtime".to_owned(), json!(self.runtime.facts()))];
        Box::pin(async move { Ok(facts.into_iter().collect()) })
    }

    fn make(&self, made: Made) -> Later<'_, Result<Fresh, TierError>> {
        Box::pin(self.make_one(made))
    }

    fn stop(&self) -> Later<'_, ()> {
        self.jail.stop()
    }
}
