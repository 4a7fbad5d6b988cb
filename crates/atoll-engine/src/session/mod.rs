//! A sandbox over time: who owns it, when it ends and why, what is running in it.
//!
//! One task per sandbox watches its clocks and ends it; everybody else asks through this handle. A sandbox may be behind one
//! wall after the other, and on disk in between; its session stays.

mod clock;
mod cpu;
mod events;
mod held;
mod place;
mod revived;
mod state;
mod turns;

use crate::audit::Actor;
use crate::contexts::ContextInfo;
use crate::control::Control;
use crate::door::{AboutSnapshot, Door, Sandbox};
use crate::engine::EngineError;
use crate::execute::Sink;
use crate::hint::Refusals;
use crate::inside::{Commands, Watch};
use crate::lock::lock;
use crate::lost;
use crate::node::{Node, NodeError};
use crate::policy::Policy;
use crate::sandbox::{Origin, Request, SandboxSpec};
use crate::snapshot::{Snapshot, Snapshots};
use atoll_core::execution::{Execution, Hint};
use atoll_core::{EndReason, ExecutionId, Limits, Outcome, SandboxId, Tier};
use clock::Clock;
use cpu::Cpu;
use held::Held;
use place::Place;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

pub(crate) use clock::Left;
pub use clock::Rule;
pub use events::{EventLog, Happening, SandboxEvent};
pub use place::PausedTo;
pub use state::{Act, Refused, State};
pub use turns::{NextPause, Slot};

/// What is decided about a sandbox's life when it is made.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LifeSpec {
    pub owner: String,
    pub metadata: BTreeMap<String, String>,
    pub rule: Rule,
    /// The longest life, whatever else is asked for.
    pub longest: Duration,
    /// At its end it is paused instead, unless that was its longest life.
    pub pause_at_end: bool,
    pub max_executions: Option<u64>,
    /// Nobody but the call that made it looks into it or does anything in it.
    pub sealed: bool,
    /// What its maker wants to know of it again after a restart. Nobody here looks at it.
    pub marks: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct Session {
    id: SandboxId,
    origin: Origin,
    policy: Arc<Policy>,
    /// For when it is brought back.
    made: SandboxSpec,
    door: Door,
    node: Weak<Node>,
    pub template: String,
    pub spec: LifeSpec,
    pub created: SystemTime,
    pub events: Arc<EventLog>,
    life: Mutex<Life>,
    /// Why it could not be brought back when that was last tried.
    problem: Mutex<Option<String>>,
    /// Pauses, resumes and rollbacks come one after the other.
    turning: tokio::sync::Mutex<()>,
    changed: Notify,
    /// Nothing of it is left.
    gone: watch::Sender<bool>,
    held: Held,
    cpu: Cpu,
}

#[derive(Debug)]
struct Life {
    state: State,
    place: Place,
    /// Nothing is left of it but its files on disk.
    away: bool,
    reason: EndReason,
    ended_at: Option<SystemTime>,
    ended_by: Actor,
    clock: Clock,
    executions: u64,
    running: HashMap<ExecutionId, Control>,
    /// Operations under way: while there are any, it is not idle.
    busy: usize,
}

/// One use of a sandbox. While it is held the sandbox is not idle.
#[derive(Debug)]
pub struct Using<'a>(&'a Session);

impl Drop for Using<'_> {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

/// The same for an answer that outlives its request.
#[derive(Debug)]
pub struct LongUse(Arc<Session>);

impl Drop for LongUse {
    fn drop(&mut self) {
        self.0.end_use();
    }
}

impl Session {
    pub fn tier(&self) -> Tier {
        self.made.tier
    }

    /// Begins a life and the task that watches over it.
    pub(crate) fn start(
        sandbox: Sandbox,
        template: String,
        (spec, made): (LifeSpec, SandboxSpec),
        node: Weak<Node>,
    ) -> Arc<Self> {
        let created = SystemTime::now();
        let clock = Clock::new(spec.rule, spec.longest, Instant::now(), created);
        let session = Arc::new(Self {
            id: sandbox.id().clone(),
            origin: sandbox.origin(),
            policy: Arc::clone(sandbox.policy()),
            made: sandbox.made_with(made),
            door: sandbox.door().clone(),
            node,
            cpu: Cpu::from(sandbox.cpu_ms()),
            template,
            spec,
            created,
            events: Arc::default(),
            life: Mutex::new(Life::new(State::Running, Place::Wall(sandbox), clock)),
            problem: Mutex::default(),
            turning: tokio::sync::Mutex::default(),
            changed: Notify::new(),
            gone: watch::Sender::new(false),
            held: Held::new(),
        });
        session.events.add(Happening::Created);
        tokio::spawn(watch_over(Arc::clone(&session)));
        session
    }

    /// The sandbox, for somebody who does something in it.
    pub fn by(&self, actor: &Actor) -> Result<Sandbox, Refused> {
        Ok(self.sandbox()?.by(actor))
    }

    pub fn limits(&self) -> &Limits {
        &self.made.limits
    }

    /// How often the kernel has refused it something so far.
    pub fn refusals(&self) -> Refusals {
        self.sandbox()
            .map_or_else(|_| Refusals::default(), |sandbox| sandbox.refusals())
    }

    /// What was refused since then, in words.
    pub fn hint_since(&self, before: Refusals) -> Option<Hint> {
        before.hint_of(self.refusals(), self.limits())
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn origin(&self) -> Origin {
        self.origin
    }

    pub fn contexts(&self) -> Vec<ContextInfo> {
        Self::contexts_of(&self.place())
    }

    /// None of them runs in one that lies on disk.
    pub fn commands(&self) -> Commands {
        self.sandbox()
            .map_or_else(|_| Commands::default(), |sandbox| sandbox.commands().clone())
    }

    /// Memory in use now, as its agent sees it.
    pub async fn memory_bytes(&self) -> Result<u64, SessionError> {
        Ok(self.sandbox()?.memory_bytes().await?)
    }

    /// The agent forgets a watch.
    pub async fn unwatch(&self, watch: Watch) -> Result<(), SessionError> {
        Ok(self.sandbox()?.unwatch(watch).await?)
    }

    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    pub fn state(&self) -> State {
        lock(&self.life).state
    }

    /// Why and when it ended, if it has.
    pub fn end_reason(&self) -> Option<(EndReason, SystemTime)> {
        let life = lock(&self.life);
        life.ended_at.map(|at| (life.reason, at))
    }

    /// When it will end if nothing happens.
    pub fn ends_at(&self) -> SystemTime {
        let life = lock(&self.life);
        life.ended_at.unwrap_or_else(|| life.clock.ends_at(Instant::now()))
    }

    pub fn executions(&self) -> u64 {
        lock(&self.life).executions
    }

    /// Processor time since its life began, of executions, commands and all that they left behind; also after its end. `None`
    /// where no cgroup counts it.
    pub fn cpu_ms(&self) -> Option<u64> {
        let now = self.sandbox().ok().and_then(|sandbox| sandbox.cpu_ms());
        self.cpu.seen(now)
    }

    /// Claims the sandbox for one operation, or says why it cannot be used now.
    pub fn begin_use(&self) -> Result<Using<'_>, Refused> {
        self.count_use()?;
        Ok(Using(self))
    }

    pub fn begin_long_use(self: &Arc<Self>) -> Result<LongUse, Refused> {
        self.count_use()?;
        Ok(LongUse(Arc::clone(self)))
    }

    fn count_use(&self) -> Result<(), Refused> {
        let mut life = lock(&self.life);
        life.state = state::step(life.state, Act::Use, life.reason)?;
        life.busy += 1;
        life.clock.used(Instant::now());
        Ok(())
    }

    fn end_use(&self) {
        let mut life = lock(&self.life);
        life.busy -= 1;
        life.clock.used(Instant::now());
        drop(life);
        self.changed.notify_one();
    }

    /// Runs code. The caller keeps the future until its end; to stop, it uses the request's control.
    pub async fn execute(&self, by: &Actor, request: Request<'_>, sink: Sink<'_>) -> Result<Execution, SessionError> {
        let _using = self.begin_use()?;
        let id = request.id.clone();
        self.count_execution(&id, &request.control)?;
        self.events.add(Happening::ExecutionStarted {
            execution_id: id.clone(),
        });
        let sandbox = self.sandbox();
        let done = match &sandbox {
            Ok(sandbox) => sandbox.by(by).execute(request, sink).await.map_err(SessionError::from),
            Err(refused) => Err((*refused).into()),
        };
        let mut life = lock(&self.life);
        life.running.remove(&id);
        let over = self.spec.max_executions.is_some_and(|max| life.executions >= max) && life.running.is_empty();
        drop(life);
        let done = done.map(|execution| self.told_of_end(execution, sandbox.as_ref().ok()));
        if let Ok(execution) = &done {
            let outcome = execution.outcome;
            self.events.add(Happening::ExecutionEnded {
                execution_id: id,
                outcome,
            });
        }
        if over {
            self.end(EndReason::MaxExecutions);
        }
        done.map_err(|error| match error {
            SessionError::Engine(error) => self.blame(error),
            other => other,
        })
    }

    /// Code that was killed because its sandbox has ended: nothing starts anew, and the reason is known.
    fn told_of_end(&self, execution: Execution, ran_in: Option<&Sandbox>) -> Execution {
        if execution.outcome != Outcome::Killed {
            return execution;
        }
        match self.end_reason() {
            Some((reason, _)) => lost::with_the_sandbox(execution, reason),
            None if ran_in.is_some_and(|sandbox| !self.is_behind(sandbox)) => lost::rolled_back(execution),
            None => execution,
        }
    }

    fn count_execution(&self, id: &ExecutionId, control: &Control) -> Result<(), SessionError> {
        let mut life = lock(&self.life);
        if self.spec.max_executions.is_some_and(|max| life.executions >= max) {
            return Err(Refused::HasEnded(EndReason::MaxExecutions).into());
        }
        life.executions += 1;
        life.running.insert(id.clone(), control.clone());
        Ok(())
    }

    /// What went wrong because the sandbox has ended is told as its end.
    pub fn blame(&self, error: EngineError) -> SessionError {
        match self.end_reason() {
            Some((reason, _)) => Refused::HasEnded(reason).into(),
            None => SessionError::Engine(error),
        }
    }

    /// Executions that have not ended, those that wait for their turn included.
    pub fn running(&self) -> Vec<ExecutionId> {
        let mut running: Vec<ExecutionId> = lock(&self.life).running.keys().cloned().collect();
        running.sort();
        running
    }

    /// The reins of a running execution.
    pub fn control(&self, execution: &ExecutionId) -> Option<Control> {
        lock(&self.life).running.get(execution).cloned()
    }

    /// Ends so long from now, sooner or later than before.
    pub async fn set_lifetime(&self, by: &Actor, long: Duration) -> Result<(), SessionError> {
        let change = || self.change_clock(|clock, now| clock.set(long, now));
        self.door.by(by).extend(&self.id, long, change).await
    }

    /// Ends no sooner than so long from now.
    pub async fn extend_to(&self, by: &Actor, long: Duration) -> Result<(), SessionError> {
        let change = || self.change_clock(|clock, now| clock.at_least(long, now));
        self.door.by(by).extend(&self.id, long, change).await
    }

    fn change_clock(&self, change: impl FnOnce(&mut Clock, Instant)) -> Result<(), Refused> {
        let mut life = lock(&self.life);
        life.state = state::step(life.state, Act::Extend, life.reason)?;
        change(&mut life.clock, Instant::now());
        drop(life);
        self.events.add(Happening::Extended);
        self.changed.notify_one();
        Ok(())
    }

    /// Saves the sandbox, which goes on: between executions, so it waits for those that run. Done to its end, whoever waits
    /// for it: half of it would be a sandbox that stands still.
    pub(crate) async fn save(
        self: &Arc<Self>,
        by: &Actor,
        all: &Arc<Snapshots>,
        (name, passing): (Option<String>, bool),
    ) -> Result<Arc<Snapshot>, SessionError> {
        let using = self.begin_long_use()?;
        let draft = all.begin(&self.spec.owner).map_err(EngineError::from)?;
        let about = AboutSnapshot {
            tenant: self.spec.owner.clone(),
            template: self.template.clone(),
            name,
            passing,
            life: None,
        };
        let (sandbox, all) = (self.by(by)?, Arc::clone(all));
        let work = async move {
            let saved = sandbox.save(&all, draft, about).await;
            drop(using);
            saved
        };
        let saved = tokio::spawn(work).await.unwrap_or(Err(EngineError::Interrupted));
        saved.map_err(|error| self.blame(error))
    }

    /// Ends the sandbox, because of a clock, a stop or a failure. The first reason stays.
    pub fn end(&self, reason: EndReason) {
        self.end_by(&Actor::system(), reason);
    }

    /// Ends the sandbox for somebody who asked. The first reason stays; `false` if it was not this one.
    pub fn end_by(&self, actor: &Actor, reason: EndReason) -> bool {
        let mut life = lock(&self.life);
        let ends = state::step(life.state, Act::End, life.reason);
        if let Ok(state) = ends {
            life.state = state;
            life.reason = reason;
            life.ended_by = actor.clone();
            life.ended_at = Some(SystemTime::now());
            drop(life);
            self.events.add(Happening::Ended { reason });
            self.changed.notify_one();
        }
        ends.is_ok()
    }

    /// Keeps a place for as long as anything of the sandbox is there.
    pub fn hold(&self, place: impl Send + 'static) {
        self.held.add(place);
    }

    /// Waits until nothing of it is left, its places included.
    pub async fn gone(&self) {
        self.gone.subscribe().wait_for(|gone| *gone).await.ok();
    }

    async fn time_is_over(&self, at: Instant, reason: EndReason) {
        if self.lives_beyond(at) {
            return;
        }
        let may_pause = self.spec.pause_at_end && !lock(&self.life).clock.is_last(at);
        if !may_pause || self.pause_in_time(at).await.is_err() {
            self.end(reason);
        }
    }

    /// Used since, made to live longer, or paused.
    fn lives_beyond(&self, at: Instant) -> bool {
        self.next_end().is_none_or(|(end, _)| end > at)
    }

    /// Nobody has ended it, unless it has left that wall.
    fn wall_is_gone(&self, wall: Option<&Sandbox>) {
        if let Some(wall) = wall.filter(|wall| self.is_behind(wall)) {
            self.end(wall.why_lost());
        }
    }

    /// Removes what is left of an ended sandbox, wherever it is. It does not go elsewhere any more.
    async fn take_down(&self) {
        let (by, reason, place) = {
            let life = lock(&self.life);
            (life.ended_by.clone(), life.reason, life.place.clone())
        };
        match &place {
            // A jailer that is gone has taken the sandbox with it.
            Place::Wall(sandbox) => drop(sandbox.by(&by).end_because(reason).await),
            Place::Disk(_) => self.door.by(&by).end_on_disk(&self.id, reason).await,
        }
        // Whoever was bringing it to disk or back notices the end.
        let _alone = self.turning.lock().await;
        if let Place::Disk(saved) = &place {
            self.throw_away(saved).await;
        }
    }

    fn next_end(&self) -> Option<(Instant, EndReason)> {
        let life = lock(&self.life);
        life.clock.ends(life.busy > 0)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Node(Box<NodeError>),
}

impl From<NodeError> for SessionError {
    fn from(error: NodeError) -> Self {
        match error {
            NodeError::Engine(error) => Self::Engine(error),
            error @ (NodeError::Full(_) | NodeError::Stopping | NodeError::Template(_)) => Self::Node(Box::new(error)),
        }
    }
}

impl Life {
    fn new(state: State, place: Place, clock: Clock) -> Self {
        Self {
            state,
            away: matches!(place, Place::Disk(_)),
            place,
            reason: EndReason::Closed,
            ended_at: None,
            ended_by: Actor::system(),
            clock,
            executions: 0,
            running: HashMap::new(),
            busy: 0,
        }
    }
}

/// The task that owns a sandbox's end.
async fn watch_over(session: Arc<Session>) {
    while session.state() != State::Ended {
        let end = session.next_end();
        let (at, reason) = end.unwrap_or((Instant::now() + Duration::from_secs(3600), EndReason::Closed));
        let behind = session.sandbox().ok();
        tokio::select! {
            () = sleep_until(at), if end.is_some() => session.time_is_over(at, reason).await,
            () = session.changed.notified() => {}
            () = over(behind.as_ref()) => session.wall_is_gone(behind.as_ref()),
        }
    }
    // Its group goes with it.
    session.cpu_ms();
    session.take_down().await;
    session.held.let_go();
    session.gone.send_replace(true);
}

/// Waits for the end of a wall. What lies on disk has none.
async fn over(behind: Option<&Sandbox>) {
    match behind {
        Some(sandbox) => sandbox.ended().await,
        None => std::future::pending().await,
    }
}
