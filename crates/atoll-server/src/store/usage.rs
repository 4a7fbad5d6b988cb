//! What tenants used, per day and key.

use super::{Store, StoreError};
use crate::clock::Timestamp;
use atoll_core::KeyId;
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

/// Amounts that only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    pub sandboxes: u64,
    pub executions: u64,
    pub cpu_ms: u64,
    pub wall_ms: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Self) {
        self.sandboxes = self.sandboxes.saturating_add(more.sandboxes);
        self.executions = self.executions.saturating_add(more.executions);
        self.cpu_ms = self.cpu_ms.saturating_add(more.cpu_ms);
        self.wall_ms = self.wall_ms.saturating_add(more.wall_ms);
        self.bytes_in = self.bytes_in.saturating_add(more.bytes_in);
        self.bytes_out = self.bytes_out.saturating_add(more.bytes_out);
    }
}

/// What one key used on one day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayUsage {
    pub tenant: String,
    pub key_id: String,
    pub usage: Usage,
}

const ADD: &str = "
INSERT INTO usage (day, tenant, key_id, sandboxes, executions, cpu_ms, wall_ms, bytes_in, bytes_out)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
ON CONFLICT DO UPDATE SET
    sandboxes = sandboxes + excluded.sandboxes, executions = executions + excluded.executions,
    cpu_ms = cpu_ms + excluded.cpu_ms, wall_ms = wall_ms + excluded.wall_ms,
    bytes_in = bytes_in + excluded.bytes_in, bytes_out = bytes_out + excluded.bytes_out";

impl Store {
    /// Adds to what the key has used on the day of `at`. Nobody waits for it: it is written down a moment later.
    pub fn add_usage(&self, at: Timestamp, tenant: &str, key: &KeyId, more: Usage) {
        let (tenant, key) = (tenant.to_owned(), key.to_string());
        let work = move |connection: &Connection| {
            let mut add = connection.prepare_cached(ADD)?;
            let n = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
            add.execute(params![
                at.day(),
                tenant,
                key,
                n(more.sandboxes),
                n(more.executions),
                n(more.cpu_ms),
                n(more.wall_ms),
                n(more.bytes_in),
                n(more.bytes_out),
            ])?;
            Ok(())
        };
        self.writer.post(work, |error| {
            tracing::error!(error = %crate::chain(&error), "usage of a tenant could not be stored");
        });
    }

    /// What every key used on the day of `at`.
    pub async fn usage_of_day(&self, at: Timestamp) -> Result<Vec<DayUsage>, StoreError> {
        let day = at.day();
        self.reader.run(move |connection| of_day(connection, day)).await
    }
}

fn of_day(connection: &Connection, day: i64) -> Result<Vec<DayUsage>, StoreError> {
    let mut select = connection.prepare_cached("SELECT * FROM usage WHERE day = ?1 ORDER BY tenant, key_id")?;
    let rows = select.query_map([day], |row| {
        let n = |name| Ok::<_, rusqlite::Error>(u64::try_from(row.get::<_, i64>(name)?).unwrap_or(0));
        Ok(DayUsage {
            tenant: row.get("tenant")?,
            key_id: row.get("key_id")?,
            usage: Usage {
                sandboxes: n("sandboxes")?,
                executions: n("executions")?,
                cpu_ms: n("cpu_ms")?,
                wall_ms: n("wall_ms")?,
                bytes_in: n("bytes_in")?,
                bytes_out: n("bytes_out")?,
            },
        })
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}
