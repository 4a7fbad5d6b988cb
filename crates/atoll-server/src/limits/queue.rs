//! Creates and resumes that wait for a slot of a full server: one line per tenant, and the tenants take turns.

use super::ledger::{Claimant, Slot};
use crate::api::ApiError;
use std::collections::VecDeque;
use tokio::sync::oneshot;

/// One create or resume. It leaves the queue by dropping the other end of `tell`.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) claimant: Claimant,
    pub(super) tell: oneshot::Sender<Result<Slot, ApiError>>,
}

/// The tenant of the first line is the next one. No line is empty.
#[derive(Debug, Default)]
pub(super) struct CreateQueue {
    lines: VecDeque<VecDeque<Waiter>>,
}

impl CreateQueue {
    /// Behind the others of its tenant. A tenant without a line comes after all others.
    pub(super) fn push(&mut self, waiter: Waiter) {
        let tenant = &waiter.claimant.tenant;
        let line = self.lines.iter_mut().find(|line| is_of(line, tenant));
        match line {
            Some(line) => line.push_back(waiter),
            None => self.lines.push_back(VecDeque::from([waiter])),
        }
    }

    pub(super) fn take_next(&mut self) -> Option<Waiter> {
        let mut line = self.lines.pop_front()?;
        let first = line.pop_front();
        if !line.is_empty() {
            self.lines.push_back(line);
        }
        first
    }

    /// Removes the newest of the longest line. `None` if no tenant has more than one place.
    pub(super) fn displace(&mut self) -> Option<Waiter> {
        let longest = self.lines.iter_mut().max_by_key(|line| line.len())?;
        if longest.len() > 1 { longest.pop_back() } else { None }
    }

    /// Removes those that wait no more.
    pub(super) fn tidy(&mut self) {
        for line in &mut self.lines {
            line.retain(|waiter| !waiter.tell.is_closed());
        }
        self.lines.retain(|line| !line.is_empty());
    }

    pub(super) fn count(&self) -> u64 {
        self.lines.iter().map(|line| line.len() as u64).sum()
    }

    pub(super) fn count_of(&self, tenant: &str) -> u64 {
        let line = self.lines.iter().find(|line| is_of(line, tenant));
        line.map_or(0, |line| line.len() as u64)
    }
}

fn is_of(line: &VecDeque<Waiter>, tenant: &str) -> bool {
    line.front().is_some_and(|waiter| waiter.claimant.tenant == tenant)
}
