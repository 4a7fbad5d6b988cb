//! The Linux mechanism of the `jail` tier: namespaces, cgroups, Landlock, seccomp, and the warm fork.
//!
//! Sync, one thread per process, no tokio. Three programs live here, all started from the one `atoll` binary: the
//! [`jailer`], the [`spawner`], and a sandbox's first process. The engine sends a [`plan`]; it never forks itself.

pub mod cgroup;
pub mod channel;
pub mod command;
pub mod ferry;
pub mod filter;
pub mod frame;
pub mod gvisor;
mod input;
mod instance;
pub mod jailer;
pub mod kvm;
pub mod oci;
pub mod order;
mod outbox;
mod paths;
mod places;
pub mod plan;
mod receipt;
mod rlimits;
mod root;
mod scratch;
mod shell;
pub mod spawner;
mod step;
mod sys;
pub mod vm;
pub mod walls;
pub mod watch;

pub use instance::new_instance_name;
pub use paths::kernel_abi;
pub use places::SCRATCH_PLACES;
pub use root::host_parts;
pub use scratch::is_on_disk as scratch_is_on_disk;
pub use shell::{AgentMain, AgentStart};
pub use step::{StepError, chain};
pub use sys::heap::return_freed_memory;
pub use walls::NoWall;

/// The library that a zygote loads, built by `build.rs`.
pub const ZYGOTE_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libatoll_zygote.so"));
/// The library that programs under gVisor load, likewise.
pub const GVISOR_LIBRARY: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libatoll_gvisor.so"));
pub use oci::bundle::AGENT;
pub use oci::workshop::{PRELOAD, PRELOADED};
