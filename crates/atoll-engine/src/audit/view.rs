//! One entry as people and programs read it: what was opened and how it was closed, in one object.

use super::action::{Action, Ending};
use super::digest::Digest;
use super::line::Line;
use super::moment::Moment;
use super::output::RecordedOutput;
use super::record::{Actor, Body, FileFact, FindingFact, KeyFact, Traffic};
use atoll_core::execution::{Receipt, Usage};
use atoll_core::{ExecutionId, SandboxId, Tier};
use serde::Serialize;

#[derive(Clone, Debug, Serialize)]
pub struct View {
    pub id: u64,
    pub time: Moment,
    pub action: Action,
    /// `null` while it goes on.
    pub outcome: Option<Ending>,
    #[serde(flatten)]
    pub actor: Actor,
    pub key_name: Option<String>,
    pub address: Option<String>,
    /// Of a local run.
    pub uid: Option<u32>,
    /// A probe of `atoll doctor --attack`.
    pub attack: bool,
    pub sandbox: Option<SandboxId>,
    pub execution: Option<ExecutionId>,
    pub tier: Option<Tier>,
    /// Its name; the digest is in the receipt.
    pub policy: Option<String>,
    pub language: Option<String>,
    pub template: Option<String>,
    pub code_sha256: Option<Digest>,
    /// Only where the log keeps code.
    pub code: Option<String>,
    pub port: Option<u16>,
    /// When it was done, if the log could not be written then.
    pub late: Option<Moment>,
    pub paths: Vec<String>,
    pub command: Vec<String>,
    pub inputs: Vec<FileFact>,
    pub outputs: Vec<FileFact>,
    pub output_paths: Vec<String>,
    /// Of an execution; only where the log keeps output.
    pub output: Option<Box<RecordedOutput>>,
    pub findings: Vec<FindingFact>,
    pub verdict: Option<String>,
    pub approver: Option<String>,
    pub usage: Option<Usage>,
    pub receipt_sha256: Option<Digest>,
    pub receipt: Option<Receipt>,
    /// Of a port.
    pub traffic: Option<Traffic>,
    /// The key that was made or revoked.
    pub about_key: Option<KeyFact>,
    pub reason: Option<String>,
    pub error: Option<String>,
    pub ended: Option<Moment>,
    /// Private parts of it were erased.
    pub redacted: bool,
    /// Of the two records in the chain.
    pub hash: Digest,
    pub closed_hash: Option<Digest>,
}

impl View {
    /// `None` if the lines are not those of an entry.
    pub fn of(opened: &Line, closed: Option<&Line>) -> Option<Self> {
        let Body::Opened(open) = &opened.record.body else {
            return None;
        };
        let closed = closed.and_then(|line| match &line.record.body {
            Body::Closed(closed) if closed.entry == opened.record.seq => Some((line, closed)),
            _ => None,
        });
        let end = closed.map(|(_, closed)| closed.clone());
        let private = opened.private.clone().map(|private| private.data).unwrap_or_default();
        let late = closed
            .and_then(|(line, _)| line.private.clone())
            .map(|private| private.data)
            .unwrap_or_default();
        Some(Self {
            id: opened.record.seq,
            time: opened.record.time,
            action: open.action,
            outcome: end.as_ref().map(|end| end.outcome),
            actor: open.actor.clone(),
            key_name: private.key_name,
            address: private.address,
            uid: open.uid,
            attack: open.attack,
            sandbox: open
                .sandbox
                .clone()
                .or(end.as_ref().and_then(|end| end.sandbox.clone())),
            execution: open.execution.clone(),
            tier: open.tier.or(end.as_ref().and_then(|end| end.tier)),
            policy: open.policy.clone().or(end.as_ref().and_then(|end| end.policy.clone())),
            language: open.language.clone(),
            template: open.template.clone(),
            code_sha256: open.code,
            code: private.code,
            port: open.port,
            late: open.late,
            paths: private.paths,
            command: private.command,
            ended: closed.map(|(line, _)| line.record.time),
            redacted: opened.is_redacted() || closed.is_some_and(|(line, _)| line.is_redacted()),
            hash: opened.hash,
            closed_hash: closed.map(|(line, _)| line.hash),
            output_paths: late.paths,
            output: late.output,
            error: late.error,
            inputs: end.as_ref().map(|end| end.inputs.clone()).unwrap_or_default(),
            outputs: end.as_ref().map(|end| end.outputs.clone()).unwrap_or_default(),
            findings: end.as_ref().map(|end| end.findings.clone()).unwrap_or_default(),
            verdict: end.as_ref().and_then(|end| end.verdict.clone()),
            approver: end.as_ref().and_then(|end| end.approver.clone()),
            usage: end.as_ref().and_then(|end| end.usage),
            receipt_sha256: end.as_ref().and_then(|end| end.receipt),
            receipt: end.as_ref().and_then(|end| end.facts.clone()),
            traffic: end.as_ref().and_then(|end| end.traffic),
            about_key: end.as_ref().and_then(|end| end.about_key.clone()),
            reason: end.and_then(|end| end.reason),
        })
    }
}
