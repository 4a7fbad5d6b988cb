//! Answers: who may give one, that there is only one, and that it is written down before anything runs because of it.

use super::Approvals;
use super::webhook::Event;
use crate::api::{ApiError, ErrorCode};
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::store::{ApprovalAnswer, ApprovalRecord};
use atoll_core::ApprovalId;
use atoll_core::service::{ApprovalScope, ApprovalStatus};
use atoll_engine::Ticket;
use atoll_engine::audit::{Action, Closing, Ending, Opening};
use atoll_engine::gate::Answer;
use std::sync::Arc;
use tracing::Instrument;

/// For those who read it: a sentence or two.
const MOST_REASON: usize = 1_000;

/// What somebody says to a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    Approve(ApprovalScope),
    Deny(Option<String>),
}

impl Decision {
    fn status(&self) -> ApprovalStatus {
        match self {
            Self::Approve(_) => ApprovalStatus::Approved,
            Self::Deny(_) => ApprovalStatus::Denied,
        }
    }

    /// A no is for once as well.
    fn is_once(&self) -> bool {
        matches!(self, Self::Deny(_) | Self::Approve(ApprovalScope::Once))
    }

    fn check(&self) -> Result<(), ApiError> {
        match self {
            Self::Deny(Some(reason)) if reason.chars().count() > MOST_REASON => Err(ApiError::invalid(format!(
                "the reason is longer than {MOST_REASON} characters"
            ))),
            Self::Approve(_) | Self::Deny(_) => Ok(()),
        }
    }
}

impl Approvals {
    /// Answers for a caller: of the tenant that asks, with the scope, and not the one who asks.
    pub async fn answer(
        self: &Arc<Self>,
        caller: &Caller,
        id: &ApprovalId,
        decision: Decision,
    ) -> Result<ApprovalRecord, ApiError> {
        decision.check()?;
        let record = self.find(caller, id).await?;
        let has_token = self.may_have_asked(&record.sandbox, &caller.key_id);
        refuse_own(caller.key_id == record.key_id || has_token)?;
        if record.facts.dry_run.is_some() && !decision.is_once() {
            let message = "the scope of an approval for dry-run files must be `once`";
            return Err(ApiError::invalid(message));
        }
        if record.status != ApprovalStatus::Pending {
            return Err(decided(record.status));
        }
        let opening = caller.actor();
        let opening = Opening::new(Action::ApprovalAnswer, &opening)
            .within(&record.sandbox)
            .at(id.as_str());
        let ticket = self.node.door(caller.actor()).begin(opening).await?;
        // Who goes away in the middle has answered all the same.
        let (all, by) = (Arc::clone(self), caller.key_id.to_string());
        let work = async move { all.decide(record, by, decision, ticket).await };
        let done = tokio::spawn(work.in_current_span()).await;
        done.map_err(|_| ApiError::internal())??;
        self.find(caller, id).await
    }

    async fn decide(
        &self,
        record: ApprovalRecord,
        by: String,
        decision: Decision,
        ticket: Ticket,
    ) -> Result<(), ApiError> {
        let Some(held) = self.waiting.take(&record.id) else {
            ticket.close(|| Closing::of(Ending::Failed));
            let now = self.store.find_approval(&record.tenant, &record.id).await?;
            return Err(decided(now.map_or(ApprovalStatus::Cancelled, |now| now.status)));
        };
        let (scope, reason) = match &decision {
            Decision::Approve(scope) => (Some(*scope), None),
            Decision::Deny(reason) => (None, reason.clone()),
        };
        let answer = ApprovalAnswer {
            by: by.clone(),
            scope,
            reason: reason.clone(),
            at: Timestamp::now(),
        };
        let kept = self
            .store
            .close_approval(&record.id, decision.status(), Some(answer))
            .await;
        if let Err(error) = kept {
            ticket.close(|| Closing::failed(&error));
            held.tell(Answer::Nobody(Some("the decision could not be stored".to_owned())));
            return Err(error.into());
        }
        tracing::info!(approval = %record.id, by, status = %decision.status(), "approval decided");
        if scope == Some(ApprovalScope::Session) {
            self.granted.add(&record.sandbox, &record.id, record.facts.rules, &by);
        }
        ticket.close(|| closing(&decision, &by));
        self.tell_outside(Event::Answered, &record.tenant, &record.id);
        held.tell(match decision {
            Decision::Approve(_) => Answer::Approved { by },
            Decision::Deny(reason) => Answer::Denied { by, reason },
        });
        Ok(())
    }

    /// Takes back what holds for longer than once. What it let run goes on.
    pub async fn revoke(&self, caller: &Caller, id: &ApprovalId) -> Result<ApprovalRecord, ApiError> {
        let record = self.find(caller, id).await?;
        let actor = caller.actor();
        let opening = Opening::new(Action::ApprovalAnswer, &actor)
            .within(&record.sandbox)
            .at(id.as_str());
        let ticket = self.node.door(caller.actor()).begin(opening).await?;
        let revoked = self.store.revoke_approval(&caller.tenant, id).await?;
        self.granted.revoke(id);
        ticket.close(|| Closing {
            reason: Some("revoked".to_owned()),
            ..Closing::of(if revoked { Ending::Ok } else { Ending::Failed })
        });
        match revoked {
            true => self.find(caller, id).await,
            false if record.status == ApprovalStatus::Revoked => Err(decided(record.status)),
            false => Err(ApiError::new(
                ErrorCode::Conflict,
                "only approvals with the scope `session` or `digest` can be revoked",
            )),
        }
    }

    /// One of the caller's tenant. Unknown and foreign ones look the same.
    pub async fn find(&self, caller: &Caller, id: &ApprovalId) -> Result<ApprovalRecord, ApiError> {
        let found = self.store.find_approval(&caller.tenant, id).await?;
        found.ok_or_else(|| ApiError::not_found("approval"))
    }
}

fn refuse_own(is_own: bool) -> Result<(), ApiError> {
    match is_own {
        true => Err(ApiError::new(
            ErrorCode::Forbidden,
            "the key that requested the approval cannot decide it",
        )
        .hint("use another key with the `approve` scope")),
        false => Ok(()),
    }
}

fn decided(status: ApprovalStatus) -> ApiError {
    ApiError::new(ErrorCode::Conflict, format!("the approval is already {status}"))
}

fn closing(decision: &Decision, by: &str) -> Closing {
    let (verdict, reason) = match decision {
        Decision::Approve(scope) => ("approved", Some(scope.as_str().to_owned())),
        Decision::Deny(reason) => ("denied", reason.clone()),
    };
    Closing {
        verdict: Some(verdict.to_owned()),
        approver: Some(by.to_owned()),
        reason,
        ..Closing::of(Ending::Ok)
    }
}
