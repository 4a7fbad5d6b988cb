//! JavaScript contexts on the machine's Node: state, top-level await, output, results, errors, interrupts.

use anyhow::Result;
use atoll_core::execution::Execution;
use atoll_core::{Language, Outcome};
use atoll_tests::{Place, execute};
use serde_json::json;

async fn js(place: &mut Place, code: &str) -> Result<Execution> {
    execute(&mut place.sandbox, Language::Javascript, code).await
}

#[tokio::test]
async fn names_live_on_await_works_and_output_is_captured() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let first = js(
        &mut place,
        "let x = 1; const y = await Promise.resolve(2); console.log('out'); console.error('err')",
    )
    .await?;
    assert_eq!(
        (first.outcome, first.stdout.as_str(), first.stderr.as_str()),
        (Outcome::Ok, "out\n", "err\n"),
        "{first:?}"
    );
    let second = js(&mut place, "let x = 40; x + y").await?;
    assert_eq!(second.results[0].data["text/plain"], "42");
    assert_eq!(first.context_id, second.context_id);
    place.end().await
}

#[tokio::test]
async fn values_are_shown_as_text_json_and_what_they_offer() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let shown = js(&mut place, "display({'text/html': '<b>x</b>'}); ({a: [1, 2]})").await?;
    assert_eq!(shown.results[0].data["text/html"], "<b>x</b>", "{shown:?}");
    assert_eq!(shown.results[1].data["application/json"], json!({"a": [1, 2]}));
    assert_eq!((shown.results[0].main, shown.results[1].main), (false, true));
    assert!(js(&mut place, "const z = 1").await?.results.is_empty());
    place.end().await
}

#[tokio::test]
async fn errors_tell_their_kind_and_the_users_lines_only() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let thrown = js(&mut place, "function f() { throw new TypeError('bad') }\nf()").await?;
    let error = thrown.error.unwrap();
    assert_eq!(
        (thrown.outcome, error.name.as_str(), error.value.as_str()),
        (Outcome::Error, "TypeError", "bad")
    );
    assert!(error.traceback.iter().any(|line| line.contains("at f (")), "{error:?}");
    assert!(
        !error
            .traceback
            .iter()
            .any(|line| line.contains("node:") || line.contains("[eval]")),
        "{error:?}"
    );
    let syntax = js(&mut place, "let let = 1").await?;
    assert_eq!(syntax.error.unwrap().name, "SyntaxError");
    place.end().await
}

#[tokio::test]
async fn an_endless_loop_and_an_endless_wait_are_interrupted_and_the_next_code_runs() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    for code in [
        "console.log('MARK'); while (true) {}",
        "console.log('MARK'); await new Promise(() => {})",
    ] {
        let ended = place.interrupted(Language::Javascript, code, "MARK").await?;
        assert_eq!(ended.outcome, Outcome::Interrupted, "{ended:?}");
    }
    assert_eq!(js(&mut place, "6 * 7").await?.results[0].data["text/plain"], "42");
    place.end().await
}
