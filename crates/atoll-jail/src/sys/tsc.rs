//! The processor's own clock.

/// Its count now; zero where there is none that can be read like this.
#[cfg(target_arch = "x86_64")]
pub(crate) fn now() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; it reads a counter and touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn now() -> u64 {
    0
}
