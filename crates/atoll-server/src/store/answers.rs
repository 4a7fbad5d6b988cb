//! Requests with an `Idempotency-Key`, and their answers: what was begun once is not begun again, also after a restart.
//!
//! A request is `pending` while it is under way. Then it is `kept` with its answer, or `lost`: it was begun, and there is no
//! answer to give. The totals of a tenant are counted by triggers.

use super::{Store, StoreError, read_back, to_json};
use crate::clock::Timestamp;
use atoll_core::KeyId;
use axum::body::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::time::Duration;

/// How long a key is known.
const KNOWN_FOR: Duration = Duration::from_secs(24 * 60 * 60);
/// Keys of one tenant.
pub(crate) const MOST_KEYS: i64 = 100_000;
/// Bytes of all answers of one tenant.
const MOST_BYTES: i64 = 256 << 20;

/// Which request it is: whose, on which route, under which `Idempotency-Key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestName {
    pub(crate) tenant: String,
    pub(crate) key_id: KeyId,
    pub(crate) route: &'static str,
    pub(crate) key: String,
}

/// An answer as it is given again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeptAnswer {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Bytes,
}

/// Why a request is not to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    Pending,
    /// With an answer whose body has so many bytes.
    Kept(usize),
    Lost,
    /// Another request has this key.
    Mismatch,
    /// The tenant has as many keys as it may.
    Full,
}

const NAMED: &str = "tenant = ?1 AND key_id = ?2 AND route = ?3 AND name = ?4";

impl Store {
    /// Writes down that a request is under way. `None`: it is the first of its name, and to be done.
    pub(crate) async fn claim_request(
        &self,
        name: RequestName,
        digest: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Known>, StoreError> {
        let work = move |connection: &Connection| claim(connection, &name, &digest, now, MOST_KEYS);
        self.writer.run(work).await
    }

    /// What is known of a request, without writing it down. `None`: it is not known.
    pub(crate) async fn find_request(
        &self,
        name: RequestName,
        digest: [u8; 32],
        now: Timestamp,
    ) -> Result<Option<Known>, StoreError> {
        let work = move |connection: &Connection| find(connection, &name, &digest, now);
        self.writer.run(work).await
    }

    /// The answer of a request that is [`Known::Kept`]. `None`: it made room for newer ones meanwhile.
    pub(crate) async fn kept_answer(&self, name: RequestName) -> Result<Option<KeptAnswer>, StoreError> {
        self.reader.run(move |connection| kept(connection, &name)).await
    }

    /// Keeps the answer of a request. Old answers of its tenant go if they are too many bytes.
    pub(crate) async fn keep_answer(&self, name: RequestName, answer: KeptAnswer) -> Result<(), StoreError> {
        let work = move |connection: &Connection| keep(connection, &name, &answer, MOST_BYTES);
        self.writer.run(work).await
    }

    /// Forgets a request that has done nothing.
    pub(crate) async fn free_request(&self, name: RequestName) -> Result<(), StoreError> {
        let work = move |connection: &Connection| end(connection, &name, "DELETE FROM answers");
        self.writer.run(work).await
    }

    /// A request that is under way will have no answer. Nobody waits for this.
    pub(crate) fn lose_answer(&self, name: RequestName) {
        let work = move |connection: &Connection| end(connection, &name, "UPDATE answers SET state = 'lost'");
        self.writer.post(work, |error| {
            tracing::error!(error = %crate::chain(&error), "end of a request with an Idempotency-Key could not be stored");
        });
    }

    /// What a dead server was doing will have no answer.
    pub(crate) async fn lose_pending_answers(&self) -> Result<usize, StoreError> {
        self.writer.run(lose_pending).await
    }

    /// Forgets requests that are known for long enough.
    pub(crate) async fn prune_answers(&self, now: Timestamp) -> Result<usize, StoreError> {
        self.writer.run(move |connection| prune(connection, now)).await
    }
}

fn claim(
    connection: &Connection,
    name: &RequestName,
    digest: &[u8; 32],
    now: Timestamp,
    most: i64,
) -> Result<Option<Known>, StoreError> {
    if let Some(known) = find(connection, name, digest, now)? {
        return Ok(Some(known));
    }
    let is_full = || Ok::<_, StoreError>(totals(connection, &name.tenant)?.0 >= most);
    if is_full()? {
        prune(connection, now)?;
        if is_full()? {
            return Ok(Some(Known::Full));
        }
    }
    // One that is there is known for long enough.
    let sql = format!("DELETE FROM answers WHERE {NAMED}");
    connection
        .prepare_cached(&sql)?
        .execute(params![name.tenant, name.key_id.as_str(), name.route, name.key])?;
    let sql = "INSERT INTO answers (tenant, key_id, route, name, digest, created, state)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'pending')";
    connection.prepare_cached(sql)?.execute(params![
        name.tenant,
        name.key_id.as_str(),
        name.route,
        name.key,
        digest.as_slice(),
        now.millis(),
    ])?;
    Ok(None)
}

fn find(
    connection: &Connection,
    name: &RequestName,
    digest: &[u8; 32],
    now: Timestamp,
) -> Result<Option<Known>, StoreError> {
    let sql = format!(
        "SELECT digest, state, length(body) AS length FROM answers
         WHERE {NAMED} AND (state = 'pending' OR created >= ?5)"
    );
    let mut select = connection.prepare_cached(&sql)?;
    let found = select.query_row(
        params![
            name.tenant,
            name.key_id.as_str(),
            name.route,
            name.key,
            oldest(now).millis()
        ],
        |row| Ok(from_row(row, digest)),
    );
    found.optional()?.transpose()
}

fn from_row(row: &Row<'_>, digest: &[u8; 32]) -> Result<Known, StoreError> {
    let first: Vec<u8> = row.get("digest")?;
    if first != digest.as_slice() {
        return Ok(Known::Mismatch);
    }
    let state: String = row.get("state")?;
    Ok(match state.as_str() {
        "pending" => Known::Pending,
        "kept" => Known::Kept(usize::try_from(row.get::<_, i64>("length")?).unwrap_or(usize::MAX)),
        _ => Known::Lost,
    })
}

fn kept(connection: &Connection, name: &RequestName) -> Result<Option<KeptAnswer>, StoreError> {
    let sql = format!("SELECT status, headers, body FROM answers WHERE {NAMED} AND state = 'kept'");
    let mut select = connection.prepare_cached(&sql)?;
    let found = select.query_row(
        params![name.tenant, name.key_id.as_str(), name.route, name.key],
        |row| Ok(answer_of(row)),
    );
    found.optional()?.transpose()
}

fn answer_of(row: &Row<'_>) -> Result<KeptAnswer, StoreError> {
    Ok(KeptAnswer {
        status: row.get("status")?,
        headers: read_back("headers", serde_json::from_str(&row.get::<_, String>("headers")?))?,
        body: row.get::<_, Vec<u8>>("body")?.into(),
    })
}

fn keep(connection: &Connection, name: &RequestName, answer: &KeptAnswer, most: i64) -> Result<(), StoreError> {
    let sql = format!(
        "UPDATE answers SET state = 'kept', status = ?5, headers = ?6, body = ?7 WHERE {NAMED} AND state = 'pending'"
    );
    connection.prepare_cached(&sql)?.execute(params![
        name.tenant,
        name.key_id.as_str(),
        name.route,
        name.key,
        answer.status,
        to_json(&answer.headers)?,
        &answer.body[..],
    ])?;
    while totals(connection, &name.tenant)?.1 > most && lose_oldest(connection, &name.tenant)? {}
    Ok(())
}

/// The request stays known. False: there is none with an answer.
fn lose_oldest(connection: &Connection, tenant: &str) -> Result<bool, StoreError> {
    let sql = "UPDATE answers SET state = 'lost', status = NULL, headers = NULL, body = NULL WHERE rowid =
               (SELECT rowid FROM answers WHERE tenant = ?1 AND state = 'kept' ORDER BY created LIMIT 1)";
    Ok(connection.prepare_cached(sql)?.execute([tenant])? > 0)
}

/// Only a request that is under way ends.
fn end(connection: &Connection, name: &RequestName, how: &str) -> Result<(), StoreError> {
    let sql = format!("{how} WHERE {NAMED} AND state = 'pending'");
    connection
        .prepare_cached(&sql)?
        .execute(params![name.tenant, name.key_id.as_str(), name.route, name.key])?;
    Ok(())
}

fn lose_pending(connection: &Connection) -> Result<usize, StoreError> {
    let sql = "UPDATE answers SET state = 'lost' WHERE state = 'pending'";
    Ok(connection.execute(sql, [])?)
}

fn prune(connection: &Connection, now: Timestamp) -> Result<usize, StoreError> {
    let sql = "DELETE FROM answers WHERE created < ?1 AND state <> 'pending'";
    Ok(connection.execute(sql, [oldest(now).millis()])?)
}

/// Requests of a tenant, and bytes of their answers.
fn totals(connection: &Connection, tenant: &str) -> Result<(i64, i64), StoreError> {
    let mut select = connection.prepare_cached("SELECT requests, bytes FROM answer_totals WHERE tenant = ?1")?;
    let found = select.query_row([tenant], |row| Ok((row.get(0)?, row.get(1)?)));
    Ok(found.optional()?.unwrap_or_default())
}

fn oldest(now: Timestamp) -> Timestamp {
    now.plus_millis(-i64::try_from(KNOWN_FOR.as_millis()).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 60 * 60 * 1_000;

    fn open() -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        crate::store::schema::migrate(&mut connection).unwrap();
        connection
    }

    fn name(tenant: &str, key: &str) -> RequestName {
        RequestName {
            tenant: tenant.to_owned(),
            key_id: KeyId::from_random([1; 16]),
            route: "/v1/run",
            key: key.to_owned(),
        }
    }

    fn answer(bytes: usize) -> KeptAnswer {
        KeptAnswer {
            status: 201,
            headers: vec![("content-type".to_owned(), "text/plain".to_owned())],
            body: vec![b'x'; bytes].into(),
        }
    }

    fn claim_at(connection: &Connection, name: &RequestName, millis: i64) -> Option<Known> {
        claim(connection, name, &[7; 32], Timestamp::from_millis(millis), 3).unwrap()
    }

    #[test]
    fn a_request_is_claimed_once_and_its_answer_comes_back() {
        let connection = open();
        let (one, other) = (name("a", "k"), name("b", "k"));
        assert_eq!(claim_at(&connection, &one, DAY), None);
        assert_eq!(claim_at(&connection, &one, DAY), Some(Known::Pending));
        assert_eq!(claim_at(&connection, &other, DAY), None);
        keep(&connection, &one, &answer(5), 100).unwrap();
        assert_eq!(claim_at(&connection, &one, DAY), Some(Known::Kept(5)));
        assert_eq!(kept(&connection, &one).unwrap(), Some(answer(5)));
        assert_eq!(kept(&connection, &other).unwrap(), None);
        assert_eq!(claim_at(&connection, &other, DAY), Some(Known::Pending));
        let differs = claim(&connection, &one, &[8; 32], Timestamp::from_millis(DAY), 3).unwrap();
        assert_eq!(differs, Some(Known::Mismatch));
    }

    #[test]
    fn a_request_that_did_nothing_is_free_and_one_without_an_answer_is_not() {
        let connection = open();
        let (free, lost) = (name("a", "1"), name("a", "2"));
        claim_at(&connection, &free, 0);
        claim_at(&connection, &lost, 0);
        end(&connection, &free, "DELETE FROM answers").unwrap();
        assert_eq!(claim_at(&connection, &free, 0), None);
        keep(&connection, &free, &answer(1), 100).unwrap();
        assert_eq!(lose_pending(&connection).unwrap(), 1);
        assert_eq!(claim_at(&connection, &lost, 0), Some(Known::Lost));
        assert_eq!(claim_at(&connection, &free, 0), Some(Known::Kept(1)));
    }

    #[test]
    fn a_key_is_free_again_after_a_day_unless_its_request_is_under_way() {
        let connection = open();
        let (done, long) = (name("a", "1"), name("a", "2"));
        claim_at(&connection, &done, 0);
        claim_at(&connection, &long, 0);
        keep(&connection, &done, &answer(1), 100).unwrap();
        assert!(claim_at(&connection, &done, DAY).is_some());
        assert_eq!(claim_at(&connection, &done, DAY + 1), None);
        assert_eq!(claim_at(&connection, &long, DAY + 1), Some(Known::Pending));
        keep(&connection, &done, &answer(1), 100).unwrap();
        assert_eq!(prune(&connection, Timestamp::from_millis(3 * DAY)).unwrap(), 1);
        assert_eq!(totals(&connection, "a").unwrap(), (1, 0));
    }

    #[test]
    fn a_tenant_has_a_bound_of_keys_and_old_ones_make_room() {
        let connection = open();
        for key in ["1", "2", "3"] {
            assert_eq!(claim_at(&connection, &name("a", key), 0), None);
            keep(&connection, &name("a", key), &answer(1), 100).unwrap();
        }
        assert_eq!(claim_at(&connection, &name("a", "4"), 1), Some(Known::Full));
        assert_eq!(claim_at(&connection, &name("b", "4"), 1), None);
        assert!(matches!(
            claim_at(&connection, &name("a", "1"), 1),
            Some(Known::Kept(_))
        ));
        assert_eq!(claim_at(&connection, &name("a", "4"), DAY + 1), None);
    }

    #[test]
    fn the_oldest_answers_of_a_tenant_make_room_and_their_requests_stay_known() {
        let connection = open();
        for (at, key) in ["1", "2", "3"].into_iter().enumerate() {
            claim_at(&connection, &name("a", key), i64::try_from(at).unwrap());
            keep(&connection, &name("a", key), &answer(40), 100).unwrap();
        }
        assert_eq!(claim_at(&connection, &name("a", "1"), 3), Some(Known::Lost));
        for key in ["2", "3"] {
            assert_eq!(claim_at(&connection, &name("a", key), 3), Some(Known::Kept(40)));
        }
        assert_eq!(totals(&connection, "a").unwrap(), (3, 80));
    }
}
