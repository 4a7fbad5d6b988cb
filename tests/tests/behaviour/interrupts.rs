//! Interrupting Python: the state survives if the code listens, and a fresh context follows if it does not.

use super::endings::is_fresh;
use anyhow::Result;
use atoll_core::{Language, Outcome};
use atoll_tests::Place;

#[tokio::test]
async fn an_interrupt_stops_the_code_and_keeps_the_state() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let busy = "kept = 41\nprint('MARK', flush=True)\nwhile True: pass";
    let asleep = "import time\nkept += 1\nprint('MARK', flush=True)\ntime.sleep(1000)";
    let child = "import subprocess\nprint('MARK', flush=True)\nsubprocess.run(['sleep', '1000'])";
    let waiting = "import asyncio\nprint('MARK', flush=True)\nawait asyncio.sleep(1000)";
    for code in [busy, asleep, child, waiting] {
        let ended = place.interrupted(Language::Python, code, "MARK").await?;
        assert_eq!(
            (ended.outcome, ended.stdout.as_str()),
            (Outcome::Interrupted, "MARK\n"),
            "{code}: {ended:?}"
        );
        assert_eq!(
            ended.error.map(|error| error.name),
            Some("KeyboardInterrupt".into()),
            "{code}"
        );
        let kept = place.python("print(kept)").await?;
        assert_eq!(
            kept.stdout,
            if code == busy { "41\n" } else { "42\n" },
            "{code}: {kept:?}"
        );
    }
    place.end().await
}

/// Python looks for signals between its steps: one that comes behind the last look and before the wait is seen by nobody until
/// the wait ends. The pauses are of all lengths that the interrupt may need to come.
#[tokio::test]
async fn an_interrupt_just_before_a_wait_ends_it() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.python("import time\nkept = 0").await?;
    for number in 0..60_u32 {
        let pause = number * 5;
        let code = format!(
            "kept += 1\nend = time.perf_counter() + {pause}e-6\nprint('MARK', flush=True)\nwhile time.perf_counter() < end: pass\ntime.sleep(1000)"
        );
        let ended = place.interrupted(Language::Python, &code, "MARK").await?;
        assert_eq!(ended.outcome, Outcome::Interrupted, "{pause}: {ended:?}");
    }
    assert_eq!(place.python("print(kept)").await?.stdout, "60\n");
    place.end().await
}

#[tokio::test]
async fn code_that_ignores_the_interrupt_is_killed_and_replaced() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let deaf = "import signal\nkept = 1\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('MARK', flush=True)\nwhile True: pass";
    let stubborn = "kept = 1\nwhile True:\n    try:\n        print('MARK', flush=True)\n        while True: pass\n    except KeyboardInterrupt: pass";
    for code in [deaf, stubborn] {
        let ended = place.interrupted(Language::Python, code, "MARK").await?;
        assert_eq!(ended.outcome, Outcome::Interrupted, "{code}: {ended:?}");
        assert_eq!(ended.error.map(|error| error.name), Some("KeyboardInterrupt".into()));
        assert!(is_fresh(&mut place).await?, "{code}");
    }
    place.end().await
}

#[tokio::test]
async fn an_interrupt_before_the_code_begins_is_told_and_harms_nothing() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let interrupt = std::sync::Arc::new(tokio::sync::Notify::new());
    interrupt.notify_one();
    let refused = place
        .sandbox
        .run(Language::Python, "print(1)", interrupt, &mut |_| {})
        .await;
    assert_eq!(
        refused.map_err(|error| error.to_string()).err(),
        Some("interrupted before the code started".to_owned())
    );
    assert_eq!(place.python("print(2)").await?.stdout, "2\n");
    place.end().await
}
