//! The one door to sandboxes. What somebody wants done is written to the audit log, then done, then closed in the log.
//!
//! [`Sandbox`] is all that anybody outside of this crate holds of a sandbox, so nothing gets past. If the log cannot be
//! written, nothing is done; only an end is never refused. Looking at a sandbox from outside (what it uses, whether it lives,
//! facts about one file) is no dispatch.

mod inputs;
mod sandbox;
mod upload;

pub use sandbox::Sandbox;
pub use upload::Upload;

use crate::audit::{Action, Actor, AuditError, AuditLog, Closing, Ending, Entry, Opening};
use crate::engine::EngineError;
use crate::sandbox::{SandboxSpec, Walled};
use std::sync::Arc;

/// Where dispatches are written down.
#[derive(Clone, Debug)]
pub enum Audit {
    Log(Arc<AuditLog>),
    /// Nowhere. The product never says so; benchmarks and tests of other things do.
    Off {
        because: &'static str,
    },
}

impl Audit {
    fn begin(&self, opening: Opening<'_>) -> Result<Option<Entry>, AuditError> {
        match self {
            Self::Log(log) => log.begin(opening).map(Some),
            Self::Off { .. } => Ok(None),
        }
    }

    fn is_slow(&self) -> bool {
        matches!(self, Self::Log(log) if log.is_slow())
    }
}

/// The door as one caller finds it.
#[derive(Clone, Debug)]
pub struct Door {
    audit: Audit,
    actor: Arc<Actor>,
}

impl Door {
    pub fn new(audit: Audit, actor: Actor) -> Self {
        Self {
            audit,
            actor: Arc::new(actor),
        }
    }

    fn opening(&self, action: Action) -> Opening<'_> {
        Opening::new(action, &self.actor)
    }

    /// Writes down what is about to be done. Where that waits for the disk, other tasks go on meanwhile.
    pub async fn begin(&self, opening: Opening<'_>) -> Result<Ticket, EngineError> {
        if !self.audit.is_slow() {
            return Ok(Ticket(self.audit.begin(opening)?));
        }
        let Audit::Log(log) = self.audit.clone() else {
            return Ok(Ticket(None));
        };
        let prepared = log.prepare(opening);
        let waiting = tokio::task::spawn_blocking(move || log.begin_prepared(prepared).map(Some));
        match waiting.await {
            Ok(entry) => Ok(Ticket(entry?)),
            // The runtime is being taken down.
            Err(_) => Err(EngineError::Interrupted),
        }
    }

    /// Opens an entry for something that is not done in a sandbox. Whoever does it closes it.
    pub async fn enter(&self, action: Action, subject: &str) -> Result<Ticket, EngineError> {
        self.begin(self.opening(action).at(subject)).await
    }

    /// Opens an entry, does the work, and closes it: with what `facts` says of a success, else with the error.
    pub async fn dispatch<T>(
        &self,
        opening: Opening<'_>,
        work: impl Future<Output = Result<T, EngineError>>,
        facts: impl FnOnce(&T) -> Closing,
    ) -> Result<T, EngineError> {
        let ticket = self.begin(opening).await?;
        let done = work.await;
        ticket.close(|| match &done {
            Ok(value) => facts(value),
            Err(error) => Closing::failed(error),
        });
        done
    }

    /// Makes a sandbox.
    pub(crate) async fn create(
        &self,
        template: &str,
        spec: &SandboxSpec,
        work: impl Future<Output = Result<Walled, EngineError>>,
    ) -> Result<Sandbox, EngineError> {
        let mut opening = self.opening(Action::SandboxCreate);
        opening.template = Some(template.to_owned());
        opening.paths = spec.inputs.iter().map(|input| input.name.clone()).collect();
        let ticket = self.begin(opening).await?;
        // Open before the caller may remove them.
        let inputs = inputs::Inputs::open(&spec.inputs);
        let made = work.await;
        match made {
            Err(error) => {
                ticket.close(|| Closing::failed(&error));
                Err(error)
            }
            Ok(walled) => {
                let closing = Closing {
                    sandbox: Some(walled.id().clone()),
                    ..Closing::of(Ending::Ok)
                };
                inputs.close(ticket, closing, walled.input_digests.clone());
                Ok(Sandbox::new(walled, self.clone()))
            }
        }
    }
}

/// The right to do one thing. Dropped without an end, the thing was given up.
#[derive(Debug)]
pub struct Ticket(Option<Entry>);

impl Ticket {
    pub fn close(self, closing: impl FnOnce() -> Closing) {
        let Some(entry) = self.0 else { return };
        let closing = closing();
        match entry.is_slow() {
            // Nobody needs to wait for the disk: the action is over.
            true => drop(tokio::task::spawn_blocking(move || entry.close(closing))),
            false => entry.close(closing),
        }
    }
}
