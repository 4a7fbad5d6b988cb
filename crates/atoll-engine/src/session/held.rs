//! Places that a sandbox takes up, given back before anybody hears that it is gone: who waited for its end has room again.

use crate::lock::lock;
use std::sync::Mutex;

pub(super) struct Held(Mutex<Option<Vec<Box<dyn Send>>>>);

impl Held {
    pub(super) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// What comes after the end is let go at once.
    pub(super) fn add(&self, place: impl Send + 'static) {
        if let Some(held) = lock(&self.0).as_mut() {
            held.push(Box::new(place));
        }
    }

    /// While nothing of the sandbox is on the machine but its files. What comes later is kept again.
    pub(super) fn give_back(&self) {
        let held = lock(&self.0).as_mut().map(std::mem::take);
        drop(held);
    }

    pub(super) fn let_go(&self) {
        let held = lock(&self.0).take();
        drop(held);
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Held")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn places_are_kept_until_the_end_and_not_after() {
        let (held, place) = (Held::new(), Arc::new(()));
        held.add(Arc::clone(&place));
        assert_eq!(Arc::strong_count(&place), 2);
        held.give_back();
        assert_eq!(Arc::strong_count(&place), 1);
        held.add(Arc::clone(&place));
        assert_eq!(Arc::strong_count(&place), 2);
        held.let_go();
        assert_eq!(Arc::strong_count(&place), 1);
        held.add(Arc::clone(&place));
        assert_eq!(Arc::strong_count(&place), 1);
    }
}
