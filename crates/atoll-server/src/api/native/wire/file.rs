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
    pub path: String,
    pub kind: FileKind,
    pub size: u64,
    /// Permission bits
    pub mode: u32,
    pub owner: String,
    pub group: String,
    #[schema(format = DateTime)]
    pub modified: String,
    /// Resolved target, if the entry is a symbolic link
    pub link_target: Option<String>,
    pub metadata: BTreeMap<String, String>,
}

/// One page of entries, in lexical order.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct FileList {
    pub entries: Vec<FileEntry>,
    /// Pass as `after` to get the next page; `null` on the last page
    pub next: Option<String>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveRequest {
    pub from: String,
    pub to: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DirRequest {
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
