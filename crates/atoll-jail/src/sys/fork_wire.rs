//! The datagrams between a spawner, its zygote and a fork at its gate, as plain structs. No crate, no allocation, no std.
//!
//! Compiled into both ends: this crate, and the library that a zygote loads. Both come from one build.

use super::lockdown::Rlimit;
use core::ffi::c_int;

pub(crate) const MAGIC: u32 = 0x4154_4c31;
pub(crate) const MAX_FDS: usize = 16;
pub(crate) const MAX_RLIMITS: usize = 16;
pub(crate) const MAX_FILTER_BYTES: usize = 32 << 10;
pub(crate) const MAX_WATCH_BYTES: usize = 1 << 10;

/// Descriptors beside a [`ForkRequest`], in this order.
pub(crate) const FD_SHELL: usize = 0;
pub(crate) const FD_CONTROL: usize = 1;
pub(crate) const FD_STDOUT: usize = 2;
pub(crate) const FD_STDERR: usize = 3;
/// Where the fork waits until its sandbox stands.
pub(crate) const FD_GATE: usize = 4;
pub(crate) const REQUEST_FDS: usize = 5;

/// Spawner to a fork, through its gate: enter. Beside it: cgroup membership files, and last the Landlock ruleset,
/// which is there unless `has_ruleset` is zero because that wall is off.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Enter {
    pub magic: u32,
    pub has_ruleset: u32,
}

/// Spawner to zygote, once: the filters that every fork will wear. Zero lengths only when the wall is off.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Arm {
    pub magic: u32,
    pub off: u32,
    /// Two programs for the zygote itself, inherited by every fork: what is allowed, then what is refused.
    pub allow_bytes: u32,
    pub deny_bytes: u32,
    /// Installed by each fork as its last step.
    pub final_bytes: u32,
    /// Installed before it by a fork that is to be watched.
    pub watch_bytes: u32,
}

/// Spawner to zygote: one more fork, into this sandbox.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ForkRequest {
    pub magic: u32,
    pub context: u32,
    pub rlimit_count: u32,
    /// Not zero: the fork wears the watching filter and hands its listener over.
    pub watched: u32,
    pub rlimits: [Rlimit; MAX_RLIMITS],
}

/// Zygote to spawner. A pidfd comes beside `FORKED`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ForkReply {
    pub magic: u32,
    pub kind: u32,
    pub context: u32,
    pub pid: c_int,
    /// Wait status for `EXITED`, errno for `REFUSED`.
    pub value: c_int,
}

impl ForkReply {
    pub(crate) const FORKED: u32 = 1;
    pub(crate) const EXITED: u32 = 2;
    pub(crate) const REFUSED: u32 = 3;
}
