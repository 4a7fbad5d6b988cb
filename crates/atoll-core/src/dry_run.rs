//! What a run with its effects held would have done. Names, paths and differences are the code's own words: data, not advice.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DryRun {
    /// What would be written, in the order of the files' paths.
    pub changes: Vec<Change>,
    #[serde(flatten)]
    pub attempts: Attempts,
    /// The approval that releases the files; `null` where nobody can be asked.
    pub approval_id: Option<String>,
}

/// Tried, as the kernel saw it. The network is closed, and programs run behind the sandbox's walls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempts {
    pub hosts: Vec<Host>,
    /// Programs that were started. Forks of the interpreter itself are none.
    pub processes: Vec<Program>,
    /// Beyond the bound of the lists.
    pub more_hosts: u64,
    pub more_processes: u64,
    /// Calls that nobody looked at any more, because there was too much of all.
    pub more: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Host {
    /// A name that was asked for, or an address.
    pub host: String,
    /// `null` for a name: it was not found, so nothing was connected to.
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Program {
    pub path: String,
    pub args: Vec<String>,
}

/// One output file against the input of the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    pub path: String,
    pub kind: ChangeKind,
    pub size: u64,
    pub sha256: String,
    /// In the unified form, of a new text against nothing; `null` for equal files, and where there is no text or too much of it.
    pub diff: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    New,
    Changed,
    Same,
}
