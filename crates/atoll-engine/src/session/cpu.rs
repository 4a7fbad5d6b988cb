//! The processor time of one life: what the kernel has counted since it began. A prepared sandbox has used some before.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug)]
pub(super) struct Cpu {
    /// `None`: nobody counts.
    before: Option<u64>,
    newest: AtomicU64,
}

impl Cpu {
    /// With what was counted when the life began.
    pub(super) fn from(before: Option<u64>) -> Self {
        Self {
            before,
            newest: AtomicU64::new(before.unwrap_or(0)),
        }
    }

    /// Takes what is counted now, if it can be read, and says how much of it belongs to this life.
    pub(super) fn seen(&self, now: Option<u64>) -> Option<u64> {
        let newest = self.newest.fetch_max(now.unwrap_or(0), Ordering::Relaxed);
        Some(newest.max(now.unwrap_or(0)) - self.before?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_before_does_not_count_and_the_end_keeps_the_last() {
        let cpu = Cpu::from(Some(100));
        assert_eq!(cpu.seen(Some(130)), Some(30));
        assert_eq!((cpu.seen(Some(120)), cpu.seen(None)), (Some(30), Some(30)));
        assert_eq!(Cpu::from(None).seen(Some(9)), None);
    }
}
