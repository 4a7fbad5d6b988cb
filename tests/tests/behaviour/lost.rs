//! A context that did not survive: who comes next hears that its state is gone, and why.

use anyhow::{Context, Result};
use atoll_core::execution::Execution;
use atoll_core::quantity::{MIB, MemoryBytes};
use atoll_core::{Language, Limits, Outcome};
use atoll_tests::{Place, execute, run};

const GREEDY: &str = "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1";

fn rule(execution: &Execution) -> &str {
    execution.hint.as_ref().map_or("", |hint| hint.rule.as_str())
}

#[tokio::test]
async fn the_execution_that_costs_the_state_says_so() -> Result<()> {
    let limits = Limits {
        memory: MemoryBytes::known(128 * MIB),
        ..Limits::SMALL
    };
    let mut place = Place::limited("python-min", limits).await?;
    for (code, why) in [
        (GREEDY, "memory_limit: 128 MiB"),
        (
            "import ctypes; ctypes.string_at(0)",
            "the interpreter was terminated by SIGSEGV (segmentation fault)",
        ),
        ("import os; os._exit(7)", "the interpreter exited with status 7"),
    ] {
        let ended = place.python(code).await?;
        let error = ended.error.as_ref().context("no error")?;
        assert!(
            error.value.ends_with("; the state of this context is lost"),
            "{code}: {error:?}"
        );
        assert_eq!(rule(&ended), why, "{code}");
        let instead = ended.hint.map(|hint| hint.instead).unwrap_or_default();
        assert!(instead.contains("starts with empty state"), "{code}: {instead}");
    }
    let quiet = place.python("import os; os._exit(0)").await?;
    assert_eq!(
        (quiet.outcome, rule(&quiet)),
        (Outcome::Ok, "the interpreter exited with status 0")
    );
    place.end().await
}

#[tokio::test]
async fn a_name_that_is_missed_afterwards_tells_of_the_loss() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.python("kept = 1\nimport os").await?;
    place.python("os._exit(3)").await?;
    let why = "the interpreter exited with status 3";
    let missed = place.python("kept + 1").await?;
    let error = missed.error.as_ref().context("no error")?;
    assert_eq!(
        (error.name.as_str(), error.value.as_str()),
        ("NameError", "name 'kept' is not defined")
    );
    let note = format!("note: the state of this context was lost earlier ({why})");
    assert_eq!(error.traceback.last(), Some(&note), "{error:?}");
    assert_eq!(rule(&missed), why);
    // Said once without being asked, and again whenever a name is missed.
    assert_eq!(rule(&place.python("1 + 1").await?), "");
    assert_eq!(rule(&place.python("os.getcwd()").await?), why);
    assert_eq!(rule(&place.python("1 / 0").await?), "");
    let script = execute(
        &mut place.sandbox,
        Language::Javascript,
        "let kept = 1; process.reallyExit(2)",
    )
    .await?;
    assert_eq!(script.exit_code, Some(2), "{script:?}");
    let missed = execute(&mut place.sandbox, Language::Javascript, "kept").await?;
    assert_eq!(rule(&missed), "the interpreter exited with status 2", "{missed:?}");
    place.end().await
}

#[tokio::test]
async fn a_restart_that_was_asked_for_is_no_loss() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let lost = place.python("import os; os._exit(1)").await?;
    assert_eq!(rule(&lost), "the interpreter exited with status 1");
    let fresh = place.sandbox.contexts().first().context("no context")?.id.clone();
    place.sandbox.restart_context(&fresh).await?;
    let missed = place.python("kept").await?;
    assert_eq!((missed.outcome, missed.hint), (Outcome::Error, None));
    place.end().await
}

/// Nobody comes back to a sandbox of one execution.
#[test]
fn one_run_says_nothing_of_state() -> Result<()> {
    let ran = run(&["run", "--template", "python-min", "-c", "import os; os._exit(7)"])?;
    assert_eq!((ran.code, ran.stderr.as_str()), (Some(1), "note: exit status 7\n"));
    Ok(())
}
