//! Files of a sandbox on the wire.

use crate::clock::rfc3339_nanos;
use atoll_core::wire::agent::{Entry, EntryKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileKind {
    File,
    Directory,
    /// A dangling symbolic link
    Link,
    Other,
}

/// A file, directory or other entry. Symbolic links are followed.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct FileEntry {
    /// Path in the sandbox
    pub path: String,
    /// `file`, `directory`, `link` (a dangling symbolic link) or `other`
    pub kind: FileKind,
    /// Size in bytes
    pub size: u64,
    /// Permission bits
    pub mode: u32,
    /// Owner
    pub owner: String,
    /// Group
    pub group: String,
    /// Time of the last change
    #[schema(format = DateTime)]
    pub modified: String,
    /// Resolved target, if the entry is a symbolic link
    pub link_target: Option<String>,
    /// Metadata that was stored with the file
    pub metadata: BTreeMap<String, String>,
}

/// One page of entries, in lexical order.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct FileList {
    /// Entries of this page
    pub entries: Vec<FileEntry>,
    /// Pass as `after` to get the next page; `null` on the last page
    pub next: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"from": "/home/user/draft.csv", "to": "/home/user/report.csv"}))]
pub struct MoveRequest {
    /// Path to move; relative paths start at `/home/user`
    pub from: String,
    /// New path
    pub to: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"path": "/home/user/reports"}))]
pub struct DirRequest {
    /// Path of the directory; relative paths start at `/home/user`
    pub path: String,
}

impl From<Entry> for FileEntry {
    fn from(entry: Entry) -> Self {
        Self {
            path: entry.path,
            kind: match entry.kind {
                EntryKind::File => FileKind::File,
                EntryKind::Directory => FileKind::Directory,
                EntryKind::Link => FileKind::Link,
                EntryKind::Other => FileKind::Other,
            },
            size: entry.size,
            mode: entry.mode,
            owner: entry.owner,
            group: entry.group,
            modified: rfc3339_nanos(entry.modified_ns),
            link_target: entry.link_target,
            metadata: entry.metadata,
        }
    }
}
