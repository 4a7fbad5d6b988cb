//! The `jail` tier: the engine's end of the talk with its jailer, which forks contexts from a warm interpreter.

mod kept;
mod link;
mod mailbox;
mod make;
mod start;
mod wall;
mod watch;

use super::{Backend, Fresh, Later, Made, TierError};
use atoll_core::Tier;
use atoll_jail::plan::{HostFacts, TemplatePlan, ToJailer};
pub(crate) use kept::Kept;
pub(crate) use link::run_dir;
use link::{Link, ZygoteState};
pub(super) use mailbox::Letters;
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::watch as states;

/// The one template that a jailer has open here.
const TEMPLATE: u32 = 0;

/// What a jailer is started with.
#[derive(Debug)]
pub(crate) struct JailPlan {
    /// The binary, which is started again as jailer.
    pub(crate) program: PathBuf,
    /// A name of our own for all that it makes on this machine.
    pub(crate) instance: String,
    pub(crate) run_dir: PathBuf,
    /// Where files are put that come as bytes.
    pub(crate) spool: PathBuf,
    pub(crate) template: TemplatePlan,
}

#[derive(Debug)]
pub(crate) struct JailBackend {
    link: Arc<Link>,
    spool: PathBuf,
    zygote: states::Receiver<ZygoteState>,
}

impl JailBackend {
    pub(crate) async fn start(plan: JailPlan) -> Result<Self, TierError> {
        Self::start_with(plan, || Ok(())).await
    }

    /// `prepare` lays what is in the instance's own directory: before the instance is there, another one could take that for a
    /// dead one's and remove it.
    pub(crate) async fn start_with(
        plan: JailPlan,
        prepare: impl FnOnce() -> std::io::Result<()>,
    ) -> Result<Self, TierError> {
        let link = Link::start(&plan.program, &plan.instance, &plan.run_dir).await?;
        prepare().map_err(TierError::Start)?;
        let zygote = link.open_template(TEMPLATE, plan.template).await?;
        Ok(Self {
            link: Arc::new(link),
            spool: plan.spool,
            zygote,
        })
    }

    /// Replaces the warm interpreter by a fresh one as soon as that is warm; running contexts go on.
    pub(crate) async fn rotate(&self) -> Result<(), TierError> {
        let message = ToJailer::RotateZygote { template: TEMPLATE };
        self.link.send(&message, &[]).await
    }

    /// A failure whose cause is a wall that this host cannot build is told as that.
    pub(crate) fn blame(&self, error: TierError) -> TierError {
        self.link.blame(error)
    }

    /// What the jailer and its children last said.
    pub(crate) fn complaint(&self) -> String {
        self.link.complaint()
    }

    pub(crate) fn jailer_pid(&self) -> u32 {
        self.link.jailer_pid
    }

    /// What this host gave the jail.
    pub(crate) fn host(&self) -> &HostFacts {
        &self.link.host
    }

    async fn zygote_facts(&self) -> Result<Map<String, Value>, TierError> {
        let mut zygote = self.zygote.clone();
        let state = zygote.wait_for(|state| !matches!(state, ZygoteState::Starting)).await;
        match state.map(|state| state.clone()) {
            Ok(ZygoteState::Ready(facts)) => Ok(facts),
            Ok(ZygoteState::Down(message)) => Err(TierError::Zygote(format!("{message}{}", self.link.complaint()))),
            Ok(ZygoteState::Starting) | Err(_) => Err(TierError::Gone(self.link.complaint())),
        }
    }
}

impl Backend for JailBackend {
    fn tier(&self) -> Tier {
        Tier::Jail
    }

    fn ready(&self) -> Later<'_, Result<Map<String, Value>, TierError>> {
        Box::pin(self.zygote_facts())
    }

    fn make(&self, made: Made) -> Later<'_, Result<Fresh, TierError>> {
        Box::pin(async move {
            let fresh = make::make(Arc::clone(&self.link), made).await;
            fresh.map_err(|error| self.link.blame(error))
        })
    }

    fn stop(&self) -> Later<'_, ()> {
        Box::pin(self.link.stop())
    }
}
