//! A session that begins as paused: its sandbox lies on disk since a former process.

use super::clock::Clock;
use super::cpu::Cpu;
use super::held::Held;
use super::place::Place;
use super::{Happening, Life, Session, State, watch_over};
use crate::door::Door;
use crate::node::Node;
use crate::sandbox::{Origin, SandboxSpec};
use crate::snapshot::{SavedLife, Snapshot};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, UNIX_EPOCH};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

impl Session {
    /// `made` is what it is brought back with, policy included. Its events begin anew.
    pub(crate) fn revived(
        saved: &Arc<Snapshot>,
        saved_life: &SavedLife,
        made: SandboxSpec,
        door: Door,
        node: Weak<Node>,
    ) -> Arc<Self> {
        let created = UNIX_EPOCH + Duration::from_millis(saved_life.created_ms);
        let now = std::time::SystemTime::now();
        let clock = Clock::stopped_with(saved_life.left, Instant::now(), now);
        let mut life = Life::new(State::Paused, Place::Disk(Arc::clone(saved)), clock);
        life.executions = saved_life.executions;
        let session = Arc::new(Self {
            id: saved.sandbox.clone(),
            origin: Origin::Made,
            policy: made.policy.clone().unwrap_or_else(crate::policy::Policy::standard),
            made,
            door,
            node,
            cpu: Cpu::after(saved_life.cpu_ms),
            template: saved.template.clone(),
            spec: saved_life.spec.clone(),
            created,
            events: Arc::default(),
            life: Mutex::new(life),
            problem: Mutex::default(),
            turning: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            gone: watch::Sender::new(false),
            held: Held::new(),
        });
        session.events.add(Happening::Paused);
        tokio::spawn(watch_over(Arc::clone(&session)));
        session
    }
}
