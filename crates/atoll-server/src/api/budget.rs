//! How many bytes of requests and of long answers the server holds at once, for all and for one tenant.
//!
//! A request that needs more than a little takes its bytes as they come, so a length that is only claimed takes nothing.
//! When there is no room it waits a short while, then it is refused: nobody holds something and waits without end. What was
//! taken is held until the answer is over, because code that waits for its turn lies in memory, too.

use super::{ApiError, ErrorCode};
use atoll_core::quantity::show_bytes;
use axum::body::{Body, Bytes};
use axum::extract::FromRequestParts;
use axum::http::HeaderValue;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Not counted, of each request: connections are bounded.
const FREE: usize = 64 << 10;
const LEAST: u64 = 512 << 20;
/// How many of the largest bodies fit at least.
const LARGEST: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Budget {
    most: u64,
    books: Mutex<Books>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Books {
    used: u64,
    of_tenant: HashMap<Arc<str>, u64>,
}

/// What one request holds. Copies are of the same; the last one gives it back.
#[derive(Clone, Debug)]
pub(crate) struct Hold(Arc<Held>);

#[derive(Debug)]
struct Held {
    budget: Arc<Budget>,
    tenant: Arc<str>,
    taken: Mutex<u64>,
}

impl Budget {
    /// For bodies of at most so many bytes each.
    pub(crate) fn new(largest: u64) -> Arc<Self> {
        Self::of(LEAST.max(largest.saturating_mul(LARGEST)))
    }

    fn of(most: u64) -> Arc<Self> {
        Arc::new(Self {
            most,
            books: Mutex::default(),
            freed: Notify::new(),
        })
    }

    pub(crate) fn hold(self: &Arc<Self>, tenant: &str) -> Hold {
        Hold(Arc::new(Held {
            budget: Arc::clone(self),
            tenant: tenant.into(),
            taken: Mutex::new(0),
        }))
    }

    /// One tenant never has more than half.
    fn take(&self, tenant: &Arc<str>, bytes: u64) -> bool {
        let mut books = lock(&self.books);
        let of_tenant = books.of_tenant.get(tenant).copied().unwrap_or(0) + bytes;
        let fits = books.used + bytes <= self.most && of_tenant <= self.most / 2;
        if fits {
            books.used += bytes;
            books.of_tenant.insert(Arc::clone(tenant), of_tenant);
        }
        fits
    }

    fn give_back(&self, tenant: &Arc<str>, bytes: u64) {
        let mut books = lock(&self.books);
        books.used -= bytes;
        if let Some(of_tenant) = books.of_tenant.get_mut(tenant) {
            *of_tenant -= bytes;
            if *of_tenant == 0 {
                books.of_tenant.remove(tenant);
            }
        }
        drop(books);
        self.freed.notify_waiters();
    }

    async fn take_in_time(&self, tenant: &Arc<str>, bytes: u64) -> Result<(), ApiError> {
        let waiting = async {
            loop {
                let freed = self.freed.notified();
                if self.take(tenant, bytes) {
                    return;
                }
                freed.await;
            }
        };
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .map_err(|_| full(self.most))
    }
}

impl Hold {
    /// So many bytes are held from now on, if there were fewer. Asked by one task at a time.
    pub(crate) async fn reach(&self, bytes: usize) -> Result<(), ApiError> {
        let wanted = bytes.saturating_sub(FREE) as u64;
        let more = wanted.saturating_sub(*lock(&self.0.taken));
        if more > 0 {
            self.0.budget.take_in_time(&self.0.tenant, more).await?;
            *lock(&self.0.taken) += more;
        }
        Ok(())
    }

    /// The same without waiting. False if there is no room; then it is as before.
    pub(crate) fn try_reach(&self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE) as u64;
        let mut taken = lock(&self.0.taken);
        let more = wanted.saturating_sub(*taken);
        let fits = more == 0 || self.0.budget.take(&self.0.tenant, more);
        if fits {
            *taken += more;
        }
        fits
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let taken = *lock(&self.taken);
        if taken > 0 {
            self.budget.give_back(&self.tenant, taken);
        }
    }
}

impl<S: Sync> FromRequestParts<S> for Hold {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        // As with the caller: a route without one has no hold, and asking for it is our mistake.
        parts.extensions.get::<Self>().cloned().ok_or_else(ApiError::internal)
    }
}

/// An answer of JSON whose body is sent by [`in_pieces`].
pub(crate) fn json_in_pieces(text: Bytes, kept: impl Send + 'static) -> Response {
    let head = [
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (CONTENT_LENGTH, text.len().into()),
    ];
    (head, in_pieces(text, kept)).into_response()
}

/// A body that is sent piece by piece if it is long, so that it is held until the reader has taken it. So is what is kept
/// with it.
pub(crate) fn in_pieces(mut bytes: Bytes, kept: impl Send + 'static) -> Body {
    if bytes.len() <= FREE {
        return Body::from(bytes);
    }
    let pieces = std::iter::from_fn(move || {
        let _kept = &kept;
        let piece = bytes.split_to(FREE.min(bytes.len()));
        (!piece.is_empty()).then_some(Ok::<_, Infallible>(piece))
    });
    Body::from_stream(futures_util::stream::iter(pieces))
}

fn full(most: u64) -> ApiError {
    let (all, each) = (show_bytes(most), show_bytes(most / 2));
    let message = format!("request memory budget exhausted ({all} in total, {each} per tenant)");
    ApiError::new(ErrorCode::AtCapacity, message)
        .hint("retry in a few seconds, or send a smaller body; upload large files with the file routes")
        .retry(5)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_budget_refuses_after_a_while_and_has_room_again() {
        let budget = Budget::of(200);
        let holds = [budget.hold("a"), budget.hold("b"), budget.hold("a")];
        holds[0].reach(FREE + 100).await.unwrap();
        holds[1].reach(FREE + 100).await.unwrap();
        let small = budget.hold("c");
        small.reach(FREE).await.unwrap();
        let refused = small.reach(FREE + 1).await.unwrap_err();
        assert_eq!(
            (refused.code(), refused.retry_after()),
            (ErrorCode::AtCapacity, Some(5))
        );
        let [first, _second, third] = holds;
        let waits = tokio::spawn(async move { third.reach(FREE + 100).await.map(|()| third) });
        tokio::task::yield_now().await;
        drop(first);
        assert!(waits.await.unwrap().is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn one_tenant_has_half_and_others_the_rest() {
        let budget = Budget::of(200);
        let (greedy, more, other) = (budget.hold("a"), budget.hold("a"), budget.hold("b"));
        greedy.reach(FREE + 100).await.unwrap();
        assert!(more.reach(FREE + 1).await.is_err());
        other.reach(FREE + 100).await.unwrap();
        drop((greedy, more, other));
        assert_eq!(lock(&budget.books).used, 0);
        assert!(lock(&budget.books).of_tenant.is_empty());
    }

    #[test]
    fn without_waiting_there_is_room_or_not() {
        let budget = Budget::of(200);
        let (hold, other) = (budget.hold("a"), budget.hold("a"));
        assert!(hold.try_reach(FREE + 60) && hold.try_reach(FREE + 40) && other.try_reach(FREE + 40));
        assert!(!other.try_reach(FREE + 41), "one tenant has half");
        assert_eq!(lock(&budget.books).used, 100);
        drop((hold, other));
        assert_eq!(lock(&budget.books).used, 0);
    }

    #[tokio::test]
    async fn what_is_held_counts_once() {
        let budget = Budget::of(200);
        let hold = budget.hold("a");
        for bytes in [10, FREE + 40, FREE + 60, FREE + 50] {
            hold.reach(bytes).await.unwrap();
        }
        assert_eq!(lock(&budget.books).used, 60);
    }

    #[tokio::test]
    async fn a_long_body_comes_whole_in_pieces() {
        use http_body_util::BodyExt;
        let text = Bytes::from(vec![7; FREE * 2 + 1]);
        let whole = json_in_pieces(text.clone(), ())
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes();
        assert_eq!(whole, text);
    }
}
