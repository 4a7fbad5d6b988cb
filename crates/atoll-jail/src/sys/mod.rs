//! The only place in Atoll where `unsafe` compiles: system calls that no safe crate offers.
#![expect(unsafe_code, reason = "system calls without a safe wrapper; every other file of Atoll forbids unsafe")]

#[expect(dead_code, reason = "shared with the zygote's library, which uses the rest")]
pub mod fork_wire;
mod kernel;
pub mod lockdown;
pub mod mounts;
pub mod process;
#[expect(dead_code, reason = "shared with the zygote's library, which uses the rest")]
mod raw;
pub(crate) mod wire_bytes;

pub use kernel::landlock_abi;
