//! Questions of policies and their answers: what is held, who may say yes, for how long that is remembered.
//!
//! A question waits in [`Waiting`] and nowhere else: whoever takes it out of there decides what becomes of it, so there is
//! one answer, whatever comes at once. The store has what people look at, and approvals for a digest.

mod answer;
mod ask;
mod granted;
mod outputs;
mod waiting;

pub use answer::Decision;
pub use ask::MOST_CODE;
pub use outputs::HeldFiles;

use crate::config::ApprovalSettings;
use crate::store::Store;
use atoll_core::SandboxId;
use atoll_engine::Node;
use granted::Granted;
use outputs::Outputs;
use std::sync::Arc;
use waiting::Waiting;

#[derive(Debug)]
pub struct Approvals {
    node: Arc<Node>,
    store: Store,
    settings: ApprovalSettings,
    waiting: Waiting,
    granted: Granted,
    outputs: Outputs,
}

impl Approvals {
    pub fn new(node: Arc<Node>, store: Store, settings: ApprovalSettings) -> Arc<Self> {
        Arc::new(Self {
            node,
            store,
            settings,
            waiting: Waiting::default(),
            granted: Granted::default(),
            outputs: Outputs::default(),
        })
    }

    /// Forgets what was granted for the lives of sandboxes that are over.
    pub fn tidy(&self, lives: impl Fn(&SandboxId) -> bool) {
        self.granted.tidy(lives);
    }
}
