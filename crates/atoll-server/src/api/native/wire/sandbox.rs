//! What is told about sandboxes and their contexts.

use super::limits::LimitsAnswer;
use super::policy::PolicyName;
use crate::clock::Timestamp;
use crate::sandboxes::Past;
use crate::store::SandboxRecord;
use atoll_engine::ContextInfo;
use atoll_engine::session::{Session, State};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// A live sandbox, or one that ended within the last 24 hours.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SandboxAnswer {
    /// Sandbox ID
    #[schema(example = "sbxaaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub id: String,
    /// Template name
    pub template: String,
    /// Isolation tier
    pub tier: String,
    /// `running`, `paused` or `ended`
    pub state: String,
    /// Where the state of a paused sandbox is held: `memory` or `disk`
    pub paused_to: Option<String>,
    /// Why the last attempt to resume the sandbox failed
    pub problem: Option<String>,
    /// When the sandbox was created
    #[schema(format = DateTime)]
    pub created: String,
    /// When the sandbox ends unless it is used or extended
    #[schema(format = DateTime)]
    pub ends_at: Option<String>,
    /// When the sandbox ended
    #[schema(format = DateTime)]
    pub ended: Option<String>,
    /// Why the sandbox ended
    #[schema(example = "expired_idle")]
    pub reason: Option<String>,
    /// Labels from the request
    pub metadata: BTreeMap<String, String>,
    /// Number of executions so far
    pub executions: u64,
    /// IDs of running executions
    pub running: Vec<String>,
    /// Number of executions after which the sandbox ends; `null` if there is no such limit
    pub max_executions: Option<u64>,
    /// `null` if the sandbox has ended
    pub limits: Option<LimitsAnswer>,
    /// Policy that applies to the sandbox's code; `null` if the sandbox has ended
    pub policy: Option<PolicyName>,
}

/// One page of sandboxes, newest first.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SandboxList {
    /// Sandboxes of this page
    pub sandboxes: Vec<SandboxAnswer>,
    /// Pass as `after` to get the next page; `null` on the last page
    pub next: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ContextAnswer {
    /// Context ID
    #[schema(example = "ctx_aaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub id: String,
    /// Language of the context
    pub language: String,
    /// Working directory
    pub cwd: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ContextList {
    /// Contexts of the sandbox
    pub contexts: Vec<ContextAnswer>,
}

impl From<&Session> for SandboxAnswer {
    fn from(session: &Session) -> Self {
        let time = |at| Timestamp::from(at).to_string();
        let end = session.end_reason();
        let state = match (&end, session.state()) {
            (Some(_), _) | (None, State::Ended) => "ended",
            (None, State::Running) => "running",
            (None, State::Paused) => "paused",
        };
        Self {
            id: session.id().to_string(),
            template: session.template.clone(),
            tier: session.tier().to_string(),
            state: state.to_owned(),
            paused_to: session.paused_to().map(|to| to.as_str().to_owned()),
            problem: session.problem(),
            created: time(session.created),
            ends_at: (state == "running").then(|| time(session.ends_at())),
            ended: end.map(|(_, at)| time(at)),
            reason: end.map(|(reason, _)| reason.to_string()),
            metadata: session.spec.metadata.clone(),
            executions: session.executions(),
            running: session.running().iter().map(ToString::to_string).collect(),
            max_executions: session.spec.max_executions,
            limits: Some(session.limits().into()),
            policy: Some(session.policy().into()),
        }
    }
}

impl From<Past> for SandboxAnswer {
    fn from(past: Past) -> Self {
        Self {
            id: past.id.to_string(),
            template: past.template,
            tier: past.tier.to_string(),
            state: "ended".to_owned(),
            paused_to: None,
            problem: None,
            created: past.created.to_string(),
            ends_at: None,
            ended: Some(past.ended.to_string()),
            reason: Some(past.reason.to_string()),
            metadata: past.metadata,
            executions: past.executions,
            running: Vec::new(),
            max_executions: None,
            limits: None,
            policy: None,
        }
    }
}

impl From<SandboxRecord> for SandboxAnswer {
    fn from(record: SandboxRecord) -> Self {
        Self {
            id: record.id.to_string(),
            template: record.template,
            tier: record.tier.to_string(),
            state: record.state.to_string(),
            paused_to: None,
            problem: None,
            created: record.created.to_string(),
            ends_at: None,
            ended: record.ended.map(|at| at.to_string()),
            reason: record.reason.map(|reason| reason.to_string()),
            metadata: record.metadata,
            executions: record.usage.executions,
            running: Vec::new(),
            max_executions: None,
            limits: None,
            policy: None,
        }
    }
}

impl From<ContextInfo> for ContextAnswer {
    fn from(context: ContextInfo) -> Self {
        Self {
            id: context.id.to_string(),
            language: context.language.to_string(),
            cwd: context.cwd,
        }
    }
}
