//! The contexts of a sandbox: one that is always there for each language, and those that were asked for by name.

use crate::control::Control;
use crate::engine::{EngineError, NODE};
use crate::jail::{Context, Inspected, Interpreter, lock};
use crate::lost::Lost;
use crate::sandbox::{Choice, Walled};
use crate::template::NODE_KERNEL;
use atoll_core::{ContextId, Language};
use serde_json::{Map, Value};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};

/// The most contexts that one sandbox keeps; each is an interpreter with its memory.
const MAX_CONTEXTS: usize = 32;
/// Where code begins.
pub(crate) const HOME: &str = "/home/user";

type Seat = OwnedMutexGuard<Option<Inspected>>;

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
            async move { sandbox.jail.start_program(interpreter, argv, &env, &self.cwd).await }
        };
        match self.language {
            Language::Python => {
                let mut python = sandbox.jail.start_python().await?;
                if self.cwd != HOME {
                    python.0.enter(&self.cwd).await?;
                }
                Ok(python)
            }
            Language::Bash => {
                let argv = [
                    "/bin/bash",
                    "--noprofile",
                    "--norc",
                    "-c",
                    atoll_guest::BASH_DRIVER,
                    "bash",
                ];
                Ok(program(Interpreter::Bash, &argv).await?)
            }
            Language::Javascript | Language::Typescript if !Path::new(NODE).exists() => {
                Err(EngineError::NoNode(self.language))
            }
            Language::Javascript | Language::Typescript => {
                let argv = [
                    NODE,
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

    async fn clear(&self) {
        self.interrupt();
        let ready = self.seat.lock().await.take();
        if let Some((mut context, _)) = ready {
            context.signal(rustix::process::Signal::KILL);
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
    pub(crate) async fn restart(&self, id: &ContextId) -> Result<(), EngineError> {
        self.named(id)?.clear().await;
        Ok(())
    }

    pub(crate) async fn remove(&self, id: &ContextId) -> Result<(), EngineError> {
        let slot = self.named(id)?;
        lock(&self.slots).retain(|one| one.id != *id);
        slot.clear().await;
        Ok(())
    }
}
