//! Limits under many hands.

use super::*;
use crate::api::ErrorCode;
use atoll_core::service::*;
use futures_util::FutureExt;
use tokio::task::JoinHandle;

/// Of a server on which one tenant may have all sandboxes, and no create waits.
fn limits(most: u64) -> Limits {
    limits_with_queue(most, QueueMillis::known(0))
}

fn limits_with_queue(most: u64, queue_timeout: QueueMillis) -> Limits {
    let settings = Settings {
        max_sandboxes: SandboxCount::known(most),
        max_tenant_sandboxes: Some(SandboxCount::known(most)),
        queue_timeout,
        ..Settings::default()
    };
    Limits::new(&settings)
}

/// Of a create that does not wait.
fn admit(limits: &Limits, caller: &Caller, now: Timestamp) -> Result<Admission, ApiError> {
    limits.admit(caller, now, || ()).now_or_never().unwrap()
}

fn caller(quotas: Quotas) -> Caller {
    Caller {
        quotas,
        ..Caller::anonymous()
    }
}

fn code(refused: Result<Admission, ApiError>) -> ErrorCode {
    refused.unwrap_err().code()
}

#[test]
fn a_hundred_parallel_creates_never_pass_the_limit() {
    let limits = limits(7);
    let start = std::sync::Barrier::new(100);
    let held: Vec<Option<Admission>> = std::thread::scope(|scope| {
        let hands: Vec<_> = (0..100)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    admit(&limits, &Caller::anonymous(), Timestamp::now()).ok()
                })
            })
            .collect();
        hands.into_iter().map(|hand| hand.join().unwrap()).collect()
    });
    assert_eq!((held.iter().flatten().count(), limits.live()), (7, 7));
    drop(held);
    assert_eq!(limits.live(), 0);
}

#[test]
fn a_key_has_a_limit_of_its_own_below_the_servers() {
    let limits = limits(100);
    let caller = caller(Quotas {
        live_sandboxes: Some(SandboxCount::known(1)),
        ..Quotas::default()
    });
    let now = Timestamp::now();
    let held = admit(&limits, &caller, now).unwrap();
    assert_eq!(code(admit(&limits, &caller, now)), ErrorCode::QuotaExceeded);
    drop(held);
    assert!(admit(&limits, &caller, now).is_ok());
}

#[test]
fn a_full_server_is_another_refusal_than_a_full_key() {
    let limits = limits(1);
    let _held = admit(&limits, &Caller::anonymous(), Timestamp::now()).unwrap();
    assert_eq!(
        code(admit(&limits, &Caller::anonymous(), Timestamp::now())),
        ErrorCode::ServerFull
    );
}

#[test]
fn a_tenant_gets_half_of_the_sandboxes_whatever_keys_it_has() {
    let settings = Settings {
        max_sandboxes: SandboxCount::known(5),
        queue_timeout: QueueMillis::known(0),
        ..Settings::default()
    };
    let limits = Limits::new(&settings);
    let of = |tenant: &str, key: u8| Caller {
        tenant: tenant.into(),
        key_id: atoll_core::KeyId::from_random([key; 16]),
        ..Caller::anonymous()
    };
    let now = Timestamp::now();
    let mut held: Vec<Admission> = (1..=3)
        .map(|key| admit(&limits, &of("one", key), now).unwrap())
        .collect();
    let refused = admit(&limits, &of("one", 4), now).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::QuotaExceeded);
    assert!(
        refused.message().contains("3 live sandboxes, its share"),
        "{}",
        refused.message()
    );
    let others: Vec<Admission> = (5..=6)
        .map(|key| admit(&limits, &of("other", key), now).unwrap())
        .collect();
    assert_eq!(code(admit(&limits, &of("other", 7), now)), ErrorCode::ServerFull);
    drop(others);
    held.pop();
    assert!(admit(&limits, &of("one", 4), now).is_ok());
}

#[test]
fn the_bucket_gives_its_limit_then_refuses_and_fills_again() {
    let buckets = rate::Buckets::default();
    let start = Instant::now();
    for left in (0..3).rev() {
        assert_eq!(buckets.take("k", 3, start).unwrap().remaining, left);
    }
    let refused = buckets.take("k", 3, start).unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_after()),
        (ErrorCode::RateLimited, Some(20))
    );
    let later = start + std::time::Duration::from_secs(20);
    assert!(buckets.take("k", 3, later).is_ok());
    assert!(buckets.take("k", 3, later).is_err());
    assert!(buckets.take("other", 3, start).is_ok());
}

#[test]
fn a_refused_create_gives_its_slot_back() {
    let limits = limits(100);
    let caller = caller(Quotas {
        creates_per_minute: Some(CreatesPerMinute::known(1)),
        ..Quotas::default()
    });
    let now = Timestamp::now();
    drop(admit(&limits, &caller, now).unwrap());
    assert_eq!(code(admit(&limits, &caller, now)), ErrorCode::RateLimited);
    assert_eq!(limits.live(), 0);
}

#[test]
fn the_day_ends_a_quota_and_midnight_renews_it() {
    let limits = limits(100);
    let caller = caller(Quotas {
        cpu_seconds_per_day: Some(CpuSecondsPerDay::known(2)),
        ..Quotas::default()
    });
    let evening = Timestamp::from_millis(86_400_000 * 2 - 5_000);
    let used = Usage {
        cpu_ms: 2_000,
        ..Usage::default()
    };
    limits.ledger.charge(evening, caller.key_id.as_str(), used);
    let refused = admit(&limits, &caller, evening).unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_after()),
        (ErrorCode::QuotaExceeded, Some(5))
    );
    assert!(admit(&limits, &caller, evening.plus_millis(5_000)).is_ok());
}

fn of(tenant: &str) -> Caller {
    Caller {
        tenant: tenant.into(),
        ..Caller::anonymous()
    }
}

/// Begins a create, and returns when it is in the queue.
async fn waiting_create(limits: &Limits, tenant: &str) -> JoinHandle<Result<Admission, ApiError>> {
    let (others, caller, of_task) = (limits.waiting(), of(tenant), limits.clone());
    let create = tokio::spawn(async move { of_task.admit(&caller, Timestamp::now(), || ()).await });
    while limits.waiting() == others {
        tokio::task::yield_now().await;
    }
    create
}

#[tokio::test(start_paused = true)]
async fn creates_of_a_full_server_wait_and_tenants_take_turns() {
    let limits = limits_with_queue(3, QueueMillis::known(5_000));
    let mut held: Vec<Admission> = (0..3)
        .map(|_| admit(&limits, &of("first"), Timestamp::now()).unwrap())
        .collect();
    let one = waiting_create(&limits, "one").await;
    let again = waiting_create(&limits, "one").await;
    let other = waiting_create(&limits, "other").await;
    held.pop();
    let one = one.await.unwrap().unwrap();
    held.pop();
    let other = other.await.unwrap().unwrap();
    assert!(!again.is_finished());
    drop(one);
    let again = again.await.unwrap().unwrap();
    assert_eq!((limits.live(), limits.waiting()), (3, 0));
    drop((held, other, again));
    assert_eq!(limits.live(), 0);
}

/// The time of this test passes when nothing is left to do.
#[tokio::test(start_paused = true)]
async fn a_create_waits_for_the_queue_timeout_and_is_refused() {
    let limits = limits_with_queue(1, QueueMillis::known(5_000));
    let held = admit(&limits, &of("one"), Timestamp::now()).unwrap();
    let began = tokio::time::Instant::now();
    let refused = limits.admit(&of("other"), Timestamp::now(), || ()).await.unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_after()),
        (ErrorCode::ServerFull, Some(5))
    );
    assert!(began.elapsed() >= Duration::from_secs(5));
    assert_eq!(limits.waiting(), 0);
    drop(held);
    assert_eq!(limits.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_queue_is_bounded_and_a_create_that_leaves_it_takes_no_slot() {
    let limits = limits_with_queue(2, QueueMillis::known(5_000));
    let held = [(); 2].map(|()| admit(&limits, &of("first"), Timestamp::now()).unwrap());
    let leaves = waiting_create(&limits, "one").await;
    let stays = waiting_create(&limits, "other").await;
    assert_eq!(
        code(admit(&limits, &of("third"), Timestamp::now())),
        ErrorCode::ServerFull
    );
    leaves.abort();
    assert!(leaves.await.unwrap_err().is_cancelled());
    assert_eq!(limits.waiting(), 1);
    drop(held);
    assert!(stays.await.unwrap().is_ok());
    assert_eq!((limits.live(), limits.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_tenant_without_a_place_in_a_full_queue_displaces_the_newest_of_the_longest_line() {
    let limits = limits_with_queue(4, QueueMillis::known(5_000));
    let held = [(); 4].map(|()| admit(&limits, &of("first"), Timestamp::now()).unwrap());
    let other = waiting_create(&limits, "other").await;
    let older = waiting_create(&limits, "one").await;
    let _old = waiting_create(&limits, "one").await;
    let newest = waiting_create(&limits, "one").await;
    // A tenant that has a place displaces no other.
    assert_eq!(
        code(admit(&limits, &of("other"), Timestamp::now())),
        ErrorCode::ServerFull
    );
    let of_task = limits.clone();
    let third = tokio::spawn(async move { of_task.admit(&of("third"), Timestamp::now(), || ()).await });
    assert_eq!(code(newest.await.unwrap()), ErrorCode::ServerFull);
    assert_eq!(limits.waiting(), 4);
    drop(held);
    for turn in [other, older, third] {
        assert!(turn.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_resume_waits_in_the_same_queue() {
    let limits = limits_with_queue(1, QueueMillis::known(5_000));
    let held = admit(&limits, &of("one"), Timestamp::now()).unwrap();
    let of_task = limits.clone();
    let resume = tokio::spawn(async move { of_task.readmit(&of("other")).await });
    while limits.waiting() == 0 {
        tokio::task::yield_now().await;
    }
    drop(held);
    let slot = resume.await.unwrap().unwrap();
    let full = limits.readmit(&of("one")).await.unwrap_err();
    assert_eq!((full.code(), full.retry_after()), (ErrorCode::ServerFull, Some(5)));
    drop(slot);
    assert_eq!(limits.live(), 0);
}

#[test]
fn a_key_over_its_rate_does_not_wait() {
    let limits = limits_with_queue(1, QueueMillis::known(5_000));
    let caller = caller(Quotas {
        creates_per_minute: Some(CreatesPerMinute::known(1)),
        ..Quotas::default()
    });
    let _held = admit(&limits, &caller, Timestamp::now()).unwrap();
    assert_eq!(code(admit(&limits, &caller, Timestamp::now())), ErrorCode::RateLimited);
}

#[tokio::test(start_paused = true)]
async fn what_a_create_expects_is_kept_while_it_waits_and_only_then() {
    let limits = limits_with_queue(1, QueueMillis::known(5_000));
    let expected = std::sync::Arc::new(());
    let expect = || std::sync::Arc::clone(&expected);
    let held = limits.admit(&of("one"), Timestamp::now(), expect).await.unwrap();
    assert_eq!(std::sync::Arc::strong_count(&expected), 1);
    let caller = of("other");
    let mut waits = std::pin::pin!(limits.admit(&caller, Timestamp::now(), expect));
    assert!(waits.as_mut().now_or_never().is_none());
    assert_eq!(std::sync::Arc::strong_count(&expected), 2);
    drop(held);
    waits.await.unwrap();
    assert_eq!(std::sync::Arc::strong_count(&expected), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_server_refuses_what_waits() {
    let limits = limits_with_queue(1, QueueMillis::known(5_000));
    let _held = admit(&limits, &of("one"), Timestamp::now()).unwrap();
    let waits = waiting_create(&limits, "other").await;
    limits.close_queue();
    assert_eq!(code(waits.await.unwrap()), ErrorCode::NotReady);
    assert_eq!(
        code(admit(&limits, &of("third"), Timestamp::now())),
        ErrorCode::ServerFull
    );
}
