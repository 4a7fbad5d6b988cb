//! The memory of a sandbox: all instances together grow up to its limit, and not above.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use wasmtime::ResourceLimiter;

#[derive(Debug, Default)]
pub(crate) struct Memory {
    limit: AtomicU64,
    used: AtomicU64,
}

impl Memory {
    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit.store(bytes, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn take(&self, bytes: u64) -> bool {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= limit);
        self.used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
            .is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What one instance has of it; given back when the instance goes.
#[derive(Debug)]
pub(crate) struct Portion {
    memory: Arc<Memory>,
    taken: u64,
}

impl Portion {
    pub(crate) fn of(memory: &Arc<Memory>) -> Self {
        let memory = Arc::clone(memory);
        Self { memory, taken: 0 }
    }
}

impl Drop for Portion {
    fn drop(&mut self) {
        self.memory.give_back(self.taken);
    }
}

impl ResourceLimiter for Portion {
    fn memory_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let bytes = desired.saturating_sub(current) as u64;
        let fits = most.is_none_or(|most| desired <= most) && self.memory.take(bytes);
        if fits {
            self.taken += bytes;
        }
        Ok(fits)
    }

    fn table_growing(&mut self, _: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        Ok(most.is_none_or(|most| desired <= most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_share_one_limit_and_give_back_what_they_had() {
        let memory = Arc::new(Memory::default());
        memory.set_limit(100);
        let mut first = Portion::of(&memory);
        let mut second = Portion::of(&memory);
        assert!(first.memory_growing(0, 60, None).unwrap());
        assert!(!second.memory_growing(0, 60, None).unwrap());
        assert!(second.memory_growing(0, 40, None).unwrap());
        assert!(!second.memory_growing(40, 41, None).unwrap());
        drop(first);
        assert_eq!(memory.used(), 40);
        assert!(second.memory_growing(40, 100, None).unwrap());
    }

    #[test]
    fn what_the_component_itself_declares_counts_too() {
        let memory = Arc::new(Memory::default());
        memory.set_limit(100);
        assert!(!Portion::of(&memory).memory_growing(0, 60, Some(50)).unwrap());
        assert_eq!(memory.used(), 0);
    }
}
