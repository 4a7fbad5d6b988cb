//! The one door to sandboxes. What somebody wants done is written to the audit log, then done, then closed in the log.
//!
//! [`Sandbox`] is all that anybody outside of this crate holds of a sandbox, so nothing gets past. If the log cannot be
//! written, nothing is done; only an end is never refused, and written as soon as it can be. Looking at a sandbox from outside (what it uses, whether it lives,
//! facts about one file) is no dispatch.

mod inputs;
mod life;
mod sandbox;
mod ticket;
mod upload;
mod visits;

pub(crate) use sandbox::AboutSnapshot;
pub use sandbox::Sandbox;
pub use ticket::Ticket;
pub use upload::Upload;
pub use visits::Visit;

use crate::audit::{Action, Actor, AuditLog, Closing, Ending, Opening, RecordedOutput};
use crate::engine::EngineError;
use crate::sandbox::{SandboxSpec, Walled};
use atoll_core::execution::Execution;
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

    /// Writes down what is about to be done. Where that has to wait, other tasks go on meanwhile.
    pub async fn begin(&self, opening: Opening<'_>) -> Result<Ticket, EngineError> {
        match &self.audit {
            Audit::Log(log) => Ticket::open(Arc::clone(log), log.prepare(opening)).await,
            Audit::Off { .. } => Ok(Ticket::none()),
        }
    }

    /// For what is never refused: if the log cannot be written, it is written when that can be. Only the disk is waited for.
    async fn begin_anyway(&self, opening: Opening<'_>) -> Ticket {
        let waits = matches!(&self.audit, Audit::Log(log) if log.is_slow());
        if waits && let Ok(ticket) = self.begin(opening.clone()).await {
            return ticket;
        }
        self.begin_or_later(opening)
    }

    /// The same where nobody can wait at all.
    fn begin_or_later(&self, opening: Opening<'_>) -> Ticket {
        match &self.audit {
            Audit::Log(log) => Ticket::open_or_late(log, log.prepare(opening)),
            Audit::Off { .. } => Ticket::none(),
        }
    }

    /// What the log keeps of an execution that has lost its secrets.
    fn output_of(&self, execution: &Execution) -> Option<Box<RecordedOutput>> {
        let keeps = matches!(&self.audit, Audit::Log(log) if log.keeps_output());
        keeps.then(|| Box::new(RecordedOutput::of(execution)))
    }

    /// The same door for somebody else.
    pub(crate) fn by(&self, actor: &Actor) -> Self {
        Self::new(self.audit.clone(), actor.clone())
    }

    /// Opens an entry for something that is not done in a sandbox. Whoever does it closes it.
    pub async fn enter(&self, action: Action, subject: &str) -> Result<Ticket, EngineError> {
        self.begin(self.opening(action).at(subject)).await
    }

    /// The same for what is never refused. [`Ticket::is_late`] says whether the log could not be written.
    pub async fn enter_anyway(&self, action: Action, subject: &str) -> Ticket {
        self.begin_anyway(self.opening(action).at(subject)).await
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
            Err(EngineError::Policy(refused)) => Closing::of_refused(refused),
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
        opening.hides = spec.secrets.redactor().cloned();
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
                    behind: walled.behind(),
                    ..Closing::of(Ending::Ok)
                };
                inputs.close(ticket, closing, walled.input_digests.clone());
                Ok(Sandbox::new(walled, self.clone()))
            }
        }
    }
}

#[cfg(test)]
mod tests;
