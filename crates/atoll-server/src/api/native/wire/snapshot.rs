//! What is asked and told about snapshots and forks.

use super::sandbox::SandboxAnswer;
use crate::clock::Timestamp;
use atoll_engine::snapshot::Snapshot;
use serde::{Deserialize, Serialize};
use std::time::{Duration, UNIX_EPOCH};
use utoipa::ToSchema;

/// A snapshot to create.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"name": "after setup"}))]
pub struct SnapshotRequest {
    /// Display name; need not be unique
    #[schema(min_length = 1, max_length = 128)]
    pub name: Option<String>,
}

/// The saved state of a sandbox.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SnapshotAnswer {
    /// Snapshot ID
    #[schema(example = "snpaaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub id: String,
    /// Display name
    pub name: Option<String>,
    /// Sandbox that the snapshot was taken from
    pub sandbox_id: String,
    /// Template name
    pub template: String,
    /// Isolation tier
    pub tier: String,
    /// When the snapshot was taken
    #[schema(format = DateTime)]
    pub created: String,
    /// Size on disk
    pub bytes: u64,
}

/// Snapshots, newest first.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct SnapshotList {
    /// Snapshots of the tenant
    pub snapshots: Vec<SnapshotAnswer>,
}

/// A rollback to a snapshot.
#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"snapshot": "snpaaaaaaaaaaaaaaaaaaaaaaaaaa"}))]
pub struct RollbackRequest {
    /// ID of a snapshot of this sandbox
    #[schema(example = "snpaaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub snapshot: String,
}

/// Forks of a sandbox.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
#[schema(example = json!({"count": 2}))]
pub struct ForkRequest {
    /// Number of forks [default: 1]
    #[schema(minimum = 1, maximum = 20)]
    pub count: Option<u64>,
}

#[derive(Clone, Debug, Deserialize, Serialize, ToSchema)]
pub struct ForkAnswer {
    /// The new sandboxes
    pub sandboxes: Vec<SandboxAnswer>,
}

impl From<&Snapshot> for SnapshotAnswer {
    fn from(snapshot: &Snapshot) -> Self {
        let created = UNIX_EPOCH + Duration::from_millis(snapshot.created_ms);
        Self {
            id: snapshot.id.to_string(),
            name: snapshot.name.clone(),
            sandbox_id: snapshot.sandbox.to_string(),
            template: snapshot.template.clone(),
            tier: snapshot.tier.to_string(),
            created: Timestamp::from(created).to_string(),
            bytes: snapshot.bytes,
        }
    }
}
