//! What the contexts of a watched sandbox tried, as the kernel showed it: programs, hosts, names. Kept with a bound.

use super::link::{JailError, lock};
use atoll_core::dry_run::{Attempts, Host, Program};
use atoll_jail::watch::{Tried, watch};
use rustix::fd::OwnedFd;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Of each kind; more are only counted.
const MOST: usize = 200;

#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    attempts: Attempts,
    hosts: HashSet<Host>,
}

impl Watch {
    /// Looks at the calls of a context on a thread of its own, which ends with the context's last process. For a context that is
    /// a program, the first start is its own.
    pub(super) fn begin(self: &Arc<Self>, listener: OwnedFd, is_program: bool) -> Result<(), JailError> {
        let (kept, mut own) = (Arc::clone(self), is_program);
        let look = move || {
            watch(&listener, |tried| {
                let is_own = own && matches!(tried, Tried::Program { .. });
                match is_own {
                    true => own = false,
                    false => lock(&kept.0).keep(tried),
                }
            });
        };
        let started = std::thread::Builder::new().name("watch".to_owned()).spawn(look);
        started.map(drop).map_err(JailError::Start)
    }

    pub(crate) fn attempts(&self) -> Attempts {
        lock(&self.0).attempts.clone()
    }
}

impl Kept {
    fn keep(&mut self, tried: Tried) {
        match tried {
            Tried::Program { path, args } => self.program(Program { path, args }),
            Tried::Host { host, port } => self.host(Host { host, port: Some(port) }),
            Tried::Name(host) => self.host(Host { host, port: None }),
        }
    }

    fn program(&mut self, program: Program) {
        match self.attempts.processes.len() < MOST {
            true => self.attempts.processes.push(program),
            false => self.attempts.more_processes += 1,
        }
    }

    /// Each once: a program that tries again is no news.
    fn host(&mut self, host: Host) {
        if self.hosts.contains(&host) {
            return;
        }
        if self.hosts.len() >= MOST {
            self.attempts.more_hosts += 1;
            return;
        }
        self.hosts.insert(host.clone());
        self.attempts.hosts.push(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_told_once_and_what_is_too_much_is_counted() {
        let mut kept = Kept::default();
        for number in 0..300 {
            kept.keep(Tried::Name(format!("h{number}.example")));
            kept.keep(Tried::Name("h0.example".to_owned()));
            let (path, args) = ("/bin/true".to_owned(), Vec::new());
            kept.keep(Tried::Program { path, args });
        }
        let Attempts {
            hosts,
            processes,
            more_hosts,
            more_processes,
        } = kept.attempts;
        assert_eq!((hosts.len(), processes.len()), (MOST, MOST));
        assert_eq!((more_hosts, more_processes), (100, 100));
    }
}
