//! What the engine and the agent inside a sandbox say to each other: one datagram per message, fds beside it.
//!
//! The agent runs our code but behind the wall, so its words are treated as hostile: a message is at most
//! [`MAX_MESSAGE_BYTES`] long, and a file arrives as a descriptor that the engine checks before it reads.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const MAX_MESSAGE_BYTES: usize = 128 << 10;

/// Engine to agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum ToAgent {
    /// Start a locked-down process. Descriptors beside it become 0, 1, 2, 3 … of the process.
    Spawn {
        process: u32,
        argv: Vec<String>,
        env: BTreeMap<String, String>,
        cwd: String,
    },
    /// Signal a process and all of its group.
    Signal { process: u32, signal: i32 },
    /// Walk a directory and hand over its regular files.
    Collect { dir: String, max_files: u32 },
    /// How full the scratch files are.
    Scratch,
    /// What all processes of the user use now: asked where there is no cgroup to read. Memory is counted quickly, and
    /// exactly only if the quick sum is above `exact_above_bytes`.
    Usage { exact_above_bytes: u64 },
    /// End every process of the user.
    KillAll,
}

/// Agent to engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// PID 1 is up and locked down; the sandbox can take contexts.
    Ready,
    /// A pidfd comes beside it.
    Spawned {
        process: u32,
    },
    SpawnFailed {
        process: u32,
        message: String,
    },
    Exited {
        process: u32,
        code: Option<i32>,
        signal: Option<i32>,
    },
    /// A regular file below the directory that was asked for; an open descriptor comes beside it.
    File {
        path: String,
        size: u64,
    },
    /// Something below the directory that is not handed over, and why.
    Skipped {
        path: String,
        why: String,
    },
    Collected {
        complete: bool,
    },
    Scratch {
        free_bytes: u64,
        free_inodes: u64,
    },
    Usage {
        memory_bytes: u64,
        cpu_ms: u64,
    },
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

    #[test]
    fn messages_come_back_as_they_went() {
        let message = ToAgent::Collect {
            dir: "/data/output".into(),
            max_files: 9,
        };
        assert_eq!(parse(&encode(&message).unwrap()), Some(message));
        assert_eq!(parse::<FromAgent>(b"{\"type\":\"exited\"}"), None);
    }

    #[test]
    fn a_message_over_the_bound_is_not_sent() {
        let message = ToAgent::Collect {
            dir: "x".repeat(MAX_MESSAGE_BYTES),
            max_files: 1,
        };
        assert_eq!(encode(&message), None);
    }
}
