//! Memory for messages of contexts that are not whole yet: bounded for all contexts of this process together. A context
//! always has a little of its own, so one that is greedy takes nothing from a modest one.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Not counted, of each context.
const FREE: usize = 1 << 20;
static ALL: Budget = Budget::new(512 << 20);

#[derive(Debug)]
struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    const fn new(most: usize) -> Self {
        Self {
            most,
            used: AtomicUsize::new(0),
        }
    }

    fn change(&self, from: usize, to: usize) -> bool {
        let changed = |used: usize| Some(used - from + to).filter(|now| to <= from || *now <= self.most);
        let order = Ordering::Relaxed;
        self.used.fetch_update(order, order, changed).is_ok()
    }
}

/// What one context holds.
#[derive(Debug)]
pub(super) struct Share {
    of: &'static Budget,
    counted: usize,
}

impl Default for Share {
    fn default() -> Self {
        Self { of: &ALL, counted: 0 }
    }
}

impl Share {
    /// So many bytes are held from now on. False if there is no room for them; then it is as before.
    pub(super) fn set(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE);
        let fits = self.of.change(self.counted, wanted);
        if fits {
            self.counted = wanted;
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.change(self.counted, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_have_a_bound_and_each_has_a_little() {
        static FEW: Budget = Budget::new(100);
        let share = || Share { of: &FEW, counted: 0 };
        let (mut one, mut other) = (share(), share());
        assert!(one.set(FREE + 60) && other.set(FREE + 40));
        assert!(!other.set(FREE + 41) && other.set(FREE + 40), "as before");
        assert!(share().set(FREE), "the little is not counted");
        assert!(one.set(0) && other.set(FREE + 100));
        drop(other);
        assert!(one.set(FREE + 100));
    }
}
