//! Snapshots: live sandboxes that were saved, as they lie in the data directory. New sandboxes start from them.
//!
//! A snapshot is the tenant's own data: memory and files of a sandbox, in files that only we can read. It belongs to one
//! template, tier and build of Atoll, and its bytes are checked before each use.

mod draft;
mod life;
mod store;

pub(crate) use draft::Draft;
pub(crate) use life::{SavedLife, SavedPolicy};
pub(crate) use store::Snapshots;

use crate::backend::{SavedContext, Talk};
use crate::contexts::ContextInfo;
use atoll_core::{ContextId, Language, Limits, SandboxId, SnapshotId, Tier};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The most that one tenant has.
pub const MOST: usize = 20;
/// What all of a tenant's may take on disk.
pub const MOST_BYTES: u64 = 20 << 30;

#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("snapshot limit reached ({MOST} per tenant); delete a snapshot first")]
    TooMany,
    #[error("snapshot storage limit reached (20 GiB per tenant); delete a snapshot first")]
    TooLarge,
    #[error("snapshot `{0}` is damaged: its digest does not match; delete it")]
    Damaged(SnapshotId),
    #[error(
        "snapshot `{0}` was created with another build of Atoll, another template or another runtime release; it can no longer be used"
    )]
    OtherBuild(SnapshotId),
    #[error("a sandbox with secrets cannot be saved, because secrets are never written to disk")]
    HasSecrets,
    #[error(
        "a sandbox with inputs cannot be saved; create a sandbox without inputs and upload the files to it instead"
    )]
    HasInputs,
    #[error("the sandbox is busy: an execution is running or queued")]
    Busy,
    #[error(
        "the saved state of paused sandbox `{0}` is damaged: its digest does not match; the sandbox can only be deleted"
    )]
    PausedDamaged(SandboxId),
    #[error(
        "sandbox `{0}` was paused with another build of Atoll, another template or another runtime release; it can only be deleted"
    )]
    PausedOtherBuild(SandboxId),
    #[error("snapshot `{0}` belongs to another sandbox; create a new sandbox from it instead")]
    OfAnother(SnapshotId),
    #[error("cannot read or write the snapshot")]
    Io(#[from] std::io::Error),
}

/// What is known of a snapshot.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub tenant: String,
    /// How its maker calls it.
    pub name: Option<String>,
    /// Of which sandbox.
    pub sandbox: SandboxId,
    pub template: String,
    pub tier: Tier,
    /// Since 1970.
    pub created_ms: u64,
    /// Of its files together.
    pub bytes: u64,
    pub limits: Limits,
    /// Made for forks: nobody is told of it, and it goes with them.
    pub(crate) passing: bool,
    /// Of a paused sandbox, which goes on from it under its own name: nobody else is told of it.
    #[serde(default)]
    pub(crate) life: Option<Box<SavedLife>>,
    pub(crate) env: BTreeMap<String, String>,
    /// Where it can be brought back.
    pub(crate) saves_for: String,
    pub(crate) state: SavedState,
    /// Of its files, one after the other.
    pub(crate) sha256: String,
}

impl Snapshot {
    pub(crate) fn contexts(&self) -> Vec<ContextInfo> {
        self.state.slots.iter().map(SavedSlot::info).collect()
    }

    /// Whether its tenant can see it.
    fn is_listed(&self) -> bool {
        !self.passing && self.life.is_none()
    }

    /// What went wrong with what is no snapshot of somebody's, but a paused sandbox.
    pub(crate) fn blame(&self, error: SnapshotError) -> SnapshotError {
        match error {
            SnapshotError::Damaged(_) if self.life.is_some() => SnapshotError::PausedDamaged(self.sandbox.clone()),
            SnapshotError::OtherBuild(_) if self.life.is_some() => {
                SnapshotError::PausedOtherBuild(self.sandbox.clone())
            }
            other => other,
        }
    }
}

/// What lives in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedState {
    pub(crate) talk: Talk,
    pub(crate) slots: Vec<SavedSlot>,
}

/// A context, with its interpreter if that goes on.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedSlot {
    pub(crate) id: ContextId,
    pub(crate) language: Language,
    pub(crate) cwd: String,
    pub(crate) default: bool,
    pub(crate) context: Option<SavedContext>,
    /// Why the interpreter starts anew, if it does.
    pub(crate) lost: Option<String>,
}

impl SavedSlot {
    fn info(&self) -> ContextInfo {
        ContextInfo {
            id: self.id.clone(),
            language: self.language,
            cwd: self.cwd.clone(),
        }
    }
}
