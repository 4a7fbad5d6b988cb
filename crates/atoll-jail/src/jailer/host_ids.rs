//! Which users of a template's user namespace belong to living sandboxes: each has one that nobody else has.
//!
//! Where a runtime cannot do without a root in its containers, each has a second one for that, from the upper half.

use crate::instance::IDS_PER_SLOT;
use crate::plan::{Mode, RuntimeKind};
use crate::step::{Step, StepError};
use std::collections::HashSet;

/// Ids below this one belong to the spawner and the zygote.
const FIRST: u32 = 1000;
/// Ids from here on are roots of containers, in templates that have such.
const UPPER: u32 = IDS_PER_SLOT / 2;

/// The root of the container whose user is this one.
pub(crate) fn root_of(user: u32) -> u32 {
    UPPER + user
}

#[derive(Debug)]
pub(super) struct HostIds {
    /// Rootless there is only one id, which all sandboxes share.
    shared: bool,
    end: u32,
    next: u32,
    used: HashSet<u32>,
}

impl HostIds {
    pub(super) fn new(mode: Mode, runtime: Option<RuntimeKind>) -> Self {
        match runtime.is_some_and(RuntimeKind::maps_root) {
            true => Self::up_to(UPPER, mode),
            false => Self::up_to(IDS_PER_SLOT, mode),
        }
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
            "allocate a host user ID: all {} IDs of this template are used by running sandboxes; terminate some first",
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
            refused.contains("all 2 IDs of this template") && refused.contains("terminate some"),
            "{refused}"
        );
        ids.give_back(FIRST);
        assert_eq!(ids.take().unwrap(), FIRST);
    }

    #[test]
    fn roots_of_containers_are_nobody_else() {
        let mut ids = HostIds::new(Mode::Root, Some(RuntimeKind::Runc));
        let users: HashSet<u32> = (FIRST..UPPER).map(|_| ids.take().unwrap()).collect();
        assert!(ids.take().is_err());
        let roots: HashSet<u32> = users.iter().copied().map(root_of).collect();
        assert_eq!((users.len(), roots.len()), (roots.len(), users.len()));
        assert!(users.is_disjoint(&roots) && roots.iter().all(|id| *id < IDS_PER_SLOT));
    }

    #[test]
    fn rootless_sandboxes_share_the_only_id() {
        let mut ids = HostIds::up_to(FIRST + 1, Mode::Rootless);
        assert_eq!([ids.take().unwrap(), ids.take().unwrap()], [0, 0]);
    }
}
