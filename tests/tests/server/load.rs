//! Load and soak in seconds: the long ones are `cargo xtask bench load` and `cargo xtask bench soak`.

use atoll_tests::load::{Held, Load, PLAIN, Until, nothing_is_left, round, server};

/// A leak of a sandbox's process, descriptor or record would show many times over.
#[test]
fn clients_that_come_and_go_fail_never_and_leave_nothing() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), "python-min", 40, &["--pool-min", "2", "--pool-max", "2"]).unwrap();
    // With a full pool, as it will be again.
    let at_rest = Held::by(&server);
    let load = Load {
        live: 8,
        clients: 6,
        until: Until::Rounds(8),
        code: PLAIN,
    };
    let seen = load.run(&server).unwrap();
    assert_eq!(seen.failures, Vec::<String>::new());
    assert_eq!(seen.rounds.len(), 48);
    assert!(!seen.neighbours.is_empty());
    nothing_is_left(&server, at_rest).unwrap();
}

/// 150 sandboxes after a warm-up may not cost the server more than 6 MiB: 40 KiB each would be seen.
#[test]
fn memory_stays_flat_over_many_sandboxes() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), "python-min", 20, &["--pool-min", "2", "--pool-max", "2"]).unwrap();
    let at_rest = Held::by(&server);
    for _ in 0..50 {
        round(&server, PLAIN).unwrap();
    }
    let before = Held::by(&server);
    for _ in 0..150 {
        round(&server, PLAIN).unwrap();
    }
    nothing_is_left(&server, at_rest).unwrap();
    let after = Held::by(&server);
    let grown = after.memory_kib.saturating_sub(before.memory_kib);
    assert!(grown < 6 << 10, "before {before:?}, after {after:?}");
}
