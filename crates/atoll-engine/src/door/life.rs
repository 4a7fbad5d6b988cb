//! What is done to a sandbox that need not be behind a wall just now: its time, its end while it lies on disk, its return.

use super::sandbox::end_of;
use super::{Door, Sandbox};
use crate::audit::{Action, Closing, Ending};
use crate::engine::EngineError;
use crate::sandbox::Walled;
use crate::session::{Refused, SessionError};
use atoll_core::{EndReason, SandboxId, SnapshotId};
use std::time::Duration;

impl Door {
    /// Changes how long a sandbox lives.
    pub(crate) async fn extend(
        &self,
        id: &SandboxId,
        long: Duration,
        change: impl FnOnce() -> Result<(), Refused>,
    ) -> Result<(), SessionError> {
        let opening = self.opening(Action::SandboxExtend).within(id);
        let ticket = self.begin(opening).await?;
        let done = change();
        ticket.close(|| match &done {
            Ok(()) => Closing {
                reason: Some(format!("{} ms", long.as_millis())),
                ..Closing::of(Ending::Ok)
            },
            Err(refused) => Closing::failed(refused),
        });
        Ok(done?)
    }

    /// The end of one that lies on disk. Like every end it is never refused.
    pub(crate) async fn end_on_disk(&self, id: &SandboxId, reason: EndReason) {
        let opening = self.opening(Action::SandboxEnd).within(id);
        self.begin_anyway(opening).await.close(|| end_of(reason));
    }

    /// Brings a sandbox back to where it was saved, behind a new wall and under its own name.
    pub(crate) async fn bring_back(
        &self,
        action: Action,
        (id, from): (&SandboxId, &SnapshotId),
        work: impl Future<Output = Result<Walled, EngineError>>,
    ) -> Result<Sandbox, EngineError> {
        let opening = self.opening(action).within(id).at(from.as_str());
        let work = async { Ok(work.await?.called(id)) };
        let told = |walled: &Walled| Closing {
            behind: walled.behind(),
            ..Closing::of(Ending::Ok)
        };
        let walled = self.dispatch(opening, work, told).await?;
        Ok(Sandbox::new(walled, self.clone()))
    }
}
