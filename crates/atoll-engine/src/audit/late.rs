//! What could not be written when it was done: ends, and what is never refused. Bounded; written before the next entry.

use super::entry::Closing;
use super::log::Prepared;
use super::record::{Closed, Secrets};
use crate::lock::lock;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// More are lost: ends are then told as `lost` at the next start.
pub(super) const MAX_LATE: usize = 16_384;

/// The output of an execution can be long. Where more ends wait than this, those behind are written without it.
const MAX_LATE_OUTPUTS: usize = 64;

#[derive(Clone, Debug)]
pub(super) enum Late {
    End(Box<Closed>, Secrets),
    Whole(Box<(Prepared, Closing)>),
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Mutex<VecDeque<Late>>,
    /// Somebody is about to write what waits.
    served: AtomicBool,
}

impl Queue {
    /// Whether the caller has to see to it that [`super::AuditLog::catch_up`] is called soon: nobody else does.
    pub(super) fn add(&self, mut late: Late) -> bool {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= MAX_LATE_OUTPUTS
            && let Late::End(_, secrets) = &mut late
        {
            secrets.output = None;
        }
        if waiting.len() < MAX_LATE {
            waiting.push_back(late);
        }
        drop(waiting);
        !self.served.swap(true, Ordering::AcqRel)
    }

    /// Whoever has served says so, and looks once more.
    pub(super) fn served(&self) {
        self.served.store(false, Ordering::Release);
    }

    pub(super) fn next(&self) -> Option<Late> {
        lock(&self.waiting).pop_front()
    }

    /// It could not be written this time, either.
    pub(super) fn put_back(&self, late: Late) {
        lock(&self.waiting).push_front(late);
    }

    pub(super) fn len(&self) -> usize {
        lock(&self.waiting).len()
    }
}
