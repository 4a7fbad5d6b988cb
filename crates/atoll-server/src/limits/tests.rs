//! Limits under many hands.

use super::*;
use crate::api::ErrorCode;
use atoll_core::service::*;

/// Of a server on which one tenant may have all sandboxes.
fn limits(most: u64) -> Limits {
    let settings = Settings {
        max_sandboxes: SandboxCount::known(most),
        max_tenant_sandboxes: Some(SandboxCount::known(most)),
        ..Settings::default()
    };
    Limits::new(&settings)
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
                    limits.admit(&Caller::anonymous(), Timestamp::now()).ok()
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
    let held = limits.admit(&caller, now).unwrap();
    assert_eq!(code(limits.admit(&caller, now)), ErrorCode::QuotaExceeded);
    drop(held);
    assert!(limits.admit(&caller, now).is_ok());
}

#[test]
fn a_full_server_is_another_refusal_than_a_full_key() {
    let limits = limits(1);
    let _held = limits.admit(&Caller::anonymous(), Timestamp::now()).unwrap();
    assert_eq!(
        code(limits.admit(&Caller::anonymous(), Timestamp::now())),
        ErrorCode::AtCapacity
    );
}

#[test]
fn a_tenant_gets_half_of_the_sandboxes_whatever_keys_it_has() {
    let settings = Settings {
        max_sandboxes: SandboxCount::known(5),
        ..Settings::default()
    };
    let limits = Limits::new(&settings);
    let of = |tenant: &str, key: u8| Caller {
        tenant: tenant.into(),
        key_id: atoll_core::KeyId::from_random([key; 16]),
        ..Caller::anonymous()
    };
    let now = Timestamp::now();
    let mut held: Vec<Admission> = (1..=3).map(|key| limits.admit(&of("one", key), now).unwrap()).collect();
    let refused = limits.admit(&of("one", 4), now).unwrap_err();
    assert_eq!(refused.code(), ErrorCode::QuotaExceeded);
    assert!(
        refused.message().contains("3 live sandboxes, its share"),
        "{}",
        refused.message()
    );
    let others: Vec<Admission> = (5..=6)
        .map(|key| limits.admit(&of("other", key), now).unwrap())
        .collect();
    assert_eq!(code(limits.admit(&of("other", 7), now)), ErrorCode::AtCapacity);
    drop(others);
    held.pop();
    assert!(limits.admit(&of("one", 4), now).is_ok());
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
    drop(limits.admit(&caller, now).unwrap());
    assert_eq!(code(limits.admit(&caller, now)), ErrorCode::RateLimited);
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
    let refused = limits.admit(&caller, evening).unwrap_err();
    assert_eq!(
        (refused.code(), refused.retry_after()),
        (ErrorCode::QuotaExceeded, Some(5))
    );
    assert!(limits.admit(&caller, evening.plus_millis(5_000)).is_ok());
}
