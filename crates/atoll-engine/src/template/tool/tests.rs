//! Helper programs as shell scripts: what is heard of them, when they are ended, and how their failures are explained.

use super::*;
use std::path::PathBuf;

fn shell(script: &str) -> (Result<(), ToolError>, Vec<String>) {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    let mut seen = Vec::new();
    let result = run(command, &Patience::default(), &mut |line: &str| {
        seen.push(line.to_owned())
    });
    (result, seen)
}

fn hurried(script: &str, stall_ms: u64, hard_ms: u64) -> ToolError {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]);
    let patience = Patience {
        stall: Duration::from_millis(stall_ms),
        hard: Duration::from_millis(hard_ms),
        ..Patience::default()
    };
    run(command, &patience, &mut |_: &str| {}).unwrap_err()
}

/// The children hold the pipe; they must go too, or this would not come back before their end.
#[test]
fn a_program_that_stands_still_is_ended_with_its_children() {
    let stands_still = |stall_ms| {
        let error = hurried("echo begun; sleep 1000 & sleep 1000", stall_ms, 1_000_000);
        // On a busy host it may need longer to begin.
        let has_begun = error.to_string().contains("begun");
        has_begun.then_some((Duration::from_millis(stall_ms), error))
    };
    let (stall, error) = [600, 6_000, 60_000].into_iter().find_map(stands_still).unwrap();
    let text = error.to_string();
    assert!(matches!(error, ToolError::Stalled { .. }), "{text}");
    assert!(text.contains(&format!("made no progress for {stall:?}")), "{text}");
    assert!(error.hint().unwrap().contains("network"));
}

#[test]
fn a_program_that_never_ends_is_ended() {
    let busy = hurried("while :; do :; done", 1_000_000, 600);
    assert!(matches!(busy, ToolError::TooLong { .. }), "{busy}");
    let talkative = hurried("while :; do echo x; done", 1_000_000, 600);
    assert!(matches!(talkative, ToolError::TooLong { .. }), "{talkative}");
}

#[test]
fn a_program_is_ended_with_its_children_when_nobody_wants_it_any_more() {
    let patience = Patience::default();
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo begun; sleep 1000 & sleep 1000"]);
    let error = run(command, &patience, &mut |_: &str| patience.stop.stop()).unwrap_err();
    assert!(matches!(error, ToolError::Stopped { .. }), "{error}");
}

#[test]
fn lines_of_both_streams_come_in_order() {
    let (result, seen) = shell("echo a; echo b >&2; printf 'c\\rd'");
    result.unwrap();
    assert_eq!(seen, ["a", "b", "c", "d"]);
}

#[test]
fn a_failure_keeps_the_last_lines_only() {
    let (result, seen) = shell("i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; exit 3");
    assert_eq!(seen.len(), 100);
    let text = result.unwrap_err().to_string();
    assert!(text.contains("exit status: 3") && text.contains("line 99"), "{text}");
    assert!(!text.contains("line 84\n"), "{text}");
}

#[test]
fn an_endless_line_is_cut() {
    let (result, seen) = shell("head -c 1000000 /dev/zero | tr '\\0' x");
    result.unwrap();
    assert_eq!(seen.iter().map(String::len).collect::<Vec<_>>(), [LINE_BYTES]);
}

#[test]
fn silence_is_noticed() {
    /// The program ends when this file exists.
    struct LetGo(PathBuf);
    impl Listener for LetGo {
        fn line(&mut self, _text: &str) {}
        fn idle(&mut self) {
            std::fs::write(&self.0, "").unwrap();
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let go = dir.path().join("go");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "until [ -e \"$0\" ]; do sleep 0.1; done"]).arg(&go);
    run(command, &Patience::default(), &mut LetGo(go)).unwrap();
}

#[test]
fn known_failures_have_a_hint() {
    let hint = |script| shell(script).0.unwrap_err().hint();
    assert!(
        hint("echo 'OSError: No space left on device'; exit 1")
            .unwrap()
            .contains("ATOLL_HOME")
    );
    let (offline, _) = shell("echo 'Network is unreachable'; exit 1");
    let offline = offline.unwrap_err();
    assert!(offline.hint().unwrap().contains("proxy"));
    assert!(
        offline
            .to_string()
            .starts_with("the package index is unreachable: `sh` failed"),
        "{offline}"
    );
    assert_eq!(hint("echo hm; exit 1"), None);
    let missing = run(
        Command::new("/nonexistent/tool"),
        &Patience::default(),
        &mut |_: &str| {},
    );
    assert!(matches!(missing, Err(ToolError::Start { .. })));
}

/// What each installer prints, wrapped as it wraps it, and whether the index lacks the package.
#[test]
fn a_missing_package_is_not_a_conflict() {
    let no_solution = "  x No solution found when resolving dependencies:\n  `-> Because ";
    for (output, is_missing) in [
        (
            "no-such was not found in the\n      provided package locations and you require no-such",
            true,
        ),
        (
            "foo has no usable\n      wheels and building from source is disabled",
            true,
        ),
        ("there is no version\n      of nltk==99 and you require nltk==99", true),
        (
            "no-such was not found in the package\n      registry and you require no-such",
            true,
        ),
        (
            "only small<=1.0 is available and clash==1.0\n      depends on small>=2",
            false,
        ),
    ] {
        let (result, _) = shell(&format!("printf '%s\\n' '{no_solution}{output}'; exit 1"));
        let error = result.unwrap_err();
        let text = error.to_string();
        let words = if is_missing {
            "no matching package"
        } else {
            "the packages conflict"
        };
        assert!(text.contains(words) && error.is_of_the_packages(), "{output}: {text}");
    }
    let (result, _) = shell("echo 'dns error'; exit 1");
    assert!(!result.unwrap_err().is_of_the_packages());
}

#[test]
fn the_cause_is_found_above_a_long_explanation() {
    let long = "echo No solution found; i=0; while [ $i -lt 40 ]; do echo line $i; i=$((i+1)); done; exit 1";
    let text = shell(long).0.unwrap_err().to_string();
    assert!(
        text.starts_with("the packages conflict") && !text.contains("line 20\n"),
        "{text}"
    );
}
