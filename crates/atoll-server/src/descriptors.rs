//! The budget of file descriptors at the start: what the limit must hold, how many connections that leaves, and what
//! sandboxes share beyond what each of them is guaranteed.
//!
//! The limit itself is raised by the program. What requests open beyond their share comes out of the reserve.

use crate::config::Settings;
use rustix::process::{Resource, getrlimit};

/// A channel to the agent, cgroup files, and a context and a command with their pipes.
const PER_SANDBOX: u64 = 16;
/// Those of a sandbox that belong to no command and no context.
const WITHOUT_PROCESSES: u64 = 6;
/// A command or a context: three pipes, and one that shows its end.
const PER_PROCESS: u64 = 4;
/// The socket, and a file or a port of a sandbox.
const PER_CONNECTION: u64 = 2;
/// The store, the audit log, listeners, helper processes, and whatever a request has open for a moment.
const RESERVE: u64 = 256;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the open file limit is {limit}, but max_sandboxes = {sandboxes}, pool.max = {pool} and pool.data = {data} require {required}; raise the limit (LimitNOFILE, `ulimit -Hn`), or lower max_sandboxes"
)]
pub struct DescriptorsError {
    limit: u64,
    sandboxes: u64,
    pool: u64,
    data: u64,
    required: u64,
}

/// What the limit of this process holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DescriptorBudget {
    /// As many as in the settings, or fewer if the limit holds no more.
    pub(crate) connections: u64,
    pub(crate) shared: SharedDescriptors,
}

/// File descriptors of commands and contexts beyond those that each sandbox is guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SharedDescriptors {
    pub(crate) total: u64,
    /// The same part of them as a tenant may have of the sandboxes.
    pub(crate) of_tenant: u64,
}

impl SharedDescriptors {
    pub(crate) const UNLIMITED: Self = Self {
        total: u64::MAX,
        of_tenant: u64::MAX,
    };
}

/// What a sandbox with so many commands and contexts needs beyond what it is guaranteed.
pub(crate) fn beyond_guarantee(processes: u64) -> u64 {
    let needed = processes.saturating_mul(PER_PROCESS).saturating_add(WITHOUT_PROCESSES);
    needed.saturating_sub(PER_SANDBOX)
}

pub(crate) fn budget(settings: &Settings) -> Result<DescriptorBudget, DescriptorsError> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) => within(limit, settings),
        None => Ok(DescriptorBudget {
            connections: settings.max_connections.get(),
            shared: SharedDescriptors::UNLIMITED,
        }),
    }
}

fn within(limit: u64, settings: &Settings) -> Result<DescriptorBudget, DescriptorsError> {
    let sandboxes = settings.max_sandboxes.get();
    let (pool, data) = (settings.pool.max.get(), settings.pool.data.get());
    let all = sandboxes.saturating_add(pool).saturating_add(data);
    let of_sandboxes = all.saturating_mul(PER_SANDBOX);
    let required = of_sandboxes.saturating_add(RESERVE).saturating_add(PER_CONNECTION);
    let Some(left) = limit.checked_sub(required) else {
        return Err(DescriptorsError {
            limit,
            sandboxes,
            pool,
            data,
            required,
        });
    };
    // A quarter is for commands and contexts, however many connections there may be.
    let most = 1 + (left - left / 4) / PER_CONNECTION;
    let wanted = settings.max_connections.get();
    if most < wanted {
        tracing::warn!(
            "the open file limit of {limit} leaves room for {most} connections, fewer than max_connections = {wanted}; \
             raise the limit (LimitNOFILE, `ulimit -Hn`)"
        );
    }
    let connections = most.min(wanted);
    let total = left.saturating_sub(connections.saturating_sub(1).saturating_mul(PER_CONNECTION));
    let of_tenant = total.saturating_mul(settings.tenant_share()) / sandboxes.max(1);
    let of_tenant = of_tenant.min(total);
    let shared = SharedDescriptors { total, of_tenant };
    Ok(DescriptorBudget { connections, shared })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUIRED: u64 = (200 + 16) * PER_SANDBOX + RESERVE;

    #[test]
    fn connections_get_what_sandboxes_and_the_reserve_leave() {
        let settings = Settings::default();
        let connections = |limit| within(limit, &settings).ok().map(|budget| budget.connections);
        assert_eq!(connections(1 << 20), Some(4_096));
        assert_eq!(
            connections(REQUIRED + PER_CONNECTION + 400),
            Some(1 + 300 / PER_CONNECTION)
        );
        assert_eq!(connections(REQUIRED + PER_CONNECTION), Some(1));
        assert_eq!(connections(REQUIRED), None);
    }

    #[test]
    fn sandboxes_share_what_connections_leave() {
        let settings = Settings::default();
        let shared = |limit| within(limit, &settings).unwrap().shared;
        let total = 20_000 - REQUIRED - 4_096 * PER_CONNECTION;
        let of_tenant = total / 2;
        assert_eq!(shared(20_000), SharedDescriptors { total, of_tenant });
        assert_eq!(shared(REQUIRED + PER_CONNECTION + 400).total, 100);
        // A sandbox with many commands and all contexts that it may have; 100 of them where the limit is the usual one.
        let many = beyond_guarantee(64 + 32);
        assert!(many < of_tenant);
        assert!(100 * many < shared(1 << 19).of_tenant);
        assert_eq!([0, 2, 3].map(beyond_guarantee), [0, 0, 2]);
    }
}
