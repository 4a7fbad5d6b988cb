//! The budget of file descriptors at the start: what the limit must hold, and how many connections that leaves.
//!
//! The limit itself is raised by the program. What requests open beyond their share comes out of the reserve.

use crate::config::Settings;
use rustix::process::{Resource, getrlimit};

/// A channel to the agent, cgroup files, and a context and a command with their pipes.
const PER_SANDBOX: u64 = 16;
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

/// How many connections there may be: those of the settings, or fewer if the limit of this process holds no more.
pub(crate) fn budget(settings: &Settings) -> Result<u64, DescriptorsError> {
    match getrlimit(Resource::Nofile).current {
        Some(limit) => within(limit, settings),
        None => Ok(settings.max_connections.get()),
    }
}

fn within(limit: u64, settings: &Settings) -> Result<u64, DescriptorsError> {
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
    let most = 1 + left / PER_CONNECTION;
    let wanted = settings.max_connections.get();
    if most < wanted {
        tracing::warn!(
            "the open file limit of {limit} leaves room for {most} connections, fewer than max_connections = {wanted}; \
             raise the limit (LimitNOFILE, `ulimit -Hn`)"
        );
    }
    Ok(most.min(wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_get_what_sandboxes_and_the_reserve_leave() {
        let settings = Settings::default();
        let required = (200 + 16) * PER_SANDBOX + RESERVE;
        let connections = |limit| within(limit, &settings).ok();
        assert_eq!(connections(1 << 20), Some(4_096));
        assert_eq!(connections(required + 100 * PER_CONNECTION), Some(100));
        assert_eq!(connections(required + PER_CONNECTION), Some(1));
        assert_eq!(connections(required), None);
    }
}
