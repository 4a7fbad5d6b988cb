//! Tiers: each makes sandboxes behind its own wall, and all look the same from here.
//!
//! What the engine sees of a sandbox is an agent inside that it talks to ([`agent`]), interpreters with a control socket and
//! two pipes ([`context`]), and a [`Wall`] for what only the tier itself can do. A [`Backend`] makes such sandboxes of one
//! template. Nothing here knows policies, owners or the audit log.

mod agent;
mod bare;
mod carried;
mod context;
mod descriptors;
mod error;
mod gvisor;
mod host;
mod jail;
mod lines;
mod microvm;
mod oci;
mod open;
mod reading;
mod saved;
mod start;
#[cfg(feature = "wasm")]
mod wasm;

use atoll_core::dry_run::Attempts;
use atoll_core::{Gives, Limits, Tier};
use atoll_jail::plan::InputPlan;
use rustix::fd::OwnedFd;
use serde_json::{Map, Value};
use std::fmt::Debug;
use std::pin::Pin;

pub(crate) use agent::{Agent, Asked, Talk};
pub(crate) use bare::{BareSandbox, Collected};
pub(crate) use context::{Context, Happened, Interpreter, read_piece};
pub(crate) use descriptors::{null, pipe, watch};
pub use error::TierError;
pub use host::{look, missing_tiers, tier_programs};
pub(crate) use jail::{JailBackend, JailPlan, run_dir};
pub use microvm::{MicrovmHost, microvm_host};
pub use oci::TierSettings;
pub(crate) use open::open;
pub(crate) use saved::{Back, Files, Saved, SavedContext, digest};
pub(crate) use start::Inspected;

/// The answer of a tier, which takes its time.
pub(crate) type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What was read back of the walls, by name.
pub(crate) type Layers = Map<String, Value>;

/// An input file of the host: its name inside, and the file itself, open.
pub(crate) type OpenInput = (InputPlan, OwnedFd);

/// What a sandbox is made of.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) limits: Limits,
    pub(crate) inputs: Vec<OpenInput>,
    /// A Python context starts with it.
    pub(crate) python: bool,
    /// What its contexts try is looked at: a dry run.
    pub(crate) watched: bool,
    /// Where the tier can keep it from code.
    #[cfg_attr(not(feature = "wasm"), expect(dead_code, reason = "only `wasm` can"))]
    pub(crate) gives: Gives,
}

/// A sandbox that was just made, with its first context if it was asked for.
pub(crate) type Fresh = (BareSandbox, Option<Inspected>);

/// Makes the sandboxes of one template in one tier.
pub(crate) trait Backend: Debug + Send + Sync {
    fn tier(&self) -> Tier;

    /// Waits until what every sandbox starts from is there; the facts say what it is and how long it took.
    fn ready(&self) -> Later<'_, Result<Map<String, Value>, TierError>>;

    fn make(&self, made: Made) -> Later<'_, Result<Fresh, TierError>>;

    /// Whether a prepared sandbox can be given these limits. If not, one is made for who asks.
    fn may_become(&self, _: &Limits) -> bool {
        true
    }

    /// What a saved sandbox belongs to: it can be brought back only where this is the same. `None` where none is saved.
    fn saves_for(&self) -> Option<&str> {
        None
    }

    /// Another sandbox from a saved one.
    fn restore(&self, _: Made, _: Saved, _: Files) -> Later<'_, Result<Back, TierError>> {
        Box::pin(std::future::ready(Err(TierError::NotInTier(self.tier()))))
    }

    /// Ends every sandbox and waits until nothing of them is left.
    fn stop(&self) -> Later<'_, ()>;
}

/// What only the tier can do for one sandbox. Dropped, the sandbox ends.
pub(crate) trait Wall: Debug + Send + Sync {
    /// Applies what is personal to a prepared sandbox.
    fn claim<'a>(
        &'a self,
        agent: &'a Agent,
        limits: Limits,
        inputs: Vec<OpenInput>,
    ) -> Later<'a, Result<(), TierError>>;

    fn start_python<'a>(&'a self, sandbox: &'a BareSandbox) -> Later<'a, Result<Inspected, TierError>>;

    /// Called for each program that becomes a context, before anything runs in it.
    fn begins<'a>(&'a self, context: &'a mut Context) -> Later<'a, Result<(), TierError>>;

    /// The walls of a context, read back. A missing one that is required is an error.
    fn inspect<'a>(&'a self, context: &'a Context) -> Later<'a, Result<Layers, TierError>>;

    /// Whether a kernel outside of the sandbox counts and bounds what it uses.
    fn has_cgroups(&self) -> bool;

    /// Has what is counted elsewhere brought here, before it is looked at.
    fn recount(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// Writes the sandbox down, with all that lives in it. It goes on, or it is over.
    fn save<'a>(&'a self, sandbox: &'a BareSandbox, _: Files, _goes_on: bool) -> Later<'a, Result<(), TierError>> {
        Box::pin(std::future::ready(Err(TierError::NotInTier(sandbox.tier))))
    }

    /// In a dry run: what its contexts have tried.
    fn attempts(&self) -> Option<Attempts>;

    /// Ends the sandbox and waits until nothing of it is left.
    fn end(&self) -> Later<'_, Result<(), TierError>>;

    fn has_ended(&self) -> bool;

    /// Waits for the end, whoever causes it.
    fn ended(&self) -> Later<'_, ()>;
}
