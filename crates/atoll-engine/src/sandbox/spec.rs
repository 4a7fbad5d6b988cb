//! What is asked of a sandbox: how it is made, what it runs, and what it tells of itself.

use crate::audit::Actor;
use crate::control::Control;
use crate::gate::Approver;
use crate::input::Input;
use crate::policy::Policy;
use crate::share::Room;
use atoll_core::{ContextId, ExecutionId, Gives, Language, Limits, Tier};
use atoll_guard::redact::Secrets;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is personal about a sandbox. Saying nothing means: no inputs, no environment, the small limits.
#[derive(Clone, Debug, Default)]
pub struct SandboxSpec {
    /// In which it is made: that of its engine, which a node finds by it.
    pub tier: Tier,
    pub limits: Limits,
    pub inputs: Vec<Input>,
    pub env: BTreeMap<String, String>,
    /// Variables as well, which are taken out of all that comes back.
    pub secrets: Secrets,
    /// Which context is started with the sandbox; others start when they are first used.
    pub start: Option<Language>,
    /// It is made for one execution: what that leaves to be done is waited for, and nobody comes back to its state.
    pub once: bool,
    /// What its code starts and whom it reaches for is looked at, and told beside its files.
    pub dry_run: bool,
    /// Who asks for it, as the audit log tells it.
    pub by: Actor,
    /// What its code is held against; absent: the standard one.
    pub policy: Option<Arc<Policy>>,
    /// Who is asked if the policy asks; absent: nobody, and the answer is no.
    pub approver: Option<Arc<dyn Approver>>,
}

impl SandboxSpec {
    /// What its policy gives to code, where the tier can keep it.
    pub(crate) fn gives(&self) -> Gives {
        let policy = self.policy.as_ref();
        policy.map_or(Gives::ALL, |policy| policy.tiers.wasm.gives())
    }
}

/// What a sandbox uses now.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SandboxUsage {
    /// Of one processor, since it was last asked for.
    pub cpu_percent: f64,
    pub memory_bytes: u64,
    pub disk_bytes: u64,
}

/// Where a sandbox came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Prepared in a pool before anybody asked.
    Pool,
    /// Made for who asked.
    Made,
}

/// One execution that is asked for.
#[derive(Debug)]
pub struct Request<'a> {
    pub id: ExecutionId,
    pub context: Choice,
    pub code: &'a str,
    /// On top of the sandbox's environment, for this execution only.
    pub env: BTreeMap<String, String>,
    /// The same, which are taken out of all that comes back: of this execution and of later ones.
    pub secrets: Secrets,
    /// In place of the sandbox's own; only what holds for one execution is looked at.
    pub limits: Option<Limits>,
    pub control: Control,
    /// What its results take. A caller that keeps results keeps a copy.
    pub room: Room,
    /// Results as the code made them, not cleaned for a viewer.
    pub raw_results: bool,
    /// Besides the sandbox's own, which it can tighten and not loosen.
    pub policy: Option<Arc<Policy>>,
    /// Somebody who may say so has said yes to what the policy asks about.
    pub approved: bool,
}

/// In which context an execution runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// The one that every sandbox has for this language.
    Default(Language),
    Named(ContextId),
}
