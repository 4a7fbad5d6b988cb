//! Sandboxes in a virtual machine of their own: QEMU on the host, and what is the first process of the guest.
//!
//! On the host a [`keeper`] holds QEMU in namespaces of its own, without powers, with everything it needs as open
//! descriptors, in a root of its own ([`workshop`]); its [`command`] line is a pure function. A live machine is saved and brought
//! back by the keeper's [`orders`], its memory as [`pages`] in [`runs`]. In the guest [`init`] loads
//! drivers and mounts the template's image, and [`guest`] then makes one sandbox there, with all the walls of the jail. What
//! the engine and the guest's first process tell each other is [`control`].

pub mod command;
pub mod control;
mod guest;
mod init;
pub(crate) mod keeper;
mod orders;
mod pages;
mod runs;
pub(crate) mod workshop;

use std::time::{Duration, Instant};

pub use guest::main as guest_main;
pub use init::{AGENT, MODULES, PLAN, TREE, main as init_main};
pub use runs::ram_bytes_of;

/// How fast the processor's clock runs, for a guest that cannot measure it: an emulated one has the same.
pub fn clock_khz() -> u64 {
    const SPAN: Duration = Duration::from_millis(50);
    let (began, first) = both_clocks();
    std::thread::sleep(SPAN);
    let (ended, last) = both_clocks();
    let ticks = u128::from(last.saturating_sub(first)) * 1_000_000;
    u64::try_from(ticks / (ended - began).as_nanos().max(1)).unwrap_or(0)
}

/// Both at one moment: of several looks the shortest, because on a busy host anything can come between two of them.
fn both_clocks() -> (Instant, u64) {
    let look = |_| {
        let (before, at, after) = (crate::sys::tsc::now(), Instant::now(), crate::sys::tsc::now());
        (after.saturating_sub(before), (at, before))
    };
    let shortest = (0..16).map(look).min_by_key(|(took, _)| *took);
    shortest.map_or_else(|| (Instant::now(), 0), |(_, clocks)| clocks)
}
