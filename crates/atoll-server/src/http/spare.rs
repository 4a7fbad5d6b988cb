//! One descriptor that a listener keeps. Without any left it gives that up, takes the next connection and answers.

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Copies share the descriptor.
#[derive(Clone, Debug)]
pub(super) struct Spare(Arc<Mutex<Option<File>>>);

impl Spare {
    pub(super) fn new() -> Self {
        let spare = Self(Arc::default());
        spare.restore();
        spare
    }

    /// Whether there was one to give up.
    pub(super) fn give_up(&self) -> bool {
        self.lock().take().is_some()
    }

    /// If there is no descriptor for it now, the next call may get one.
    pub(super) fn restore(&self) {
        let mut spare = self.lock();
        if spare.is_none() {
            *spare = File::open("/dev/null").ok();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<File>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spare_descriptor_is_given_up_once_until_it_is_restored() {
        let spare = Spare::new();
        assert!(spare.give_up() && !spare.give_up());
        spare.restore();
        assert!(spare.clone().give_up() && !spare.give_up());
    }
}
