//! A sandbox over time: who owns it, when it ends and why, what is running in it.
//!
//! One task per sandbox watches its clocks and ends it; everybody else asks through this handle.

mod clock;
mod cpu;
mod events;
mod held;
mod state;

use crate::audit::Actor;
use crate::contexts::ContextInfo;
use crate::control::Control;
use crate::door::{AboutSnapshot, Sandbox};
use crate::engine::EngineError;
use crate::execute::Sink;
use crate::hint::Refusals;
use crate::inside::{Commands, Watch};
use crate::lock::lock;
use crate::lost;
use crate::policy::Policy;
use crate::sandbox::{Origin, Request};
use crate::snapshot::{Snapshot, Snapshots};
use atoll_core::execution::{Execution, Hint};
use atoll_core::{EndReason, ExecutionId, Limits, Outcome, SandboxId, Tier};
use clock::Clock;
use cpu::Cpu;
use held::Held;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep_until};

pub use clock::Rule;
pub use events::{EventLog, Happening, SandboxEvent};
pub use state::{Act, Refused, State};

/// What is decided about a sandbox's life when it is made.
#[derive(Clone, Debug)]
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
}

#[derive(Debug)]
pub struct Session {
    sandbox: Sandbox,
    pub template: String,
    pub spec: LifeSpec,
    pub created: SystemTime,
    pub events: Arc<EventLog>,
    life: Mutex<Life>,
    /// Pauses and resumes come one after the other.
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
        self.sandbox.tier()
    }

    /// Begins a life and the task that watches over it.
    pub fn start(sandbox: Sandbox, template: String, spec: LifeSpec) -> Arc<Self> {
        let created = SystemTime::now();
        let clock = Clock::new(spec.rule, spec.longest, Instant::now(), created);
        let life = Life {
            state: State::Running,
            reason: EndReason::Closed,
            ended_at: None,
            ended_by: Actor::system(),
            clock,
            executions: 0,
            running: HashMap::new(),
            busy: 0,
        };
        let session = Arc::new(Self {
            cpu: Cpu::from(sandbox.cpu_ms()),
            sandbox,
            template,
            spec,
            created,
            events: Arc::default(),
            life: Mutex::new(life),
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
    pub fn by(&self, actor: &Actor) -> Sandbox {
        self.sandbox.by(actor)
    }

    pub fn limits(&self) -> &Limits {
        self.sandbox.limits()
    }

    /// How often the kernel has refused it something so far.
    pub fn refusals(&self) -> Refusals {
        self.sandbox.refusals()
    }

    /// What was refused since then, in words.
    pub fn hint_since(&self, before: Refusals) -> Option<Hint> {
        before.hint_of(self.refusals(), self.limits())
    }

    pub fn policy(&self) -> &Policy {
        self.sandbox.policy()
    }

    pub fn origin(&self) -> Origin {
        self.sandbox.origin()
    }

    pub fn contexts(&self) -> Vec<ContextInfo> {
        self.sandbox.contexts()
    }

    pub fn commands(&self) -> &Commands {
        self.sandbox.commands()
    }

    /// Memory in use now, as its agent sees it.
    pub async fn memory_bytes(&self) -> Result<u64, EngineError> {
        self.sandbox.memory_bytes().await
    }

    /// The agent forgets a watch.
    pub async fn unwatch(&self, watch: Watch) -> Result<(), EngineError> {
        self.sandbox.unwatch(watch).await
    }

    pub fn id(&self) -> &SandboxId {
        self.sandbox.id()
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
        self.cpu.seen(self.sandbox.cpu_ms())
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
        let done = self.sandbox.by(by).execute(request, sink).await;
        let mut life = lock(&self.life);
        life.running.remove(&id);
        let over = self.spec.max_executions.is_some_and(|max| life.executions >= max) && life.running.is_empty();
        drop(life);
        let done = done.map(|execution| self.told_of_end(execution));
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
        done.map_err(|error| self.blame(error))
    }

    /// Code that was killed because its sandbox has ended: nothing starts anew, and the reason is known.
    fn told_of_end(&self, execution: Execution) -> Execution {
        match self.end_reason() {
            Some((reason, _)) if execution.outcome == Outcome::Killed => lost::with_the_sandbox(execution, reason),
            _ => execution,
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
        self.sandbox.by(by).extend(long, change).await
    }

    /// Ends no sooner than so long from now.
    pub async fn extend_to(&self, by: &Actor, long: Duration) -> Result<(), SessionError> {
        let change = || self.change_clock(|clock, now| clock.at_least(long, now));
        self.sandbox.by(by).extend(long, change).await
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
        };
        let (sandbox, all) = (self.by(by), Arc::clone(all));
        let work = async move {
            let saved = sandbox.save(&all, draft, about).await;
            drop(using);
            saved
        };
        let saved = tokio::spawn(work).await.unwrap_or(Err(EngineError::Interrupted));
        saved.map_err(|error| self.blame(error))
    }

    /// Stops every process and every clock. Done to its end, whoever waits for it.
    pub async fn pause(self: &Arc<Self>, by: &Actor) -> Result<(), SessionError> {
        let (session, by) = (Arc::clone(self), by.clone());
        self.whole(async move { session.pause_now(&by).await }).await
    }

    pub async fn resume(self: &Arc<Self>, by: &Actor) -> Result<(), SessionError> {
        let (session, by) = (Arc::clone(self), by.clone());
        self.whole(async move { session.resume_now(&by).await }).await
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

    async fn pause_now(&self, by: &Actor) -> Result<(), SessionError> {
        let _alone = self.turning.lock().await;
        self.turn(Act::Pause)?;
        if let Err(error) = self.sandbox.by(by).freeze(true).await {
            self.turn(Act::Resume)?;
            return Err(self.blame(error));
        }
        self.events.add(Happening::Paused);
        Ok(())
    }

    async fn resume_now(&self, by: &Actor) -> Result<(), SessionError> {
        let _alone = self.turning.lock().await;
        self.turn(Act::Resume)?;
        if let Err(error) = self.sandbox.by(by).freeze(false).await {
            // Its processes still stand.
            self.turn(Act::Pause)?;
            return Err(self.blame(error));
        }
        self.events.add(Happening::Resumed);
        Ok(())
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

    /// Ends the sandbox, because of a clock, a stop or a failure. The first reason stays.
    pub fn end(&self, reason: EndReason) {
        self.end_by(&Actor::system(), reason);
    }

    /// Ends the sandbox for somebody who asked. The first reason stays.
    pub fn end_by(&self, actor: &Actor, reason: EndReason) {
        let mut life = lock(&self.life);
        if let Ok(state) = state::step(life.state, Act::End, life.reason) {
            life.state = state;
            life.reason = reason;
            life.ended_by = actor.clone();
            life.ended_at = Some(SystemTime::now());
            drop(life);
            self.events.add(Happening::Ended { reason });
            self.changed.notify_one();
        }
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
        // Used since, or made to live longer.
        if self.next_end().is_none_or(|(end, _)| end > at) {
            return;
        }
        let may_pause = self.spec.pause_at_end && !lock(&self.life).clock.is_last(at);
        if !may_pause || self.pause_now(&Actor::system()).await.is_err() {
            self.end(reason);
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
}

/// The task that owns a sandbox's end.
async fn watch_over(session: Arc<Session>) {
    while session.state() != State::Ended {
        let end = session.next_end();
        let (at, reason) = end.unwrap_or((Instant::now() + Duration::from_secs(3600), EndReason::Closed));
        tokio::select! {
            () = sleep_until(at), if end.is_some() => session.time_is_over(at, reason).await,
            () = session.changed.notified() => {}
            () = session.sandbox.ended() => session.end(session.sandbox.why_lost()),
        }
    }
    // Its group goes with it.
    session.cpu_ms();
    // A jailer that is gone has taken the sandbox with it.
    let (by, reason) = {
        let life = lock(&session.life);
        (life.ended_by.clone(), life.reason)
    };
    session.sandbox.by(&by).end_because(reason).await.ok();
    session.held.let_go();
    session.gone.send_replace(true);
}
