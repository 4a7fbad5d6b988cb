//! Whose each sandbox is, and how much of its processor time its owner was charged for.

use crate::auth::Caller;
use atoll_core::SandboxId;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(crate) struct Owners(Mutex<HashMap<SandboxId, Owner>>);

#[derive(Debug)]
struct Owner {
    caller: Caller,
    charged_cpu_ms: u64,
    /// Its end is written down, and its last processor time charged.
    seen_off: bool,
}

impl Owners {
    pub(crate) fn add(&self, id: SandboxId, caller: Caller) {
        let owner = Owner {
            caller,
            charged_cpu_ms: 0,
            seen_off: false,
        };
        self.lock().insert(id, owner);
    }

    pub(crate) fn find(&self, id: &SandboxId) -> Option<Caller> {
        self.lock().get(id).map(|owner| owner.caller.clone())
    }

    /// A sandbox whose maker's key is revoked becomes this caller's, of the same tenant.
    pub(crate) fn adopt(&self, id: &SandboxId, caller: &Caller) {
        if let Some(owner) = self.lock().get_mut(id)
            && owner.caller.is_revoked()
        {
            owner.caller = caller.clone();
        }
    }

    /// The owner, and how much more than before has been used by now: told once, whoever asks.
    pub(crate) fn uncharged(&self, id: &SandboxId, cpu_ms: Option<u64>) -> Option<(Caller, u64)> {
        let mut owners = self.lock();
        let owner = owners.get_mut(id)?;
        let used = cpu_ms.unwrap_or(0).max(owner.charged_cpu_ms);
        let more = used - std::mem::replace(&mut owner.charged_cpu_ms, used);
        Some((owner.caller.clone(), more))
    }

    pub(crate) fn seen_off(&self, id: &SandboxId) {
        if let Some(owner) = self.lock().get_mut(id) {
            owner.seen_off = true;
        }
    }

    /// Forgets those that are seen off and not known any more.
    pub(crate) fn tidy(&self, is_known: impl Fn(&SandboxId) -> bool) {
        self.lock().retain(|id, owner| !owner.seen_off || is_known(id));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, Owner>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_charged_once() {
        let (owners, id) = (Owners::default(), SandboxId::from_random([1; 16]));
        owners.add(id.clone(), Caller::anonymous());
        let more = |now| owners.uncharged(&id, now).map(|(_, more)| more);
        assert_eq!(
            [more(Some(30)), more(Some(30)), more(Some(70))],
            [Some(30), Some(0), Some(40)]
        );
        assert_eq!(
            [more(None), more(Some(60)), more(Some(71))],
            [Some(0), Some(0), Some(1)]
        );
    }

    #[test]
    fn an_owner_stays_until_the_end_is_charged() {
        let (owners, id) = (Owners::default(), SandboxId::from_random([1; 16]));
        owners.add(id.clone(), Caller::anonymous());
        owners.tidy(|_| false);
        assert!(owners.find(&id).is_some());
        owners.seen_off(&id);
        owners.tidy(|_| true);
        assert!(owners.find(&id).is_some());
        owners.tidy(|_| false);
        assert!(owners.find(&id).is_none());
    }
}
