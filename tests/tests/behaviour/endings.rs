//! How a Python execution can end other than by itself, and what the next one finds.

use anyhow::{Context, Result};
use atoll_core::{Language, Outcome};
use atoll_tests::Place;

/// A context is fresh when the name `kept` of an earlier execution is gone.
pub(crate) async fn is_fresh(place: &mut Place) -> Result<bool> {
    Ok(place.python("print('kept' in globals())").await?.stdout == "False\n")
}

#[tokio::test]
async fn exit_ends_the_execution_not_the_context() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let cases = [
        ("exit()", Outcome::Ok, Some(0)),
        ("import sys; sys.exit(4)", Outcome::Error, Some(4)),
        ("quit()", Outcome::Ok, Some(0)),
    ];
    for (code, outcome, exit_code) in cases {
        let ended = place
            .python(&format!("kept = 1\nprint('before')\n{code}\nprint('after')"))
            .await?;
        assert_eq!(
            (ended.outcome, ended.exit_code),
            (outcome, exit_code),
            "{code}: {ended:?}"
        );
        assert_eq!(ended.stdout, "before\n", "{code}");
        assert!(!is_fresh(&mut place).await?, "{code}");
    }
    place.end().await
}

#[tokio::test]
async fn a_hard_exit_gives_its_code_and_a_fresh_context_follows() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let before = place.python("kept = 1").await?;
    let ended = place.python("print('x', flush=True)\nimport os; os._exit(7)").await?;
    assert_eq!(
        (ended.outcome, ended.exit_code, ended.stdout.as_str()),
        (Outcome::Error, Some(7), "x\n")
    );
    assert_eq!(
        ended.error.map(|error| error.value),
        Some("exit status 7; the state of this context is lost".into())
    );
    assert!(is_fresh(&mut place).await?);
    let after = place.python("1").await?;
    assert_eq!(before.sandbox_id, after.sandbox_id);
    assert_ne!(before.context_id, after.context_id);
    place.end().await
}

#[tokio::test]
async fn a_crash_is_named_by_its_signal_and_files_survive_it() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let cases = [
        (
            "import ctypes; ctypes.string_at(0)",
            Outcome::Crashed,
            "SIGSEGV (segmentation fault)",
        ),
        ("import os; os.abort()", Outcome::Crashed, "SIGABRT (abort)"),
        ("import os; os.kill(os.getpid(), 9)", Outcome::Killed, "SIGKILL"),
    ];
    for (code, outcome, signal) in cases {
        let ended = place
            .python(&format!(
                "kept = 1\nopen('file', 'w').write('here')\nprint('out', flush=True)\n{code}"
            ))
            .await?;
        assert_eq!(
            (ended.outcome, ended.exit_code, ended.stdout.as_str()),
            (outcome, None, "out\n"),
            "{code}"
        );
        let error = ended.error.context("no error")?;
        let words = format!("the interpreter was terminated by {signal}; the state of this context is lost");
        assert_eq!(error.value, words);
        assert!(is_fresh(&mut place).await?, "{code}");
        assert_eq!(place.python("print(open('file').read())").await?.stdout, "here\n");
    }
    place.end().await
}

#[tokio::test]
async fn threads_that_are_stuck_do_not_hold_the_execution() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let stuck = "import threading\nlock = threading.Lock(); lock.acquire()\n\
                 for daemon in (True, False): threading.Thread(target=lock.acquire, daemon=daemon).start()\nprint('done')";
    let ended = place.python(stuck).await?;
    assert_eq!((ended.outcome, ended.stdout.as_str()), (Outcome::Ok, "done\n"));
    assert_eq!(place.python("print(threading.active_count())").await?.stdout, "3\n");
    let deadlock = place
        .interrupted(Language::Python, "print('MARK', flush=True)\nlock.acquire()", "MARK")
        .await?;
    assert_eq!(deadlock.outcome, Outcome::Interrupted);
    assert_eq!(place.python("print(lock.locked())").await?.stdout, "True\n");
    place.end().await
}

#[tokio::test]
async fn closed_outputs_are_no_catastrophe() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let closed = place
        .python("import os, sys\nprint('before', flush=True)\nos.close(1); os.close(2)\n6*7")
        .await?;
    assert_eq!(
        (closed.outcome, closed.stdout.as_str()),
        (Outcome::Ok, "before\n"),
        "{closed:?}"
    );
    assert_eq!(
        closed.results.first().map(|result| result.data["text/plain"].clone()),
        Some("42".into())
    );
    let next = place.python("sys.stdout.close()\n1").await?;
    assert_eq!((next.outcome, next.results.len()), (Outcome::Ok, 1), "{next:?}");
    let last = place.python("2").await?;
    assert_eq!((last.outcome, last.results.len()), (Outcome::Ok, 1), "{last:?}");
    place.end().await
}

#[tokio::test]
async fn a_print_to_a_closed_output_is_an_error_of_its_line() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let ended = place.python("kept = 1\nimport os; os.close(1)\nprint('x')").await?;
    let error = ended.error.context("no error")?;
    assert_eq!(
        (ended.outcome, error.name.as_str(), ended.stderr.as_str()),
        (Outcome::Error, "OSError", "")
    );
    assert!(
        error.traceback.iter().any(|line| line.contains("Cell In[1], line 3")),
        "{error:?}"
    );
    assert_eq!(place.python("print(kept)").await?.stdout, "1\n");
    place.end().await
}

/// Code may let go of its control socket. It runs on behind the same limits, and ends as a program does.
#[tokio::test]
async fn a_closed_control_socket_costs_the_context_only() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let close = "kept = 1\nprint('x', flush=True)\nimport os\nos.closerange(3, 1000)\n";
    let cases = [
        ("while True: pass", Outcome::Timeout, Some(1)),
        ("print('y')", Outcome::Ok, Some(0)),
        ("1/0", Outcome::Error, Some(1)),
    ];
    for (code, outcome, exit_code) in cases {
        let code = format!("{close}{code}");
        let ended = if outcome == Outcome::Timeout {
            place.timed_out(Language::Python, &code, "x\n").await?.1
        } else {
            place.python(&code).await?
        };
        assert_eq!(
            (ended.outcome, ended.exit_code),
            (outcome, exit_code),
            "{code}: {ended:?}"
        );
        assert!(
            ended.stdout.starts_with("x\n") && !ended.stderr.contains("atoll_kernel"),
            "{ended:?}"
        );
        assert!(is_fresh(&mut place).await?, "{code}");
    }
    place.end().await
}

/// A program that takes the interpreter's place is waited for; its output and its status are the execution's.
#[tokio::test]
async fn a_program_that_replaces_the_interpreter_is_waited_for() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let echo = place
        .python("kept = 1\nimport os; os.execv('/bin/echo', ['echo', 'hi'])")
        .await?;
    assert_eq!(
        (echo.outcome, echo.exit_code, echo.stdout.as_str()),
        (Outcome::Ok, Some(0), "hi\n"),
        "{echo:?}"
    );
    assert!(is_fresh(&mut place).await?);
    let cases = [
        ("exec echo hi", Outcome::Ok, Some(0), "hi\n"),
        (
            "exec sh -c 'sleep 0.3; echo late; exit 3'",
            Outcome::Error,
            Some(3),
            "late\n",
        ),
        ("exec python3 -c 'print(1)'", Outcome::Ok, Some(0), "1\n"),
        ("exec sh -c 'kill -ALRM $$'", Outcome::Crashed, None, ""),
    ];
    for (code, outcome, exit_code, stdout) in cases {
        let ended = place.bash(code).await?;
        assert_eq!(
            (ended.outcome, ended.exit_code, ended.stdout.as_str()),
            (outcome, exit_code, stdout),
            "{code}: {ended:?}"
        );
        assert_eq!(place.bash("echo next").await?.stdout, "next\n");
    }
    place.end().await
}

#[tokio::test]
async fn background_output_of_an_earlier_execution_does_not_break_the_next() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import subprocess\np = subprocess.Popen('while :; do echo noise; done', shell=True)\nprint('done')";
    assert_eq!(place.python(code).await?.outcome, Outcome::Ok);
    let ended = place.python("p.kill(); p.wait(); 6*7").await?;
    assert_eq!(
        ended.results.first().map(|result| result.data["text/plain"].clone()),
        Some("42".into()),
        "{:?}",
        ended.outcome
    );
    place.end().await
}
