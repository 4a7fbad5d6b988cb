//! Executions and what they cost: counted for the key that made the sandbox.

use super::Sandboxes;
use crate::api::ApiError;
use crate::auth::Caller;
use crate::clock::Timestamp;
use crate::metrics::LimitHit;
use crate::store::Usage;
use atoll_core::execution::Execution;
use atoll_core::{KeyId, SandboxId};
use atoll_engine::audit::Actor;
use atoll_engine::session::{Session, SessionError};
use atoll_engine::{Request, Sink};
use std::collections::HashMap;
use std::time::Instant;

impl Sandboxes {
    /// Runs code, counted for who owns the sandbox.
    pub async fn execute(
        &self,
        session: &Session,
        by: &Actor,
        request: Request<'_>,
        sink: Sink<'_>,
    ) -> Result<Execution, SessionError> {
        let bytes_in = request.code.len() as u64;
        let (began, call) = (Instant::now(), request.policy.clone());
        let execution = session.execute(by, request, sink).await?;
        self.metrics.execution_ended(execution.outcome, began.elapsed());
        self.count_denied(session, call.as_deref(), (execution.outcome, &execution.findings));
        let cut = execution.truncated;
        if cut.stdout || cut.stderr || cut.results {
            self.metrics.limit_hit(LimitHit::Output);
        }
        let cpu_ms = session.cpu_ms();
        if let Some((owner, more)) = self.owners.uncharged(session.id(), cpu_ms) {
            let more = Usage {
                executions: 1,
                // What all of the sandbox has used since it was last asked, or at least this execution.
                cpu_ms: cpu_ms.map_or(execution.usage.cpu_ms, |_| more),
                wall_ms: execution.usage.wall_ms,
                bytes_in,
                bytes_out: execution.usage.output_bytes,
                ..Usage::default()
            };
            self.used(&owner, more);
        }
        Ok(execution)
    }

    /// Charges for what runs besides executions: commands, terminals, what code has left behind.
    pub fn charge_all_cpu(&self) {
        let mut of_keys: HashMap<KeyId, (Caller, u64)> = HashMap::new();
        for session in self.live() {
            if let Some((owner, more)) = self.owners.uncharged(session.id(), session.cpu_ms()) {
                of_keys.entry(owner.key_id.clone()).or_insert((owner, 0)).1 += more;
            }
        }
        for (owner, cpu_ms) in of_keys.into_values() {
            self.used_cpu(&owner, cpu_ms);
        }
    }

    pub(super) fn charge_cpu(&self, session: &Session) {
        if let Some((owner, more)) = self.owners.uncharged(session.id(), session.cpu_ms()) {
            self.used_cpu(&owner, more);
        }
    }

    fn used_cpu(&self, owner: &Caller, cpu_ms: u64) {
        if cpu_ms > 0 {
            let more = Usage {
                cpu_ms,
                ..Usage::default()
            };
            self.used(owner, more);
        }
    }

    /// Counts what a caller has used.
    pub fn used(&self, caller: &Caller, more: Usage) {
        self.metrics.tenant_used(&caller.tenant, more);
        self.quotas.charge(&self.store, caller, more);
    }

    /// Counts bytes of files that a caller has moved.
    pub fn moved(&self, caller: &Caller, bytes_in: u64, bytes_out: u64) {
        if bytes_in > 0 || bytes_out > 0 {
            let more = Usage {
                bytes_in,
                bytes_out,
                ..Usage::default()
            };
            self.used(caller, more);
        }
    }

    /// Refuses work of a key that has used up its day.
    pub fn check_day(&self, caller: &Caller) -> Result<(), ApiError> {
        self.quotas.check_day(caller, Timestamp::now())
    }

    /// The same for whoever pays for what runs in this sandbox: its maker.
    pub fn check_day_of(&self, id: &SandboxId) -> Result<(), ApiError> {
        self.owners.find(id).map_or(Ok(()), |owner| self.check_day(&owner))
    }
}
