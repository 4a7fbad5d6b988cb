//! Keys in the store. The secret is never here, only its digest.

use super::{Store, StoreError, read_back, to_json};
use crate::auth::{Digest, KeyTable, Scopes};
use crate::clock::Timestamp;
use crate::config::Quotas;
use atoll_core::KeyId;
use atoll_engine::audit::KeyFact;
use rusqlite::{Connection, OptionalExtension, Row, params};

/// What a new key is to be.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub name: String,
    pub tenant: String,
    pub scopes: Scopes,
    pub quotas: Quotas,
    pub digest: Digest,
}

/// A key as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    pub id: KeyId,
    pub name: String,
    pub tenant: String,
    pub digest: Digest,
    pub scopes: Scopes,
    pub quotas: Quotas,
    pub created: Timestamp,
    pub revoked: Option<Timestamp>,
    pub last_used: Option<Timestamp>,
}

impl KeyRecord {
    /// As the audit log tells of it.
    pub fn fact(&self) -> KeyFact {
        KeyFact {
            id: self.id.to_string(),
            tenant: self.tenant.clone(),
            scopes: self.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        }
    }
}

const COLUMNS: &str = "id, name, tenant, digest, scopes, quotas, created, revoked, last_used";

impl Store {
    pub async fn create_key(&self, new: NewKey) -> Result<KeyRecord, StoreError> {
        self.flushed.run(move |connection| insert(connection, new)).await
    }

    /// Makes this key unless the store has one of its name, revoked ones included.
    pub async fn create_first_key(&self, new: NewKey) -> Result<Option<KeyRecord>, StoreError> {
        let work = move |connection: &Connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM keys WHERE name = ?1)";
            let is_there: bool = connection.query_row(sql, [new.name.as_str()], |row| row.get(0))?;
            if is_there {
                Ok(None)
            } else {
                insert(connection, new).map(Some)
            }
        };
        self.flushed.run(work).await
    }

    /// All keys, oldest first, revoked ones included.
    pub async fn list_keys(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.reader.run(list).await
    }

    /// Revokes a key for good. `None`: there is no such key. A second time changes nothing.
    pub async fn revoke_key(&self, id: KeyId) -> Result<Option<KeyRecord>, StoreError> {
        let now = Timestamp::now();
        let work = move |connection: &Connection| {
            let sql = "UPDATE keys SET revoked = ?2 WHERE id = ?1 AND revoked IS NULL";
            connection.execute(sql, params![id.as_str(), now.millis()])?;
            find(connection, &id)
        };
        self.flushed.run(work).await
    }

    pub(crate) async fn note_keys_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        let work = move |connection: &Connection| {
            let mut note = connection.prepare_cached("UPDATE keys SET last_used = ?2 WHERE id = ?1")?;
            for (id, at) in used {
                note.execute(params![id.as_str(), at.millis()])?;
            }
            Ok(())
        };
        self.writer.run(work).await
    }

    /// A number that changes when who may call changes.
    pub(crate) async fn key_version(&self) -> Result<i64, StoreError> {
        self.reader.run(version).await
    }

    pub(crate) async fn key_table(&self) -> Result<KeyTable, StoreError> {
        let work = |connection: &Connection| {
            // The version first: keys that change in between are read again at the next look.
            let version = version(connection)?;
            Ok(KeyTable::new(version, list(connection)?))
        };
        self.reader.run(work).await
    }
}

fn insert(connection: &Connection, new: NewKey) -> Result<KeyRecord, StoreError> {
    let record = KeyRecord {
        id: KeyId::from_random(crate::random_bytes()),
        name: new.name,
        tenant: new.tenant,
        digest: new.digest,
        scopes: new.scopes,
        quotas: new.quotas,
        created: Timestamp::now(),
        revoked: None,
        last_used: None,
    };
    connection.execute(
        "INSERT INTO keys (id, name, tenant, digest, scopes, quotas, created) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            record.id.as_str(),
            record.name,
            record.tenant,
            record.digest.as_bytes().as_slice(),
            record.scopes.to_string(),
            to_json(&record.quotas)?,
            record.created.millis(),
        ],
    )?;
    Ok(record)
}

fn version(connection: &Connection) -> Result<i64, StoreError> {
    let mut select = connection.prepare_cached("SELECT version FROM key_version")?;
    Ok(select.query_row([], |row| row.get(0))?)
}

fn list(connection: &Connection) -> Result<Vec<KeyRecord>, StoreError> {
    let mut select = connection.prepare_cached(&format!("SELECT {COLUMNS} FROM keys ORDER BY created, id"))?;
    let rows = select.query_map([], |row| Ok(from_row(row)))?;
    rows.map(|row| row?).collect()
}

fn find(connection: &Connection, id: &KeyId) -> Result<Option<KeyRecord>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM keys WHERE id = ?1");
    let found = connection.query_row(&sql, [id.as_str()], |row| Ok(from_row(row)));
    found.optional()?.transpose()
}

fn from_row(row: &Row<'_>) -> Result<KeyRecord, StoreError> {
    let digest: Vec<u8> = row.get("digest")?;
    let time = |name| Ok::<_, StoreError>(row.get::<_, Option<i64>>(name)?.map(Timestamp::from_millis));
    Ok(KeyRecord {
        id: read_back(
            "id",
            KeyId::parse(&row.get::<_, String>("id")?).ok_or("not a valid key ID"),
        )?,
        name: row.get("name")?,
        tenant: row.get("tenant")?,
        digest: read_back("digest", Digest::from_bytes(&digest).ok_or("not 32 bytes"))?,
        scopes: read_back("scopes", row.get::<_, String>("scopes")?.parse())?,
        quotas: read_back("quotas", serde_json::from_str(&row.get::<_, String>("quotas")?))?,
        created: Timestamp::from_millis(row.get("created")?),
        revoked: time("revoked")?,
        last_used: time("last_used")?,
    })
}
