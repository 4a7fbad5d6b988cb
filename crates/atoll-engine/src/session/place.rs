//! Where a sandbox is: behind its wall, or on disk while it is paused. It may be behind one wall after the other; that is no
//! end, and its name, life and events go on.

use super::{Refused, Session, State, state};
use crate::contexts::ContextInfo;
use crate::door::Sandbox;
use crate::lock::lock;
use crate::snapshot::Snapshot;
use std::sync::Arc;
use tokio::time::Instant;

#[derive(Clone, Debug)]
pub(super) enum Place {
    Wall(Sandbox),
    Disk(Arc<Snapshot>),
}

/// Where the memory of a paused sandbox is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PausedTo {
    Memory,
    Disk,
}

impl PausedTo {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Disk => "disk",
        }
    }
}

impl Session {
    pub(super) fn place(&self) -> Place {
        lock(&self.life).place.clone()
    }

    /// What is behind its wall, if it is behind one.
    pub(super) fn sandbox(&self) -> Result<Sandbox, Refused> {
        let life = lock(&self.life);
        match (&life.place, life.state) {
            (Place::Wall(sandbox), _) => Ok(sandbox.clone()),
            (Place::Disk(_), State::Ended) => Err(Refused::HasEnded(life.reason)),
            (Place::Disk(_), State::Running | State::Paused) => Err(Refused::IsPaused),
        }
    }

    /// Where it is paused to, if it is paused.
    pub fn paused_to(&self) -> Option<PausedTo> {
        let life = lock(&self.life);
        let to = match life.away {
            false => PausedTo::Memory,
            true => PausedTo::Disk,
        };
        (life.state == State::Paused).then_some(to)
    }

    /// Whether its tier saves sandboxes.
    pub fn saves(&self) -> bool {
        match self.place() {
            Place::Wall(sandbox) => sandbox.saves(),
            Place::Disk(_) => true,
        }
    }

    pub(super) fn is_behind(&self, sandbox: &Sandbox) -> bool {
        matches!(&lock(&self.life).place, Place::Wall(own) if own.is(sandbox))
    }

    pub(super) fn contexts_of(place: &Place) -> Vec<ContextInfo> {
        match place {
            Place::Wall(sandbox) => sandbox.contexts(),
            Place::Disk(saved) => saved.contexts(),
        }
    }

    /// From now on it lies on disk. What it leaves is for the caller to take down, who then says that it is away;
    /// `None` if it has ended meanwhile, and what is on disk is for nobody.
    pub(super) fn leave_for(&self, saved: Arc<Snapshot>) -> Option<Sandbox> {
        let mut life = lock(&self.life);
        if life.state != State::Paused {
            return None;
        }
        let Place::Wall(left) = std::mem::replace(&mut life.place, Place::Disk(saved)) else {
            return None;
        };
        drop(life);
        self.changed.notify_one();
        Some(left)
    }

    /// Its wall is gone: who is told so finds its places among the live ones free.
    pub(super) fn is_away(&self) {
        self.held.give_back();
        lock(&self.life).away = true;
    }

    /// From now on it is behind this wall, and goes on. What it was behind before is for the caller to take down, as is the new
    /// one if it has ended meanwhile.
    pub(super) fn arrive(&self, sandbox: Sandbox, act: super::Act) -> Result<Option<Sandbox>, (Sandbox, Refused)> {
        let mut life = lock(&self.life);
        let next = match state::step(life.state, act, life.reason) {
            Ok(next) => next,
            Err(refused) => return Err((sandbox, refused)),
        };
        life.state = next;
        life.away = false;
        life.clock.go_on(Instant::now());
        self.cpu.goes_on(sandbox.cpu_ms());
        let before = std::mem::replace(&mut life.place, Place::Wall(sandbox));
        drop(life);
        self.changed.notify_one();
        Ok(match before {
            Place::Wall(left) => Some(left),
            Place::Disk(_) => None,
        })
    }
}
