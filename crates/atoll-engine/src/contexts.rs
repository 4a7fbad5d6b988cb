//! The contexts of a sandbox: one that is always there for each language, and those that were asked for by name.

use crate::backend::{BareSandbox, Context, Inspected, Interpreter, SavedContext, TierError};
use crate::control::Control;
use crate::engine::EngineError;
use crate::lock::lock;
use crate::lost::Lost;
use crate::sandbox::{Choice, Walled};
use crate::snapshot::SavedSlot;
use crate::template::{NODE, NODE_KERNEL};
use atoll_core::{ContextId, Language};
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The most contexts that one sandbox keeps; each is an interpreter with its memory.
const MAX_CONTEXTS: usize = 32;
/// Why a context of JavaScript is another one in a copy.
const NODE_ANEW: &str = "the sandbox was restored from a snapshot or fork, where Node.js contexts restart";
/// Where code begins.
pub(crate) const HOME: &str = "/home/user";

pub(crate) type Seat = OwnedMutexGuard<Option<Inspected>>;

/// What is told about a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextInfo {
    pub id: ContextId,
    pub language: Language,
    pub cwd: String,
}

/// A place for one interpreter. Empty before the first use and after a loss; filled again when it is used.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) id: ContextId,
    pub(crate) language: Language,
    cwd: String,
    /// The one of its language that nobody has named.
    default: bool,
    seat: Arc<Turn<Option<Inspected>>>,
    running: Mutex<Option<Control>>,
    /// The interpreter is another one than before, and why.
    lost: Mutex<Option<Lost>>,
}

#[derive(Debug)]
pub(crate) struct Contexts {
    slots: Mutex<Vec<Arc<Slot>>>,
}

impl Slot {
    fn new(language: Language, cwd: &str, default: bool, ready: Option<Inspected>) -> Arc<Self> {
        Arc::new(Self {
            id: ContextId::from_random(crate::random_bytes()),
            language,
            cwd: cwd.to_owned(),
            default,
            seat: Arc::new(Turn::new(ready)),
            running: Mutex::new(None),
            lost: Mutex::new(None),
        })
    }

    /// Waits for its turn and takes the interpreter, started now if there is none.
    pub(crate) async fn take(&self, sandbox: &Walled) -> Result<(Seat, Context, Map<String, Value>), EngineError> {
        let mut seat = Arc::clone(&self.seat).lock_owned().await;
        if let Some((context, layers)) = seat.take() {
            return Ok((seat, context, layers));
        }
        let (context, layers) = self.start(sandbox).await?;
        Ok((seat, context, layers))
    }

    async fn start(&self, sandbox: &Walled) -> Result<Inspected, EngineError> {
        let program = |interpreter, argv: &[&str]| {
            let argv = argv.iter().map(|&word| word.to_owned()).collect();
            let env = sandbox.variables();
            async move { sandbox.bare.start_program(interpreter, argv, &env, &self.cwd).await }
        };
        match self.language {
            Language::Python => {
                sandbox.programs.of(Language::Python)?;
                let mut python = sandbox.bare.start_python().await?;
                if self.cwd != HOME {
                    python.0.enter(&self.cwd).await?;
                }
                Ok(python)
            }
            Language::Bash => {
                let argv = [
                    sandbox.programs.of(Language::Bash)?,
                    "--noprofile",
                    "--norc",
                    "-c",
                    atoll_guest::BASH_DRIVER,
                    "bash",
                ];
                Ok(program(Interpreter::Bash, &argv).await?)
            }
            Language::Javascript | Language::Typescript
                if sandbox.programs.is_of_the_host() && !Path::new(NODE).exists() =>
            {
                Err(EngineError::NoNode(self.language))
            }
            Language::Javascript | Language::Typescript => {
                let argv = [
                    sandbox.programs.of(self.language)?,
                    "--no-warnings",
                    // Code that is cut off in a callback leaves the stack in disorder; the kernel mends it.
                    "--no-force-async-hooks-checks",
                    NODE_KERNEL,
                    self.language.as_str(),
                ];
                Ok(program(Interpreter::Node, &argv).await?)
            }
            Language::R => Err(EngineError::Language(self.language)),
        }
    }

    /// What is told of it to who brings the sandbox back. A Node cannot be made to draw other random numbers than its copy: it
    /// goes on only where there is never a second one.
    pub(crate) fn saved(&self, ready: Option<&Inspected>, copies: bool) -> Result<SavedSlot, TierError> {
        let goes_on = ready.filter(|(context, _)| !copies || context.interpreter != Interpreter::Node);
        let anew = ready.is_some() && goes_on.is_none();
        Ok(SavedSlot {
            id: self.id.clone(),
            language: self.language,
            cwd: self.cwd.clone(),
            default: self.default,
            context: goes_on.map(|(context, _)| SavedContext::of(context)).transpose()?,
            lost: anew.then(|| NODE_ANEW.to_owned()),
        })
    }

    pub(crate) fn runs(&self, control: Option<Control>) {
        *lock(&self.running) = control;
    }

    /// Why the interpreter is another one than before, if it is.
    pub(crate) fn lost(&self) -> Option<Lost> {
        lock(&self.lost).clone()
    }

    pub(crate) fn lost_is_told(&self) {
        if let Some(lost) = lock(&self.lost).as_mut() {
            lost.told = true;
        }
    }

    fn has_lost(&self, why: &str) {
        let why = why.to_owned();
        *lock(&self.lost) = Some(Lost { why, told: false });
    }

    /// Whatever runs in it is asked to stop, and killed if it does not.
    fn interrupt(&self) {
        if let Some(control) = lock(&self.running).as_ref() {
            control.interrupt();
        }
    }

    async fn clear(&self, sandbox: &BareSandbox) {
        self.interrupt();
        let ready = self.seat.lock().await.take();
        if let Some((mut context, _)) = ready {
            // One that is gone already needs no signal.
            sandbox.kill(&context).await.ok();
            context.exit().await;
        }
        *lock(&self.lost) = None;
    }

    fn info(&self) -> ContextInfo {
        ContextInfo {
            id: self.id.clone(),
            language: self.language,
            cwd: self.cwd.clone(),
        }
    }
}

impl Contexts {
    pub(crate) fn new(python: Option<Inspected>) -> Self {
        let first = Slot::new(Language::Python, HOME, true, python);
        Self {
            slots: Mutex::new(vec![first]),
        }
    }

    /// Of a sandbox that was brought back: the same names, and the interpreters that go on, in the order of the slots that have
    /// one.
    pub(crate) fn resumed(saved: &[SavedSlot], contexts: Vec<Inspected>) -> Self {
        let mut contexts = contexts.into_iter();
        let slot = |saved: &SavedSlot| {
            let ready = saved.context.and_then(|_| contexts.next());
            let lost = saved.lost.clone().map(|why| Lost { why, told: false });
            Arc::new(Slot {
                id: saved.id.clone(),
                language: saved.language,
                cwd: saved.cwd.clone(),
                default: saved.default,
                seat: Arc::new(Turn::new(ready)),
                running: Mutex::new(None),
                lost: Mutex::new(lost),
            })
        };
        Self {
            slots: Mutex::new(saved.iter().map(slot).collect()),
        }
    }

    /// Waits until nothing runs in any of them, and keeps it so.
    pub(crate) async fn still(&self) -> Vec<(Arc<Slot>, Seat)> {
        let slots = lock(&self.slots).clone();
        let mut still = Vec::new();
        for slot in slots {
            let seat = Arc::clone(&slot.seat).lock_owned().await;
            still.push((slot, seat));
        }
        still
    }

    /// The same without waiting: `None` if something runs.
    pub(crate) fn still_now(&self) -> Option<Vec<(Arc<Slot>, Seat)>> {
        let slots = lock(&self.slots).clone();
        let seat = |slot: Arc<Slot>| Some((Arc::clone(&slot), Arc::clone(&slot.seat).try_lock_owned().ok()?));
        slots.into_iter().map(seat).collect()
    }

    pub(crate) fn find(&self, choice: &Choice) -> Result<Arc<Slot>, EngineError> {
        match choice {
            Choice::Named(id) => self.named(id),
            Choice::Default(Language::R) => Err(EngineError::Language(Language::R)),
            Choice::Default(language) => Ok(self.default(*language)),
        }
    }

    fn named(&self, id: &ContextId) -> Result<Arc<Slot>, EngineError> {
        let slots = lock(&self.slots);
        let found = slots.iter().find(|slot| slot.id == *id);
        found.cloned().ok_or_else(|| EngineError::NoContext(id.to_string()))
    }

    fn default(&self, language: Language) -> Arc<Slot> {
        let mut slots = lock(&self.slots);
        let found = slots.iter().find(|slot| slot.default && slot.language == language);
        match found {
            Some(slot) => Arc::clone(slot),
            None => {
                let slot = Slot::new(language, HOME, true, None);
                // Before those that were asked for: the newest of these is the last.
                let place = slots.iter().take_while(|slot| slot.default).count();
                slots.insert(place, Arc::clone(&slot));
                slot
            }
        }
    }

    /// Gives the default context of a language its name, before it is used. Nothing is started.
    pub(crate) fn name_default(&self, language: Language) {
        drop(self.default(language));
    }

    /// The interpreter is gone. A default context is another one from now on; a named one keeps its name.
    pub(crate) fn lost(&self, slot: &Slot, why: &str) {
        // Executions that wait for their turn have the old name.
        slot.has_lost(why);
        if slot.default {
            let mut slots = lock(&self.slots);
            if let Some(place) = slots.iter_mut().find(|one| one.id == slot.id) {
                *place = Slot::new(slot.language, HOME, true, None);
                place.has_lost(why);
            }
        }
    }

    /// Makes a context, with its interpreter started; the newest is the last of the list.
    pub(crate) async fn create(
        &self,
        sandbox: &Walled,
        language: Language,
        cwd: Option<&str>,
    ) -> Result<ContextInfo, EngineError> {
        let slot = Slot::new(language, cwd.unwrap_or(HOME), false, None);
        let (mut seat, context, layers) = slot.take(sandbox).await?;
        *seat = Some((context, layers));
        drop(seat);
        let mut slots = lock(&self.slots);
        if slots.len() >= MAX_CONTEXTS {
            return Err(EngineError::TooManyContexts(MAX_CONTEXTS));
        }
        let info = slot.info();
        slots.push(slot);
        Ok(info)
    }

    pub(crate) fn list(&self) -> Vec<ContextInfo> {
        lock(&self.slots).iter().map(|slot| slot.info()).collect()
    }

    /// Throws the state away; the name stays.
    pub(crate) async fn restart(&self, sandbox: &BareSandbox, id: &ContextId) -> Result<(), EngineError> {
        self.named(id)?.clear(sandbox).await;
        Ok(())
    }

    pub(crate) async fn remove(&self, sandbox: &BareSandbox, id: &ContextId) -> Result<(), EngineError> {
        let slot = self.named(id)?;
        lock(&self.slots).retain(|one| one.id != *id);
        slot.clear(sandbox).await;
        Ok(())
    }
}
