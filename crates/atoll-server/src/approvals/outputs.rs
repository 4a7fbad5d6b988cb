//! Files of dry runs: they lie here until somebody has said yes, and then for as long again, to be fetched.

use super::webhook::Event;
use super::{Approvals, MOST_CODE};
use crate::api::{ApiError, ErrorCode};
use crate::auth::Caller;
use crate::limits::Slot;
use crate::spool::Folder;
use crate::store::ApprovalRecord;
use atoll_core::dry_run::DryRun;
use atoll_core::service::ApprovalStatus;
use atoll_core::{ApprovalId, KeyId};
use atoll_engine::Ticket;
use atoll_engine::audit::{Action, Closing, Ending, Opening};
use atoll_engine::gate::{Answer, Question};
use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use tokio::time::Instant;
use tracing::Instrument;

/// What a dry run has left: its files by the paths that they had, and the places that they take.
#[derive(Debug)]
pub struct HeldFiles {
    pub(crate) files: HashMap<String, PathBuf>,
    pub(crate) _folder: Option<Folder>,
    /// They count as the sandbox that made them.
    pub(crate) _slot: Option<Arc<Slot>>,
}

#[derive(Debug, Default)]
pub(super) struct Outputs(Mutex<HashMap<ApprovalId, Arc<HeldFiles>>>);

impl Outputs {
    fn lock(&self) -> MutexGuard<'_, HashMap<ApprovalId, Arc<HeldFiles>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Approvals {
    /// Holds the files of a dry run until somebody answers: the name of the question, or why nobody can be asked.
    pub async fn hold(
        self: &Arc<Self>,
        question: Question<'_>,
        dry_run: DryRun,
        files: HeldFiles,
    ) -> Result<ApprovalId, String> {
        let key = question.by.key.as_deref().and_then(KeyId::parse);
        let key = key.ok_or("this server runs without keys, so there is no approver")?;
        if question.code.len() > MOST_CODE {
            return Err(format!(
                "the code is longer than {MOST_CODE} bytes, the limit for approvals"
            ));
        }
        let mut record = self.record(&question, key, BTreeSet::new());
        let (id, end) = (record.id.clone(), Instant::now() + self.settings.expiry.duration());
        let approval_id = Some(id.to_string());
        record.facts.dry_run = Some(DryRun { approval_id, ..dry_run });
        let most = self.settings.max_pending.get();
        let told = self.waiting.add(&id, &question.by.tenant, most);
        let told =
            told.ok_or_else(|| format!("the tenant already has {most} pending approval requests, the maximum"))?;
        let ticket = match self.note(&question, record).await {
            Ok(ticket) => ticket,
            Err(error) => {
                self.waiting.take(&id);
                tracing::error!(error, "approval request for dry-run files could not be stored");
                return Err("the approval request could not be stored; see the server log for the cause".to_owned());
            }
        };
        self.outputs.lock().insert(id.clone(), Arc::new(files));
        self.tell_outside(Event::Asked, &question.by.tenant, &id);
        let whose = (question.by.tenant.clone(), id.clone());
        let work = Arc::clone(self).see_off(whose, ticket, told, end);
        tokio::spawn(work.in_current_span());
        Ok(id)
    }

    /// In the audit log, and where people look.
    async fn note(&self, question: &Question<'_>, record: ApprovalRecord) -> Result<Ticket, String> {
        let mut opening = Opening::new(Action::ApprovalAsk, question.by)
            .within(question.sandbox)
            .at(record.id.as_str());
        opening.execution = question.execution.cloned();
        opening.behind.policy = Some(question.policy.name.clone());
        let ticket = self.node.door(question.by.clone()).begin(opening).await;
        let ticket = ticket.map_err(|error| crate::chain(&error))?;
        let kept = self.store.add_approval(record).await;
        kept.map(|()| ticket).map_err(|error| crate::chain(&error))
    }

    /// Waits for the answer. Approved files can be fetched for as long as an answer may take; others go at once.
    async fn see_off(
        self: Arc<Self>,
        (tenant, id): (String, ApprovalId),
        ticket: Ticket,
        told: oneshot::Receiver<Answer>,
        end: Instant,
    ) {
        let answer = self.wait(&id, told, end).await;
        if matches!(answer, Answer::Expired) {
            self.tell_outside(Event::Expired, &tenant, &id);
        }
        ticket.close(|| super::ask::closing(&answer));
        if matches!(answer, Answer::Approved { .. }) {
            tokio::time::sleep(self.settings.expiry.duration()).await;
        }
        self.outputs.lock().remove(&id);
    }

    /// A file that may go out, for a caller of the tenant.
    pub async fn released(
        &self,
        caller: &Caller,
        id: &ApprovalId,
        path: &str,
    ) -> Result<(Arc<HeldFiles>, PathBuf), ApiError> {
        let record = self.find(caller, id).await?;
        if record.facts.dry_run.is_none() {
            return Err(ApiError::invalid("the approval covers code, not files"));
        }
        if record.status != ApprovalStatus::Approved {
            return Err(not_released(record.status));
        }
        let held = self.outputs.lock().get(id).cloned();
        let held = held.ok_or_else(|| ApiError::new(ErrorCode::NotFound, "the files are no longer available"))?;
        let place = held.files.get(path).cloned();
        let place = place.ok_or_else(|| ApiError::not_found("dry-run file"))?;
        let actor = caller.actor();
        let opening = Opening::new(Action::FileRead, &actor).within(&record.sandbox).at(path);
        let ticket = self.node.door(actor.clone()).begin(opening).await?;
        ticket.close(|| Closing::of(Ending::Ok));
        Ok((held, place))
    }
}

fn not_released(status: ApprovalStatus) -> ApiError {
    match status {
        ApprovalStatus::Pending => ApiError::new(ErrorCode::Conflict, "the files are held until they are approved")
            .hint("approve them with another key that has the `approve` scope, then download them"),
        other => ApiError::new(
            ErrorCode::Conflict,
            format!("the files are not available: the approval is {other}"),
        ),
    }
}
