//! The store through its handle.

use super::*;
use crate::auth::{Digest, KeyRing, Scopes, SecretKey};
use crate::clock::Timestamp;
use crate::config::Quotas;
use atoll_core::service::SandboxState;
use atoll_core::{EndReason, KeyId, SandboxId, Tier};
use std::os::unix::fs::PermissionsExt;

fn open() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&Store::path(dir.path())).unwrap();
    (dir, store)
}

fn new_key(digest: Digest) -> NewKey {
    NewKey {
        name: "name".to_owned(),
        tenant: "team".to_owned(),
        scopes: Scopes::all(),
        quotas: Quotas {
            creates_per_minute: Some(60.try_into().unwrap()),
            ..Quotas::default()
        },
        digest,
    }
}

fn record(tenant: &str, number: u8) -> SandboxRecord {
    SandboxRecord {
        id: SandboxId::from_random([number; 16]),
        tenant: tenant.to_owned(),
        key_id: KeyId::from_random([1; 16]),
        template: "python-data".to_owned(),
        tier: Tier::Jail,
        state: SandboxState::Running,
        created: Timestamp::from_millis(1_000 + i64::from(number)),
        ended: None,
        reason: None,
        metadata: [("a b".to_owned(), "ü".to_owned())].into(),
        usage: Usage::default(),
    }
}

#[tokio::test]
async fn a_key_comes_back_as_it_went_and_without_its_secret() {
    let (dir, store) = open();
    let secret = SecretKey::generate();
    let made = store.create_key(new_key(secret.digest())).await.unwrap();
    assert_eq!(store.list_keys().await.unwrap(), [made]);
    for entry in fs_err::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        let bytes = fs_err::read(&path).unwrap();
        let secret = secret.reveal().as_bytes();
        assert!(
            !bytes.windows(secret.len()).any(|part| part == secret),
            "{}",
            path.display()
        );
        assert_eq!(
            fs_err::metadata(&path).unwrap().permissions().mode() & 0o077,
            0,
            "{}",
            path.display()
        );
    }
}

#[tokio::test]
async fn another_process_can_revoke_and_the_ring_hears_of_it() {
    let (dir, store) = open();
    let ring = KeyRing::load(&store).await.unwrap();
    let other = Store::open(&Store::path(dir.path())).unwrap();
    let secret = SecretKey::generate();
    let key = other.create_key(new_key(secret.digest())).await.unwrap();
    assert!(ring.find(secret.reveal().as_bytes()).is_none());
    ring.look_again(secret.reveal().as_bytes(), &store).await;
    let caller = ring.find(secret.reveal().as_bytes()).unwrap();
    assert_eq!((&caller.key_id, &*caller.tenant), (&key.id, "team"));
    let revoked = other.revoke_key(key.id.clone()).await.unwrap().unwrap();
    ring.refresh(&store).await.unwrap();
    assert!(ring.find(secret.reveal().as_bytes()).is_none());
    caller.revoked().await;
    // A second time keeps the first moment.
    assert_eq!(other.revoke_key(key.id).await.unwrap().unwrap(), revoked);
    assert_eq!(other.revoke_key(KeyId::from_random([9; 16])).await.unwrap(), None);
}

#[tokio::test]
async fn use_of_a_key_is_noted_and_makes_no_new_version() {
    let (_dir, store) = open();
    let secret = SecretKey::generate();
    store.create_key(new_key(secret.digest())).await.unwrap();
    let ring = KeyRing::load(&store).await.unwrap();
    let version = store.key_version().await.unwrap();
    ring.find(secret.reveal().as_bytes()).unwrap();
    ring.note_used(&store).await;
    assert!(store.list_keys().await.unwrap()[0].last_used.is_some());
    assert_eq!(store.key_version().await.unwrap(), version);
}

#[tokio::test]
async fn a_first_key_is_made_once_whatever_other_keys_there_are() {
    let (_dir, store) = open();
    let other = NewKey {
        name: "other".to_owned(),
        ..new_key(Digest::of(b"0"))
    };
    store.create_key(other).await.unwrap();
    let first = store
        .create_first_key(new_key(Digest::of(b"1")))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(store.create_first_key(new_key(Digest::of(b"2"))).await.unwrap(), None);
    store.revoke_key(first.id).await.unwrap();
    assert_eq!(store.create_first_key(new_key(Digest::of(b"3"))).await.unwrap(), None);
}

#[tokio::test]
async fn a_sandbox_is_seen_by_its_tenant_only() {
    let (_dir, store) = open();
    let one = record("a", 1);
    store.add_sandbox(one.clone()).await.unwrap();
    assert_eq!(store.find_sandbox("a", &one.id).await.unwrap(), Some(one.clone()));
    assert_eq!(store.find_sandbox("b", &one.id).await.unwrap(), None);
    assert_eq!(
        store
            .list_sandboxes(
                "b",
                Page {
                    limit: 9,
                    ..Page::default()
                }
            )
            .await
            .unwrap(),
        []
    );
}

#[tokio::test]
async fn the_first_end_stays_and_is_seen_for_a_day() {
    let (_dir, store) = open();
    let one = record("a", 1);
    store.add_sandbox(one.clone()).await.unwrap();
    let usage = Usage {
        cpu_ms: 5,
        ..Usage::default()
    };
    store.end_sandbox(&one.id, EndReason::ExpiredIdle, usage).await.unwrap();
    store
        .end_sandbox(&one.id, EndReason::Closed, Usage::default())
        .await
        .unwrap();
    store.set_sandbox_state(&one.id, SandboxState::Running).await.unwrap();
    let ended = store.find_sandbox("a", &one.id).await.unwrap().unwrap();
    assert_eq!(
        (ended.state, ended.reason, ended.usage),
        (SandboxState::Ended, Some(EndReason::ExpiredIdle), usage)
    );
    let at = ended.ended.unwrap();
    let day = i64::try_from(VISIBLE_FOR.as_millis()).unwrap();
    assert_eq!(store.prune_sandboxes(at.plus_millis(day)).await.unwrap(), 0);
    assert_eq!(store.prune_sandboxes(at.plus_millis(day + 1)).await.unwrap(), 1);
    assert_eq!(store.find_sandbox("a", &one.id).await.unwrap(), None);
}

#[tokio::test]
async fn what_a_dead_server_left_is_lost_and_nothing_else() {
    let (_dir, store) = open();
    let (alive, closed) = (record("a", 1), record("a", 2));
    store.add_sandbox(alive.clone()).await.unwrap();
    store.add_sandbox(closed.clone()).await.unwrap();
    store
        .end_sandbox(&closed.id, EndReason::Closed, Usage::default())
        .await
        .unwrap();
    let paused = record("a", 3);
    store.add_sandbox(paused.clone()).await.unwrap();
    let on_disk = [paused.id.clone()];
    assert_eq!(store.end_lost_sandboxes(&on_disk).await.unwrap(), 1);
    let reason = async |id| store.find_sandbox("a", id).await.unwrap().unwrap().reason;
    assert_eq!(reason(&alive.id).await, Some(EndReason::NodeLost));
    assert_eq!(reason(&closed.id).await, Some(EndReason::Closed));
    assert_eq!(reason(&paused.id).await, None);
}

#[tokio::test]
async fn pages_are_whole_newest_first_and_do_not_overlap() {
    let (_dir, store) = open();
    for number in 1..=5 {
        store
            .add_sandbox(SandboxRecord {
                created: Timestamp::from_millis(i64::from(number / 2)),
                ..record("a", number)
            })
            .await
            .unwrap();
    }
    store
        .set_sandbox_state(&record("a", 5).id, SandboxState::Paused)
        .await
        .unwrap();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = store
            .list_sandboxes(
                "a",
                Page {
                    after,
                    limit: 2,
                    ..Page::default()
                },
            )
            .await
            .unwrap();
        let Some(last) = page.last() else { break };
        after = Some((last.created, last.id.clone()));
        seen.extend(page);
    }
    assert_eq!(seen.len(), 5);
    assert!(
        seen.windows(2)
            .all(|two| (two[1].created, &two[0].id) < (two[0].created, &two[1].id) || two[1].created < two[0].created)
    );
    let paused = Page {
        states: vec![SandboxState::Paused],
        limit: 9,
        ..Page::default()
    };
    assert_eq!(store.list_sandboxes("a", paused).await.unwrap().len(), 1);
}

#[tokio::test]
async fn usage_adds_up_per_day_and_key() {
    let (_dir, store) = open();
    let key = KeyId::from_random([1; 16]);
    let (today, tomorrow) = (Timestamp::from_millis(0), Timestamp::from_millis(86_400_000));
    let more = Usage {
        cpu_ms: 2,
        bytes_in: 3,
        ..Usage::default()
    };
    for at in [today, today, tomorrow] {
        store.add_usage(at, "a", &key, more);
    }
    store.settle().await.unwrap();
    let used = store.usage_of_day(today).await.unwrap();
    assert_eq!(used.len(), 1);
    assert_eq!((used[0].usage.cpu_ms, used[0].usage.bytes_in), (4, 6));
}
