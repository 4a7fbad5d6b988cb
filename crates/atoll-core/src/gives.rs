//! What code is given besides a processor, memory and its files, in a tier that can keep it from code (`wasm`).

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gives {
    /// The time of day and a clock that runs. Without: both stand still.
    pub clock: bool,
    /// Numbers that nobody can foretell. Without: the same ones in every sandbox.
    pub random: bool,
}

impl Gives {
    pub const ALL: Self = Self {
        clock: true,
        random: true,
    };
}
