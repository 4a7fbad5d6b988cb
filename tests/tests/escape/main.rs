//! Attempts to leave a sandbox, each with a claim, a harmless twin that must work, and a control that must breach.
//!
//! Only our own sandboxes, only loopback, `socket()` is where AF_VSOCK stops. The shipped probes are in `crates/atoll-attack/`.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod attack;
mod collector;
mod container;
mod data;
mod ends;
mod filter;
mod gvisor;
mod lab;
mod microvm;
mod neighbours;
mod network;
mod posture;
mod probe;
mod protocol;
mod registry;
mod rootless;
mod single;
mod smoke;
mod table;
