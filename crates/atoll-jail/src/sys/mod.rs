//! The only place in Atoll where `unsafe` compiles: system calls that no safe crate offers.
#![expect(
    unsafe_code,
    reason = "system calls without a safe wrapper; every other file of Atoll forbids unsafe"
)]

#[expect(dead_code, reason = "shared with the zygote's library, which uses the rest")]
pub(crate) mod fork_wire;
pub(crate) mod heap;
mod kernel;
#[cfg(target_arch = "x86_64")]
pub(crate) mod kvm;
pub(crate) mod lockdown;
pub(crate) mod loop_device;
#[expect(dead_code, reason = "shared with the zygote's library, which uses the rest")]
mod message;
pub(crate) mod mounts;
pub(crate) mod notify;
pub(crate) mod process;
pub(crate) mod random;
#[expect(dead_code, reason = "shared with the zygote's library, which uses the rest")]
mod raw;
pub(crate) mod tsc;
pub(crate) mod wire_bytes;

pub(crate) use kernel::landlock_abi;
