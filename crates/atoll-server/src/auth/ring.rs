//! The valid keys in memory. Read at every request, replaced when the store's keys have changed.
//!
//! The store may be changed by `atoll keys` in another process: [`KeyRing::refresh`] asks its version, four times a second.

use super::{Caller, Digest, Scopes};
use crate::clock::Timestamp;
use crate::config::Quotas;
use crate::store::{KeyRecord, Store, StoreError};
use atoll_core::KeyId;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the store is asked; a revoked key is refused well within a second.
const REFRESH_EVERY: Duration = Duration::from_millis(250);
/// How many of those pass between two notes of when keys were last used.
const NOTE_EVERY: u32 = 120;

/// One valid key, as requests need it.
#[derive(Clone, Debug)]
struct Entry {
    digest: Digest,
    id: KeyId,
    name: Arc<str>,
    tenant: Arc<str>,
    scopes: Arc<Scopes>,
    quotas: Quotas,
}

/// All valid keys, by the first bytes of their digests.
#[derive(Clone, Debug, Default)]
pub struct KeyTable {
    version: i64,
    by_prefix: HashMap<[u8; 8], Vec<Entry>>,
    ids: HashMap<KeyId, Digest>,
}

impl KeyTable {
    pub(crate) fn new(version: i64, records: Vec<KeyRecord>) -> Self {
        let mut table = Self {
            version,
            ..Self::default()
        };
        for record in records.into_iter().filter(|record| record.revoked.is_none()) {
            let entry = Entry {
                digest: record.digest,
                id: record.id.clone(),
                name: record.name.into(),
                tenant: record.tenant.into(),
                scopes: Arc::new(record.scopes),
                quotas: record.quotas,
            };
            table.ids.insert(record.id, entry.digest);
            table.by_prefix.entry(prefix(&entry.digest)).or_default().push(entry);
        }
        table
    }

    /// The place is found by a hash of the secret, which nobody can steer; the rest is compared in constant time.
    fn find(&self, digest: &Digest) -> Option<&Entry> {
        let near = self.by_prefix.get(&prefix(digest))?;
        near.iter().find(|entry| entry.digest.is(digest))
    }

    pub(crate) fn is_valid(&self, id: &KeyId) -> bool {
        self.ids.contains_key(id)
    }
}

fn prefix(digest: &Digest) -> [u8; 8] {
    let mut first = [0; 8];
    first.copy_from_slice(&digest.as_bytes()[..8]);
    first
}

/// Shared by all requests.
#[derive(Clone, Debug)]
pub struct KeyRing {
    table: watch::Sender<Arc<KeyTable>>,
    used: Arc<Mutex<HashMap<KeyId, Timestamp>>>,
    /// When the store was last asked because of a key that nobody knew.
    looked: Arc<tokio::sync::Mutex<Option<Instant>>>,
}

impl KeyRing {
    /// With the keys that the store has now.
    pub async fn load(store: &Store) -> Result<Self, StoreError> {
        let table = store.key_table().await?;
        Ok(Self {
            table: watch::Sender::new(Arc::new(table)),
            used: Arc::default(),
            looked: Arc::default(),
        })
    }

    /// The caller who shows this secret.
    pub fn find(&self, secret: &[u8]) -> Option<Caller> {
        let table = Arc::clone(&self.table.borrow());
        let entry = table.find(&Digest::of(secret))?;
        self.lock_used().insert(entry.id.clone(), Timestamp::now());
        Some(Caller {
            key_id: entry.id.clone(),
            key_name: Some(Arc::clone(&entry.name)),
            tenant: Arc::clone(&entry.tenant),
            scopes: Arc::clone(&entry.scopes),
            address: None,
            quotas: entry.quotas,
            keys: Some(self.table.subscribe()),
        })
    }

    /// Whose this is, as the key says now. One that is gone may do nothing any more, and is told as revoked.
    pub fn owner(&self, id: &KeyId, tenant: &str) -> Caller {
        let table = Arc::clone(&self.table.borrow());
        let known = table.by_prefix.values().flatten().find(|entry| entry.id == *id);
        let anonymous = Caller::anonymous();
        let keys = (anonymous.key_id != *id).then(|| self.table.subscribe());
        Caller {
            key_id: id.clone(),
            key_name: known.map(|entry| Arc::clone(&entry.name)),
            tenant: tenant.into(),
            scopes: known.map_or(anonymous.scopes, |entry| Arc::clone(&entry.scopes)),
            address: None,
            quotas: known.map_or(anonymous.quotas, |entry| entry.quotas),
            keys,
        }
    }

    /// A key that was made a moment ago is valid already: before a secret is refused the store is asked. One question
    /// answers all who came before it, so strangers cannot make more of them than one at a time.
    pub(crate) async fn look_again(&self, secret: &[u8], store: &Store) {
        let asked = Instant::now();
        if self.table.borrow().find(&Digest::of(secret)).is_some() {
            return;
        }
        let mut looked = self.looked.lock().await;
        if looked.is_none_or(|at| at < asked) {
            *looked = Some(Instant::now());
            if let Err(error) = self.refresh(store).await {
                tracing::error!(error = %crate::chain(&error), "keys could not be reloaded; the keys in memory stay valid");
            }
        }
    }

    /// Takes over what has changed in the store.
    pub async fn refresh(&self, store: &Store) -> Result<(), StoreError> {
        let known = self.table.borrow().version;
        if store.key_version().await? != known {
            self.table.send_replace(Arc::new(store.key_table().await?));
        }
        Ok(())
    }

    /// Refreshes for as long as the server runs, and notes in the store when keys were last used.
    pub async fn keep_fresh(self, store: Store) {
        let mut ticks = tokio::time::interval(REFRESH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        for round in 1u32.. {
            ticks.tick().await;
            if let Err(error) = self.refresh(&store).await {
                tracing::error!(error = %crate::chain(&error), "keys could not be reloaded; the keys in memory stay valid");
            }
            if round % NOTE_EVERY == 0 {
                self.note_used(&store).await;
            }
        }
    }

    /// Writes down when keys were last used.
    pub async fn note_used(&self, store: &Store) {
        let used: Vec<(KeyId, Timestamp)> = self.lock_used().drain().collect();
        if used.is_empty() {
            return;
        }
        if let Err(error) = store.note_keys_used(used).await {
            tracing::warn!(error = %crate::chain(&error), "last use of keys could not be stored");
        }
    }

    fn lock_used(&self) -> std::sync::MutexGuard<'_, HashMap<KeyId, Timestamp>> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
