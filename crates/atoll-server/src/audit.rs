//! The server's audit log: opened by the settings, signed and cleared up from time to time, signed at the end.

use crate::config::AuditSettings;
use atoll_core::service::{BytesPerDay, LogBytes};
use atoll_engine::audit::{AuditError, AuditLog, AuditOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records are not signed for longer than this.
const SIGN_EVERY: Duration = Duration::from_secs(5);
const RETAIN_EVERY: Duration = Duration::from_secs(600);

pub(crate) fn open(settings: &AuditSettings, home: &Path) -> Result<Arc<AuditLog>, AuditError> {
    AuditLog::open(settings.options(home))
}

impl AuditSettings {
    /// The log of a data directory, by these settings.
    pub fn options(&self, home: &Path) -> AuditOptions {
        AuditOptions {
            dir: self.dir.as_ref().map_or_else(|| home.join("audit"), Into::into),
            record: self.record,
            segment_bytes: self.segment_bytes.get(),
            keep_bytes: self.keep_bytes.map(LogBytes::get),
            key_bytes_per_day: self.key_bytes_per_day.map(BytesPerDay::get),
            sync: self.sync,
        }
    }
}

/// Signs what was written, writes what could not be written before, and removes what is older or more than it may be.
pub(crate) async fn tend(log: Arc<AuditLog>, settings: AuditSettings) {
    let mut retained: Option<Instant> = None;
    loop {
        let due = retained.is_none_or(|at| at.elapsed() >= RETAIN_EVERY);
        if due {
            retained = Some(Instant::now());
        }
        let (keep, keep_bytes) = (settings.keep.filter(|_| due), settings.keep_bytes.filter(|_| due));
        let tended = Arc::clone(&log);
        let work = tokio::task::spawn_blocking(move || -> Result<(), AuditError> {
            if let Some(keep) = keep {
                tended.retain(keep.duration())?;
            }
            if let Some(keep_bytes) = keep_bytes {
                tended.shrink(keep_bytes.get())?;
            }
            tended.checkpoint()
        });
        if let Ok(Err(error)) = work.await {
            let late = log.late();
            tracing::error!(error = %crate::chain(&error), late, "audit log checkpoint or retention failed");
        }
        tokio::time::sleep(SIGN_EVERY).await;
    }
}

/// Signs the last records: nothing writes any more.
pub(crate) async fn close(log: Arc<AuditLog>) {
    let signed = tokio::task::spawn_blocking(move || log.checkpoint()).await;
    if let Ok(Err(error)) = signed {
        tracing::error!(error = %crate::chain(&error), "final checkpoint of the audit log failed");
    }
}
