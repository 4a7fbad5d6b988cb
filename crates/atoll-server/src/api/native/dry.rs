//! A run with its effects held: what it would have done is told, and its files wait until somebody approves them.

use super::execute::Finished;
use crate::api::AppState;
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_core::dry_run::{Attempts, DryRun};
use atoll_core::execution::{LeftOutFile, OutputFile};
use atoll_core::{Language, Limits};
use atoll_engine::Input;
use atoll_engine::dry_run::changes;
use atoll_engine::gate::{InputFact, Question};
use atoll_engine::policy::Policy;
use std::sync::Arc;

/// What is asked for, for those who are to judge what came of it.
#[derive(Debug)]
pub(super) struct Dry {
    inputs: Vec<Input>,
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

    /// The files against the inputs, beside what was tried.
    pub(super) async fn told(&self, files: &[OutputFile], attempts: Attempts) -> DryRun {
        let (files, inputs) = (files.to_vec(), self.inputs.clone());
        let compared = tokio::task::spawn_blocking(move || changes(&files, &inputs)).await;
        DryRun {
            changes: compared.unwrap_or_default(),
            attempts,
            approval_id: None,
        }
    }

    /// Keeps the files back and asks. Files that nobody can be asked about are left out, and why.
    pub(super) async fn hold(self, state: &AppState, caller: &Caller, code: &str, finished: &mut Finished) {
        let held = finished.outputs.hold();
        let Ok(execution) = &mut finished.done else { return };
        let (Some(dry_run), Some(sandbox)) = (&mut execution.dry_run, &execution.sandbox_id) else {
            return;
        };
        if held.files.is_empty() {
            return;
        }
        let fact = |input: &Input| InputFact {
            name: input.name.clone(),
            sha256: None,
        };
        let question = Question {
            by: &caller.actor(),
            sandbox,
            execution: Some(&execution.execution_id),
            language: self.language,
            code,
            findings: &execution.findings,
            policy: &self.policy,
            limits: &self.limits,
            inputs: self.inputs.iter().map(fact).collect(),
        };
        match state.approvals.hold(question, dry_run.clone(), held).await {
            Ok(id) => dry_run.approval_id = Some(id.to_string()),
            Err(why) => {
                let left_out = execution.files.iter().map(|file| LeftOutFile {
                    path: file.path.clone(),
                    why: format!("it cannot be held: {why}"),
                });
                execution.left_out.count += execution.files.len() as u64;
                execution.left_out.files.extend(left_out.take(100));
            }
        }
    }
}
