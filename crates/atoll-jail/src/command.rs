//! Commands of the agent: a fork that is locked down like any context, then exec.

use crate::shell::AgentStart;
use crate::step::{Step, StepError};
use crate::sys::lockdown::{Lock, lock_down};
use crate::sys::process::{Forked, die_of_broken_pipes, exit_now, fork_with, lay_all};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::CString;

/// Starts a program behind every wall. `fds` become its descriptors 0, 1, 2, 3 ….
pub fn start(
    agent: &AgentStart,
    argv: &[String],
    env: &BTreeMap<String, String>,
    cwd: &str,
    fds: &[OwnedFd],
) -> Result<(i32, OwnedFd), StepError> {
    let text = |s: &str| CString::new(s).map_err(std::io::Error::from).step("read the command");
    let words = argv.iter().map(|arg| text(arg)).collect::<Result<Vec<_>, _>>()?;
    let mut all: BTreeMap<&str, &str> = agent.env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    all.extend(env.iter().map(|(k, v)| (k.as_str(), v.as_str())));
    let pairs = all
        .iter()
        .map(|(k, v)| text(&format!("{k}={v}")))
        .collect::<Result<Vec<_>, _>>()?;
    if words.is_empty() {
        return Err(Errno::INVAL).step("start an empty command");
    }
    match fork_with(0).step("fork a command")? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => {
            let failed = run(agent, &words, &pairs, cwd, fds);
            let line = format!("cannot start {}: {failed}\n", argv[0]);
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            exit_now(127)
        }
    }
}

fn run(agent: &AgentStart, argv: &[CString], env: &[CString], cwd: &str, fds: &[OwnedFd]) -> String {
    let locked = enter(agent, cwd, fds);
    if let Err(error) = locked {
        return crate::step::chain(&error);
    }
    match nix::unistd::execvpe(&argv[0], argv, env) {
        Ok(never) => match never {},
        Err(errno) => errno.desc().to_owned(),
    }
}

fn enter(agent: &AgentStart, cwd: &str, fds: &[OwnedFd]) -> Result<(), StepError> {
    rustix::process::setsid().step("start a session")?;
    rustix::process::chdir(cwd).step("enter the working directory")?;
    let ruleset = lay_all(fds, agent.ruleset.as_ref())?;
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .step("unblock signals")?;
    die_of_broken_pipes();
    let filters = [agent.filters[0].as_slice(), agent.filters[1].as_slice()];
    let lock = Lock {
        off: agent.off,
        ruleset,
        filters: &filters,
        rlimits: &agent.rlimits,
        expendable: true,
    };
    lock_down(&lock).map_err(|failed| StepError {
        what: format!("lock the command down at step {}", failed.step),
        errno: Errno::from_raw_os_error(failed.errno),
    })
}
