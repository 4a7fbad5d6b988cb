//! Questions that wait for an answer. Taking one out is the moment at which it is decided.

use atoll_core::ApprovalId;
use atoll_engine::gate::Answer;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

#[derive(Debug, Default)]
pub(super) struct Waiting(Mutex<HashMap<ApprovalId, Held>>);

/// What is held until somebody tells it the answer.
#[derive(Debug)]
pub(super) struct Held {
    tenant: String,
    tell: oneshot::Sender<Answer>,
}

impl Held {
    /// Who asked may have gone away in this moment.
    pub(super) fn tell(self, answer: Answer) {
        self.tell.send(answer).ok();
    }
}

impl Waiting {
    /// Adds a question, unless the tenant has as many as it may have.
    pub(super) fn add(&self, id: &ApprovalId, tenant: &str, most: u64) -> Option<oneshot::Receiver<Answer>> {
        let mut all = self.lock();
        let own = all.values().filter(|held| held.tenant == tenant).count() as u64;
        if own >= most {
            return None;
        }
        let (tell, told) = oneshot::channel();
        let held = Held {
            tenant: tenant.to_owned(),
            tell,
        };
        all.insert(id.clone(), held);
        Some(told)
    }

    /// The question, if nobody else has taken it.
    pub(super) fn take(&self, id: &ApprovalId) -> Option<Held> {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ApprovalId, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(n: u8) -> ApprovalId {
        ApprovalId::from_random([n; 16])
    }

    #[test]
    fn a_question_is_taken_once_and_tenants_have_bounds_of_their_own() {
        let waiting = Waiting::default();
        let mut first = waiting.add(&id(1), "a", 1).unwrap();
        assert!(waiting.add(&id(2), "a", 1).is_none() && waiting.add(&id(3), "b", 1).is_some());
        waiting.take(&id(1)).unwrap().tell(Answer::Expired);
        assert_eq!(first.try_recv(), Ok(Answer::Expired));
        assert!(waiting.take(&id(1)).is_none());
        assert!(waiting.add(&id(2), "a", 1).is_some());
    }
}
