//! The C library's heap: when freed memory goes back to the kernel.

/// A block of this size or more is a mapping of its own, which `free` returns to the kernel.
const BLOCK_BYTES: libc::c_int = 128 << 10;
/// Arenas for smaller blocks. Each keeps some freed memory; the default is eight per CPU.
const ARENAS: libc::c_int = 4;

/// Makes the allocator return large freed blocks at once, for the rest of the process. By default it keeps blocks of up to
/// 32 MiB after the first one of their size was freed.
pub fn return_freed_memory() {
    let options = [
        (libc::M_MMAP_THRESHOLD, BLOCK_BYTES),
        (libc::M_TRIM_THRESHOLD, BLOCK_BYTES),
        (libc::M_ARENA_MAX, ARENAS),
    ];
    for (option, value) in options {
        // SAFETY: sets one integer of the allocator under its own lock and touches no block; both values of the integer
        // are valid for a thread that allocates meanwhile.
        unsafe { libc::mallopt(option, value) };
    }
}

#[cfg(test)]
mod tests {
    use super::return_freed_memory;

    fn resident_kib() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Twice: the default keeps large blocks only after the first was freed. A small block behind each large one stays, so
    /// that the large ones are not at the end of the heap.
    #[test]
    fn large_freed_blocks_are_returned_to_the_kernel() {
        return_freed_memory();
        let before = resident_kib();
        let mut small = Vec::new();
        for _ in 0..2 {
            let mut large = Vec::new();
            for _ in 0..20 {
                large.push(vec![7_u8; 8 << 20]);
                small.push(vec![7_u8; 4 << 10]);
            }
            assert!(std::hint::black_box(&large).len() == 20 && resident_kib() > before + (150 << 10));
        }
        let after = resident_kib();
        assert_eq!(std::hint::black_box(&small).len(), 40);
        assert!(after < before + (30 << 10), "{before} KiB before, {after} KiB after");
    }
}
