//! Approvals in the store: what was asked, by whom, and what the answer was. The code of one is here until it is forgotten.

use super::{Store, StoreError, read_back, to_json};
use crate::clock::Timestamp;
use atoll_core::dry_run::DryRun;
use atoll_core::service::{ApprovalScope, ApprovalStatus};
use atoll_core::{ApprovalId, ExecutionId, Finding, KeyId, SandboxId};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// How long an answered approval can be seen; one for a digest stays as long as it holds.
const KEPT_FOR: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// And how many of a tenant, besides those that wait or hold.
const KEPT: i64 = 1_000;

#[derive(Clone, Debug, PartialEq)]
pub struct ApprovalRecord {
    pub id: ApprovalId,
    pub tenant: String,
    /// Who asks.
    pub key_id: KeyId,
    /// As its key is called.
    pub key_name: Option<String>,
    pub sandbox: SandboxId,
    pub status: ApprovalStatus,
    pub created: Timestamp,
    pub expires: Timestamp,
    pub language: String,
    pub code_sha256: String,
    pub facts: ApprovalFacts,
    pub answer: Option<ApprovalAnswer>,
}

/// What nobody looks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalFacts {
    pub execution: Option<ExecutionId>,
    pub code: String,
    pub findings: Vec<Finding>,
    /// Rules that were asked about: what an approval covers.
    pub rules: BTreeSet<String>,
    pub inputs: Vec<ApprovalInput>,
    /// Variables that the code is given.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// As the API tells them.
    pub limits: serde_json::Value,
    pub policy: String,
    pub policy_digest: String,
    /// Of an approval that is about the files of a dry run: what it would have done.
    #[serde(default)]
    pub dry_run: Option<DryRun>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ApprovalInput {
    pub name: String,
    pub sha256: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalAnswer {
    /// The key that answered.
    pub by: String,
    pub scope: Option<ApprovalScope>,
    pub reason: Option<String>,
    pub at: Timestamp,
}

/// Which records a list wants, newest first.
#[derive(Clone, Debug, Default)]
pub struct ApprovalPage {
    pub status: Option<ApprovalStatus>,
    /// Begin behind this one.
    pub after: Option<ApprovalId>,
    pub limit: u32,
}

const COLUMNS: &str = "a.id, a.tenant, a.key_id, k.name AS key_name, a.sandbox, a.status, a.created, a.expires, a.language, \
     a.code_sha256, a.facts, a.answered, a.answered_by, a.scope, a.reason";
const FROM: &str = "FROM approvals a LEFT JOIN keys k ON k.id = a.key_id";

impl Store {
    /// Writes down a question, before anybody hears of it.
    pub async fn add_approval(&self, record: ApprovalRecord) -> Result<(), StoreError> {
        self.writer.run(move |connection| insert(connection, &record)).await
    }

    /// The end of a question that waits; one that does not stays as it is.
    pub async fn close_approval(
        &self,
        id: &ApprovalId,
        status: ApprovalStatus,
        answer: Option<ApprovalAnswer>,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        self.flushed
            .run(move |connection| close(connection, &id, status, answer))
            .await
    }

    /// The same without waiting, for questions that nobody waits for any more.
    pub fn cancel_approval(&self, id: ApprovalId) {
        let work = move |connection: &Connection| close(connection, &id, ApprovalStatus::Cancelled, None);
        self.writer.post(work, |error| {
            tracing::error!(error = %crate::chain(&error), "status of an approval could not be stored");
        });
    }

    /// What a dead server left waiting waits for nobody.
    pub async fn cancel_lost_approvals(&self) -> Result<usize, StoreError> {
        let sql = "UPDATE approvals SET status = 'cancelled' WHERE status = 'pending'";
        self.writer
            .run(move |connection| Ok(connection.execute(sql, [])?))
            .await
    }

    /// Takes back what was approved for longer than once. False: it does not hold.
    pub async fn revoke_approval(&self, tenant: &str, id: &ApprovalId) -> Result<bool, StoreError> {
        let (tenant, id) = (tenant.to_owned(), id.clone());
        let work = move |connection: &Connection| {
            let sql = "UPDATE approvals SET status = 'revoked'
                       WHERE id = ?1 AND tenant = ?2 AND status = 'approved' AND scope <> 'once'";
            Ok(connection.execute(sql, params![id.as_str(), tenant])? > 0)
        };
        self.flushed.run(work).await
    }

    /// One record, if this tenant owns it. Foreign and unknown look the same.
    pub async fn find_approval(&self, tenant: &str, id: &ApprovalId) -> Result<Option<ApprovalRecord>, StoreError> {
        let (tenant, id) = (tenant.to_owned(), id.clone());
        let work = move |connection: &Connection| {
            let sql = format!("SELECT {COLUMNS} {FROM} WHERE a.id = ?1 AND a.tenant = ?2");
            let mut select = connection.prepare_cached(&sql)?;
            let found = select.query_row(params![id.as_str(), tenant], |row| Ok(from_row(row)));
            found.optional()?.transpose()
        };
        self.reader.run(work).await
    }

    pub async fn list_approvals(&self, tenant: &str, page: ApprovalPage) -> Result<Vec<ApprovalRecord>, StoreError> {
        let tenant = tenant.to_owned();
        self.reader
            .run(move |connection| list(connection, &tenant, &page))
            .await
    }

    /// Approvals for this code that hold in this tenant: which rules each covers, and who gave it.
    pub async fn granted(
        &self,
        tenant: &str,
        language: &str,
        code_sha256: &str,
        env: &BTreeMap<String, String>,
    ) -> Result<Vec<(BTreeSet<String>, String)>, StoreError> {
        let key = (tenant.to_owned(), language.to_owned(), code_sha256.to_owned());
        let env = env.clone();
        let work = move |connection: &Connection| {
            let sql = format!(
                "SELECT {COLUMNS} {FROM} WHERE a.tenant = ?1 AND a.language = ?2 AND a.code_sha256 = ?3
                 AND a.status = 'approved' AND a.scope = 'digest'"
            );
            let mut select = connection.prepare_cached(&sql)?;
            let rows = select.query_map(params![key.0, key.1, key.2], |row| Ok(from_row(row)))?;
            let records: Vec<ApprovalRecord> = rows.map(|row| row?).collect::<Result<_, StoreError>>()?;
            // Code does what its variables say: with others it is not what somebody has seen.
            let same = records.into_iter().filter(|record| record.facts.env == env);
            let grant = |record: ApprovalRecord| Some((record.facts.rules, record.answer?.by));
            Ok(same.filter_map(grant).collect())
        };
        self.reader.run(work).await
    }

    /// Forgets what nobody needs any more.
    pub(crate) async fn prune_approvals(&self, now: Timestamp) -> Result<usize, StoreError> {
        let kept = i64::try_from(KEPT_FOR.as_millis()).unwrap_or(i64::MAX);
        let oldest = now.plus_millis(-kept);
        let work = move |connection: &Connection| {
            let sql = "DELETE FROM approvals WHERE created < ?1 AND status <> 'pending'
                       AND NOT (status = 'approved' AND scope = 'digest')";
            Ok(connection.execute(sql, [oldest.millis()])?)
        };
        self.writer.run(work).await
    }
}

fn insert(connection: &Connection, record: &ApprovalRecord) -> Result<(), StoreError> {
    connection
        .prepare_cached(
            "INSERT INTO approvals (id, tenant, key_id, sandbox, status, created, expires, language, code_sha256, facts)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            record.id.as_str(),
            record.tenant,
            record.key_id.as_str(),
            record.sandbox.as_str(),
            record.status.as_str(),
            record.created.millis(),
            record.expires.millis(),
            record.language,
            record.code_sha256,
            to_json(&record.facts)?,
        ])?;
    // Who asks and goes away again and again does not fill the disk.
    connection
        .prepare_cached(
            "DELETE FROM approvals WHERE id IN (
                 SELECT id FROM approvals WHERE tenant = ?1 AND status <> 'pending'
                 AND NOT (status = 'approved' AND scope = 'digest')
                 ORDER BY created DESC, id DESC LIMIT -1 OFFSET ?2)",
        )?
        .execute(params![record.tenant, KEPT])?;
    Ok(())
}

fn close(
    connection: &Connection,
    id: &ApprovalId,
    status: ApprovalStatus,
    answer: Option<ApprovalAnswer>,
) -> Result<(), StoreError> {
    let (at, by, scope, reason) = match answer {
        Some(answer) => (
            Some(answer.at.millis()),
            Some(answer.by),
            answer.scope.map(ApprovalScope::as_str),
            answer.reason,
        ),
        None => (None, None, None, None),
    };
    connection
        .prepare_cached(
            "UPDATE approvals SET status = ?2, answered = ?3, answered_by = ?4, scope = ?5, reason = ?6
             WHERE id = ?1 AND status = 'pending'",
        )?
        .execute(params![id.as_str(), status.as_str(), at, by, scope, reason])?;
    Ok(())
}

fn list(connection: &Connection, tenant: &str, page: &ApprovalPage) -> Result<Vec<ApprovalRecord>, StoreError> {
    let sql = format!(
        "SELECT {COLUMNS} {FROM} WHERE a.tenant = ?1 AND (?2 IS NULL OR a.status = ?2)
         AND (?3 IS NULL OR (a.created, a.id) < (SELECT b.created, b.id FROM approvals b WHERE b.id = ?3 AND b.tenant = ?1))
         ORDER BY a.created DESC, a.id DESC LIMIT ?4"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let status = page.status.map(ApprovalStatus::as_str);
    let after = page.after.as_ref().map(ApprovalId::as_str);
    let rows = select.query_map(params![tenant, status, after, page.limit], |row| Ok(from_row(row)))?;
    rows.map(|row| row?).collect()
}

fn from_row(row: &Row<'_>) -> Result<ApprovalRecord, StoreError> {
    let word = |name| Ok::<String, StoreError>(row.get::<_, String>(name)?);
    let at: Option<i64> = row.get("answered")?;
    let scope: Option<String> = row.get("scope")?;
    let answer = match (at, row.get::<_, Option<String>>("answered_by")?) {
        (Some(at), Some(by)) => Some(ApprovalAnswer {
            by,
            scope: scope.map(|scope| read_back("scope", scope.parse())).transpose()?,
            reason: row.get("reason")?,
            at: Timestamp::from_millis(at),
        }),
        _ => None,
    };
    Ok(ApprovalRecord {
        id: read_back("id", ApprovalId::parse(&word("id")?).ok_or("not a valid approval ID"))?,
        tenant: word("tenant")?,
        key_id: read_back("key_id", KeyId::parse(&word("key_id")?).ok_or("not a valid key ID"))?,
        key_name: row.get("key_name")?,
        sandbox: read_back(
            "sandbox",
            SandboxId::parse(&word("sandbox")?).ok_or("not a valid sandbox ID"),
        )?,
        status: read_back("status", word("status")?.parse())?,
        created: Timestamp::from_millis(row.get("created")?),
        expires: Timestamp::from_millis(row.get("expires")?),
        language: word("language")?,
        code_sha256: word("code_sha256")?,
        facts: read_back("facts", serde_json::from_str(&word("facts")?))?,
        answer,
    })
}
