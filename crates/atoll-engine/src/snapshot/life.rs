//! The life of a paused sandbox, as it lies beside its memory and files: enough to go on with it in another process.

use crate::audit::Actor;
use crate::policy::{Policy, PolicyError, resolved};
use crate::session::{Left, LifeSpec};
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedLife {
    pub(crate) spec: LifeSpec,
    /// Who has made it.
    pub(crate) by: Actor,
    pub(crate) policy: SavedPolicy,
    /// Since 1970.
    pub(crate) created_ms: u64,
    pub(crate) executions: u64,
    pub(crate) cpu_ms: Option<u64>,
    pub(crate) left: Left,
}

/// All that it decides: a file that it was read from may be another one by then.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SavedPolicy {
    name: String,
    decides: serde_json::Value,
}

impl SavedPolicy {
    pub(crate) fn of(policy: &Policy) -> Self {
        Self {
            name: policy.name.clone(),
            decides: policy.to_object(),
        }
    }

    pub(crate) fn read(&self) -> Result<Policy, PolicyError> {
        resolved(&self.name, &self.decides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::{SHIPPED, load};

    #[test]
    fn a_policy_is_read_back_as_it_was() {
        for (name, _) in SHIPPED {
            let policy = load(name).unwrap().called("mine");
            let text = serde_json::to_string(&SavedPolicy::of(&policy)).unwrap();
            let saved: SavedPolicy = serde_json::from_str(&text).unwrap();
            assert_eq!(saved.read().unwrap(), policy);
        }
    }
}
