//! Records of sandboxes: who owns them, what they are, why they ended. Ended ones are visible for a day, then removed.

use super::{Store, StoreError, Usage, read_back, to_json};
use crate::clock::Timestamp;
use atoll_core::service::SandboxState;
use atoll_core::{EndReason, KeyId, SandboxId, Tier};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the record of an ended sandbox can be seen.
pub const VISIBLE_FOR: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SandboxRecord {
    pub id: SandboxId,
    pub tenant: String,
    pub key_id: KeyId,
    pub template: String,
    pub tier: Tier,
    pub state: SandboxState,
    pub created: Timestamp,
    /// Both or none of these two, by the state.
    pub ended: Option<Timestamp>,
    pub reason: Option<EndReason>,
    pub metadata: BTreeMap<String, String>,
    pub usage: Usage,
}

/// Which records a list wants, newest first.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// Empty: all states.
    pub states: Vec<SandboxState>,
    /// Begin behind this one.
    pub after: Option<(Timestamp, SandboxId)>,
    pub limit: u32,
}

const COLUMNS: &str = "id, tenant, key_id, template, tier, state, created, ended, reason, metadata, usage";

impl Store {
    /// Writes down a new sandbox. Before its owner hears of it, so that nothing runs that is not recorded.
    pub async fn add_sandbox(&self, record: SandboxRecord) -> Result<(), StoreError> {
        self.writer.run(move |connection| insert(connection, &record)).await
    }

    /// Running or paused; `ended` has [`Store::end_sandbox`]. A record that has ended stays so.
    pub async fn set_sandbox_state(&self, id: &SandboxId, state: SandboxState) -> Result<(), StoreError> {
        let id = id.clone();
        let work = move |connection: &Connection| {
            let sql = "UPDATE sandboxes SET state = ?2 WHERE id = ?1 AND state <> 'ended'";
            connection.execute(sql, params![id.as_str(), state.as_str()])?;
            Ok(())
        };
        self.writer.run(work).await
    }

    /// Writes down why and when a sandbox ended. The first reason stays.
    pub async fn end_sandbox(&self, id: &SandboxId, reason: EndReason, usage: Usage) -> Result<(), StoreError> {
        let (id, now) = (id.clone(), Timestamp::now());
        let work = move |connection: &Connection| {
            let sql = "UPDATE sandboxes SET state = 'ended', ended = ?2, reason = ?3, usage = ?4
                       WHERE id = ?1 AND state <> 'ended'";
            connection.execute(
                sql,
                params![id.as_str(), now.millis(), reason.as_str(), to_json(&usage)?],
            )?;
            Ok(())
        };
        self.writer.run(work).await
    }

    /// One record, if this tenant owns it. Foreign and unknown look the same.
    pub async fn find_sandbox(&self, tenant: &str, id: &SandboxId) -> Result<Option<SandboxRecord>, StoreError> {
        let (tenant, id) = (tenant.to_owned(), id.clone());
        let work = move |connection: &Connection| {
            let sql = format!("SELECT {COLUMNS} FROM sandboxes WHERE id = ?1 AND tenant = ?2");
            let mut select = connection.prepare_cached(&sql)?;
            let found = select.query_row(params![id.as_str(), tenant], |row| Ok(from_row(row)));
            found.optional()?.transpose()
        };
        self.reader.run(work).await
    }

    /// Records of one tenant, newest first.
    pub async fn list_sandboxes(&self, tenant: &str, page: Page) -> Result<Vec<SandboxRecord>, StoreError> {
        let tenant = tenant.to_owned();
        self.reader
            .run(move |connection| list(connection, &tenant, &page))
            .await
    }

    /// At start: what the store takes for alive died with the former server, but for what lies on disk. How many there were.
    pub async fn end_lost_sandboxes(&self, on_disk: &[SandboxId]) -> Result<usize, StoreError> {
        let (now, on_disk) = (Timestamp::now(), to_json(&on_disk)?);
        let work = move |connection: &Connection| {
            let sql = "UPDATE sandboxes SET state = 'ended', ended = ?1, reason = ?2
                       WHERE state <> 'ended' AND id NOT IN (SELECT value FROM json_each(?3))";
            Ok(connection.execute(sql, params![now.millis(), EndReason::NodeLost.as_str(), on_disk])?)
        };
        self.writer.run(work).await
    }

    /// Removes records of sandboxes that ended more than [`VISIBLE_FOR`] before `now`. How many there were.
    pub async fn prune_sandboxes(&self, now: Timestamp) -> Result<usize, StoreError> {
        let before = now.plus_millis(-i64::try_from(VISIBLE_FOR.as_millis()).unwrap_or(i64::MAX));
        let work = move |connection: &Connection| {
            Ok(connection.execute("DELETE FROM sandboxes WHERE ended < ?1", [before.millis()])?)
        };
        self.writer.run(work).await
    }
}

fn insert(connection: &Connection, record: &SandboxRecord) -> Result<(), StoreError> {
    let sql = format!("INSERT INTO sandboxes ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
    connection.prepare_cached(&sql)?.execute(params![
        record.id.as_str(),
        record.tenant,
        record.key_id.as_str(),
        record.template,
        record.tier.as_str(),
        record.state.as_str(),
        record.created.millis(),
        record.ended.map(Timestamp::millis),
        record.reason.map(EndReason::as_str),
        to_json(&record.metadata)?,
        to_json(&record.usage)?,
    ])?;
    Ok(())
}

fn list(connection: &Connection, tenant: &str, page: &Page) -> Result<Vec<SandboxRecord>, StoreError> {
    let states = if page.states.is_empty() {
        SandboxState::ALL
    } else {
        &page.states
    };
    let words: Vec<String> = states.iter().map(|state| format!("'{state}'")).collect();
    let (created, id) = match &page.after {
        Some((created, id)) => (created.millis(), id.as_str()),
        None => (i64::MAX, ""),
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM sandboxes WHERE tenant = ?1 AND state IN ({})
         AND (created < ?2 OR (created = ?2 AND id > ?3)) ORDER BY created DESC, id LIMIT ?4",
        words.join(", ")
    );
    let mut select = connection.prepare_cached(&sql)?;
    let rows = select.query_map(params![tenant, created, id, page.limit], |row| Ok(from_row(row)))?;
    rows.map(|row| row?).collect()
}

fn from_row(row: &Row<'_>) -> Result<SandboxRecord, StoreError> {
    let text = |name| Ok::<String, StoreError>(row.get(name)?);
    let reason: Option<String> = row.get("reason")?;
    Ok(SandboxRecord {
        id: read_back("id", SandboxId::parse(&text("id")?).ok_or("not a valid sandbox ID"))?,
        tenant: row.get("tenant")?,
        key_id: read_back("key_id", KeyId::parse(&text("key_id")?).ok_or("not a valid key ID"))?,
        template: row.get("template")?,
        tier: read_back("tier", text("tier")?.parse())?,
        state: read_back("state", text("state")?.parse())?,
        created: Timestamp::from_millis(row.get("created")?),
        ended: row.get::<_, Option<i64>>("ended")?.map(Timestamp::from_millis),
        reason: read_back("reason", reason.map(|reason| reason.parse()).transpose())?,
        metadata: read_back("metadata", serde_json::from_str(&text("metadata")?))?,
        usage: read_back("usage", serde_json::from_str(&text("usage")?))?,
    })
}
