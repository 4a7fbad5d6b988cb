//! The processor time of one life: what the kernel has counted since it began, behind one wall after the other. A prepared
//! sandbox has used some before.

use crate::lock::lock;
use std::sync::Mutex;

#[derive(Debug)]
pub(super) struct Cpu(Mutex<Counted>);

#[derive(Debug)]
struct Counted {
    /// Behind former walls; `None`: nobody counts.
    earlier: Option<u64>,
    /// When the life began, or the wall.
    before: u64,
    newest: u64,
}

impl Cpu {
    /// With what was counted when the life began.
    pub(super) fn from(before: Option<u64>) -> Self {
        let start = before.unwrap_or(0);
        Self(Mutex::new(Counted {
            earlier: before.map(|_| 0),
            before: start,
            newest: start,
        }))
    }

    /// Of a life that goes on from disk.
    pub(super) fn after(earlier: Option<u64>) -> Self {
        Self(Mutex::new(Counted {
            earlier,
            before: 0,
            newest: 0,
        }))
    }

    /// Takes what is counted now, if it can be read, and says how much of it belongs to this life.
    pub(super) fn seen(&self, now: Option<u64>) -> Option<u64> {
        let mut counted = lock(&self.0);
        counted.newest = counted.newest.max(now.unwrap_or(0));
        Some(counted.earlier? + counted.newest - counted.before)
    }

    /// From now on another wall is counted, which begins with this much.
    pub(super) fn goes_on(&self, before: Option<u64>) {
        let mut counted = lock(&self.0);
        let so_far = counted.newest - counted.before;
        counted.earlier = counted.earlier.zip(before).map(|(earlier, _)| earlier + so_far);
        counted.before = before.unwrap_or(0);
        counted.newest = counted.before;
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

    #[test]
    fn another_wall_goes_on_counting_where_the_last_one_ended() {
        let cpu = Cpu::from(Some(100));
        cpu.seen(Some(130));
        cpu.goes_on(Some(7));
        assert_eq!((cpu.seen(None), cpu.seen(Some(9))), (Some(30), Some(32)));
        let later = Cpu::after(Some(32));
        assert_eq!(later.seen(None), Some(32));
        later.goes_on(Some(5));
        assert_eq!(later.seen(Some(6)), Some(33));
    }
}
