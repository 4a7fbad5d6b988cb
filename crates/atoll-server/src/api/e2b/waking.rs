//! Requests that wake the same paused sandbox. One resumes it at a time: two at once would need two slots on a full server.

use crate::api::ApiError;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Mutex;

/// One for each sandbox that requests wake.
#[derive(Debug, Default)]
pub(super) struct Waking {
    /// Attempts that have ended.
    ended: AtomicU64,
    /// The error of the last attempt.
    error: Mutex<Option<ApiError>>,
}

impl Waking {
    /// Runs `wake` after the attempts before it. If one of them fails meanwhile, its error is the answer: an attempt can wait
    /// for a slot, and requests must not wait one after the other.
    pub(super) async fn alone(&self, wake: impl Future<Output = Result<(), ApiError>>) -> Result<(), ApiError> {
        let before = self.ended.load(Ordering::Acquire);
        let mut last = self.error.lock().await;
        if self.ended.load(Ordering::Acquire) != before
            && let Some(error) = &*last
        {
            return Err(error.clone());
        }
        let woken = wake.await;
        *last = woken.as_ref().err().cloned();
        self.ended.fetch_add(1, Ordering::Release);
        woken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::{pending, ready};
    use tokio::sync::oneshot;

    #[test]
    fn requests_that_wait_for_the_same_resume_share_its_failure() {
        let waking = Waking::default();
        let (end, ended) = oneshot::channel();
        let mut first = Box::pin(waking.alone(async move { ended.await.unwrap() }));
        assert!(first.as_mut().now_or_never().is_none());
        let mut others = [(); 2].map(|()| Box::pin(waking.alone(pending())));
        for other in &mut others {
            assert!(other.as_mut().now_or_never().is_none());
        }
        let full = ApiError::server_full(1);
        end.send(Err(full.clone())).unwrap();
        assert_eq!(first.now_or_never(), Some(Err(full.clone())));
        for other in others {
            assert_eq!(other.now_or_never(), Some(Err(full.clone())));
        }
        assert_eq!(
            waking.alone(ready(Ok(()))).now_or_never(),
            Some(Ok(())),
            "a later one tries again"
        );
    }

    #[test]
    fn a_resume_that_its_client_leaves_fails_no_other() {
        let waking = Waking::default();
        let mut first = Box::pin(waking.alone(pending()));
        assert!(first.as_mut().now_or_never().is_none());
        let mut other = Box::pin(waking.alone(ready(Ok(()))));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        assert_eq!(other.now_or_never(), Some(Ok(())));
    }
}
