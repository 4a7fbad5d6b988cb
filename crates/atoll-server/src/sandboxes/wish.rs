//! What is asked for and what becomes of it: a wish, a new sandbox, what is still known of one that has ended.

use crate::api::ApiError;
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::limits::{Rate, Slot};
use crate::store::{SandboxRecord, Usage};
use atoll_core::service::SandboxState;
use atoll_core::{EndReason, Language, Limits, SandboxId, Tier};
use atoll_engine::policy::Policy;
use atoll_engine::routing::Chosen;
use atoll_engine::session::{EventLog, Rule, Session};
use atoll_engine::snapshot::Snapshot;
use atoll_engine::{Input, Secrets};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Kept for a day after the end, of every sandbox.
const MAX_METADATA_BYTES: usize = 16 << 10;

pub(super) fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), ApiError> {
    let length: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    match length <= MAX_METADATA_BYTES {
        true => Ok(()),
        false => Err(ApiError::invalid(format!(
            "the metadata is {length} bytes long, at most {MAX_METADATA_BYTES} are allowed"
        ))),
    }
}

/// A sandbox that is asked for.
#[derive(Clone, Debug)]
pub struct Wish {
    /// `None`: the usual one.
    pub tier: Option<Tier>,
    /// What runs in it, if that is known: the choice of a tier looks at it.
    pub code: Option<(String, Language)>,
    /// `None`: the server's own.
    pub template: Option<String>,
    pub limits: Limits,
    pub env: BTreeMap<String, String>,
    pub secrets: Secrets,
    pub inputs: Vec<Input>,
    pub metadata: BTreeMap<String, String>,
    pub rule: Rule,
    /// `None`: as long as the server allows.
    pub longest: Option<Duration>,
    pub pause_at_end: bool,
    pub max_executions: Option<u64>,
    /// For one execution, after which it ends.
    pub once: bool,
    /// What its code tries is looked at.
    pub dry_run: bool,
    /// Besides the tenant's own, which it can tighten and not loosen.
    pub policy: Option<Arc<Policy>>,
    /// What its dialect wants to know of it again after a restart.
    pub marks: BTreeMap<String, String>,
    /// It goes on from here: in that tier, with that template and those limits.
    pub snapshot: Option<Arc<Snapshot>>,
}

/// What is still known of a sandbox that has ended.
#[derive(Clone, Debug)]
pub struct Past {
    pub id: SandboxId,
    pub template: String,
    pub tier: Tier,
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
    /// Why it is of its tier, and where its code goes if it needs more.
    pub chosen: Chosen,
    pub rate: Option<Rate>,
    /// Its place among the live ones. Whoever keeps files of it keeps the place, too.
    pub slot: Arc<Slot>,
}

/// A sandbox whose owner has not heard of it yet.
pub(super) struct Unheard(pub(super) Option<Made>);

impl Drop for Unheard {
    fn drop(&mut self) {
        if let Some(made) = &self.0 {
            made.session.end(EndReason::Closed);
        }
    }
}

pub(super) fn record(caller: &Caller, session: &Session) -> SandboxRecord {
    SandboxRecord {
        id: session.id().clone(),
        tenant: caller.tenant.to_string(),
        key_id: caller.key_id.clone(),
        template: session.template.clone(),
        tier: session.tier(),
        state: SandboxState::Running,
        created: session.created.into(),
        ended: None,
        reason: None,
        metadata: session.spec.metadata.clone(),
        usage: Usage::default(),
    }
}
