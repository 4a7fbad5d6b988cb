//! Where the jailer's answers about one sandbox wait for those who asked.

use super::link::Event;
use crate::backend::TierError;
use crate::lock::lock;
use atoll_jail::plan::FromJailer;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::{mpsc, watch};

/// Answers about one topic that wait: a context is started, fails or ends, and a question has one answer.
const WAITING: usize = 4;

/// What an answer is about. Nobody asks twice about one topic at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Topic {
    Made,
    Claim,
    Inspect,
    Context(u32),
}

#[derive(Debug)]
pub(crate) struct Mailbox {
    topics: Mutex<HashMap<Topic, mpsc::Sender<Event>>>,
    ended: watch::Sender<bool>,
    /// Its end was that of its spawner.
    spawner_ended: AtomicBool,
}

/// The answers about one topic, from the moment that somebody asked for them.
#[derive(Debug)]
pub(crate) struct Letters(mpsc::Receiver<Event>);

impl Letters {
    /// The next answer; an error if the sandbox has ended instead.
    pub(crate) async fn next(&mut self) -> Result<Event, TierError> {
        self.0.recv().await.ok_or(TierError::Over)
    }
}

impl Default for Mailbox {
    fn default() -> Self {
        Self {
            topics: Mutex::default(),
            ended: watch::Sender::new(false),
            spawner_ended: AtomicBool::new(false),
        }
    }
}

impl Mailbox {
    pub(crate) fn listen(&self, topic: Topic) -> Letters {
        let (sender, receiver) = mpsc::channel(WAITING);
        let mut topics = lock(&self.topics);
        // Once it has ended nothing comes any more: the receiver sees the end at once.
        if !*self.ended.borrow() {
            topics.insert(topic, sender);
        }
        Letters(receiver)
    }

    /// Hands an event to who waits for it.
    pub(super) fn deliver(&self, event: Event) {
        match &event.0 {
            FromJailer::Ended { with_spawner, .. } => {
                self.spawner_ended.store(*with_spawner, Ordering::Relaxed);
                self.close();
            }
            FromJailer::SandboxReady { .. } | FromJailer::SandboxFailed { .. } => self.give(Topic::Made, event),
            FromJailer::Claimed { .. } | FromJailer::ClaimFailed { .. } => self.give(Topic::Claim, event),
            FromJailer::Inspected { .. } | FromJailer::InspectFailed { .. } => self.give(Topic::Inspect, event),
            FromJailer::ContextStarted { context, .. }
            | FromJailer::ContextFailed { context, .. }
            | FromJailer::ContextExited { context, .. } => self.give(Topic::Context(*context), event),
            FromJailer::Hello { .. }
            | FromJailer::NoWall { .. }
            | FromJailer::ZygoteReady { .. }
            | FromJailer::ZygoteDown { .. } => {}
        }
    }

    fn give(&self, topic: Topic, event: Event) {
        if let Some(sender) = lock(&self.topics).get(&topic) {
            // Who asked may have given up meanwhile.
            sender.try_send(event).ok();
        }
    }

    /// The sandbox has ended, or the jailer has: whoever waits sees it.
    pub(super) fn close(&self) {
        let mut topics = lock(&self.topics);
        self.ended.send_replace(true);
        topics.clear();
    }

    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    pub(super) fn spawner_has_ended(&self) -> bool {
        self.spawner_ended.load(Ordering::Relaxed)
    }

    pub(crate) async fn ended(&self) {
        self.ended.subscribe().wait_for(|ended| *ended).await.ok();
    }
}
