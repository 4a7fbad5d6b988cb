//! What the engine and the agent inside a sandbox say to each other: one datagram per message, fds beside it.
//!
//! Every request has a number; its answers carry the same number, so that many can be under way at once. The agent
//! runs our code but behind the wall, so its words are treated as hostile: a message is at most [`MAX_MESSAGE_BYTES`]
//! long, and a file arrives as a descriptor that the engine checks before it reads.

use crate::Limits;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const MAX_MESSAGE_BYTES: usize = 128 << 10;
/// The number of what the agent says unasked: that it is there.
pub const UNASKED: u32 = 0;

/// Engine to agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToAgent {
    pub request: u32,
    pub ask: Ask,
}

/// Agent to engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FromAgent {
    pub request: u32,
    pub answer: Answer,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// Start a locked-down process. Descriptors beside it become 0, 1, 2, 3 … of the process; with `terminal` there
    /// are none, and a new terminal takes their place. Answers: `Spawned`, later `Exited`. The environment is that of
    /// the sandbox with `env` on top; `cwd` is a path as below. A directory that is not there is `Invalid`, a program
    /// that is not there `NotFound`; a program that fails to start says so on descriptor 2 and exits with 127.
    Spawn {
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: String,
        terminal: Option<TerminalSize>,
    },
    /// Signal the process that request `process` has started, and all of its group. No answer.
    Signal { process: u32, signal: i32 },
    /// Have the shell that request `process` has started give up what it runs: SIGURG to itself, SIGINT to the rest of its
    /// group. `again` spares the rest that had it before. `Done`, when the signals are sent.
    Interrupt { process: u32, again: bool },
    /// Give the terminal of the process that request `process` has started another size: `Resized`. `NotFound` without one.
    Resize { process: u32, size: TerminalSize },
    /// Walk a directory and hand over its regular files: `File` and `Skipped`, then `Collected`.
    Collect { dir: String, max_files: u32 },
    /// How many plain files are below a directory, and the names of some: `Left`.
    Left { dir: String },
    /// How full the scratch files are.
    Scratch,
    /// What all processes of the user use now: asked where there is no cgroup to read. Memory is counted quickly, and
    /// exactly only if the quick sum is above `exact_above_bytes`.
    Usage { exact_above_bytes: u64 },
    /// End every process of the user. No answer.
    KillAll,
    /// Processes that are started from now on have these limits: `Done`. What runs keeps its own.
    Limit { limits: Limits },
    /// Stop every process of the user where it is, or let all go on: `Done`.
    Freeze { on: bool },
    /// What is at `path`: `Entry`. Here and below a path is absolute, or `~`, `~/x`, empty and relative ones are below
    /// the home directory. Links are followed as the user's programs would, but never those of `/proc` to open files.
    Stat { path: String },
    /// What is below a directory, `depth` levels deep, in lexical order, depth first: `Entries` until one says `last`. Not
    /// more than `most`; `after` is the `next` of the answer before, and the list goes on behind what was told then.
    List {
        path: String,
        depth: u32,
        after: Option<String>,
        most: ListBound,
    },
    /// Make a directory and its parents: `Entry`. `Exists` if the directory is there, `NotADirectory` if something else
    /// is.
    MakeDir { path: String },
    /// Rename; parents of `to` are made: `Entry`.
    Move { from: String, to: String },
    /// Remove a file, or a directory with all that is below; a missing path is fine: `Done`. Links are not followed;
    /// places of the sandbox (`/home/user`, `/tmp` …) themselves are `Denied`.
    Remove { path: String },
    /// Open a plain file: `File` with a descriptor beside it.
    Read { path: String },
    /// Write a file with the bytes of the pipe beside it; parents are made. Nothing is seen at `path` of an upload that
    /// was not `Commit`ted. Answer, after the pipe's end and the commit: `Entry`. `Refused` can come at any time; then the
    /// pipe has no reader any more, and a later `Commit` or `Abort` means nothing.
    Write {
        path: String,
        metadata: BTreeMap<String, String>,
    },
    /// All bytes of the write `request` are in its pipe.
    Commit { write: u32 },
    /// The write is given up; what came so far is thrown away. The write answers `Refused`.
    Abort { write: u32 },
    /// Tell what changes in a directory: `Watching`, then `Changed` for each change, until `Unwatch`. Only directories of
    /// the scratch; others are `Denied`. A change that a request has made is told before that request is answered.
    Watch { path: String, recursive: bool },
    /// No answer; changes that are on their way may still come.
    Unwatch { watch: u32 },
    /// Connect to a port of the sandbox's own loopback: `Connected` with the stream beside it, which does not block.
    Connect { port: u16 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Answer {
    /// PID 1 is up and locked down; the sandbox can take contexts.
    Ready,
    /// Beside it: a pidfd, and with a terminal its other end.
    Spawned {
        /// The process's number as it is seen inside.
        pid: u32,
    },
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// The terminal has the size. `still`: nobody who uses it is running just now, so nobody is about to set what it was before.
    Resized {
        still: bool,
    },
    /// A regular file; an open descriptor comes beside it.
    File {
        path: String,
        size: u64,
    },
    /// Something below the directory that is not handed over, and why.
    Skipped {
        path: String,
        why: String,
    },
    /// The end of a collection; so many entries were not even looked at.
    Collected {
        unseen: u64,
    },
    Left {
        count: u64,
        names: Vec<String>,
    },
    Scratch {
        free_bytes: u64,
        free_inodes: u64,
    },
    Usage {
        memory_bytes: u64,
        cpu_ms: u64,
        /// Processes and threads.
        tasks: u64,
    },
    Entry {
        entry: Entry,
    },
    Entries {
        entries: Vec<Entry>,
        last: bool,
        /// With the last ones, if there may be more than was asked for: where to go on.
        next: Option<String>,
    },
    Watching,
    Changed {
        change: Change,
    },
    /// Changes were lost: there were more than fit the queue.
    Overflowed,
    /// Beside it: a connected stream.
    Connected,
    Done,
    /// The request was understood and cannot be done.
    Refused {
        why: Refusal,
        message: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    NotFound,
    Exists,
    NotADirectory,
    IsADirectory,
    NotAFile,
    NoRoom,
    Denied,
    /// A path, name or number that cannot be right.
    Invalid,
    /// Nobody listens on the port.
    NotListening,
    Failed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    pub columns: u16,
    pub rows: u16,
}

/// How much of a list is told at once. One entry is told in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ListBound {
    pub entries: u32,
    /// Of the entries as they are sent.
    pub bytes: u32,
}

/// One file, directory or other thing, as `stat` sees it. A link tells of its target, and that it is a link. A name that
/// is not UTF-8 has U+FFFD in place of its wrong bytes: it can be seen, not addressed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub path: String,
    pub kind: EntryKind,
    pub size: u64,
    /// Permission bits only.
    pub mode: u32,
    pub owner: String,
    pub group: String,
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
    /// Where a link leads in the end, if it is one.
    pub link_target: Option<String>,
    /// What uploads have attached.
    pub metadata: BTreeMap<String, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EntryKind {
    File,
    Directory,
    /// A link to nowhere.
    Link,
    Other,
}

/// One change below a watched directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative to the watched directory.
    pub name: String,
    pub kind: ChangeKind,
    /// What is there now, if it still is.
    pub entry: Option<Entry>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    Created,
    Written,
    Removed,
    Renamed,
    Permissions,
}

pub fn encode<T: Serialize>(message: &T) -> Option<Vec<u8>> {
    serde_json::to_vec(message)
        .ok()
        .filter(|body| body.len() <= MAX_MESSAGE_BYTES)
}

/// Reads one message. Anything that does not fit the list is `None`, never a panic.
pub fn parse<T: for<'a> Deserialize<'a>>(body: &[u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(dir: String) -> ToAgent {
        let ask = Ask::Collect { dir, max_files: 9 };
        ToAgent { request: 7, ask }
    }

    #[test]
    fn messages_come_back_as_they_went() {
        let message = collect("/data/output".into());
        assert_eq!(parse(&encode(&message).unwrap()), Some(message));
        assert_eq!(
            parse::<FromAgent>(b"{\"request\":1,\"answer\":{\"type\":\"spawned\"}}"),
            None
        );
    }

    #[test]
    fn a_message_over_the_bound_is_not_sent() {
        assert_eq!(encode(&collect("x".repeat(MAX_MESSAGE_BYTES))), None);
    }
}
