//! What the host's kernel adds to the WebAssembly: all of it is taken if it is there, and none of it is required. Only root must
//! become somebody else.

use crate::start::{Locked, Start};
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope,
};
use nix::sys::signal::{SigSet, Signal};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The newest that is asked for. An older kernel gives what it has.
const NEWEST: ABI = ABI::V6;
/// Open files of the process. An interpreter needs far fewer; what it inherits is the server's limit.
const MOST_OPEN: u64 = 4096;

/// Called with one thread, when all that is needed is open.
pub(crate) fn down(start: &Start) -> nix::Result<Locked> {
    rustix::thread::set_no_new_privs(true).ok();
    bound(Resource::Core, 0);
    // No bound on processes: the kernel counts those of all sandboxes together, because they have one user. The filter refuses
    // new ones.
    bound(Resource::Nofile, MOST_OPEN);
    // Files are bounded one by one here, all together by who looks at them. A write above is an error, and no signal.
    bound(Resource::Fsize, start.limits.scratch.get());
    let mut too_large = SigSet::empty();
    too_large.add(Signal::SIGXFSZ);
    too_large.thread_block().ok();
    let landlock = match restrict(start) {
        Ok(RulesetStatus::FullyEnforced) => "full",
        Ok(RulesetStatus::PartiallyEnforced) => "partial",
        Ok(RulesetStatus::NotEnforced) | Err(_) => "none",
    };
    start.user.map_or(Ok(()), crate::user::become_user)?;
    Ok(Locked {
        landlock: landlock.to_owned(),
        seccomp: crate::calls::refuse().is_ok(),
    })
}

/// A limit that is lower already stays: an ordinary user cannot raise it, and root should not.
fn bound(resource: Resource, most: u64) {
    let most = getrlimit(resource)
        .maximum
        .map_or(most, |inherited| inherited.min(most));
    let both = Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(resource, both).ok();
}

/// Only the sandbox's own files and the standard library; no port, nobody else's process.
fn restrict(start: &Start) -> Result<RulesetStatus, RulesetError> {
    let all = AccessFs::from_all(NEWEST);
    let created = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    let open = |path: &std::path::Path| PathFd::new(path).ok();
    let mut created = created;
    if let Some(files) = open(&start.files) {
        created = created.add_rule(PathBeneath::new(files, all & !AccessFs::Execute))?;
    }
    if let Some(stdlib) = open(&start.stdlib) {
        created = created.add_rule(PathBeneath::new(stdlib, AccessFs::ReadFile | AccessFs::ReadDir))?;
    }
    Ok(created.restrict_self()?.ruleset)
}

#[cfg(test)]
mod tests;
