//! What the contexts of a watched sandbox tried, as the kernel showed it: programs, hosts, names. Kept with a bound.

use crate::backend::TierError;
use crate::lock::lock;
use atoll_core::dry_run::{Attempts, Host, Program};
use atoll_jail::watch::{Tried, watch};
use rustix::fd::OwnedFd;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// Of each kind; more are only counted.
const MOST: usize = 200;
/// Bytes of all words together.
const MOST_WORDS: usize = 64 << 10;

#[derive(Debug, Default)]
pub(crate) struct Watch(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    attempts: Attempts,
    hosts: HashSet<Host>,
    programs: HashSet<Program>,
    words: usize,
}

impl Watch {
    /// Looks at the calls of a context on a thread of its own, which ends with the context's last process. For a context that is
    /// a program, the first start is its own.
    pub(super) fn begin(self: &Arc<Self>, listener: OwnedFd, is_program: bool) -> Result<(), TierError> {
        let (kept, mut own) = (Arc::clone(self), is_program);
        let look = move || {
            let full = || lock(&kept.0).is_full();
            watch(&listener, full, |tried| {
                let is_own = own && matches!(tried, Tried::Program { .. });
                match is_own {
                    true => own = false,
                    false => lock(&kept.0).keep(tried),
                }
            });
        };
        let started = std::thread::Builder::new().name("watch".to_owned()).spawn(look);
        started.map(drop).map_err(TierError::Start)
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
            Tried::More => self.attempts.more += 1,
        }
    }

    /// Both lists, or all the room that words have.
    fn is_full(&self) -> bool {
        let full = (self.programs.len() >= MOST, self.hosts.len() >= MOST);
        full == (true, true) || self.words >= MOST_WORDS
    }

    /// Each once, like hosts.
    fn program(&mut self, program: Program) {
        if self.programs.contains(&program) {
            return;
        }
        if self.programs.len() >= MOST {
            self.attempts.more_processes += 1;
            return;
        }
        self.words += program.path.len() + program.args.iter().map(String::len).sum::<usize>();
        self.programs.insert(program.clone());
        self.attempts.processes.push(program);
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
    fn words_have_a_bound_together() {
        let mut kept = Kept::default();
        let program = |number: usize| Tried::Program {
            path: format!("/bin/{number}"),
            args: vec!["x".repeat(1 << 10)],
        };
        for number in 0..MOST {
            if kept.is_full() {
                break;
            }
            kept.keep(program(number));
        }
        assert!(kept.is_full() && kept.attempts.processes.len() < 70);
    }

    #[test]
    fn hosts_are_told_once_and_what_is_too_much_is_counted() {
        let mut kept = Kept::default();
        for number in 0..300 {
            kept.keep(Tried::Name(format!("h{number}.example")));
            kept.keep(Tried::Name("h0.example".to_owned()));
            let (path, args) = (format!("/bin/{number}"), Vec::new());
            kept.keep(Tried::Program { path, args });
            kept.keep(Tried::Program {
                path: "/bin/0".to_owned(),
                args: Vec::new(),
            });
        }
        assert!(kept.is_full());
        kept.keep(Tried::More);
        let Attempts {
            hosts,
            processes,
            more_hosts,
            more_processes,
            more,
        } = kept.attempts;
        assert_eq!((hosts.len(), processes.len()), (MOST, MOST));
        assert_eq!((more_hosts, more_processes, more), (100, 100, 1));
    }
}
