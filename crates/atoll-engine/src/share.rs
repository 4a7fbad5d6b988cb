//! Memory that hostile code can fill, bounded for all sandboxes of this process together: messages of contexts that are not
//! whole yet, and text and results of executions. Each always has a little of its own, so one that is greedy takes nothing
//! from a modest one; and one tenant never has more than half, so that it takes nothing from the others.

use crate::lock::lock;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Not counted, of each context and of each execution.
pub(crate) const FREE: usize = 64 << 10;
/// Text is in memory twice: for the answer at the end, and where it waits until the client reads it.
const COPIES_OF_TEXT: usize = 2;
static MESSAGES: Budget = Budget::new(512 << 20);
static OUTPUT: Budget = Budget::new(512 << 20);

#[derive(Debug)]
pub(crate) struct Budget {
    most: usize,
    /// What each owner has of it.
    used: Mutex<BTreeMap<Arc<str>, usize>>,
}

impl Budget {
    pub(crate) const fn new(most: usize) -> Self {
        Self {
            most,
            used: Mutex::new(BTreeMap::new()),
        }
    }

    fn change(&self, owner: &Arc<str>, from: usize, to: usize) -> bool {
        if from == to {
            return true;
        }
        let mut used = lock(&self.used);
        let own = used.get(owner).copied().unwrap_or(0) - from + to;
        let all = used.values().sum::<usize>() - from + to;
        let fits = to < from || (all <= self.most && own <= self.most / 2);
        match (fits, own) {
            (true, 0) => drop(used.remove(owner)),
            (true, own) => drop(used.insert(Arc::clone(owner), own)),
            (false, _) => {}
        }
        fits
    }
}

/// What one context or execution holds.
#[derive(Debug)]
pub(crate) struct Share {
    of: &'static Budget,
    owner: Arc<str>,
    counted: usize,
}

impl Share {
    pub(crate) fn of_messages() -> Self {
        Self::of(&MESSAGES)
    }

    fn of(budget: &'static Budget) -> Self {
        Self {
            of: budget,
            owner: "".into(),
            counted: 0,
        }
    }

    /// From now on it counts for this tenant. What it holds already stays with the one before.
    pub(crate) fn belongs_to(&mut self, owner: &Arc<str>) {
        if self.counted == 0 {
            self.owner = Arc::clone(owner);
        }
    }

    /// So many bytes are held from now on. False if there is no room for them; then it is as before.
    pub(crate) fn set(&mut self, bytes: usize) -> bool {
        let wanted = bytes.saturating_sub(FREE);
        let fits = self.of.change(&self.owner, self.counted, wanted);
        if fits {
            self.counted = wanted;
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.of.change(&self.owner, self.counted, 0);
    }
}

/// Room for the text and the results of one execution. A holder of some of them keeps a copy of it: it is given back with
/// the last.
#[derive(Clone, Debug)]
pub struct Room(Arc<Mutex<OutputShare>>);

#[derive(Debug)]
struct OutputShare {
    share: Share,
    text: usize,
    results: usize,
}

impl OutputShare {
    fn set(&mut self, text: usize, results: usize) -> bool {
        let fits = self.share.set(text.saturating_add(results));
        if fits {
            (self.text, self.results) = (text, results);
        }
        fits
    }
}

impl Default for Room {
    fn default() -> Self {
        Self::of(&OUTPUT)
    }
}

impl Room {
    pub(crate) fn of(budget: &'static Budget) -> Self {
        Self(Arc::new(Mutex::new(OutputShare {
            share: Share::of(budget),
            text: 0,
            results: 0,
        })))
    }

    /// Results of so many bytes are there from now on. False if there is no room for them; then it is as before.
    pub fn set(&self, bytes: u64) -> bool {
        let results = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut output = lock(&self.0);
        let text = output.text;
        output.set(text, results)
    }

    /// Text of so many more bytes is there from now on. False if there is no room for it; then it is as before.
    pub(crate) fn add_text(&self, bytes: usize) -> bool {
        let mut output = lock(&self.0);
        let more = bytes.saturating_mul(COPIES_OF_TEXT);
        let (text, results) = (output.text.saturating_add(more), output.results);
        output.set(text, results)
    }

    /// From now on it counts for this tenant.
    pub fn belongs_to(&self, owner: &Arc<str>) {
        lock(&self.0).share.belongs_to(owner);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_have_a_bound_and_each_has_a_little() {
        static FEW: Budget = Budget::new(200);
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
    fn one_tenant_has_half_and_others_the_rest() {
        static FEW: Budget = Budget::new(200);
        let share = |owner: &str| {
            let mut share = Share::of(&FEW);
            share.belongs_to(&owner.into());
            share
        };
        let (mut greedy, mut more, mut other) = (share("a"), share("a"), share("b"));
        assert!(greedy.set(FREE + 100));
        assert!(!more.set(FREE + 1) && other.set(FREE + 100));
        assert!(!share("c").set(FREE + 1), "all of it is taken");
        drop((greedy, more, other));
        assert!(lock(&FEW.used).is_empty());
    }

    #[test]
    fn text_and_results_of_an_execution_share_its_room() {
        static FEW: Budget = Budget::new(200);
        let room = Room::of(&FEW);
        assert!(room.set(FREE as u64) && room.add_text(30));
        assert!(!room.add_text(21) && !room.set(FREE as u64 + 41), "text counts twice");
        assert!(room.set(FREE as u64 + 40) && !room.add_text(1));
        assert!(room.set(0) && room.add_text(20));
    }

    #[test]
    fn room_is_taken_until_the_last_copy_is_gone() {
        static FEW: Budget = Budget::new(200);
        let (room, other) = (Room::of(&FEW), Room::of(&FEW));
        let reader = room.clone();
        assert!(room.set(FREE as u64 + 100) && !other.set(FREE as u64 + 1));
        drop(room);
        assert!(!other.set(FREE as u64 + 1), "a reader has it still");
        drop(reader);
        assert!(other.set(FREE as u64 + 100));
    }
}
