//! Questions of policies and their answers: what is held, who may say yes, for how long that is remembered.
//!
//! A question waits in [`Waiting`] and nowhere else: whoever takes it out of there decides what becomes of it, so there is
//! one answer, whatever comes at once. The store has what people look at, and approvals for a digest.

mod answer;
mod ask;
mod granted;
mod outputs;
mod waiting;
pub mod webhook;

pub use answer::Decision;
pub use ask::MOST_CODE;
pub use outputs::HeldFiles;

use crate::config::ApprovalSettings;
use crate::store::Store;
use atoll_core::{ApprovalId, KeyId, SandboxId};
use atoll_engine::Node;
use granted::Granted;
use outputs::Outputs;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use waiting::Waiting;
use webhook::{Event, Letters, Post};

#[derive(Debug)]
pub struct Approvals {
    node: Arc<Node>,
    store: Store,
    settings: ApprovalSettings,
    waiting: Waiting,
    granted: Granted,
    outputs: Outputs,
    /// Keys that were given the token of a sandbox which another key has made.
    holders: Mutex<HashMap<SandboxId, HashSet<KeyId>>>,
    letters: Option<Letters>,
}

impl Approvals {
    /// With a webhook, begins the task that writes to it.
    pub fn new(node: Arc<Node>, store: Store, settings: ApprovalSettings, post: Option<Post>) -> Arc<Self> {
        let letters = post.map(|post| Letters::start(post, store.clone()));
        Arc::new(Self {
            node,
            store,
            settings,
            waiting: Waiting::default(),
            granted: Granted::default(),
            outputs: Outputs::default(),
            holders: Mutex::default(),
            letters,
        })
    }

    /// Tells the webhook, if there is one, and waits for nothing.
    fn tell_outside(&self, event: Event, tenant: &str, id: &ApprovalId) {
        if let Some(letters) = &self.letters {
            letters.add(event, tenant, id);
        }
    }

    /// Forgets what was granted for the lives of sandboxes that are over.
    pub fn tidy(&self, lives: impl Fn(&SandboxId) -> bool) {
        self.holders().retain(|id, _| lives(id));
        self.granted.tidy(lives);
    }

    /// Who has the token of a sandbox asks in the name of its maker, and so cannot answer what is asked there.
    pub fn token_given(&self, sandbox: &SandboxId, key: &KeyId) {
        self.holders().entry(sandbox.clone()).or_default().insert(key.clone());
    }

    fn may_have_asked(&self, sandbox: &SandboxId, key: &KeyId) -> bool {
        self.holders().get(sandbox).is_some_and(|keys| keys.contains(key))
    }

    fn holders(&self) -> MutexGuard<'_, HashMap<SandboxId, HashSet<KeyId>>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
