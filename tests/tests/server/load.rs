//! Load and soak in seconds: the long ones are `cargo xtask bench load` and `cargo xtask bench soak`.

use atoll_tests::load::{Held, Load, PLAIN, Until, large_bodies, nothing_is_left, round, server};
use atoll_tests::process::eventually;

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

/// A leak of 40 KiB with each sandbox would cost the server 4 MiB in each batch. What else grows now and then does not.
#[test]
fn memory_stays_flat_over_many_sandboxes() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), "python-min", 20, &["--pool-min", "2", "--pool-max", "2"]).unwrap();
    let at_rest = Held::by(&server);
    for _ in 0..50 {
        round(&server, PLAIN).unwrap();
    }
    let mut grown_kib: Vec<u64> = Vec::new();
    while grown_kib.last().is_none_or(|grown| *grown >= 4 << 10) {
        assert!(grown_kib.len() < 6, "each batch has cost memory: {grown_kib:?} KiB");
        let before = Held::by(&server);
        for _ in 0..100 {
            round(&server, PLAIN).unwrap();
        }
        nothing_is_left(&server, at_rest).unwrap();
        grown_kib.push(Held::by(&server).memory_kib.saturating_sub(before.memory_kib));
    }
}

/// Freed blocks that the allocator keeps would stay for as long as the server lives: hundreds of megabytes here.
#[test]
fn the_memory_of_a_burst_of_large_bodies_is_returned() {
    let home = tempfile::tempdir().unwrap();
    let server = server(home.path(), "python-min", 20, &["--pool-min", "0", "--pool-max", "0"]).unwrap();
    let idle = server.resident_bytes().unwrap();
    assert_eq!(large_bodies(&server, 40).unwrap(), 40);
    eventually("the memory of the bodies is returned", || {
        server.resident_bytes().is_ok_and(|now| now <= 2 * idle)
    })
    .unwrap();
}
