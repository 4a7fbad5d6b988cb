//! What an instance has in place of a clock and of randomness that its policy does not give.

use sha2::{Digest, Sha256};
use std::time::Duration;
use wasmtime_wasi::random::Deterministic;
use wasmtime_wasi::{HostMonotonicClock, HostWallClock};

/// The beginning of 1970, for ever. Waits still take their time.
pub(crate) struct Still;

impl HostWallClock for Still {
    fn resolution(&self) -> Duration {
        Duration::from_nanos(1)
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }
}

impl HostMonotonicClock for Still {
    fn resolution(&self) -> u64 {
        1
    }

    fn now(&self) -> u64 {
        0
    }
}

/// Blocks of the sequence before it begins again.
const BLOCKS: u32 = 2048;

/// Bytes that look like random ones and are the same in every instance.
pub(crate) fn foretold() -> Deterministic {
    let blocks = (0..BLOCKS).flat_map(|number| Sha256::digest(number.to_le_bytes()));
    Deterministic::new(blocks.collect())
}
