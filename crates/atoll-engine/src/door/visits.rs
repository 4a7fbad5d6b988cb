//! Who visits servers inside: one entry for each visitor, port and minute, with what went both ways.
//!
//! Visitors of a public port are strangers, so what they cost the log does not grow with their requests: in a minute only so
//! many of them have entries of their own, and all others of a sandbox share one, whose address is `others`.

use super::{Door, Ticket};
use crate::audit::{Action, Actor, Behind, Closing, Ending, Traffic};
use crate::engine::EngineError;
use crate::lock::lock;
use atoll_core::SandboxId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);
/// Strangers with an entry of their own in a minute, of one sandbox and of all.
const MAX_OF_ONE: usize = 16;
const MAX_OF_ALL: usize = 128;
const OTHERS: &str = "others";

/// Of one sandbox.
#[derive(Debug, Default)]
pub(super) struct Visits {
    minute: Arc<Mutex<Minute>>,
    behind: Behind,
}

#[derive(Debug, Default)]
struct Minute {
    over: Option<Instant>,
    strangers: usize,
    open: HashMap<Visitor, Visit>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Visitor {
    key: Option<String>,
    address: Option<String>,
    /// `None` for those who share an entry.
    port: Option<u16>,
}

/// One visitor's minute. Each of its connections holds a copy: the entry is closed when the minute and the last of them
/// are over.
#[derive(Clone, Debug)]
pub struct Visit(Arc<Counted>);

#[derive(Debug)]
struct Counted {
    ticket: Option<Ticket>,
    requests: AtomicU64,
    refused: AtomicU64,
    came: AtomicU64,
    went: AtomicU64,
}

impl Visits {
    pub(super) fn new(behind: Behind) -> Self {
        Self {
            behind,
            ..Self::default()
        }
    }

    /// The entry of a visitor in this minute. The first request of the minute waits until it is written.
    pub(super) async fn visit(&self, door: &Door, sandbox: &SandboxId, port: u16) -> Result<Visit, EngineError> {
        let mut minute = self.minute.lock().await;
        self.turn(&mut minute);
        let known = minute.open.get(&Visitor::of(&door.actor, Some(port)));
        let visit = match known {
            Some(visit) => visit.clone(),
            None => minute.welcome(door, (sandbox, &self.behind), port).await?,
        };
        visit.0.requests.fetch_add(1, Ordering::Relaxed);
        Ok(visit)
    }

    /// Begins a new minute if the last one is over. Its end is not left to the next visitor.
    fn turn(&self, minute: &mut Minute) {
        let now = Instant::now();
        if minute.over.is_none_or(|over| over <= now) {
            *minute = Minute {
                over: Some(now + MINUTE),
                ..Minute::default()
            };
            drop(tokio::spawn(end(Arc::downgrade(&self.minute), now + MINUTE)));
        }
    }

    /// The sandbox has ended.
    pub(super) async fn close(&self) {
        *self.minute.lock().await = Minute::default();
    }
}

async fn end(visits: Weak<Mutex<Minute>>, at: Instant) {
    tokio::time::sleep_until(at).await;
    if let Some(visits) = visits.upgrade() {
        let mut minute = visits.lock().await;
        if minute.over == Some(at) {
            *minute = Minute::default();
        }
    }
}

impl Minute {
    async fn welcome(
        &mut self,
        door: &Door,
        (sandbox, behind): (&SandboxId, &Behind),
        port: u16,
    ) -> Result<Visit, EngineError> {
        let stranger = door.actor.is_stranger();
        let own = !stranger || (self.strangers < MAX_OF_ONE && of_all(MAX_OF_ALL));
        let (actor, port) = match own {
            true => ((*door.actor).clone(), Some(port)),
            false => (others(&door.actor), None),
        };
        let visitor = Visitor::of(&actor, port);
        if let Some(visit) = self.open.get(&visitor) {
            return Ok(visit.clone());
        }
        let door = Door::new(door.audit.clone(), actor);
        let mut opening = door.opening(Action::Port).within(sandbox);
        opening.port = port;
        opening.behind = behind.clone();
        let visit = Visit::new(door.begin(opening).await?);
        self.strangers += usize::from(stranger);
        self.open.insert(visitor, visit.clone());
        Ok(visit)
    }
}

/// Counts one more stranger of this process in this minute, if so many may come.
fn of_all(most: usize) -> bool {
    static ALL: std::sync::Mutex<Option<(Instant, usize)>> = std::sync::Mutex::new(None);
    let (mut all, now) = (lock(&ALL), Instant::now());
    let (over, count) = all.filter(|(over, _)| *over > now).unwrap_or((now + MINUTE, 0));
    *all = Some((over, (count + 1).min(most)));
    count < most
}

fn others(actor: &Actor) -> Actor {
    Actor {
        address: Some(OTHERS.to_owned()),
        ..actor.clone()
    }
}

impl Visitor {
    fn of(actor: &Actor, port: Option<u16>) -> Self {
        Self {
            key: actor.key.clone(),
            address: actor.address.clone(),
            port,
        }
    }
}

impl Visit {
    fn new(ticket: Ticket) -> Self {
        Self(Arc::new(Counted {
            ticket: Some(ticket),
            requests: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            came: AtomicU64::new(0),
            went: AtomicU64::new(0),
        }))
    }

    /// Nobody listened there.
    pub(super) fn refused(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// So many bytes more went in and came out.
    pub fn moved(&self, came: u64, went: u64) {
        self.0.came.fetch_add(came, Ordering::Relaxed);
        self.0.went.fetch_add(went, Ordering::Relaxed);
    }
}

impl Counted {
    fn closing(&mut self) -> Closing {
        let traffic = Traffic {
            requests: *self.requests.get_mut(),
            refused: *self.refused.get_mut(),
            bytes_in: *self.came.get_mut(),
            bytes_out: *self.went.get_mut(),
        };
        let ending = match traffic.refused < traffic.requests {
            true => Ending::Ok,
            false => Ending::Failed,
        };
        Closing {
            traffic: Some(traffic),
            ..Closing::of(ending)
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if let Some(ticket) = self.ticket.take() {
            let closing = self.closing();
            ticket.close(|| closing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{AuditLog, AuditOptions, Index, Query, View};
    use crate::door::Audit;

    fn stranger(address: usize) -> Actor {
        Actor {
            address: Some(format!("192.0.2.{address}")),
            ..Actor::of("team")
        }
    }

    fn entries(dir: &std::path::Path) -> Vec<View> {
        let mut index = Index::open(dir).unwrap();
        index.update().unwrap();
        index.list(&Query::default(), 1_000).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_a_minute_are_one_entry_with_a_count() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::Log(AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap());
        let (visits, id) = (Visits::default(), SandboxId::from_random([1; 16]));
        let door = Door::new(audit, stranger(1));
        for _ in 0..100 {
            visits.visit(&door, &id, 80).await.unwrap().moved(3, 4);
        }
        let long = visits.visit(&door, &id, 81).await.unwrap();
        long.refused();
        assert_eq!(entries(dir.path()).len(), 2);
        assert!(entries(dir.path()).iter().all(|entry| entry.outcome.is_none()));
        tokio::time::sleep(MINUTE * 2).await;
        let all = entries(dir.path());
        let counted = Traffic {
            requests: 100,
            refused: 0,
            bytes_in: 300,
            bytes_out: 400,
        };
        assert_eq!((all[0].port, all[0].traffic), (Some(80), Some(counted)));
        assert_eq!((all[0].outcome, all[1].outcome), (Some(Ending::Ok), None));
        // A connection that goes on keeps its entry.
        drop(long);
        assert_eq!(entries(dir.path())[1].outcome, Some(Ending::Failed));
        visits.visit(&door, &id, 80).await.unwrap();
        visits.close().await;
        assert_eq!(entries(dir.path())[2].outcome, Some(Ending::Ok));
    }

    #[tokio::test(start_paused = true)]
    async fn many_strangers_share_an_entry_and_who_has_a_key_does_not() {
        let dir = tempfile::tempdir().unwrap();
        let audit = Audit::Log(AuditLog::open(AuditOptions::new(dir.path().to_owned())).unwrap());
        let (visits, id) = (Visits::default(), SandboxId::from_random([1; 16]));
        for number in 0..MAX_OF_ONE + 100 {
            let port = u16::try_from(number).unwrap();
            let door = Door::new(audit.clone(), stranger(number));
            visits.visit(&door, &id, port).await.unwrap();
        }
        let known = Actor {
            key: Some("key_a".to_owned()),
            ..stranger(1)
        };
        visits.visit(&Door::new(audit, known), &id, 9).await.unwrap();
        visits.close().await;
        let all = entries(dir.path());
        assert_eq!(all.len(), MAX_OF_ONE + 2);
        let shared = &all[MAX_OF_ONE];
        assert_eq!((shared.address.as_deref(), shared.port), (Some(OTHERS), None));
        assert_eq!(shared.traffic.unwrap().requests, 100);
        assert_eq!(all[MAX_OF_ONE + 1].actor.key.as_deref(), Some("key_a"));
    }

    #[tokio::test(start_paused = true)]
    async fn all_sandboxes_together_have_a_bound_that_is_new_each_minute() {
        let fresh = (0..MAX_OF_ALL * 2).filter(|_| of_all(MAX_OF_ALL)).count();
        assert!(fresh <= MAX_OF_ALL);
        assert!(!of_all(MAX_OF_ALL));
        tokio::time::sleep(MINUTE).await;
        assert!(of_all(MAX_OF_ALL));
    }
}
