//! Who holds how many sandboxes, and who used how much today.

use super::queue::{CreateQueue, Waiter};
use crate::api::{ApiError, ErrorCode};
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::store::Usage;
use atoll_core::service::SandboxCount;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
struct Books {
    most: u64,
    most_of_tenant: u64,
    queue: CreateQueue,
    /// The server stops: nothing waits any more.
    is_closed: bool,
    live: u64,
    live_of_key: Counts,
    live_of_tenant: Counts,
    day: i64,
    used: HashMap<String, Usage>,
}

/// Live sandboxes by name; a name that has none is not kept.
#[derive(Debug, Default)]
struct Counts(HashMap<String, u64>);

impl Counts {
    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    fn add(&mut self, name: &str) {
        *self.0.entry(name.to_owned()).or_default() += 1;
    }

    fn remove(&mut self, name: &str) {
        if let Some(count) = self.0.get_mut(name) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(name);
            }
        }
    }
}

/// For whom a slot is.
#[derive(Debug)]
pub(super) struct Claimant {
    key: String,
    pub(super) tenant: String,
    /// Of the key.
    limit: Option<SandboxCount>,
}

impl Claimant {
    pub(super) fn new(caller: &Caller, limit: Option<SandboxCount>) -> Self {
        Self {
            key: caller.key_id.as_str().to_owned(),
            tenant: caller.tenant.to_string(),
            limit,
        }
    }
}

/// What a create gets.
#[derive(Debug)]
pub(super) enum Claim {
    Slot(Slot),
    /// A place in the queue: the slot comes when it is its turn.
    Turn(oneshot::Receiver<Result<Slot, ApiError>>),
}

impl Books {
    /// Counts one more, unless a limit is reached. A tenant that has its share does not wait; one that may have all is stopped
    /// by the limit of the server.
    fn add(&mut self, claimant: &Claimant) -> Result<(), ApiError> {
        let of_key = self.live_of_key.of(&claimant.key);
        if let Some(limit) = claimant.limit.filter(|limit| of_key >= limit.get()) {
            return Err(ApiError::quota_of_sandboxes(limit.get()));
        }
        let share = self.most_of_tenant;
        if share < self.most && self.live_of_tenant.of(&claimant.tenant) >= share {
            return Err(ApiError::quota_of_tenant(share));
        }
        if self.live >= self.most {
            return Err(ApiError::server_full(self.most));
        }
        self.live += 1;
        self.live_of_key.add(&claimant.key);
        self.live_of_tenant.add(&claimant.tenant);
        Ok(())
    }

    /// As many wait as may live, of all and of one tenant. In a full queue, a tenant that has no place takes the newest of
    /// the tenant that has most places: two tenants must not shut out a third.
    fn wait(&mut self, claimant: Claimant) -> Option<oneshot::Receiver<Result<Slot, ApiError>>> {
        self.queue.tidy();
        let of_tenant = self.queue.count_of(&claimant.tenant);
        if self.is_closed || of_tenant >= self.most_of_tenant {
            return None;
        }
        if self.queue.count() >= self.most {
            if of_tenant > 0 {
                return None;
            }
            let displaced = self.queue.displace()?;
            displaced.tell.send(Err(ApiError::server_full(self.most))).ok();
        }
        let (tell, turn) = oneshot::channel();
        self.queue.push(Waiter { claimant, tell });
        Some(turn)
    }

    /// Those whose turn it is. They are told after the lock is free, because a slot that is not taken any more locks it again.
    fn serve(&mut self) -> Vec<(Waiter, Result<(), ApiError>)> {
        self.queue.tidy();
        let mut served = Vec::new();
        while self.live < self.most {
            let Some(waiter) = self.queue.take_next() else { break };
            let added = self.add(&waiter.claimant);
            served.push((waiter, added));
        }
        served
    }

    /// At midnight the day's books begin anew.
    fn turn_to(&mut self, day: i64) {
        if self.day != day {
            self.day = day;
            self.used.clear();
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Ledger {
    books: Arc<Mutex<Books>>,
}

/// The right to one live sandbox. Dropping it gives the right back, to those that wait first.
#[derive(Debug)]
pub struct Slot {
    claimant: Claimant,
    books: Arc<Mutex<Books>>,
}

impl Ledger {
    pub(super) fn new(most: u64, most_of_tenant: u64) -> Self {
        let books = Books {
            most,
            most_of_tenant,
            ..Books::default()
        };
        Self {
            books: Arc::new(Mutex::new(books)),
        }
    }

    /// All limits are looked at and the slot is taken under one lock: no number of parallel calls gets past them.
    pub(super) fn take_slot(&self, claimant: Claimant) -> Result<Slot, ApiError> {
        lock(&self.books).add(&claimant)?;
        Ok(self.slot(claimant))
    }

    /// The same; on a full server a place in the queue, if there is one.
    pub(super) fn take_slot_or_turn(&self, claimant: Claimant) -> Result<Claim, ApiError> {
        let mut books = lock(&self.books);
        match books.add(&claimant) {
            Ok(()) => Ok(Claim::Slot(self.slot(claimant))),
            Err(full) if full.code() == ErrorCode::ServerFull => books.wait(claimant).map(Claim::Turn).ok_or(full),
            Err(refused) => Err(refused),
        }
    }

    /// Refuses those that wait, and lets nothing wait any more.
    pub(super) fn close_queue(&self) {
        let mut books = lock(&self.books);
        books.is_closed = true;
        while let Some(waiter) = books.queue.take_next() {
            let stopping = ApiError::not_ready("the server is stopping");
            waiter.tell.send(Err(stopping)).ok();
        }
    }

    fn slot(&self, claimant: Claimant) -> Slot {
        Slot {
            claimant,
            books: Arc::clone(&self.books),
        }
    }

    /// Creates and resumes in the queue.
    pub(super) fn waiting(&self) -> u64 {
        let mut books = lock(&self.books);
        books.queue.tidy();
        books.queue.count()
    }

    pub(super) fn full(&self) -> ApiError {
        ApiError::server_full(lock(&self.books).most)
    }

    pub(super) fn live(&self) -> u64 {
        lock(&self.books).live
    }

    pub(super) fn charge(&self, now: Timestamp, key: &str, more: Usage) {
        let mut books = lock(&self.books);
        books.turn_to(now.day());
        *books.used.entry(key.to_owned()).or_default() += more;
    }

    pub(super) fn used(&self, now: Timestamp, key: &str) -> Usage {
        let mut books = lock(&self.books);
        books.turn_to(now.day());
        books.used.get(key).copied().unwrap_or_default()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut books = lock(&self.books);
        books.live = books.live.saturating_sub(1);
        books.live_of_key.remove(&self.claimant.key);
        books.live_of_tenant.remove(&self.claimant.tenant);
        let served = books.serve();
        drop(books);
        for (Waiter { claimant, tell }, added) in served {
            let books = Arc::clone(&self.books);
            tell.send(added.map(|()| Self { claimant, books })).ok();
        }
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
