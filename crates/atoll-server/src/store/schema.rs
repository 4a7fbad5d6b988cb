//! Tables, and the steps from each version of them to the next. A step that was released never changes.

use super::StoreError;
use rusqlite::Connection;

/// Step `n` leads from version `n` to `n + 1`.
const STEPS: &[&str] = &[STEP_0, STEP_1, STEP_2];

const STEP_0: &str = "
CREATE TABLE keys (
    id TEXT PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    tenant TEXT NOT NULL,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 32),
    scopes TEXT NOT NULL,
    quotas TEXT NOT NULL,
    created INTEGER NOT NULL,
    revoked INTEGER,
    last_used INTEGER
) STRICT;

CREATE TABLE sandboxes (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    template TEXT NOT NULL,
    tier TEXT NOT NULL,
    state TEXT NOT NULL,
    created INTEGER NOT NULL,
    ended INTEGER,
    reason TEXT,
    metadata TEXT NOT NULL,
    usage TEXT NOT NULL,
    CHECK ((state = 'ended') = (ended IS NOT NULL AND reason IS NOT NULL))
) STRICT;
CREATE INDEX sandboxes_by_tenant ON sandboxes (tenant, created DESC, id);
CREATE INDEX sandboxes_by_end ON sandboxes (ended) WHERE ended IS NOT NULL;

CREATE TABLE usage (
    day INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sandboxes INTEGER NOT NULL DEFAULT 0,
    executions INTEGER NOT NULL DEFAULT 0,
    cpu_ms INTEGER NOT NULL DEFAULT 0,
    wall_ms INTEGER NOT NULL DEFAULT 0,
    bytes_in INTEGER NOT NULL DEFAULT 0,
    bytes_out INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (day, tenant, key_id)
) STRICT, WITHOUT ROWID;

-- Grows with every change that matters for who may call: another process can tell by one number.
CREATE TABLE key_version (version INTEGER NOT NULL) STRICT;
INSERT INTO key_version VALUES (1);
CREATE TRIGGER key_inserted AFTER INSERT ON keys BEGIN UPDATE key_version SET version = version + 1; END;
CREATE TRIGGER key_deleted AFTER DELETE ON keys BEGIN UPDATE key_version SET version = version + 1; END;
CREATE TRIGGER key_changed AFTER UPDATE OF id, tenant, digest, scopes, quotas, revoked ON keys
BEGIN UPDATE key_version SET version = version + 1; END;
";

const STEP_1: &str = "
CREATE TABLE approvals (
    id TEXT PRIMARY KEY NOT NULL,
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    sandbox TEXT NOT NULL,
    status TEXT NOT NULL,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    language TEXT NOT NULL,
    code_sha256 TEXT NOT NULL,
    facts TEXT NOT NULL,
    answered INTEGER,
    answered_by TEXT,
    scope TEXT,
    reason TEXT,
    CHECK (status NOT IN ('approved', 'denied') OR (answered IS NOT NULL AND answered_by IS NOT NULL)),
    CHECK (status <> 'approved' OR scope IS NOT NULL)
) STRICT;
CREATE INDEX approvals_by_tenant ON approvals (tenant, created DESC, id DESC);
CREATE INDEX approvals_by_code ON approvals (tenant, code_sha256) WHERE scope = 'digest';
CREATE INDEX approvals_by_status ON approvals (status) WHERE status = 'pending';
";

const STEP_2: &str = "
CREATE TABLE answers (
    tenant TEXT NOT NULL,
    key_id TEXT NOT NULL,
    route TEXT NOT NULL,
    name TEXT NOT NULL,
    digest BLOB NOT NULL CHECK (length(digest) = 32),
    created INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('pending', 'kept', 'lost')),
    status INTEGER,
    headers TEXT,
    body BLOB,
    PRIMARY KEY (tenant, key_id, route, name),
    CHECK ((state = 'kept') = (status IS NOT NULL AND headers IS NOT NULL AND body IS NOT NULL))
) STRICT;
CREATE INDEX answers_by_age ON answers (created);
CREATE INDEX answers_kept ON answers (tenant, created) WHERE state = 'kept';
CREATE INDEX answers_pending ON answers (state) WHERE state = 'pending';

-- What the answers of a tenant are together, so that nobody has to count them.
CREATE TABLE answer_totals (
    tenant TEXT PRIMARY KEY NOT NULL,
    requests INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER answer_inserted AFTER INSERT ON answers BEGIN
    INSERT OR IGNORE INTO answer_totals VALUES (new.tenant, 0, 0);
    UPDATE answer_totals SET requests = requests + 1, bytes = bytes + coalesce(length(new.body), 0)
    WHERE tenant = new.tenant;
END;
CREATE TRIGGER answer_changed AFTER UPDATE OF body ON answers BEGIN
    UPDATE answer_totals SET bytes = bytes + coalesce(length(new.body), 0) - coalesce(length(old.body), 0)
    WHERE tenant = new.tenant;
END;
CREATE TRIGGER answer_deleted AFTER DELETE ON answers BEGIN
    UPDATE answer_totals SET requests = requests - 1, bytes = bytes - coalesce(length(old.body), 0)
    WHERE tenant = old.tenant;
END;
";

/// Brings the tables to this version's form. Two processes that start together do it once.
pub(super) fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    if found > known {
        return Err(StoreError::Newer { found, known });
    }
    for step in STEPS.iter().skip(usize::try_from(found).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.execute_batch(&format!("PRAGMA user_version = {known}"))?;
    Ok(transaction.commit()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrating_twice_changes_nothing() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection).unwrap();
        migrate(&mut connection).unwrap();
        let rows: i64 = connection
            .query_row("SELECT count(*) FROM key_version", [], |row| row.get(0))
            .unwrap();
        assert_eq!(rows, 1);
    }

    #[test]
    fn a_store_of_a_newer_atoll_is_refused_untouched() {
        let mut connection = Connection::open_in_memory().unwrap();
        connection.execute_batch("PRAGMA user_version = 99").unwrap();
        let refused = migrate(&mut connection).unwrap_err();
        assert!(matches!(refused, StoreError::Newer { found: 99, .. }), "{refused}");
        let tables: i64 = connection
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 0);
    }
}
