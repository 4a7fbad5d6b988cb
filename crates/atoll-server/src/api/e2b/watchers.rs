//! Watches whose changes are fetched later instead of streamed: what Python's synchronous client uses.

use super::filesystem::change;
use super::waiting::Waiting;
use crate::api::{ApiError, ErrorCode};
use atoll_core::SandboxId;
use atoll_engine::Watch;
use atoll_engine::session::Session;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Watchers that one sandbox may have.
const MAX_EACH: usize = 64;

#[derive(Debug, Default)]
pub(super) struct Watchers {
    all: Mutex<HashMap<(SandboxId, String), Watcher>>,
}

#[derive(Debug)]
struct Watcher {
    changes: Arc<Waiting>,
    /// Ends the task that follows the watch, which then gives the watch up.
    stop: tokio::sync::oneshot::Sender<()>,
}

impl Watchers {
    /// Follows a watch until it is removed or the sandbox ends.
    pub(super) fn add(
        self: &Arc<Self>,
        session: Arc<Session>,
        watch: Watch,
        include_entry: bool,
    ) -> Result<String, ApiError> {
        let id = hex();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let mut all = lock(&self.all);
        let mut others = all.iter().filter(|((owner, _), _)| owner == session.id());
        let together = others.next().map(|(_, other)| other.changes.together());
        if others.count() + 1 >= MAX_EACH {
            let message = format!("a sandbox has at most {MAX_EACH} watchers; remove one first");
            return Err(ApiError::new(ErrorCode::QuotaExceeded, message));
        }
        let changes = Arc::new(Waiting::new(together.unwrap_or_default()));
        let key = (session.id().clone(), id.clone());
        let kept = Arc::clone(&changes);
        all.insert(key.clone(), Watcher { changes, stop });
        let watchers = Arc::clone(self);
        tokio::spawn(async move {
            follow(&session, watch, &kept, include_entry, stopped).await;
            lock(&watchers.all).remove(&key);
        });
        Ok(id)
    }

    /// Everything that happened since the last call.
    pub(super) fn take(&self, sandbox: &SandboxId, id: &str) -> Result<Vec<String>, ApiError> {
        let all = lock(&self.all);
        let watcher = all.get(&(sandbox.clone(), id.to_owned())).ok_or_else(|| unknown(id))?;
        Ok(watcher.changes.take())
    }

    pub(super) fn remove(&self, sandbox: &SandboxId, id: &str) -> Result<(), ApiError> {
        let watcher = lock(&self.all).remove(&(sandbox.clone(), id.to_owned()));
        // A task that has ended already hears nothing.
        watcher.ok_or_else(|| unknown(id))?.stop.send(()).ok();
        Ok(())
    }
}

async fn follow(
    session: &Session,
    mut watch: Watch,
    kept: &Waiting,
    include_entry: bool,
    mut stopped: tokio::sync::oneshot::Receiver<()>,
) {
    loop {
        let next = tokio::select! {
            next = watch.next() => next,
            _ = &mut stopped => None,
        };
        match next {
            Some(next) => kept.add(change(&next, include_entry).to_string()),
            None => break,
        }
    }
    // The agent goes on with it until it is told.
    session.unwatch(watch).await.ok();
}

fn hex() -> String {
    crate::random_bytes::<16>()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn unknown(id: &str) -> ApiError {
    ApiError::new(ErrorCode::NotFound, format!("watcher with id {id} not found"))
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
