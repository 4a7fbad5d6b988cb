//! Keys and health on the wire.

use crate::api::object::Object;
use atoll_core::service::Scope;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Health or readiness of the server.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Health {
    /// `ok`, `ready`, `starting`, `draining` or `failed`
    #[schema(example = "ok")]
    pub status: String,
}

/// A key to create.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"name": "notebook server", "scopes": ["run", "read"], "tenant": "team-1"}))]
pub struct NewKeyRequest {
    /// Display name: 1 to 100 printable characters
    #[schema(min_length = 1, max_length = 100, example = "notebook server")]
    pub name: String,
    /// Tenant that owns everything the key creates [default: `default`]
    #[serde(default)]
    #[schema(pattern = "^[a-z0-9][a-z0-9_-]{0,62}$", example = "team-1")]
    pub tenant: Option<String>,
    /// Scopes of the key [default: `run` and `read`]
    #[serde(default)]
    #[schema(value_type = Option<Vec<String>>, example = json!(["run", "read"]))]
    pub scopes: Option<Vec<Scope>>,
    /// Quotas of the key [default: set by the server]
    #[serde(default)]
    #[schema(value_type = Option<KeyQuotas>)]
    pub quotas: Option<Object<KeyQuotas>>,
}

/// Quotas of a key; `null` means the default of the server.
#[derive(Clone, Debug, Default, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KeyQuotas {
    /// Maximum number of live sandboxes
    #[schema(minimum = 1, maximum = 100_000)]
    pub live_sandboxes: Option<u64>,
    /// Maximum number of sandboxes created per minute
    #[schema(minimum = 1, maximum = 1_000_000)]
    pub creates_per_minute: Option<u64>,
    /// CPU time per day, in seconds
    #[schema(minimum = 1, maximum = 1_000_000_000)]
    pub cpu_seconds_per_day: Option<u64>,
    /// Bytes sent and received per day
    #[schema(minimum = 1024, maximum = 1_125_899_906_842_624_u64)]
    pub bytes_per_day: Option<u64>,
}

/// A key without its secret.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct Key {
    /// Key ID
    #[schema(example = "key_aaaaaaaaaaaaaaaaaaaaaaaaaa")]
    pub id: String,
    /// Display name
    pub name: String,
    /// Tenant that owns everything the key creates
    pub tenant: String,
    /// Scopes of the key
    #[schema(value_type = Vec<String>)]
    pub scopes: Vec<Scope>,
    /// Quotas of the key
    pub quotas: KeyQuotas,
    /// When the key was created
    #[schema(format = DateTime)]
    pub created: String,
    /// When the key was revoked
    #[schema(format = DateTime)]
    pub revoked: Option<String>,
    /// Last use, accurate to about 30 seconds
    #[schema(format = DateTime)]
    pub last_used: Option<String>,
}

#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct KeyList {
    /// All keys
    pub keys: Vec<Key>,
}

/// A new key with its secret, which is shown only once.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
pub struct CreatedKey {
    #[serde(flatten)]
    pub record: Key,
    /// The API key; send it in the header `X-API-KEY`
    #[schema(pattern = "^e2b_[0-9a-f]{40}$")]
    pub key: String,
}
