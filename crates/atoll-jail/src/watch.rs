//! What a watched sandbox tries: programs that it starts, hosts that it reaches for, names that it asks for.
//!
//! The kernel holds each such call until it was looked at, and then makes it; what is refused is refused by the other
//! filters and by the empty network. So this is evidence, not a wall: code that changes its words from another thread
//! while they are read can show other words than it uses. All that is read is hostile and bounded.

mod address;
mod memory;
mod question;

use crate::sys::lockdown;
use crate::sys::notify::{self, Call};
use address::Address;
use memory::Memory;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::HashMap;

/// The byte of the control socket beside which a context's listener comes.
pub const HANDED_OVER: &[u8; 1] = lockdown::HANDED_OVER;

/// One thing that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tried {
    Program {
        path: String,
        args: Vec<String>,
    },
    Host {
        host: String,
        port: u16,
    },
    Name(String),
    /// Something, when nobody reads any more what.
    More,
}

const DNS: u16 = 53;
/// Sockets whose name server is remembered.
const MAX_SOCKETS: usize = 4096;
const MAX_MESSAGES: u64 = 1024;
/// `struct mmsghdr`.
const MESSAGE_STRIDE: u64 = 64;

/// Looks at every call until the last process of the sandbox is gone. Blocks.
/// Where the list is full, nothing is read any more.
pub fn watch(listener: &OwnedFd, mut is_full: impl FnMut() -> bool, mut tell: impl FnMut(Tried)) {
    let mut watcher = Watcher::default();
    loop {
        let mut fds = [PollFd::new(listener, PollFlags::IN)];
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Err(_) => return,
            Ok(_) if !fds[0].revents().contains(PollFlags::IN) => return,
            Ok(_) => {}
        }
        match notify::receive(listener.as_fd()) {
            Ok(call) => {
                let tried = match is_full() {
                    true => vec![Tried::More],
                    false => watcher.look(&call),
                };
                if notify::still_waits(listener.as_fd(), &call) {
                    tried.into_iter().for_each(&mut tell);
                }
                notify::let_go_on(listener.as_fd(), &call);
            }
            Err(Errno::NOENT | Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[derive(Default)]
struct Watcher {
    /// Sockets that are connected: by thread and descriptor.
    connected: HashMap<(u32, u64), Address>,
}

impl Watcher {
    fn look(&mut self, call: &Call) -> Vec<Tried> {
        let Some(memory) = Memory::of(call.pid) else {
            return Vec::new();
        };
        let args = call.args;
        match i64::from(call.number) {
            libc::SYS_execve => program(&memory, &memory.path(args[0]), args[1]),
            libc::SYS_execveat => {
                let path = memory.path(args[1]);
                let path = if path.is_empty() {
                    memory.descriptor(args[0])
                } else {
                    path
                };
                program(&memory, &path, args[2])
            }
            libc::SYS_connect => self.connect(call.pid, &memory, args),
            libc::SYS_sendto => {
                let to = Address::read(&memory, args[4], args[5]);
                self.send(call, &memory, to, (args[1], args[2]))
            }
            libc::SYS_sendmsg => self.message(call, &memory, args[1]),
            libc::SYS_sendmmsg => (0..args[2].min(MAX_MESSAGES))
                .flat_map(|at| self.message(call, &memory, args[1].wrapping_add(at * MESSAGE_STRIDE)))
                .collect(),
            _ => Vec::new(),
        }
    }

    fn connect(&mut self, pid: u32, memory: &Memory, args: [u64; 6]) -> Vec<Tried> {
        let Some(to) = Address::read(memory, args[1], args[2]) else {
            return Vec::new();
        };
        if self.connected.len() >= MAX_SOCKETS {
            self.connected.clear();
        }
        self.connected.insert((pid, args[0] & u64::from(u32::MAX)), to);
        to.tried().into_iter().collect()
    }

    fn message(&self, call: &Call, memory: &Memory, header: u64) -> Vec<Tried> {
        let word = |at: u64| memory.word(header.wrapping_add(at));
        let (Some(name), Some(length), Some(parts)) = (word(0), word(8), word(16)) else {
            return Vec::new();
        };
        let to = Address::read(memory, name, length & u64::from(u32::MAX));
        let (base, length) = (memory.word(parts), memory.word(parts.wrapping_add(8)));
        self.send(call, memory, to, (base.unwrap_or(0), length.unwrap_or(0)))
    }

    /// A piece for `to`, or for whom the socket is connected to. One for a name server is a question.
    fn send(&self, call: &Call, memory: &Memory, to: Option<Address>, (base, length): (u64, u64)) -> Vec<Tried> {
        let known = self.connected.get(&(call.pid, call.args[0] & u64::from(u32::MAX)));
        let asks = to.as_ref().or(known).is_some_and(|address| address.port == DNS);
        let name = asks
            .then(|| question::name(&memory.bytes(base, length.min(512))))
            .flatten();
        match name {
            Some(name) => vec![Tried::Name(name)],
            None => to.and_then(|to| to.tried()).into_iter().collect(),
        }
    }
}

/// A program that is there; shells and libraries look for one in many places.
fn program(memory: &Memory, path: &[u8], argv: u64) -> Vec<Tried> {
    match memory.has_program(path) {
        false => Vec::new(),
        true => vec![Tried::Program {
            args: memory.texts(argv),
            path: memory::shown(path),
        }],
    }
}
