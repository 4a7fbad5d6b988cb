//! A run whose tier was chosen for it: it says why, and if the code turns out to need more, it is run again in the next one.
//!
//! Until that is known nothing of the run is told.

use crate::api::said::Said;
use crate::api::{ApiError, AppState};
use crate::auth::Caller;
use crate::sandboxes::Wish;
use atoll_core::Tier;
use atoll_core::execution::{Execution, TierChoice};
use atoll_engine::Output;
use atoll_engine::routing::{Chosen, needs_more};
use atoll_engine::session::Session;
use std::sync::Arc;

#[derive(Debug)]
pub(super) struct Moves {
    wish: Wish,
    chosen: Chosen,
}

impl Moves {
    pub(super) fn new(wish: Wish, chosen: Chosen) -> Self {
        Self { wish, chosen }
    }

    /// Whether all is held back until the end.
    pub(super) fn holds(&self) -> bool {
        self.chosen.next.is_some()
    }

    /// The tier to go to, if the run has shown that it needs more.
    pub(super) fn next(&self, execution: &Execution) -> Option<Tier> {
        self.chosen
            .next
            .filter(|_| execution.error.as_ref().is_some_and(needs_more))
    }

    pub(super) async fn make(&self, state: &AppState, caller: &Caller, tier: Tier) -> Result<Arc<Session>, ApiError> {
        let wish = Wish {
            tier: Some(tier),
            ..self.wish.clone()
        };
        Ok(state.sandboxes.create(caller, wish).await?.session)
    }

    /// Says why it ran where it ran. `first`: what it ran into before it was moved.
    pub(super) fn explain(&self, execution: &mut Execution, first: Option<&Execution>) {
        let why = first.and_then(|first| first.error.as_ref());
        let reason = match why {
            Some(error) => format!("{}: {}", error.name, error.value),
            None => self.chosen.reason.clone(),
        };
        execution.tier_choice = Some(TierChoice {
            asked: self.wish.tier,
            reason,
            moved_from: first.map(|first| first.tier),
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
