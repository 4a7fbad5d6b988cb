//! Who holds how many sandboxes, and who used how much today.

use crate::api::ApiError;
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::store::Usage;
use atoll_core::service::SandboxCount;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
struct Books {
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

impl Books {
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
    most: u64,
    most_of_tenant: u64,
    books: Arc<Mutex<Books>>,
}

/// The right to one live sandbox. Dropping it gives the right back.
#[derive(Debug)]
pub struct Slot {
    key: String,
    tenant: String,
    books: Arc<Mutex<Books>>,
}

impl Ledger {
    pub(super) fn new(most: u64, most_of_tenant: u64) -> Self {
        Self {
            most,
            most_of_tenant,
            books: Arc::default(),
        }
    }

    /// All limits are looked at and the slot is taken under one lock: no number of parallel calls gets past them.
    pub(super) fn take_slot(&self, caller: &Caller, limit: Option<SandboxCount>) -> Result<Slot, ApiError> {
        let (key, tenant) = (caller.key_id.as_str(), &*caller.tenant);
        let mut books = lock(&self.books);
        let of_key = books.live_of_key.of(key);
        if let Some(limit) = limit.filter(|limit| of_key >= limit.get()) {
            return Err(ApiError::quota_of_sandboxes(limit.get()));
        }
        if books.live >= self.most {
            return Err(ApiError::at_capacity(self.most));
        }
        if books.live_of_tenant.of(tenant) >= self.most_of_tenant {
            return Err(ApiError::quota_of_tenant(self.most_of_tenant));
        }
        books.live += 1;
        books.live_of_key.add(key);
        books.live_of_tenant.add(tenant);
        Ok(Slot {
            key: key.to_owned(),
            tenant: tenant.to_owned(),
            books: Arc::clone(&self.books),
        })
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
        books.live_of_key.remove(&self.key);
        books.live_of_tenant.remove(&self.tenant);
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}
