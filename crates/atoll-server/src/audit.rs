//! The server's audit log: opened by the settings, signed and cleared up from time to time, signed at the end.

use crate::config::AuditSettings;
use atoll_core::service::RetentionMillis;
use atoll_engine::audit::{AuditError, AuditLog, AuditOptions};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Records are not signed for longer than this.
const SIGN_EVERY: Duration = Duration::from_secs(5);
const RETAIN_EVERY: Duration = Duration::from_secs(600);

pub(crate) fn open(settings: &AuditSettings, home: &Path) -> Result<Arc<AuditLog>, AuditError> {
    let dir = settings.dir.as_ref().map_or_else(|| home.join("audit"), Into::into);
    AuditLog::open(AuditOptions {
        dir,
        keep_code: settings.keep_code,
        segment_bytes: settings.segment_bytes.get(),
        sync: settings.sync,
    })
}

/// Signs what was written, and removes what is older than it may be.
pub(crate) async fn tend(log: Arc<AuditLog>, keep: Option<RetentionMillis>) {
    let mut retained: Option<Instant> = None;
    loop {
        let due = retained.is_none_or(|at| at.elapsed() >= RETAIN_EVERY);
        if due {
            retained = Some(Instant::now());
        }
        let (log, keep) = (Arc::clone(&log), keep.filter(|_| due));
        let work = tokio::task::spawn_blocking(move || -> Result<(), AuditError> {
            if let Some(keep) = keep {
                log.retain(keep.duration())?;
            }
            log.checkpoint()
        });
        if let Ok(Err(error)) = work.await {
            tracing::error!(error = %crate::chain(&error), "the audit log cannot be signed or cleared up");
        }
        tokio::time::sleep(SIGN_EVERY).await;
    }
}

/// Signs the last records: nothing writes any more.
pub(crate) async fn close(log: Arc<AuditLog>) {
    let signed = tokio::task::spawn_blocking(move || log.checkpoint()).await;
    if let Ok(Err(error)) = signed {
        tracing::error!(error = %crate::chain(&error), "the end of the audit log could not be signed");
    }
}
