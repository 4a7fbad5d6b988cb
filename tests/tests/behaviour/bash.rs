//! A bash context: its state, its statuses, its endings.

use anyhow::Result;
use atoll_core::{Language, Outcome};
use atoll_engine::SandboxSpec;
use atoll_tests::Place;
use std::collections::BTreeMap;

#[tokio::test]
async fn directory_variables_functions_and_options_live_on() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let first = place
        .bash("mkdir deep && cd deep\nexport A=1 B='x y'\nlocal_one=2\ngreet() { echo \"hi $1\"; }\nshopt -s extglob")
        .await?;
    assert_eq!(
        (first.outcome, first.exit_code, first.stdout.as_str()),
        (Outcome::Ok, Some(0), ""),
        "{first:?}"
    );
    let second = place
        .bash("pwd; echo \"$A $B $local_one\"; greet you; shopt -q extglob && echo set; env | grep ^A=")
        .await?;
    assert_eq!(second.stdout, "/home/user/deep\n1 x y 2\nhi you\nset\nA=1\n");
    assert_eq!(first.context_id, second.context_id);
    place.end().await
}

#[tokio::test]
async fn the_status_of_the_last_command_is_the_exit_code() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    for (code, outcome, status) in [
        ("true", Outcome::Ok, 0),
        ("false", Outcome::Error, 1),
        ("(exit 42)", Outcome::Error, 42),
        ("ls /nowhere", Outcome::Error, 2),
        ("no_such_command", Outcome::Error, 127),
        ("false; true", Outcome::Ok, 0),
    ] {
        let ran = place.bash(code).await?;
        assert_eq!((ran.outcome, ran.exit_code), (outcome, Some(status)), "{code}: {ran:?}");
    }
    place.end().await
}

#[tokio::test]
async fn both_outputs_are_kept_apart_and_standard_input_is_empty() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let ran = place
        .bash("echo out; echo err >&2; cat; read x; echo \"$?\"; printf 'no end'")
        .await?;
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("out\n1\nno end", "err\n"));
    place.end().await
}

#[tokio::test]
async fn a_syntax_error_is_an_error_and_the_shell_goes_on() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.bash("x=kept").await?;
    let broken = place.bash("if then fi").await?;
    assert_eq!(
        (broken.outcome, broken.exit_code),
        (Outcome::Error, Some(2)),
        "{broken:?}"
    );
    assert!(broken.stderr.contains("syntax error"), "{broken:?}");
    let open = place.bash("echo 'never closed").await?;
    assert_eq!(open.outcome, Outcome::Error, "{open:?}");
    assert_eq!(place.bash("echo $x").await?.stdout, "kept\n");
    place.end().await
}

#[tokio::test]
async fn exit_gives_its_code_and_a_fresh_shell_follows() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.bash("x=gone; touch file").await?;
    let ended = place.bash("echo before; exit 3; echo after").await?;
    assert_eq!(
        (ended.outcome, ended.exit_code, ended.stdout.as_str()),
        (Outcome::Error, Some(3), "before\n")
    );
    let next = place.bash("echo \"[$x]\"; ls").await?;
    assert_eq!(
        (next.outcome, next.stdout.as_str()),
        (Outcome::Ok, "[]\nfile\n"),
        "{next:?}"
    );
    assert_ne!(ended.context_id, next.context_id);
    assert_eq!(place.bash("exit").await?.outcome, Outcome::Ok);
    assert_eq!(
        place.bash("set -e; false; echo unreached").await?.outcome,
        Outcome::Error
    );
    assert_eq!(place.bash("echo again").await?.stdout, "again\n");
    place.end().await
}

#[tokio::test]
async fn time_runs_out_and_a_fresh_shell_follows() -> Result<()> {
    for code in [
        "while :; do :; done",
        "sleep 1000",
        "trap '' INT; sleep 1000",
        "sleep 1000 | cat",
    ] {
        let mut place = Place::new("python-min").await?;
        let code = format!("echo begun; {code}");
        let (wall, late) = place.timed_out(Language::Bash, &code, "begun").await?;
        assert_eq!(
            (late.outcome, late.stdout.as_str()),
            (Outcome::Timeout, "begun\n"),
            "{code}: {late:?}"
        );
        let rule = late.hint.map(|hint| hint.rule);
        assert_eq!(rule, Some(format!("timeout: {wall}")), "{code}");
        assert_eq!(place.bash("echo next").await?.stdout, "next\n", "{code}");
        place.end().await?;
    }
    Ok(())
}

#[tokio::test]
async fn an_interrupt_ends_the_code_and_keeps_the_shell() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.bash("x=kept").await?;
    for code in [
        "sleep 1000",
        "while :; do sleep 1; done",
        "while :; do :; done",
        "(sleep 1000)",
        "sleep 1000 | cat",
        "f() { while :; do :; done; echo unreached; }; g() { f; echo unreached; }; g || echo unreached",
        "f() { eval 'sleep 1000; echo unreached'; }; while :; do if f; then echo unreached; else echo unreached; fi; done",
        "f() { sleep 1000 & wait; }; for ((;;)); do { f; echo unreached; }; [[ a ]] && echo unreached; done",
    ] {
        let ended = place
            .interrupted(Language::Bash, &format!("echo MARK; {code}; echo unreached"), "MARK")
            .await?;
        assert_eq!(
            (ended.outcome, ended.stdout.as_str()),
            (Outcome::Interrupted, "MARK\n"),
            "{code}: {ended:?}"
        );
        let next = place.bash("echo $x; false").await?;
        assert_eq!((next.stdout.as_str(), next.exit_code), ("kept\n", Some(1)), "{code}");
    }
    place.end().await
}

#[tokio::test]
async fn an_interrupt_in_a_function_keeps_directory_variables_functions_and_options() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place
        .bash("set -eu; shopt -s nullglob; export WORD=kept; inner() { local IFS=,; cd /tmp; echo MARK; sleep 1000; }")
        .await?;
    let ended = place
        .interrupted(
            Language::Bash,
            "outer() { inner; echo unreached; }; outer; echo unreached",
            "MARK",
        )
        .await?;
    assert_eq!(
        (ended.outcome, ended.stdout.as_str()),
        (Outcome::Interrupted, "MARK\n"),
        "{ended:?}"
    );
    assert_eq!(ended.stderr, "");
    let next = place
        .bash("echo $PWD $WORD \"[$IFS]\" $-; shopt extdebug nullglob || :; declare -F; trap -p DEBUG; printenv WORD")
        .await?;
    assert_eq!(next.outcome, Outcome::Ok, "{next:?}");
    let words: Vec<&str> = next.stdout.split_whitespace().collect();
    assert_eq!(words.first_chunk(), Some(&["/tmp", "kept", "[", "]"]), "{next:?}");
    let flags = words.get(4).copied().unwrap_or_default();
    assert!(
        flags.contains('e') && flags.contains('u') && !flags.contains('T'),
        "{next:?}"
    );
    assert_eq!(
        words.get(5..),
        Some(
            &[
                "extdebug", "off", "nullglob", "on", "declare", "-f", "inner", "declare", "-f", "outer", "kept"
            ][..]
        ),
        "{next:?}"
    );
    place.end().await
}

/// Each interrupt comes when the shell has printed and is about to start a program, or has just begun to wait for it.
#[tokio::test]
async fn no_interrupt_is_lost_between_two_commands() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.bash("x=kept; f() { echo MARK; sleep 1000; }").await?;
    for turn in 0..150 {
        let ended = place.interrupted(Language::Bash, "f; echo unreached", "MARK").await?;
        assert_eq!(
            (ended.outcome, ended.stdout.as_str()),
            (Outcome::Interrupted, "MARK\n"),
            "{turn}: {ended:?}"
        );
        assert_eq!(place.bash("echo $x").await?.stdout, "kept\n", "{turn}");
    }
    place.end().await
}

#[tokio::test]
async fn a_reader_that_goes_away_ends_the_writer_in_silence() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let ran = place.bash("yes | head -n 1; echo \"${PIPESTATUS[@]}\"; trap").await?;
    assert_eq!(
        (ran.stdout.lines().take(2).collect::<Vec<_>>(), ran.stderr.as_str()),
        (vec!["y", "141 0"], "")
    );
    assert!(!ran.stdout.contains("SIGPIPE"), "{ran:?}");
    place.end().await
}

#[tokio::test]
async fn code_cannot_answer_for_the_shell() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let ran = place.bash("echo 0 >&3; echo still here; false").await?;
    assert_eq!(
        (ran.outcome, ran.exit_code, ran.stdout.as_str()),
        (Outcome::Error, Some(1), "still here\n"),
        "{ran:?}"
    );
    place.end().await
}

#[tokio::test]
async fn both_languages_share_files_and_the_environment_they_were_given() -> Result<()> {
    let env = BTreeMap::from([("CITY".to_owned(), "Łódź $x".to_owned())]);
    let mut place = Place::with(
        "python-min",
        SandboxSpec {
            env,
            ..SandboxSpec::default()
        },
    )
    .await?;
    assert_eq!(place.bash("echo \"$CITY\" | tee note").await?.stdout, "Łódź $x\n");
    assert_eq!(
        place
            .python("import os; print(open('note').read() == os.environ['CITY'] + '\\n')")
            .await?
            .stdout,
        "True\n"
    );
    place.end().await
}

#[tokio::test]
async fn lines_count_from_one_and_tracing_shows_the_code_only() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let lines = place.bash("nosuch\necho $LINENO\nnosuch").await?;
    assert_eq!(lines.stdout, "2\n");
    assert!(lines.stderr.starts_with("bash: line 1: nosuch:"), "{lines:?}");
    assert!(lines.stderr.contains("bash: line 3: nosuch:"), "{lines:?}");
    let traced = place.bash("set -x; echo hi").await?;
    assert_eq!(
        (traced.stdout.as_str(), traced.stderr.as_str()),
        ("hi\n", "++ echo hi\n")
    );
    let still = place.bash("echo there").await?;
    assert_eq!(
        (still.stdout.as_str(), still.stderr.as_str()),
        ("there\n", "++ echo there\n")
    );
    place.bash("set +x").await?;
    let quiet = place.bash("echo end").await?;
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("end\n", ""));
    place.end().await
}
