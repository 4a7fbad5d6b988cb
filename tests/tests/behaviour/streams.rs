//! The order of stdout and stderr as the caller hears them while the code runs.

use anyhow::{Context, Result};
use atoll_core::{Language, Outcome};
use atoll_engine::Output;
use atoll_tests::terminal::interrupted_at;
use atoll_tests::{Place, atoll, execute};
use std::sync::Arc;
use tokio::sync::Notify;

/// Runs code and gives both streams as one text; each change to stderr is marked by `!`, back to stdout by `.`.
async fn heard(place: &mut Place, language: Language, code: &str) -> Result<String> {
    let (mut heard, mut last) = (String::new(), '.');
    let mut sink = |output: Output<'_>| {
        let (mark, piece) = match output {
            Output::Stdout(piece) => ('.', piece),
            Output::Stderr(piece) => ('!', piece),
            _ => return,
        };
        if mark != last && !piece.is_empty() {
            heard.push(mark);
            last = mark;
        }
        heard.push_str(&String::from_utf8_lossy(piece));
    };
    place
        .sandbox
        .run(language, code, Arc::new(Notify::new()), &mut sink)
        .await?;
    Ok(heard)
}

/// An interpreter keeps the order for as long as the engine reads within a second. On a busy host that may be too short.
const MORE_PATIENCE: [(Language, &str); 2] = [
    (
        Language::Python,
        "import atoll_kernel.order\natoll_kernel.order.PATIENCE_SECONDS = 600",
    ),
    (
        Language::Javascript,
        "const wait = Atomics.wait; Atomics.wait = (array, index, value, ms) => wait(array, index, value, 600 * ms); 0",
    ),
];

#[tokio::test]
async fn both_streams_come_in_the_order_of_writing() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    for (language, code) in MORE_PATIENCE {
        let set = execute(&mut place.sandbox, language, code).await?;
        assert_eq!(set.outcome, Outcome::Ok, "{set:?}");
    }
    let python = "import os, sys\nfor n in range(100):\n    print(n)\n    print(n, file=sys.stderr)\n\
                  os.system('echo child >&2')\nprint('end')";
    let javascript = "for (let n = 0; n < 100; n++) { console.log(n); console.error(n) }\n\
                      child_process.execSync('echo child >&2', { stdio: 'inherit' }); console.log('end')";
    let numbers: String = (0..100)
        .map(|n| format!("{}{n}\n!{n}\n", if n == 0 { "" } else { "." }))
        .collect();
    let expected = format!("{numbers}child\n.end\n");
    assert_eq!(heard(&mut place, Language::Python, python).await?, expected);
    assert_eq!(heard(&mut place, Language::Javascript, javascript).await?, expected);
    place.end().await
}

#[test]
fn a_long_run_has_a_status_line_on_a_terminal_that_goes_away() -> Result<()> {
    let code = "import signal\nprint('begun', flush=True)\nsignal.pause()";
    let mut command = atoll();
    command.args(["run", "--template", "python-min", "-c", code]);
    let ran = interrupted_at(command, " MiB of ")?;
    assert_eq!(ran.stdout, "begun\n", "{ran:?}");
    assert!(ran.shown.contains("\r\u{1b}[Krunning "), "{ran:?}");
    let (_, rest) = ran.shown.rsplit_once(" MiB of ").context("no status line")?;
    assert!(rest.starts_with("512 MiB\r\u{1b}[K"), "{ran:?}");
    Ok(())
}
