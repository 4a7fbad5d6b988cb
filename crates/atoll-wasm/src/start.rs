//! What a sandbox is started with, and what it says before it speaks as an agent.

use atoll_core::{Gives, Limits};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The first message to a sandbox. Beside it: the checked component.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Start {
    pub limits: Limits,
    pub gives: Gives,
    /// The standard library, which is only read.
    pub stdlib: PathBuf,
    /// The sandbox's own files, one directory for each of [`PLACES`].
    pub files: PathBuf,
    /// Whom the files belong to, if that is not who starts it: the process becomes this user before any code of a user.
    pub user: Option<u32>,
}

/// Its answer, before any code of a user: what is around it besides the WebAssembly itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// `full`, `partial` or `none`: what this kernel could do of it.
    pub landlock: String,
    /// Whether system calls that nobody here needs are refused.
    pub seccomp: bool,
}

/// A directory that code sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Below the sandbox's directory.
    pub name: &'static str,
    pub inside: &'static str,
    pub writable: bool,
}

/// All there is but the standard library.
pub const PLACES: [Place; 5] = [
    Place::new("home", "/home/user", true),
    Place::new("tmp", "/tmp", true),
    Place::new("mnt", "/mnt/data", true),
    Place::new("output", "/data/output", true),
    Place::new("input", "/data/input", false),
];

impl Place {
    const fn new(name: &'static str, inside: &'static str, writable: bool) -> Self {
        Self { name, inside, writable }
    }
}
