//! JavaScript and TypeScript contexts on the machine's Node: state, top-level await, modules, output, results, errors,
//! interrupts, exits. What needs no sandbox is tested beside the kernel (`crates/atoll-guest/node/tests`).

use anyhow::Result;
use atoll_core::execution::Execution;
use atoll_core::{Language, Outcome};
use atoll_tests::{Place, execute, value};
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
    let second = js(&mut place, "const x = 40; let y = 2; x + y").await?;
    assert_eq!(second.results[0].data["text/plain"], "42");
    assert_eq!(first.context_id, second.context_id);
    place.end().await
}

#[tokio::test]
async fn values_are_shown_as_text_json_and_what_they_offer() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let shown = js(&mut place, "display({'text/html': '<b>x</b>'}); ({a: [1, 2]})").await?;
    assert_eq!(shown.results[0].data["text/html"], "<b>x</b>", "{shown:?}");
    assert_eq!(value(&shown.results[1].data["application/json"]), json!({"a": [1, 2]}));
    assert_eq!((shown.results[0].main, shown.results[1].main), (false, true));
    assert!(js(&mut place, "const z = 1").await?.results.is_empty());
    let deep = js(
        &mut place,
        "let d = []; for (let i = 0; i < 9000; i++) d = [d]; console.log('x'.repeat(300000)); d",
    )
    .await?;
    assert_eq!(
        (deep.outcome, deep.results.len(), deep.stdout.len()),
        (Outcome::Ok, 1, 300_001)
    );
    let huge = js(&mut place, "'x'.repeat(40e6)").await?;
    assert!(huge.truncated.results && huge.results.len() == 1, "{:?}", huge.outcome);
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
    let traceback = ["TypeError: bad", "    at f (cell_1.js:1:22)", "    at cell_1.js:2:1"];
    assert_eq!(error.traceback, traceback);
    let syntax = js(&mut place, "let let = 1").await?;
    assert_eq!(syntax.error.unwrap().name, "SyntaxError");
    place.end().await
}

#[tokio::test]
async fn modules_of_node_and_of_the_sandbox_are_imported() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import { writeFileSync } from 'fs'
        import * as path from 'node:path'
        writeFileSync(path.join(process.cwd(), 'own.mjs'), 'export default 40; export const two = 2')
        const { default: forty, two } = await import('./own.mjs')
        forty + two";
    let imported = js(&mut place, code).await?;
    assert_eq!(imported.error, None);
    assert_eq!(imported.results[0].data["text/plain"], "42");
    let absent = js(&mut place, "import isOdd from 'npm:is-odd'").await?;
    assert!(absent.error.unwrap().value.contains("Cannot find package 'is-odd'"));
    place.end().await
}

#[tokio::test]
async fn typescript_has_a_context_of_its_own_and_its_types_go() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "enum Color { Red, Green }\ninterface P { a: number }\nconst p: P = { a: Color.Green }\np.a as number";
    let typed = execute(&mut place.sandbox, Language::Typescript, code).await?;
    assert_eq!(typed.error, None);
    assert_eq!(typed.results[0].data["text/plain"], "1");
    let apart = js(&mut place, "typeof p").await?;
    assert_eq!(apart.results[0].data["text/plain"], "'undefined'");
    assert_ne!(typed.context_id, apart.context_id);
    place.end().await
}

#[tokio::test]
async fn an_endless_loop_and_an_endless_wait_are_interrupted_and_the_next_code_runs() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let first = js(&mut place, "let kept = 41").await?;
    for code in [
        "console.log('MARK'); while (true) {}",
        "console.log('MARK'); await new Promise(() => {})",
        "setTimeout(() => { console.log('MARK'); while (true) {} }, 1); await new Promise(() => {})",
        "console.log('MARK'); require('child_process').execSync('sleep 1000')",
    ] {
        let ended = place.interrupted(Language::Javascript, code, "MARK").await?;
        assert_eq!(ended.outcome, Outcome::Interrupted, "{ended:?}");
        assert_eq!(ended.error.map(|error| error.name), Some("KeyboardInterrupt".into()));
    }
    let after = js(&mut place, "kept + 1").await?;
    assert_eq!(after.results[0].data["text/plain"], "42");
    assert_eq!(first.context_id, after.context_id);
    place.end().await
}

#[tokio::test]
async fn a_thread_that_does_not_listen_is_killed_and_a_fresh_context_follows() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    // The signal that the control thread sends to children is the last thing it can do.
    let deaf = "child_process.execSync(\"trap '' INT; echo MARK; while :; do :; done\", { stdio: 'inherit' })";
    let ended = place.interrupted(Language::Javascript, deaf, "MARK").await?;
    assert_eq!(ended.outcome, Outcome::Interrupted, "{ended:?}");
    let fresh = js(&mut place, "6 * 7").await?;
    assert_eq!(fresh.results[0].data["text/plain"], "42");
    assert_ne!(ended.context_id, fresh.context_id);
    place.end().await
}

#[tokio::test]
async fn an_exit_ends_the_cell_and_a_hard_one_the_context() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let left = js(&mut place, "let kept = 1; process.exit(3)").await?;
    assert_eq!((left.outcome, left.exit_code), (Outcome::Error, Some(3)), "{left:?}");
    let fine = js(&mut place, "process.exit()").await?;
    assert_eq!((fine.outcome, fine.exit_code), (Outcome::Ok, Some(0)), "{fine:?}");
    assert_eq!(js(&mut place, "kept").await?.results[0].data["text/plain"], "1");
    let hard = js(&mut place, "process.reallyExit(5)").await?;
    assert_eq!(
        (hard.outcome, hard.exit_code, hard.stderr.as_str()),
        (Outcome::Error, Some(5), "")
    );
    let fresh = js(&mut place, "typeof kept").await?;
    assert_eq!(fresh.results[0].data["text/plain"], "'undefined'");
    place.end().await
}

#[tokio::test]
async fn what_fails_between_cells_is_told_and_harms_nothing() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let late = "let kept = 1; setTimeout(() => { throw new Error('late') }, 1)
        Promise.reject(new TypeError('rejected'))
        await new Promise((done) => setTimeout(done, 20))";
    let told = js(&mut place, late).await?;
    assert_eq!(told.outcome, Outcome::Ok, "{told:?}");
    assert!(
        told.stderr
            .contains("Uncaught TypeError: rejected\n    at cell_1.js:2:"),
        "{}",
        told.stderr
    );
    assert!(
        told.stderr.contains("Uncaught Error: late\n") && !told.stderr.contains("node:"),
        "{}",
        told.stderr
    );
    assert_eq!(js(&mut place, "kept").await?.results[0].data["text/plain"], "1");
    place.end().await
}

/// On a machine whose `/usr/bin` has no Node: a layer over it, for one command only.
#[test]
fn without_node_the_answer_says_what_to_install() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let script = "mkdir $DIR/up $DIR/work && mount -t overlay overlay -o lowerdir=/usr/bin,upperdir=$DIR/up,workdir=$DIR/work /usr/bin \
                  && rm /usr/bin/node && exec \"$0\" run --lang typescript -c 1";
    let mut hidden = std::process::Command::new("unshare");
    hidden.args(["-m", "sh", "-c", script]).arg(atoll_tests::binary());
    hidden.env("DIR", dir.path()).env("ATOLL_HOME", atoll_tests::home());
    let ran = atoll_tests::run_command(&mut hidden)?;
    assert_eq!(
        (ran.code, ran.stderr.as_str()),
        (
            Some(5),
            "error: language `typescript` requires Node.js on the host, and /usr/bin/node does not exist\n\n\
             hint: apt-get install nodejs\n"
        )
    );
    Ok(())
}
