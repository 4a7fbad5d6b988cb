//! A run with its effects held: what it would have done is told, and its files wait until somebody approves them.

use super::execute::Finished;
use crate::api::AppState;
use crate::approvals::HeldFiles;
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_core::execution::{Execution, LeftOutFile};
use atoll_core::{ApprovalId, Language, Limits};
use atoll_engine::audit::Actor;
use atoll_engine::gate::Question;
use atoll_engine::policy::Policy;
use atoll_engine::{Input, Sandbox};
use std::sync::Arc;

/// As in other lists of what is left out.
const MOST_NAMED: usize = 100;

/// What is asked for, for those who are to judge what came of it.
#[derive(Debug)]
pub(super) struct Dry {
    pub(super) inputs: Vec<Input>,
    limits: Limits,
    policy: Arc<Policy>,
    language: Language,
}

impl Dry {
    pub(super) fn new(state: &AppState, caller: &Caller, wish: &Wish, language: Language) -> Self {
        Self {
            inputs: wish.inputs.clone(),
            limits: wish.limits,
            policy: state.sandboxes.policy_of(caller, wish),
            language,
        }
    }

    /// Keeps the files back and asks. Files that nobody can be asked about are left out, and why.
    pub(super) async fn hold(
        self,
        state: &AppState,
        by: &Actor,
        sandbox: &Sandbox,
        code: &str,
        finished: &mut Finished,
    ) {
        let held = finished.outputs.hold();
        let Ok(execution) = &mut finished.done else { return };
        if held.files.is_empty() || execution.dry_run.is_none() {
            return;
        }
        let asked = match sandbox.secret_in(code) {
            Some(name) => Err(format!(
                "the code contains the value of the secret `{name}`, which approvers must not see"
            )),
            None => self.ask(state, (by, sandbox), code, execution, held).await,
        };
        match asked {
            Ok(id) => execution
                .dry_run
                .iter_mut()
                .for_each(|told| told.approval_id = Some(id.to_string())),
            Err(why) => leave_out(execution, &why),
        }
    }

    async fn ask(
        &self,
        state: &AppState,
        (by, sandbox): (&Actor, &Sandbox),
        code: &str,
        execution: &Execution,
        held: HeldFiles,
    ) -> Result<ApprovalId, String> {
        let question = Question {
            by,
            sandbox: sandbox.id(),
            execution: Some(&execution.execution_id),
            language: self.language,
            code,
            findings: &execution.findings,
            policy: &self.policy,
            limits: &self.limits,
            inputs: sandbox.input_facts().await,
            env: sandbox.variables(),
        };
        let dry_run = execution.dry_run.clone().unwrap_or_default();
        state.approvals.hold(question, dry_run, held).await
    }
}

fn leave_out(execution: &mut Execution, why: &str) {
    let left_out = execution.files.iter().map(|file| LeftOutFile {
        path: file.path.clone(),
        why: format!("cannot be held for approval: {why}"),
    });
    execution.left_out.files.extend(left_out.take(MOST_NAMED));
    execution.left_out.count += execution.files.len() as u64;
}
