//! The right to do one thing, and how it is given back: never by waiting on a thread that serves others.

use crate::audit::{AuditLog, Closing, Ending, Entry, Prepared};
use crate::engine::EngineError;
use std::sync::Arc;
use tokio::sync::Semaphore;

/// Threads that may wait for the log at once. The others wait without one.
static ASIDE: Semaphore = Semaphore::const_new(4);

/// Dropped without an end, the thing was given up.
#[derive(Debug)]
pub struct Ticket(Option<Hold>);

#[derive(Debug)]
enum Hold {
    Open(Entry),
    /// The log could not be written; the thing is done all the same, and written when that can be.
    Late(Arc<AuditLog>, Box<Prepared>),
}

impl Ticket {
    /// Where no log is kept, and for what has its entry already.
    pub(super) fn none() -> Self {
        Self(None)
    }

    /// For what is never refused and does not wait.
    pub(super) fn open_or_late(log: &Arc<AuditLog>, prepared: Prepared) -> Self {
        Self(Some(match log.try_begin(prepared.clone()) {
            Ok(Ok(entry)) => Hold::Open(entry),
            Ok(Err(_)) | Err(_) => Hold::Late(Arc::clone(log), Box::new(prepared)),
        }))
    }

    /// Writes at once if nobody is in the way; otherwise on a thread that may wait.
    pub(super) async fn open(log: Arc<AuditLog>, prepared: Prepared) -> Result<Self, EngineError> {
        let prepared = match log.try_begin(prepared)? {
            Ok(entry) => return Ok(Self(Some(Hold::Open(entry)))),
            Err(prepared) => prepared,
        };
        let permit = ASIDE.acquire().await;
        let waiting = tokio::task::spawn_blocking(move || log.begin_prepared(prepared)).await;
        drop(permit);
        match waiting {
            Ok(entry) => Ok(Self(Some(Hold::Open(entry?)))),
            // The runtime is being taken down.
            Err(_) => Err(EngineError::Interrupted),
        }
    }

    /// Whether there is something to close.
    pub(super) fn is_kept(&self) -> bool {
        self.0.is_some()
    }

    /// Whether the log could not be written, so that the thing is written later.
    pub fn is_late(&self) -> bool {
        matches!(self.0, Some(Hold::Late(..)))
    }

    pub fn close(mut self, closing: impl FnOnce() -> Closing) {
        if let Some(hold) = self.0.take() {
            hold.close(closing());
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(hold) = self.0.take() {
            hold.close(Closing::of(Ending::Abandoned));
        }
    }
}

impl Hold {
    fn close(self, closing: Closing) {
        let behind = match self {
            Self::Open(entry) => entry.close_soon(closing),
            Self::Late(log, prepared) => log.keep(*prepared, closing).then_some(log),
        };
        if let Some(log) = behind {
            catch_up(log);
        }
    }
}

/// Beside other work, where there is any. What cannot be written yet waits for the next entry.
fn catch_up(log: Arc<AuditLog>) {
    let work = move || drop(log.catch_up());
    match tokio::runtime::Handle::try_current() {
        // The end of the process waits for it.
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}
