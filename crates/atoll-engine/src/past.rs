//! What is known of sandboxes that are gone: the newest ones, for a while, bounded in number and in bytes.
//!
//! Who must know older ones writes them down himself: the server's store does.

use crate::lock::lock;
use crate::session::{EventLog, SandboxEvent, Session};
use atoll_core::{EndReason, SandboxId, Tier};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

const MOST: usize = 1_000;
/// By far most sandboxes have few events and little metadata, and their number is what counts.
const MOST_BYTES: usize = 64 << 20;
/// What one takes at least.
const EACH: usize = 1 << 10;

/// What is remembered of a sandbox that is gone.
#[derive(Debug)]
pub struct Ended {
    pub owner: String,
    pub template: String,
    pub tier: Tier,
    pub created: SystemTime,
    pub ended: SystemTime,
    pub reason: EndReason,
    pub metadata: BTreeMap<String, String>,
    pub executions: u64,
    pub events: Arc<EventLog>,
}

impl Ended {
    pub(crate) fn of(session: &Session) -> Self {
        let (reason, ended) = session.end_reason().unwrap_or((EndReason::Failed, SystemTime::now()));
        Self {
            owner: session.spec.owner.clone(),
            template: session.template.clone(),
            tier: session.tier(),
            created: session.created,
            ended,
            reason,
            metadata: session.spec.metadata.clone(),
            executions: session.executions(),
            events: Arc::clone(&session.events),
        }
    }

    fn bytes(&self) -> usize {
        let metadata: usize = self.metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
        let (oldest, newest) = self.events.span();
        let events = usize::try_from(newest + 1 - oldest).unwrap_or(usize::MAX);
        // An event names its execution.
        EACH + metadata + events.saturating_mul(size_of::<SandboxEvent>() + 32)
    }
}

#[derive(Debug)]
pub(crate) struct Past {
    remember: Duration,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    all: HashMap<SandboxId, Arc<Ended>>,
    /// Oldest first, with when it came and its bytes.
    order: VecDeque<(SandboxId, Instant, usize)>,
    bytes: usize,
}

impl Past {
    pub(crate) fn new(remember: Duration) -> Self {
        Self {
            remember,
            kept: Mutex::default(),
        }
    }

    pub(crate) fn add(&self, id: SandboxId, ended: Ended) {
        let (now, bytes) = (Instant::now(), ended.bytes());
        let mut kept = lock(&self.kept);
        kept.bytes += bytes;
        kept.order.push_back((id.clone(), now, bytes));
        kept.all.insert(id, Arc::new(ended));
        while kept.is_too_much() || kept.order.front().is_some_and(|(_, at, _)| now - *at >= self.remember) {
            kept.forget_oldest();
        }
    }

    /// One that is gone, for as long as it is remembered.
    pub(crate) fn find(&self, id: &SandboxId) -> Option<Arc<Ended>> {
        let mut kept = lock(&self.kept);
        let now = Instant::now();
        while kept.order.front().is_some_and(|(_, at, _)| now - *at >= self.remember) {
            kept.forget_oldest();
        }
        kept.all.get(id).cloned()
    }
}

impl Kept {
    fn is_too_much(&self) -> bool {
        self.order.len() > MOST || self.bytes > MOST_BYTES
    }

    fn forget_oldest(&mut self) {
        if let Some((id, _, bytes)) = self.order.pop_front() {
            self.all.remove(&id);
            self.bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> SandboxId {
        SandboxId::from_random(number.to_be_bytes())
    }

    fn ended(metadata_bytes: usize) -> Ended {
        Ended {
            owner: "default".to_owned(),
            tier: Tier::Jail,
            template: "python".to_owned(),
            created: SystemTime::now(),
            ended: SystemTime::now(),
            reason: EndReason::Closed,
            metadata: BTreeMap::from([("m".to_owned(), "x".repeat(metadata_bytes))]),
            executions: 0,
            events: Arc::default(),
        }
    }

    fn count(past: &Past) -> usize {
        let kept = lock(&past.kept);
        assert_eq!(kept.all.len(), kept.order.len());
        kept.all.len()
    }

    #[tokio::test]
    async fn the_newest_are_remembered_and_no_more_than_the_bound() {
        let past = Past::new(Duration::from_secs(3600));
        for number in 0..MOST as u128 + 5 {
            past.add(id(number), ended(0));
        }
        assert_eq!(count(&past), MOST);
        assert!(past.find(&id(4)).is_none() && past.find(&id(5)).is_some());
    }

    #[tokio::test]
    async fn large_ones_have_a_bound_in_bytes() {
        let past = Past::new(Duration::from_secs(3600));
        for number in 0..900 {
            past.add(id(number), ended(1 << 20));
        }
        assert!((32..=64).contains(&count(&past)));
        assert!(past.find(&id(899)).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn after_their_time_they_are_forgotten_though_nothing_else_ends() {
        let past = Past::new(Duration::from_secs(3600));
        past.add(id(1), ended(0));
        tokio::time::advance(Duration::from_secs(3599)).await;
        assert!(past.find(&id(1)).is_some());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(past.find(&id(1)).is_none());
        assert_eq!(count(&past), 0);
    }
}
