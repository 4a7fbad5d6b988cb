//! Changes of files that wait to be fetched, as text, bounded in bytes: for each watcher, and for a sandbox's together.
//!
//! The oldest go first: a client that comes late wants to know how things are now.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that wait for one watcher.
const MOST: usize = 1 << 20;
/// And for all watchers of one sandbox.
const MOST_TOGETHER: usize = 4 << 20;
/// What a change costs beside its text.
const EACH: usize = 64;

/// Bytes of all watchers of one sandbox.
pub(super) type Together = Arc<AtomicUsize>;

#[derive(Debug, Default)]
pub(super) struct Waiting {
    changes: Mutex<Changes>,
    together: Together,
}

#[derive(Debug, Default)]
struct Changes {
    texts: VecDeque<String>,
    bytes: usize,
}

impl Waiting {
    pub(super) fn new(together: Together) -> Self {
        Self {
            changes: Mutex::default(),
            together,
        }
    }

    pub(super) fn together(&self) -> Together {
        Arc::clone(&self.together)
    }

    /// Adds a change and drops old ones, this one too if others of the sandbox have left no room.
    pub(super) fn add(&self, text: String) {
        let mut changes = self.lock();
        let cost = text.len() + EACH;
        changes.bytes += cost;
        self.together.fetch_add(cost, Ordering::Relaxed);
        changes.texts.push_back(text);
        while changes.bytes > MOST || self.together.load(Ordering::Relaxed) > MOST_TOGETHER {
            let Some(oldest) = changes.texts.pop_front() else { break };
            let cost = oldest.len() + EACH;
            changes.bytes -= cost;
            self.together.fetch_sub(cost, Ordering::Relaxed);
        }
    }

    /// Everything that waits.
    pub(super) fn take(&self) -> Vec<String> {
        let mut changes = self.lock();
        let bytes = std::mem::take(&mut changes.bytes);
        self.together.fetch_sub(bytes, Ordering::Relaxed);
        std::mem::take(&mut changes.texts).into()
    }

    fn lock(&self) -> MutexGuard<'_, Changes> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What nobody has fetched makes room for the others.
impl Drop for Waiting {
    fn drop(&mut self) {
        self.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn long(letter: &str) -> String {
        letter.repeat(100 << 10)
    }

    #[test]
    fn the_oldest_changes_go_when_there_are_too_many_bytes() {
        let waiting = Waiting::default();
        waiting.add("first".to_owned());
        (0..1_000).for_each(|_| waiting.add(long("x")));
        waiting.add("last".to_owned());
        let kept = waiting.take();
        assert!(kept.iter().map(String::len).sum::<usize>() <= MOST);
        assert_eq!((kept[0].as_bytes()[0], kept.last().unwrap().as_str()), (b'x', "last"));
        assert_eq!(waiting.together.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn many_small_changes_are_kept() {
        let waiting = Waiting::default();
        (0..10_000).for_each(|n: u32| waiting.add(n.to_string()));
        assert_eq!(waiting.take().len(), 10_000);
    }

    #[test]
    fn all_watchers_of_a_sandbox_share_one_bound_and_who_goes_makes_room() {
        let together = Together::default();
        let all: Vec<Waiting> = (0..64).map(|_| Waiting::new(Arc::clone(&together))).collect();
        for waiting in &all {
            (0..20).for_each(|_| waiting.add(long("x")));
        }
        assert!(together.load(Ordering::Relaxed) <= MOST_TOGETHER);
        drop(all);
        assert_eq!(together.load(Ordering::Relaxed), 0);
    }
}
