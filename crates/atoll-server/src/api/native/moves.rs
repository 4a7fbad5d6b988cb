//! A run whose tier was chosen for it: it says why, and if the code turns out to need more, it is run again in the next one.
//!
//! Until that is known nothing of the run is told.

use crate::api::said::Said;
use crate::api::{ApiError, AppState};
use crate::auth::Caller;
use crate::limits::Slot;
use crate::sandboxes::Wish;
use atoll_core::execution::{Execution, TierChoice};
use atoll_core::{Limits, Tier};
use atoll_engine::Output;
use atoll_engine::routing::Chosen;
use atoll_engine::session::Session;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Moves {
    wish: Wish,
    chosen: Chosen,
    /// The place of the run among the live sandboxes, wherever it is.
    slot: Arc<Slot>,
}

impl Moves {
    pub(super) fn new(wish: Wish, chosen: Chosen, slot: Arc<Slot>) -> Self {
        Self { wish, chosen, slot }
    }

    /// The limits of a trial. All of its output is held back until its end.
    pub(super) fn trial_limits(&self, limits: &Limits) -> Option<Limits> {
        self.chosen.trial_limits(limits)
    }

    /// The tier to go to and why, if the run has shown that it needs more.
    pub(super) fn next(&self, execution: &Execution) -> Option<(Tier, String)> {
        self.chosen.after_trial(execution)
    }

    pub(super) async fn make(&self, state: &AppState, caller: &Caller, tier: Tier) -> Result<Arc<Session>, ApiError> {
        let wish = Wish {
            tier: Some(tier),
            ..self.wish.clone()
        };
        state.sandboxes.replace(Arc::clone(&self.slot), caller, wish).await
    }

    /// Says why it ran where it ran. `moved`: why it was moved, if it was.
    pub(super) fn explain(&self, execution: &mut Execution, moved: Option<String>) {
        execution.tier_choice = Some(TierChoice {
            asked: self.wish.tier,
            moved_from: moved.is_some().then_some(self.chosen.tier),
            reason: moved.unwrap_or_else(|| self.chosen.reason.clone()),
        });
    }
}

/// What was held back, in the order of its kinds.
pub(super) fn tell<T>(said: &Said<T>, execution: &Execution) {
    if !execution.stdout.is_empty() {
        said.hear(Output::Stdout(execution.stdout.as_bytes()));
    }
    if !execution.stderr.is_empty() {
        said.hear(Output::Stderr(execution.stderr.as_bytes()));
    }
    execution
        .results
        .iter()
        .for_each(|result| said.hear(Output::Result(result)));
}
