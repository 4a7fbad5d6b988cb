//! File descriptors of commands and contexts. Each sandbox is guaranteed some; all beyond those are shared, and a tenant
//! has its part of them, so that no tenant can use up the open file limit of the server.

use super::Sandboxes;
use crate::api::ApiError;
use crate::descriptors::{SharedDescriptors, beyond_guarantee};
use atoll_core::SandboxId;
use atoll_engine::session::Session;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(super) struct DescriptorLedger {
    shared: SharedDescriptors,
    /// Commands and contexts that are being started, which the lists of their sandboxes do not have yet.
    starting: Mutex<HashMap<SandboxId, u64>>,
}

/// The right to start one command or context. It is held until the list of the sandbox has it.
#[derive(Debug)]
pub struct StartPermit<'a> {
    ledger: &'a DescriptorLedger,
    sandbox: SandboxId,
}

/// A live sandbox, and how many commands and contexts it has.
#[derive(Clone, Debug)]
struct ProcessCount {
    sandbox: SandboxId,
    tenant: String,
    count: u64,
}

impl ProcessCount {
    fn of(session: &Session) -> Self {
        let count = session.commands().list().len() + session.contexts().len();
        Self {
            sandbox: session.id().clone(),
            tenant: session.spec.owner.clone(),
            count: count as u64,
        }
    }
}

impl DescriptorLedger {
    pub(super) fn new(shared: SharedDescriptors) -> Self {
        Self {
            shared,
            starting: Mutex::default(),
        }
    }

    /// `live` is called under the lock: what is started meanwhile is in its lists, or still counted here.
    fn permit(
        &self,
        sandbox: &SandboxId,
        live: impl FnOnce() -> Vec<ProcessCount>,
    ) -> Result<StartPermit<'_>, ApiError> {
        let mut starting = self.lock();
        let mut all = live();
        for one in &mut all {
            one.count += starting.get(&one.sandbox).copied().unwrap_or(0);
        }
        if let Some(own) = all.iter_mut().find(|one| one.sandbox == *sandbox) {
            own.count += 1;
            let own = own.clone();
            self.check(&all, &own)?;
        }
        *starting.entry(sandbox.clone()).or_default() += 1;
        Ok(StartPermit {
            ledger: self,
            sandbox: sandbox.clone(),
        })
    }

    fn check(&self, all: &[ProcessCount], own: &ProcessCount) -> Result<(), ApiError> {
        if beyond_guarantee(own.count) == 0 {
            return Ok(());
        }
        let total: u64 = all.iter().map(|one| beyond_guarantee(one.count)).sum();
        let of_tenant = all.iter().filter(|one| one.tenant == own.tenant);
        let of_tenant: u64 = of_tenant.map(|one| beyond_guarantee(one.count)).sum();
        if total > self.shared.total || of_tenant > self.shared.of_tenant {
            return Err(ApiError::quota_of_descriptors());
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SandboxId, u64>> {
        self.starting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for StartPermit<'_> {
    fn drop(&mut self) {
        let mut starting = self.ledger.lock();
        if let Some(count) = starting.get_mut(&self.sandbox) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                starting.remove(&self.sandbox);
            }
        }
    }
}

impl Sandboxes {
    /// Lets one more command or context of a sandbox be started, if the open file limit of the server holds it.
    pub fn permit_start(&self, session: &Session) -> Result<StartPermit<'_>, ApiError> {
        let live = || -> Vec<ProcessCount> {
            let live = self.node.live();
            live.iter().map(|session| ProcessCount::of(session)).collect()
        };
        self.descriptors.permit(session.id(), live)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::ErrorCode;

    const SHARED: SharedDescriptors = SharedDescriptors {
        total: 60,
        of_tenant: 39,
    };

    fn id(number: u8) -> SandboxId {
        SandboxId::from_random([number; 16])
    }

    fn count(number: u8, tenant: &str, count: u64) -> ProcessCount {
        ProcessCount {
            sandbox: id(number),
            tenant: tenant.to_owned(),
            count,
        }
    }

    /// The most processes of a sandbox with `beyond_guarantee` of at most so many.
    fn most(descriptors: u64) -> u64 {
        (0..)
            .take_while(|count| beyond_guarantee(*count) <= descriptors)
            .count() as u64
            - 1
    }

    #[test]
    fn a_tenant_has_its_part_and_each_sandbox_its_guarantee() {
        let ledger = DescriptorLedger::new(SHARED);
        let may = |number, live: &[ProcessCount]| ledger.permit(&id(number), || live.to_vec()).is_ok();
        let full = most(SHARED.of_tenant);
        // One sandbox may use the part of its tenant alone.
        assert!(may(1, &[count(1, "a", full - 1)]));
        assert!(!may(1, &[count(1, "a", full)]));
        // The tenant's other sandboxes have their guarantee left, and another tenant what is left of all.
        let live = |second, third| [count(1, "a", full), count(2, "a", second), count(3, "b", third)];
        let guaranteed = most(0);
        assert!(may(2, &live(guaranteed - 1, 0)));
        assert!(!may(2, &live(guaranteed, 0)));
        let rest = most(SHARED.total - beyond_guarantee(full));
        assert!(may(3, &live(0, rest - 1)));
        assert!(!may(3, &live(0, rest)));
    }

    #[test]
    fn what_is_being_started_counts_until_it_is_in_a_list() {
        let ledger = DescriptorLedger::new(SHARED);
        let full = most(SHARED.of_tenant);
        let permit = || ledger.permit(&id(1), || vec![count(1, "a", full - 2)]);
        let (first, second) = (permit().unwrap(), permit().unwrap());
        let refused = permit().unwrap_err();
        assert_eq!(refused.code(), ErrorCode::QuotaExceeded);
        assert!(refused.message().contains("open file limit"), "{}", refused.message());
        drop(first);
        drop(permit().unwrap());
        drop(second);
        assert!(ledger.lock().is_empty());
    }
}
