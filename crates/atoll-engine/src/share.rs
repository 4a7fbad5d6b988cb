//! Memory that hostile code can fill, bounded for all sandboxes of this process together: messages of contexts that are not
//! whole yet, and results of executions. Each always has a little of its own, so one that is greedy takes nothing from a
//! modest one.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Not counted, of each context and of each execution.
const FREE: usize = 1 << 20;
static MESSAGES: Budget = Budget::new(512 << 20);
static RESULTS: Budget = Budget::new(512 << 20);

#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    used: AtomicUsize,
}

impl Budget {
    pub(crate) const fn new(most: usize) -> Self {
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

/// What one context or execution holds.
#[derive(Debug)]
pub(crate) struct Share {
    of: &'static Budget,
    counted: usize,
}

impl Share {
    pub(crate) fn of_messages() -> Self {
        Self::of(&MESSAGES)
    }

    fn of(budget: &'static Budget) -> Self {
        Self { of: budget, counted: 0 }
    }

    /// So many bytes are held from now on. False if there is no room for them; then it is as before.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
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

/// Room for the results of one execution. Whoever holds some of them keeps a copy of it: it is given back with the last.
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<Share>>);

impl Default for Room {
    fn default() -> Self {
        Self::of(&RESULTS)
    }
}

impl Room {
    pub(crate) fn of(budget: &'static Budget) -> Self {
        Self(Arc::new(Mutex::new(Share::of(budget))))
    }

    /// Results of so many bytes are there from now on. False if there is no room for them; then it is as before.
    pub(crate) fn set(&self, bytes: u64) -> bool {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).set(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_have_a_bound_and_each_has_a_little() {
        static FEW: Budget = Budget::new(100);
        let share = || Share::of(&FEW);
        let (mut one, mut other) = (share(), share());
        assert!(one.set(FREE + 60) && other.set(FREE + 40));
        assert!(!other.set(FREE + 41) && other.set(FREE + 40), "as before");
        assert!(share().set(FREE), "the little is not counted");
        assert!(one.set(0) && other.set(FREE + 100));
        drop(other);
        assert!(one.set(FREE + 100));
    }

    #[test]
    fn room_is_taken_until_the_last_copy_is_gone() {
        static FEW: Budget = Budget::new(100);
        let (room, other) = (Room::of(&FEW), Room::of(&FEW));
        let reader = room.clone();
        assert!(room.set(FREE as u64 + 100) && !other.set(FREE as u64 + 1));
        drop(room);
        assert!(!other.set(FREE as u64 + 1), "a reader has it still");
        drop(reader);
        assert!(other.set(FREE as u64 + 100));
    }
}
