//! Attempts to leave a sandbox, each with a claim, a harmless twin that must work, and a control that must breach.
//!
//! Only our own sandboxes, only loopback, `socket()` is where AF_VSOCK stops. Probe code is in `tests/escape/`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod collector;
mod data;
mod ends;
mod filter;
mod lab;
mod load_table;
mod loads;
mod neighbours;
mod posture;
mod probe;
mod protocol;
mod registry;
mod rootless;
mod syscalls;
mod tables;
