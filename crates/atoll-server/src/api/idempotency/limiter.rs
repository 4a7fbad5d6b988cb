//! How many requests with an `Idempotency-Key` one tenant has under way. Each goes on without its client, so the limit of
//! connections does not bound them.

use crate::api::{ApiError, ErrorCode};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of one tenant.
const MOST_UNDER_WAY: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct KeyedRequests {
    of_tenant: Mutex<HashMap<Arc<str>, usize>>,
}

/// The place of one request, given back when it is dropped.
#[derive(Debug)]
pub(super) struct RequestSlot {
    requests: Arc<KeyedRequests>,
    tenant: Arc<str>,
}

impl KeyedRequests {
    /// `None` if the tenant has no place left.
    pub(super) fn take(self: &Arc<Self>, tenant: &Arc<str>) -> Option<RequestSlot> {
        let mut of_tenant = self.lock();
        let count = of_tenant.entry(Arc::clone(tenant)).or_default();
        let has_room = *count < MOST_UNDER_WAY;
        if has_room {
            *count += 1;
        }
        has_room.then(|| RequestSlot {
            requests: Arc::clone(self),
            tenant: Arc::clone(tenant),
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Arc<str>, usize>> {
        self.of_tenant.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        let mut of_tenant = self.requests.lock();
        if let Some(count) = of_tenant.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                of_tenant.remove(&self.tenant);
            }
        }
    }
}

pub(super) fn too_many() -> ApiError {
    let message = format!("quota exceeded: the tenant has {MOST_UNDER_WAY} requests with an Idempotency-Key under way");
    ApiError::new(ErrorCode::QuotaExceeded, message)
        .hint("retry when one of them has ended, or send the request without the header")
        .retry(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tenant_has_a_bound_of_requests_and_takes_none_of_the_others() {
        let requests = Arc::new(KeyedRequests::default());
        let (one, other) = ("a".into(), "b".into());
        let mut taken: Vec<_> = (0..MOST_UNDER_WAY).filter_map(|_| requests.take(&one)).collect();
        assert_eq!(taken.len(), MOST_UNDER_WAY);
        assert!(requests.take(&one).is_none() && requests.take(&other).is_some());
        drop(taken.pop());
        let last = requests.take(&one);
        assert!(last.is_some());
        drop((taken, last));
        assert!(requests.lock().is_empty());
    }
}
