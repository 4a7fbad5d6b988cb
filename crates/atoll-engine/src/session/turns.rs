//! Pause, resume and rollback, one after the other and each done to its end, whoever waits for it.
//!
//! A pause saves the sandbox and takes its wall down where the tier can do that and nothing is under way; a resume brings it
//! back behind another wall. Otherwise its processes stand still in memory. A rollback is the same as a resume, from a
//! snapshot that its tenant has kept, and the wall before goes.

use super::place::Place;
use super::{Act, Happening, Refused, Session, SessionError, State, state};
use crate::audit::{Action, Actor};
use crate::control::Control;
use crate::door::{AboutSnapshot, Sandbox};
use crate::engine::EngineError;
use crate::lock::lock;
use crate::node::{Node, NodeError};
use crate::snapshot::{SavedLife, SavedPolicy, Snapshot, SnapshotError, Snapshots};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::time::Instant;

/// A place among the live ones, kept for as long as the sandbox is one of them.
pub type Slot = Box<dyn Send>;

/// Ready after the next pause.
pub type NextPause = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Session {
    /// Stops every process and every clock, and brings the sandbox to disk if that can be done.
    pub async fn pause(self: &Arc<Self>, by: &Actor) -> Result<(), SessionError> {
        let (session, by) = (Arc::clone(self), by.clone());
        self.whole(async move { session.pause_now(&by).await }).await
    }

    /// For a stream that must not wait for a paused sandbox. Pauses count from this call on, also before the first poll.
    pub fn next_pause(&self) -> NextPause {
        let events = Arc::clone(&self.events);
        let (_, mut seen) = events.span();
        Box::pin(async move {
            loop {
                let new = events.after(seen).await;
                if new.iter().any(|event| event.what == Happening::Paused) {
                    return;
                }
                seen = new.last().map_or(seen, |event| event.number);
            }
        })
    }

    /// Lets it go on. One that lies on disk takes a place among the live ones again.
    pub async fn resume(self: &Arc<Self>, by: &Actor, slot: Option<Slot>) -> Result<(), SessionError> {
        let (session, by) = (Arc::clone(self), by.clone());
        self.whole(async move { session.resume_now(&by, slot).await }).await
    }

    /// Goes back to a snapshot of this sandbox: contexts, files, programs. What runs in it ends.
    pub async fn roll_back(self: &Arc<Self>, by: &Actor, to: Arc<Snapshot>) -> Result<(), SessionError> {
        if to.sandbox != self.id {
            return Err(EngineError::from(SnapshotError::OfAnother(to.id.clone())).into());
        }
        let (session, by) = (Arc::clone(self), by.clone());
        self.whole(async move { session.roll_back_now(&by, &to).await }).await
    }

    /// A task of its own: half a pause would be a sandbox that runs with its clocks stopped.
    async fn whole(
        &self,
        work: impl Future<Output = Result<(), SessionError>> + Send + 'static,
    ) -> Result<(), SessionError> {
        let done = tokio::spawn(work).await;
        // The task is gone only if the runtime is.
        done.unwrap_or_else(|_| Err(self.blame(EngineError::Interrupted)))
    }

    /// Waits until the pause, resume or rollback that has begun is complete.
    pub async fn settled(&self) {
        drop(self.turning.lock().await);
    }

    async fn pause_now(&self, by: &Actor) -> Result<(), SessionError> {
        let _alone = self.turning.lock().await;
        self.pause_alone(by).await
    }

    /// The same at the end of its time, unless it was paused, or made to live longer, while this waited.
    pub(super) async fn pause_in_time(&self, at: Instant) -> Result<(), SessionError> {
        let _alone = self.turning.lock().await;
        match self.lives_beyond(at) {
            true => Ok(()),
            false => self.pause_alone(&Actor::system()).await,
        }
    }

    async fn pause_alone(&self, by: &Actor) -> Result<(), SessionError> {
        self.turn(Act::Pause)?;
        let sandbox = self.sandbox()?;
        match sandbox.by(by).pause(self.what_to_save()).await {
            Err(error) => {
                self.turn(Act::Resume)?;
                return Err(self.blame(error));
            }
            Ok(Err(_)) => {}
            Ok(Ok(saved)) => self.put_away(saved).await?,
        }
        self.events.add(Happening::Paused);
        Ok(())
    }

    /// What a pause writes down; an error if it would lose something. Nobody begins anything new by now.
    fn what_to_save(&self) -> Result<(Arc<Snapshots>, AboutSnapshot), EngineError> {
        let busy = lock(&self.life).busy > 0 || self.spec.sealed;
        let node = self.node.upgrade().filter(|_| !busy).ok_or(SnapshotError::Busy)?;
        let about = AboutSnapshot {
            tenant: self.spec.owner.clone(),
            template: self.template.clone(),
            name: None,
            passing: false,
            life: Some(Box::new(self.saved_life())),
        };
        Ok((Arc::clone(node.all_snapshots()), about))
    }

    fn saved_life(&self) -> SavedLife {
        let (cpu_ms, life) = (self.cpu_ms(), lock(&self.life));
        SavedLife {
            spec: self.spec.clone(),
            by: self.made.by.clone(),
            policy: SavedPolicy::of(&self.policy),
            created_ms: millis(self.created),
            executions: life.executions,
            cpu_ms,
            left: life.clock.left(Instant::now()),
        }
    }

    /// It is whole on disk: its wall can go.
    async fn put_away(&self, saved: Arc<Snapshot>) -> Result<(), SessionError> {
        self.cpu_ms();
        match self.leave_for(Arc::clone(&saved)) {
            Some(left) => {
                left.leave().await;
                self.is_away();
                Ok(())
            }
            None => {
                self.throw_away(&saved).await;
                Err(self.blame(EngineError::Interrupted))
            }
        }
    }

    async fn resume_now(&self, by: &Actor, slot: Option<Slot>) -> Result<(), SessionError> {
        let _alone = self.turning.lock().await;
        match self.place() {
            Place::Wall(sandbox) => {
                self.turn(Act::Resume)?;
                if let Err(error) = sandbox.by(by).thaw().await {
                    // Its processes still stand.
                    self.turn(Act::Pause)?;
                    return Err(self.blame(error));
                }
            }
            Place::Disk(saved) => {
                let back = self.come_back(by, &saved, slot).await;
                *lock(&self.problem) = back.as_ref().err().map(ToString::to_string);
                back?;
            }
        }
        self.events.add(Happening::Resumed);
        Ok(())
    }

    async fn come_back(&self, by: &Actor, saved: &Arc<Snapshot>, slot: Option<Slot>) -> Result<(), SessionError> {
        self.may(Act::Resume)?;
        let slot = slot.ok_or(Refused::JustPaused)?;
        let node = self.node()?;
        let room = node.take_room()?;
        let sandbox = self.restored(&node, by, Action::SandboxResume, saved).await?;
        // Before anybody hears of it: what it does now is not in there.
        if let Err(error) = node.forget_paused(saved).await {
            sandbox.leave().await;
            return Err(error.into());
        }
        self.arrived(sandbox, Act::Resume).await?;
        self.held.add((room, slot));
        Ok(())
    }

    async fn roll_back_now(&self, by: &Actor, to: &Arc<Snapshot>) -> Result<(), SessionError> {
        let _alone = self.turning.lock().await;
        self.may(Act::Use)?;
        // The one that runs is there until the other one is: if that cannot be had, nothing is lost.
        let sandbox = self.restored(&self.node()?, by, Action::SandboxRollback, to).await?;
        self.cpu_ms();
        self.arrived(sandbox, Act::Use).await?;
        self.events.add(Happening::RolledBack {
            snapshot_id: to.id.clone(),
        });
        Ok(())
    }

    async fn restored(
        &self,
        node: &Arc<Node>,
        by: &Actor,
        action: Action,
        from: &Arc<Snapshot>,
    ) -> Result<Sandbox, SessionError> {
        let door = self.door.by(by);
        let back = node.bring_back(&door, action, &self.id, &self.made, from).await;
        Ok(back?)
    }

    async fn arrived(&self, sandbox: Sandbox, act: Act) -> Result<(), SessionError> {
        match self.arrive(sandbox, act) {
            Ok(left) => {
                if let Some(left) = left {
                    left.leave().await;
                }
                Ok(())
            }
            Err((sandbox, refused)) => {
                sandbox.leave().await;
                Err(refused.into())
            }
        }
    }

    /// Why it could not go on when that was last tried.
    pub fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    fn node(&self) -> Result<Arc<Node>, SessionError> {
        let node = self.node.upgrade();
        node.ok_or_else(|| NodeError::Stopping.into())
    }

    /// Its files of a pause, if they are there still.
    pub(super) async fn throw_away(&self, saved: &Arc<Snapshot>) {
        if let Some(node) = self.node.upgrade() {
            // What cannot be removed is found by the next start, whose record of it has ended.
            node.forget_paused(saved).await.ok();
        }
    }

    /// For the end of the process. What lies on disk stays there, and is found again.
    pub(crate) async fn stop(&self) {
        let _alone = self.turning.lock().await;
        if let Place::Wall(_) = self.place() {
            self.end(atoll_core::EndReason::NodeShutdown);
        }
    }

    fn may(&self, act: Act) -> Result<(), Refused> {
        let life = lock(&self.life);
        state::step(life.state, act, life.reason).map(drop)
    }

    fn turn(&self, act: Act) -> Result<(), Refused> {
        let mut life = lock(&self.life);
        life.state = state::step(life.state, act, life.reason)?;
        let now = Instant::now();
        match life.state {
            State::Paused => {
                life.clock.stop(now);
                life.running.values().for_each(Control::hold);
            }
            State::Running | State::Ended => {
                life.clock.go_on(now);
                life.running.values().for_each(Control::go_on);
            }
        }
        drop(life);
        self.changed.notify_one();
        Ok(())
    }
}

fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
