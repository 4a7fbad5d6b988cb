//! The first things that a newcomer tries.

use atoll_core::Outcome;
use atoll_tests::{run, run_json};

#[test]
fn prints_what_the_code_prints() {
    let ran = run(&["run", "-c", "print('hello')"]).unwrap();
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "hello\n", "")
    );
}

#[test]
fn json_has_every_field_and_a_receipt() {
    let execution = run_json(&["-c", "6*7"]).unwrap();
    assert_eq!(execution.outcome, Outcome::Ok);
    assert_eq!(execution.results[0].data["text/plain"], "42");
    assert_eq!(execution.receipt.layers["capabilities"], "none");
}
