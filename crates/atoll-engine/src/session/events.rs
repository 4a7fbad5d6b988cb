//! What happened to a sandbox, numbered: for those who follow it, and for those who come back after a break.

use crate::lock::lock;
use atoll_core::{EndReason, ExecutionId, Outcome, SnapshotId};
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::SystemTime;
use tokio::sync::watch;

/// Older events are forgotten.
const KEPT: usize = 1000;

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Happening {
    Created,
    ExecutionStarted {
        execution_id: ExecutionId,
    },
    ExecutionEnded {
        execution_id: ExecutionId,
        outcome: Outcome,
    },
    Extended,
    Paused,
    Resumed,
    RolledBack {
        snapshot_id: SnapshotId,
    },
    Ended {
        reason: EndReason,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxEvent {
    /// Counts up from 1 without gaps.
    pub number: u64,
    pub at: SystemTime,
    pub what: Happening,
}

#[derive(Debug)]
pub struct EventLog {
    kept: Mutex<VecDeque<SandboxEvent>>,
    newest: watch::Sender<u64>,
}

impl Default for EventLog {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            newest: watch::Sender::new(0),
        }
    }
}

impl EventLog {
    pub(crate) fn add(&self, what: Happening) {
        let mut kept = lock(&self.kept);
        let number = *self.newest.borrow() + 1;
        let at = SystemTime::now();
        kept.push_back(SandboxEvent { number, at, what });
        if kept.len() > KEPT {
            kept.pop_front();
        }
        self.newest.send_replace(number);
    }

    /// Every kept event after `number`, waiting for the next one if there is none.
    pub async fn after(&self, number: u64) -> Vec<SandboxEvent> {
        let mut newest = self.newest.subscribe();
        // This object holds the sender, so it cannot end.
        newest.wait_for(|newest| *newest > number).await.ok();
        self.so_far(number)
    }

    /// The numbers of the oldest kept event and of the newest.
    pub fn span(&self) -> (u64, u64) {
        let kept = lock(&self.kept);
        let oldest = kept.front().map_or(1, |event| event.number);
        (oldest, *self.newest.borrow())
    }

    /// Every kept event after `number`, without waiting.
    pub fn so_far(&self, number: u64) -> Vec<SandboxEvent> {
        lock(&self.kept)
            .iter()
            .filter(|event| event.number > number)
            .cloned()
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_comes_back_gets_what_was_missed() {
        let log = EventLog::default();
        log.add(Happening::Created);
        log.add(Happening::Paused);
        let seen: Vec<u64> = log.after(1).await.iter().map(|event| event.number).collect();
        assert_eq!((seen, log.so_far(2).len()), (vec![2], 0));
    }

    #[test]
    fn old_events_are_forgotten_and_numbers_go_on() {
        let log = EventLog::default();
        for _ in 0..KEPT + 5 {
            log.add(Happening::Extended);
        }
        let kept = log.so_far(0);
        assert_eq!((kept.len(), kept[0].number), (KEPT, 6));
        assert_eq!(log.span(), (6, KEPT as u64 + 5));
    }
}
