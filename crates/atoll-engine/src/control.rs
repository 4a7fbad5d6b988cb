//! The reins of a running execution: others than its caller may interrupt it or give it more time.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};

#[derive(Clone, Debug)]
pub struct Control {
    interrupt: Arc<Notify>,
    extension: watch::Sender<Duration>,
}

impl Default for Control {
    fn default() -> Self {
        Self::of(Arc::new(Notify::new()))
    }
}

impl Control {
    /// Interrupted by whoever notifies.
    pub fn of(interrupt: Arc<Notify>) -> Self {
        let extension = watch::Sender::new(Duration::ZERO);
        Self { interrupt, extension }
    }

    /// Asks the code to stop; asked twice, it is killed.
    pub fn interrupt(&self) {
        self.interrupt.notify_one();
    }

    /// Adds to the time that the execution may take.
    pub fn extend(&self, by: Duration) {
        self.extension.send_modify(|sum| *sum = sum.saturating_add(by));
    }

    pub(crate) async fn interrupted(&self) {
        self.interrupt.notified().await;
    }

    pub(crate) fn extension(&self) -> Duration {
        *self.extension.borrow()
    }

    /// Returns when there is more time than at the call.
    pub(crate) async fn extended(&self) {
        let mut seen = self.extension.subscribe();
        // This object holds a sender, so it cannot end.
        seen.changed().await.ok();
    }
}
