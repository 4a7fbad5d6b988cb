//! How much a key may do: creates per minute (snapshots and rollbacks are some), live sandboxes, processor seconds and bytes per day.
//!
//! [`Limits::admit`] is asked before a sandbox is made and hands out a [`Slot`]; the limit holds under any number of
//! parallel calls, because the slot is taken before the work starts and given back when it is dropped. On a full server a
//! create or a resume waits in a queue, for `queue_timeout` at most.

mod ledger;
mod queue;
mod rate;

pub use ledger::Slot;
pub use rate::Rate;

use crate::api::ApiError;
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::config::{Quotas, Settings};
use crate::store::{Store, StoreError, Usage};
use atoll_core::quantity::show_bytes;
use atoll_core::service::CreatesPerMinute;
use ledger::{Claim, Claimant, Ledger};
use rate::Buckets;
use std::time::{Duration, Instant};

/// Shared by all requests.
#[derive(Clone, Debug)]
pub struct Limits {
    ledger: Ledger,
    buckets: Buckets,
    defaults: Quotas,
    queue_timeout: Duration,
}

/// What a caller who was let in holds until the sandbox has ended.
#[derive(Debug)]
pub struct Admission {
    pub slot: Slot,
    /// For the answer's headers; absent if the key has no limit on creates.
    pub rate: Option<Rate>,
}

impl Limits {
    pub fn new(settings: &Settings) -> Self {
        Self {
            ledger: Ledger::new(settings.max_sandboxes.get(), settings.tenant_share()),
            buckets: Buckets::default(),
            defaults: settings.quota,
            queue_timeout: settings.queue_timeout.duration(),
        }
    }

    /// Takes over what was used today before this start.
    pub async fn load(&self, store: &Store, now: Timestamp) -> Result<(), StoreError> {
        for day in store.usage_of_day(now).await? {
            self.ledger.charge(now, &day.key_id, day.usage);
        }
        Ok(())
    }

    /// Lets a caller make one sandbox, or says why not and when to come back. On a full server it waits for its turn, and
    /// keeps what `expect` returns until then.
    pub async fn admit<W>(
        &self,
        caller: &Caller,
        now: Timestamp,
        expect: impl FnOnce() -> W,
    ) -> Result<Admission, ApiError> {
        self.check_day(caller, now)?;
        // Not only in its turn: it would wait, and take a slot from others, for nothing.
        if let Some(most) = self.creates_per_minute(caller) {
            self.buckets.check(caller.key_id.as_str(), most, Instant::now())?;
        }
        let slot = self.slot_in_turn(self.claimant(caller), expect).await?;
        let rate = self.pace(caller)?;
        Ok(Admission { slot, rate })
    }

    async fn slot_in_turn<W>(&self, claimant: Claimant, expect: impl FnOnce() -> W) -> Result<Slot, ApiError> {
        if self.queue_timeout.is_zero() {
            return self.ledger.take_slot(claimant);
        }
        match self.ledger.take_slot_or_turn(claimant)? {
            Claim::Slot(slot) => Ok(slot),
            Claim::Turn(turn) => {
                let _expected = expect();
                match tokio::time::timeout(self.queue_timeout, turn).await {
                    Ok(Ok(served)) => served,
                    _ => Err(self.ledger.full()),
                }
            }
        }
    }

    fn claimant(&self, caller: &Caller) -> Claimant {
        Claimant::new(caller, caller.quotas.or(self.defaults).live_sandboxes)
    }

    /// One of the key's creates of this minute: for a new sandbox, and for what costs as much as one.
    pub fn pace(&self, caller: &Caller) -> Result<Option<Rate>, ApiError> {
        let take = |most| self.buckets.take(caller.key_id.as_str(), most, Instant::now());
        self.creates_per_minute(caller).map(take).transpose()
    }

    fn creates_per_minute(&self, caller: &Caller) -> Option<u64> {
        let most = caller.quotas.or(self.defaults).creates_per_minute;
        most.map(CreatesPerMinute::get)
    }

    /// A place for a sandbox that was put away and goes on: it was counted as a new one before. On a full server it waits for
    /// its turn like a new one.
    pub async fn readmit(&self, caller: &Caller) -> Result<Slot, ApiError> {
        self.slot_in_turn(self.claimant(caller), || ()).await
    }

    /// Refuses creates and resumes that wait: the server stops, and would end what they get.
    pub fn close_queue(&self) {
        self.ledger.close_queue();
    }

    /// Refuses work of a key that has used up its day: asked before each execution and upload, too.
    pub fn check_day(&self, caller: &Caller, now: Timestamp) -> Result<(), ApiError> {
        let quotas = caller.quotas.or(self.defaults);
        let used = self.ledger.used(now, caller.key_id.as_str());
        let (cpu, moved) = (used.cpu_ms / 1_000, used.bytes_in.saturating_add(used.bytes_out));
        let over = match (quotas.cpu_seconds_per_day, quotas.bytes_per_day) {
            (Some(most), _) if cpu >= most.get() => Some(format!("{most} CPU seconds")),
            (_, Some(most)) if moved >= most.get() => Some(format!("{} transferred", show_bytes(most.get()))),
            _ => None,
        };
        over.map_or(Ok(()), |what| {
            Err(ApiError::quota_of_day(&what, now.seconds_to_next_day()))
        })
    }

    /// Counts what was used: in memory at once, in the store a moment later.
    pub(crate) fn charge(&self, store: &Store, caller: &Caller, more: Usage) {
        let now = Timestamp::now();
        self.ledger.charge(now, caller.key_id.as_str(), more);
        store.add_usage(now, &caller.tenant, &caller.key_id, more);
    }

    /// Sandboxes that hold a slot now.
    pub fn live(&self) -> u64 {
        self.ledger.live()
    }

    /// Creates and resumes that wait for a slot now.
    pub fn waiting(&self) -> u64 {
        self.ledger.waiting()
    }
}

#[cfg(test)]
mod tests;
