//! A question on its way: remembered answers first, then it waits, until somebody answers, its time is over, or nobody wants to
//! know any more.

use super::Approvals;
use super::webhook::Event;
use crate::api::native::LimitsAnswer;
use crate::clock::Timestamp;
use crate::store::{ApprovalFacts, ApprovalInput, ApprovalRecord};
use atoll_core::service::{ApprovalMode, ApprovalStatus};
use atoll_core::{ApprovalId, KeyId, Outcome, Verdict};
use atoll_engine::EngineError;
use atoll_engine::audit::{Action, Closing, Digest, Ending, Opening};
use atoll_engine::gate::{Answer, Approver, Asking, Held, Question};
use std::collections::BTreeSet;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Longer code cannot be shown to somebody who is to judge it.
pub const MOST_CODE: usize = 256 << 10;

impl Approver for Approvals {
    fn ask<'a>(&'a self, question: Question<'a>, held: Held<'a>) -> Asking<'a> {
        Box::pin(self.asked(question, held))
    }
}

/// Takes a question back when nobody waits for its answer any more.
struct Waits<'a> {
    approvals: &'a Approvals,
    tenant: &'a str,
    id: &'a ApprovalId,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        if self.approvals.waiting.take(self.id).is_some() {
            self.approvals.store.cancel_approval(self.id.clone());
            self.approvals.tell_outside(Event::Cancelled, self.tenant, self.id);
        }
    }
}

impl Approvals {
    async fn asked(&self, question: Question<'_>, held: Held<'_>) -> Result<Answer, EngineError> {
        let rules = asked_about(&question);
        if let Some(by) = self.remembered(&question, &rules).await {
            return Ok(Answer::Approved { by });
        }
        let key = question.by.key.as_deref().and_then(KeyId::parse);
        let (ApprovalMode::Wait, Some(key)) = (self.settings.mode, key) else {
            return Ok(Answer::Nobody(None));
        };
        if question.code.len() > MOST_CODE {
            let why = format!("the code is longer than {MOST_CODE} bytes, the limit for approvals; shorten it");
            return Ok(Answer::Nobody(Some(why)));
        }
        let began = Instant::now();
        let record = self.record(&question, key, rules);
        let id = record.id.clone();
        let Some(told) = self
            .waiting
            .add(&id, &question.by.tenant, self.settings.max_pending.get())
        else {
            let why = format!(
                "the tenant already has {} pending approval requests, the maximum; retry later",
                self.settings.max_pending
            );
            return Ok(Answer::Nobody(Some(why)));
        };
        let waits = Waits {
            approvals: self,
            tenant: &question.by.tenant,
            id: &id,
        };
        let mut opening = Opening::new(Action::ApprovalAsk, question.by)
            .within(question.sandbox)
            .at(id.as_str());
        opening.execution = question.execution.cloned();
        opening.behind.policy = Some(question.policy.name.clone());
        opening.code = Some(question.code);
        let ticket = self.node.door(question.by.clone()).begin(opening).await?;
        if let Err(error) = self.store.add_approval(record).await {
            tracing::error!(error = %crate::chain(&error), "approval request could not be stored");
            let why = "the approval request could not be stored; see the server log for the cause".to_owned();
            return Ok(Answer::Nobody(Some(why)));
        }
        tracing::info!(approval = %id, tenant = question.by.tenant, sandbox = %question.sandbox, "approval requested");
        self.tell_outside(Event::Asked, &question.by.tenant, &id);
        held(id.as_str());
        let answer = self.wait(&id, told, began + self.settings.expiry.duration()).await;
        if answer == Answer::Expired {
            self.tell_outside(Event::Expired, &question.by.tenant, &id);
        }
        drop(waits);
        ticket.close(|| closing(&answer));
        Ok(answer)
    }

    pub(super) async fn wait(&self, id: &ApprovalId, mut told: oneshot::Receiver<Answer>, end: Instant) -> Answer {
        let nobody = |_| Answer::Nobody(None);
        tokio::select! {
            answer = &mut told => return answer.unwrap_or_else(nobody),
            () = sleep_until(end) => {}
        }
        // Somebody may answer in this very moment.
        let Some(_held) = self.waiting.take(id) else {
            return told.await.unwrap_or_else(nobody);
        };
        if let Err(error) = self.store.close_approval(id, ApprovalStatus::Expired, None).await {
            tracing::error!(error = %crate::chain(&error), "status of an approval could not be stored");
        }
        Answer::Expired
    }

    /// Who has said yes to this before: for the sandbox's life, or for this code.
    async fn remembered(&self, question: &Question<'_>, rules: &BTreeSet<String>) -> Option<String> {
        if let Some(by) = self.granted.covers(question.sandbox, rules) {
            return Some(by);
        }
        let (tenant, language) = (&question.by.tenant, question.language.as_str());
        let digest = digest_of(question.code);
        let found = self.store.granted(tenant, language, &digest, &question.env).await;
        let found = found.unwrap_or_else(|error| {
            tracing::error!(error = %crate::chain(&error), "approvals could not be read");
            Vec::new()
        });
        let covering = found.into_iter().find(|(covered, _)| rules.is_subset(covered));
        covering.map(|(_, by)| by)
    }

    pub(super) fn record(&self, question: &Question<'_>, key_id: KeyId, rules: BTreeSet<String>) -> ApprovalRecord {
        let created = Timestamp::now();
        let expiry = i64::try_from(self.settings.expiry.get()).unwrap_or(i64::MAX);
        let input = |fact: &atoll_engine::gate::InputFact| ApprovalInput {
            name: fact.name.clone(),
            sha256: fact.sha256.as_ref().map(Digest::to_string),
        };
        ApprovalRecord {
            id: ApprovalId::from_random(crate::random_bytes()),
            tenant: question.by.tenant.clone(),
            key_id,
            key_name: None,
            sandbox: question.sandbox.clone(),
            status: ApprovalStatus::Pending,
            created,
            expires: created.plus_millis(expiry),
            language: question.language.as_str().to_owned(),
            code_sha256: digest_of(question.code),
            facts: ApprovalFacts {
                execution: question.execution.cloned(),
                code: question.code.to_owned(),
                findings: question.findings.to_vec(),
                rules,
                inputs: question.inputs.iter().map(input).collect(),
                env: question.env.clone(),
                limits: serde_json::to_value(LimitsAnswer::from(question.limits)).unwrap_or_default(),
                policy: question.policy.name.clone(),
                policy_digest: question.policy.digest().to_owned(),
                dry_run: None,
            },
            answer: None,
        }
    }
}

/// As people and other programs write it.
fn digest_of(code: &str) -> String {
    Digest::of(code.as_bytes()).to_string()
}

fn asked_about(question: &Question<'_>) -> BTreeSet<String> {
    let asked = question
        .findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Ask);
    asked.map(|finding| finding.rule.clone()).collect()
}

pub(super) fn closing(answer: &Answer) -> Closing {
    let (outcome, approver) = match answer {
        Answer::Approved { by } => (Ending::Ok, Some(by.clone())),
        Answer::Denied { by, .. } => (Outcome::ApprovalDenied.into(), Some(by.clone())),
        Answer::Expired => (Outcome::ApprovalExpired.into(), None),
        Answer::Nobody(_) => (Ending::Failed, None),
    };
    Closing {
        approver,
        ..Closing::of(outcome)
    }
}
