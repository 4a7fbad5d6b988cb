//! Whether the server can take work. The engine's side sets it; `/readyz` and metrics show it.

use std::sync::Arc;
use tokio::sync::watch;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ready {
    /// The template is built or the pool is being filled.
    Starting,
    Ready,
    /// Running requests end, new ones go elsewhere.
    Draining,
    /// Sandboxes cannot be made; the log says why.
    Failed,
}

/// Shared; the last word holds, but nothing comes after draining.
#[derive(Clone, Debug)]
pub struct Readiness(Arc<watch::Sender<Ready>>);

impl Default for Readiness {
    fn default() -> Self {
        Self(Arc::new(watch::Sender::new(Ready::Starting)))
    }
}

impl Readiness {
    pub fn now(&self) -> Ready {
        *self.0.borrow()
    }

    pub fn set(&self, next: Ready) {
        self.0.send_if_modified(|now| {
            let changed = *now != Ready::Draining && *now != next;
            if changed {
                *now = next;
            }
            changed
        });
    }

    /// Waits until the server stops: what would go on for ever ends then.
    pub async fn draining(&self) {
        let mut watch = self.0.subscribe();
        watch.wait_for(|ready| *ready == Ready::Draining).await.ok();
    }

    /// Waits until the server can make sandboxes, or never will.
    pub async fn settled(&self) -> Ready {
        let mut watch = self.0.subscribe();
        let settled = watch.wait_for(|ready| *ready != Ready::Starting).await;
        settled.map_or(Ready::Failed, |ready| *ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn nothing_comes_after_draining() {
        let ready = Readiness::default();
        assert_eq!(ready.now(), Ready::Starting);
        ready.set(Ready::Ready);
        assert_eq!(ready.settled().await, Ready::Ready);
        ready.set(Ready::Draining);
        ready.set(Ready::Ready);
        assert_eq!(ready.now(), Ready::Draining);
    }
}
