//! Approvals on the wire.

use super::execution::{ExecutionChange, ExecutionDryRun, ExecutionFinding, ExecutionHost, ExecutionProgram};
use super::limits::LimitsAnswer;
use super::policy::PolicyName;
use crate::clock::Timestamp;
use crate::store::ApprovalRecord;
use atoll_core::Finding;
use atoll_core::dry_run::{Change, ChangeKind, DryRun, Host, Program};
use atoll_core::service::ApprovalScope;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// An approval request, with the code, the requesting key and the decision.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalView {
    /// Approval ID
    #[schema(example = "apr_aaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub id: String,
    /// `pending`, `approved`, `denied`, `expired`, `cancelled` or `revoked`
    #[schema(example = "pending")]
    pub status: String,
    /// When the request was made
    #[schema(format = DateTime)]
    pub created: String,
    /// When the request expires if no decision is made
    #[schema(format = DateTime)]
    pub expires: String,
    /// Tenant of the requesting key
    pub tenant: String,
    /// Key that made the request
    pub asked_by: ApprovalAsker,
    /// Sandbox that the code runs in
    pub sandbox_id: String,
    /// Execution that the request is about; `null` if it is about a command
    pub execution_id: Option<String>,
    /// `code`: approval to run code. `outputs`: approval to release the files of a dry run
    #[schema(example = "code")]
    pub kind: String,
    /// Effects of the dry run; `null` for `code` and in lists
    pub dry_run: Option<ExecutionDryRun>,
    /// Language of the code
    pub language: String,
    /// `null` in lists
    pub code: Option<String>,
    /// SHA-256 of the code
    #[schema(pattern = "^[0-9a-f]{64}$")]
    pub code_sha256: String,
    /// Findings of the policy check
    pub findings: Vec<ExecutionFinding>,
    /// Rules that require approval; an approval covers these
    pub rules: Vec<String>,
    /// Input files of the sandbox
    pub inputs: Vec<ApprovalInputView>,
    /// Environment variables of the code, without secrets
    pub env: BTreeMap<String, String>,
    /// Limits of the execution
    pub limits: Option<LimitsAnswer>,
    /// Always `none`: sandboxes have no network access
    #[schema(example = "none")]
    pub network: String,
    /// Policy that requires the approval
    pub policy: PolicyName,
    /// Decision; `null` while the request is pending
    pub answer: Option<ApprovalAnswerView>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalAsker {
    /// ID of the key
    pub key_id: String,
    /// Display name of the key; `null` if unknown
    pub key_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalInputView {
    /// Name below `/data/input`
    pub name: String,
    /// `null` if unknown
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalAnswerView {
    /// ID of the approver's key
    pub by: String,
    /// Scope of the approval: `once`, `session` or `digest`; `null` if denied
    pub scope: Option<String>,
    /// Reason given by the approver
    pub reason: Option<String>,
    /// When the decision was made
    #[schema(format = DateTime)]
    pub at: String,
}

/// One page of approvals, newest first.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ApprovalList {
    /// Approvals of this page
    pub approvals: Vec<ApprovalView>,
    /// Pass as `after` to get the next page; `null` on the last page
    pub next: Option<String>,
}

/// An approval with its scope.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"scope": "once"}))]
pub struct ApproveRequest {
    /// `once`: this execution. `session`: the same rules in this sandbox. `digest`: the same code in this tenant
    #[schema(value_type = String, example = "once")]
    pub scope: ApprovalScope,
}

/// A denial.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"reason": "the code deletes files"}))]
pub struct DenyRequest {
    /// Reason that is returned to the caller
    #[schema(max_length = 1000)]
    pub reason: Option<String>,
}

impl ApprovalView {
    /// Without the code and what it did, for lists.
    pub fn in_short(mut self) -> Self {
        self.code = None;
        self.dry_run = None;
        self
    }
}

impl From<ApprovalRecord> for ApprovalView {
    fn from(record: ApprovalRecord) -> Self {
        let facts = record.facts;
        let time = |at: Timestamp| at.to_string();
        let input = |input: crate::store::ApprovalInput| ApprovalInputView {
            name: input.name,
            sha256: input.sha256,
        };
        Self {
            id: record.id.to_string(),
            status: record.status.to_string(),
            created: time(record.created),
            expires: time(record.expires),
            tenant: record.tenant,
            asked_by: ApprovalAsker {
                key_id: record.key_id.to_string(),
                key_name: record.key_name,
            },
            sandbox_id: record.sandbox.to_string(),
            execution_id: facts.execution.map(|id| id.to_string()),
            kind: if facts.dry_run.is_some() { "outputs" } else { "code" }.to_owned(),
            dry_run: facts.dry_run.map(Into::into),
            language: record.language,
            code: Some(facts.code),
            code_sha256: record.code_sha256,
            findings: facts.findings.into_iter().map(Into::into).collect(),
            rules: facts.rules.into_iter().collect(),
            inputs: facts.inputs.into_iter().map(input).collect(),
            env: facts.env,
            limits: serde_json::from_value(facts.limits).ok(),
            network: "none".to_owned(),
            policy: PolicyName {
                name: facts.policy,
                digest: facts.policy_digest,
            },
            answer: record.answer.map(|answer| ApprovalAnswerView {
                by: answer.by,
                scope: answer.scope.map(|scope| scope.to_string()),
                reason: answer.reason,
                at: time(answer.at),
            }),
        }
    }
}

impl From<DryRun> for ExecutionDryRun {
    fn from(dry_run: DryRun) -> Self {
        let attempts = dry_run.attempts;
        Self {
            changes: dry_run.changes.into_iter().map(Into::into).collect(),
            hosts: attempts.hosts.into_iter().map(Into::into).collect(),
            processes: attempts.processes.into_iter().map(Into::into).collect(),
            more_hosts: attempts.more_hosts,
            more_processes: attempts.more_processes,
            more: attempts.more,
            approval_id: dry_run.approval_id,
        }
    }
}

impl From<Change> for ExecutionChange {
    fn from(change: Change) -> Self {
        let kind = match change.kind {
            ChangeKind::New => "new",
            ChangeKind::Changed => "changed",
            ChangeKind::Same => "same",
        };
        Self {
            path: change.path,
            kind: kind.to_owned(),
            size: change.size,
            sha256: change.sha256,
            diff: change.diff,
        }
    }
}

impl From<Host> for ExecutionHost {
    fn from(Host { host, port }: Host) -> Self {
        Self { host, port }
    }
}

impl From<Program> for ExecutionProgram {
    fn from(Program { path, args }: Program) -> Self {
        Self { path, args }
    }
}

impl From<Finding> for ExecutionFinding {
    fn from(finding: Finding) -> Self {
        Self {
            rule: finding.rule,
            severity: finding.severity.to_string(),
            verdict: finding.verdict.to_string(),
            line: finding.line,
            column: finding.column,
            message: finding.message,
            instead: finding.instead,
        }
    }
}
