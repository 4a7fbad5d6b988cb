//! An execution under way: a task of its own that goes on to its end, whoever listens. When its client goes, the code is
//! interrupted.

use super::dry::Dry;
use super::moves::{Moves, tell};
use super::outputs::{Outputs, collect};
use super::wire::OutputFiles;
use super::wish::Variables;
use crate::api::said::Said;
use crate::api::{ApiError, AppState, ErrorCode};
use crate::auth::Caller;
use crate::limits::Slot;
use crate::spool::Folder;
use atoll_core::execution::{Execution, LiveUsage};
use atoll_core::{EndReason, ExecutionId, Limits};
use atoll_engine::policy::Policy;
use atoll_engine::session::Session;
use atoll_engine::{Choice, Control, Output, Request};
use serde_json::{Value, json};
use std::sync::Arc;

/// What is to be done in a sandbox.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) state: AppState,
    pub(super) caller: Caller,
    pub(super) session: Arc<Session>,
    /// Of a run: why it is where it is, and where it goes from there.
    pub(super) moves: Option<Moves>,
    pub(super) code: String,
    pub(super) context: Choice,
    pub(super) variables: Variables,
    pub(super) limits: Option<Limits>,
    pub(super) raw_results: bool,
    /// Besides the sandbox's own.
    pub(super) policy: Option<Arc<Policy>>,
    pub(super) after: After,
}

/// What becomes of the sandbox.
#[derive(Debug)]
pub(super) enum After {
    Stays,
    /// Its files are collected, and it ends.
    Ends(Ends),
}

/// By way of which folder files are collected, and the place that the sandbox has among the live ones.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) wanted: OutputFiles,
    /// What is known of a dry run before it begins.
    pub(super) dry: Option<Box<Dry>>,
    pub(super) folder: Folder,
    pub(super) slot: Arc<Slot>,
}

/// What an execution gave, or why it could not be.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) done: Result<Execution, ApiError>,
    pub(super) outputs: Outputs,
}

/// What this dialect says of its own accord.
#[derive(Debug)]
pub(super) enum Own {
    Started(Value),
    Usage(LiveUsage),
    /// The last one.
    Finished(Box<Finished>),
}

/// Interrupts the execution when it is dropped, unless that was its end.
#[derive(Debug, Default)]
pub(super) struct Reins {
    control: Control,
    over: bool,
}

impl Reins {
    pub(super) fn over(&mut self) {
        self.over = true;
    }
}

impl Drop for Reins {
    fn drop(&mut self) {
        if !self.over {
            self.control.interrupt();
        }
    }
}

/// Whether code may have run. A sandbox that ended may have ended under it; all other errors come before it.
fn has_begun(execution: &Result<Execution, ApiError>) -> bool {
    let is_before = |error: &ApiError| error.code() != ErrorCode::Ended;
    !execution.as_ref().is_err_and(is_before)
}

/// Starts it. Whoever drops the reins gives it up.
pub(super) fn start(job: Job) -> (Arc<Said<Own>>, Reins) {
    let (said, control) = (Arc::new(Said::default()), Control::default());
    let reins = Reins {
        control: control.clone(),
        over: false,
    };
    let telling = Arc::clone(&said);
    tokio::spawn(async move { job.run(&telling, &control).await });
    (said, reins)
}

impl Job {
    async fn run(mut self, said: &Said<Own>, control: &Control) {
        let execution = self.execute(said, control).await;
        let has_begun = has_begun(&execution);
        let session = Arc::clone(&self.session);
        let mut finished = match self.after {
            After::Stays => Finished {
                done: execution,
                outputs: Outputs::default(),
            },
            After::Ends(mut ends) => {
                let (dry, by) = (ends.dry.take(), self.caller.actor());
                let finished = match session.by(&by) {
                    Ok(sandbox) => {
                        let mut finished = collect(&sandbox, &session, execution, ends, dry.as_deref()).await;
                        if let Some(dry) = dry {
                            dry.hold(&self.state, &by, &sandbox, &self.code, &mut finished).await;
                        }
                        finished
                    }
                    // One that is made for one execution is never put away.
                    Err(refused) => Finished {
                        done: Err(refused.into()),
                        outputs: Outputs::default(),
                    },
                };
                session.end_by(&self.caller.actor(), EndReason::Closed);
                session.gone().await;
                finished
            }
        };
        if has_begun {
            finished.done = finished.done.map_err(ApiError::after_begin);
        }
        let moved = finished.outputs.bytes();
        self.state.sandboxes.moved(&self.caller, 0, moved);
        said.say(Own::Finished(Box::new(finished)));
    }

    async fn execute(&mut self, said: &Said<Own>, control: &Control) -> Result<Execution, ApiError> {
        let Some(moves) = self.moves.take() else {
            return self.execute_here(said, control, None).await;
        };
        let trial = moves.trial_limits(self.session.limits());
        let mut execution = self.execute_here(said, control, trial).await?;
        match moves.next(&execution) {
            None if trial.is_some() => {
                let started = json!({"execution_id": execution.execution_id, "sandbox_id": self.session.id()});
                said.say(Own::Started(started));
                tell(said, &execution);
            }
            None => {}
            Some((tier, why)) => {
                self.leave().await;
                self.session = moves.make(&self.state, &self.caller, tier).await?;
                execution = self.execute_here(said, control, None).await?;
                moves.explain(&mut execution, Some(why));
                return Ok(execution);
            }
        }
        moves.explain(&mut execution, None);
        Ok(execution)
    }

    /// The sandbox is of no more use. The next one gets its slot.
    async fn leave(&self) {
        self.session.end_by(&self.caller.actor(), EndReason::Closed);
        self.session.gone().await;
    }

    /// `trial`: the limits of a run whose output is held back.
    async fn execute_here(
        &self,
        said: &Said<Own>,
        control: &Control,
        trial: Option<Limits>,
    ) -> Result<Execution, ApiError> {
        let id = ExecutionId::from_random(crate::random_bytes());
        let started = json!({"execution_id": id, "sandbox_id": self.session.id()});
        if trial.is_none() {
            said.say(Own::Started(started));
        }
        let request = Request {
            id,
            context: self.context.clone(),
            code: &self.code,
            env: self.variables.0.clone(),
            secrets: self.variables.1.clone(),
            limits: trial.or(self.limits),
            control: control.clone(),
            room: said.room(),
            raw_results: self.raw_results || self.state.settings.raw_results,
            policy: self.policy.clone(),
            approved: false,
        };
        let mut sink = |output: Output<'_>| match output {
            Output::Held(_) => said.hear(output),
            _ if trial.is_some() => {}
            Output::Usage(usage) => said.say_newest(Own::Usage(usage), |own| matches!(own, Own::Usage(_))),
            output => said.hear(output),
        };
        Ok(self
            .state
            .sandboxes
            .execute(&self.session, &self.caller.actor(), request, &mut sink)
            .await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_may_have_run_where_its_sandbox_ended() {
        assert!(has_begun(&Err(ApiError::new(
            ErrorCode::Ended,
            "the sandbox has ended"
        ))));
        for code in [ErrorCode::ServerFull, ErrorCode::AuditQuota, ErrorCode::NotReady] {
            assert!(!has_begun(&Err(ApiError::new(code, "refused"))), "{code:?}");
        }
    }
}
