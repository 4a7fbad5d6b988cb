//! Which users of a template's user namespace belong to living sandboxes: each has one that nobody else has.

use crate::instance::IDS_PER_SLOT;
use crate::plan::Mode;
use crate::step::{Step, StepError};
use std::collections::HashSet;

/// Ids below this one belong to the spawner and the zygote.
const FIRST: u32 = 1000;

#[derive(Debug)]
pub(super) struct HostIds {
    /// Rootless there is only one id, which all sandboxes share.
    shared: bool,
    end: u32,
    next: u32,
    used: HashSet<u32>,
}

impl HostIds {
    pub(super) fn new(mode: Mode) -> Self {
        Self::up_to(IDS_PER_SLOT, mode)
    }

    fn up_to(end: u32, mode: Mode) -> Self {
        Self {
            shared: mode == Mode::Rootless,
            end,
            next: FIRST,
            used: HashSet::new(),
        }
    }

    /// The next free id, round and round: one that was given back rests as long as possible.
    pub(super) fn take(&mut self) -> Result<u32, StepError> {
        if self.shared {
            return Ok(0);
        }
        for _ in FIRST..self.end {
            let id = self.next;
            self.next = if id + 1 == self.end { FIRST } else { id + 1 };
            if self.used.insert(id) {
                return Ok(id);
            }
        }
        let what = format!(
            "find a free host id: all {} of this template belong to living sandboxes; end some first",
            self.end - FIRST
        );
        Err(rustix::io::Errno::USERS).step(&what)
    }

    pub(super) fn give_back(&mut self, id: u32) {
        self.used.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_in_use_is_skipped_when_the_numbers_come_round() {
        let mut ids = HostIds::up_to(FIRST + 3, Mode::Root);
        let taken = [ids.take().unwrap(), ids.take().unwrap(), ids.take().unwrap()];
        assert_eq!(taken, [FIRST, FIRST + 1, FIRST + 2]);
        ids.give_back(FIRST + 1);
        assert_eq!(ids.take().unwrap(), FIRST + 1);
        ids.give_back(FIRST);
        ids.give_back(FIRST + 2);
        // The one that rested longest comes first.
        assert_eq!((ids.take().unwrap(), ids.take().unwrap()), (FIRST + 2, FIRST));
    }

    #[test]
    fn without_a_free_id_there_is_a_clear_refusal() {
        let mut ids = HostIds::up_to(FIRST + 2, Mode::Root);
        ids.take().unwrap();
        ids.take().unwrap();
        let refused = ids.take().unwrap_err().to_string();
        assert!(
            refused.contains("all 2 of this template") && refused.contains("end some"),
            "{refused}"
        );
        ids.give_back(FIRST);
        assert_eq!(ids.take().unwrap(), FIRST);
    }

    #[test]
    fn rootless_sandboxes_share_the_only_id() {
        let mut ids = HostIds::up_to(FIRST + 1, Mode::Rootless);
        assert_eq!([ids.take().unwrap(), ids.take().unwrap()], [0, 0]);
    }
}
