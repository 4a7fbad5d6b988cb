//! Commands of the agent: a fork that is locked down like any context, then exec.

use crate::shell::AgentStart;
use crate::step::{Step, StepError, chain};
use crate::sys::lockdown::{Lock, lock_down};
use crate::sys::process::{Started, default_signals, exit_now, lay_all, start_child};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What is started, and with what.
#[derive(Debug)]
pub struct Command<'a> {
    /// The program's file; its name for itself is the first of `argv`.
    pub program: &'a Path,
    pub argv: &'a [String],
    /// Its whole environment.
    pub env: &'a BTreeMap<String, String>,
    pub cwd: &'a str,
    /// Become its descriptors 0, 1, 2, 3 ….
    pub fds: &'a [OwnedFd],
    /// Descriptor 0 is a terminal, which becomes the one that controls it.
    pub terminal: bool,
}

/// Starts a program behind every wall: its number, and a pidfd where the kernel has those.
pub fn start(agent: &AgentStart, command: &Command<'_>) -> Result<(i32, Option<OwnedFd>), StepError> {
    let text = |s: &str| {
        CString::new(s)
            .map_err(std::io::Error::from)
            .step("encode the command line")
    };
    let program = CString::new(command.program.as_os_str().as_bytes());
    let program = program.map_err(std::io::Error::from).step("encode the command line")?;
    let words = command.argv.iter().map(|arg| text(arg));
    let words = words.collect::<Result<Vec<_>, _>>()?;
    let pairs = command.env.iter().map(|(k, v)| text(&format!("{k}={v}")));
    let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
    match start_child().step("fork a command")? {
        Started::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Started::Child => {
            let failed = run(agent, command, &program, &words, &pairs);
            let line = format!("cannot start {}: {}\n", command.program.display(), chain(&failed));
            rustix::io::write(rustix::stdio::stderr(), line.as_bytes()).ok();
            exit_now(crate::walls::exit_code(failed.layer))
        }
    }
}

fn run(agent: &AgentStart, command: &Command<'_>, program: &CStr, argv: &[CString], env: &[CString]) -> StepError {
    if let Err(error) = enter(agent, command) {
        return error;
    }
    // The program has a slash, so nothing is searched; a script without its first line still finds the shell.
    match nix::unistd::execvpe(program, argv, env).step("execute it") {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn enter(agent: &AgentStart, command: &Command<'_>) -> Result<(), StepError> {
    // gVisor's kernel answers with 0, which is no process's number to rustix.
    nix::unistd::setsid().step("create a session")?;
    rustix::process::chdir(command.cwd).step("change to the working directory")?;
    let ruleset = lay_all(command.fds, agent.ruleset.as_ref())?;
    if command.terminal {
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin()).step("acquire the controlling terminal")?;
    }
    nix::sys::signal::SigSet::empty()
        .thread_set_mask()
        .step("unblock signals")?;
    default_signals();
    let filters = [agent.filters.allow.as_slice(), agent.filters.deny.as_slice()];
    let watch = if agent.watched {
        agent.filters.watch.as_slice()
    } else {
        &[]
    };
    let lock = Lock {
        off: agent.off,
        ruleset,
        filters: &filters,
        watch,
        rlimits: &agent.rlimits,
        expendable: true,
    };
    lock_down(&lock).map_err(|failed| StepError {
        what: format!("lock down the command (step {})", failed.step),
        errno: Errno::from_raw_os_error(failed.errno),
        layer: crate::walls::layer_of_step(failed.step),
    })
}
