//! A Python context: state, results, figures, output, errors. One sandbox, several executions.

use anyhow::{Context, Result};
use atoll_core::Outcome;
use atoll_core::execution::Execution;
use atoll_tests::{Place, value};
use base64::Engine as _;

/// The plain text of the execution's main result.
fn text(execution: &Execution) -> Option<&str> {
    execution
        .results
        .iter()
        .find(|result| result.main)?
        .data
        .get("text/plain")?
        .as_str()
}

fn png(execution: &Execution, number: usize) -> Result<Vec<u8>> {
    let result = execution
        .results
        .get(number)
        .with_context(|| format!("no result {number}: {execution:?}"))?;
    let data = result
        .data
        .get("image/png")
        .and_then(|data| data.as_str())
        .context("no image")?;
    Ok(base64::engine::general_purpose::STANDARD.decode(data.replace('\n', ""))?)
}

#[tokio::test]
async fn names_imports_and_history_live_on_between_executions() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let first = place
        .python("import math\nx = [1]\ndef f(): return len(x)\n'shown'")
        .await?;
    assert_eq!(text(&first), Some("'shown'"));
    let second = place.python("x.append(2); _, f(), math.floor(2.5)").await?;
    assert_eq!(text(&second), Some("('shown', 2, 2)"));
    assert_eq!(
        (&first.context_id, &first.sandbox_id),
        (&second.context_id, &second.sandbox_id)
    );
    assert_ne!(first.execution_id, second.execution_id);
    let failed = place.python("y = 5\n1/0").await?;
    assert_eq!(failed.outcome, Outcome::Error);
    assert_eq!(text(&place.python("y, len(x)").await?), Some("(5, 2)"));
    place.end().await
}

#[tokio::test]
async fn a_value_is_shown_in_every_form_that_it_offers() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "class Rich:\n    def _repr_html_(self): return '<b>h</b>'\n    def _repr_markdown_(self): return '*m*'\n\
                \x20   def _repr_latex_(self): return '$l$'\n    def _repr_json_(self): return {'j': 1}\n\
                \x20   def _repr_svg_(self): return '<svg/>'\n    def _repr_javascript_(self): return 'j()'\n\
                \x20   def _repr_png_(self): return b'\\x89PNG'\n    def _repr_jpeg_(self): return b'\\xff\\xd8'\n\
                \x20   def _repr_pdf_(self): return b'%PDF'\n    def __repr__(self): return 'rich'\nRich()";
    let shown = place.raw(code).await?;
    assert_eq!((shown.outcome, shown.results.len()), (Outcome::Ok, 1), "{shown:?}");
    let data = &shown.results[0].data;
    assert_eq!(
        (&data["text/plain"], &data["text/html"]),
        (&"rich".into(), &"<b>h</b>".into())
    );
    assert_eq!(
        (&data["text/markdown"], &data["text/latex"]),
        (&"*m*".into(), &"$l$".into())
    );
    assert_eq!(
        (&data["image/svg+xml"], &data["application/javascript"]),
        (&"<svg/>".into(), &"j()".into())
    );
    assert_eq!(
        (&value(&data["application/json"])["j"], &data["image/png"]),
        (&1.into(), &"iVBORw==".into())
    );
    assert_eq!(
        (&data["image/jpeg"], &data["application/pdf"]),
        (&"/9g=".into(), &"JVBERg==".into())
    );
    let both = place
        .python("from IPython.display import display, HTML\ndisplay(HTML('<i>a</i>'))\n7")
        .await?;
    let forms: Vec<bool> = both.results.iter().map(|result| result.main).collect();
    assert_eq!(forms, [false, true]);
    assert_eq!(place.python("7;").await?.results, []);
    assert_eq!(place.python("None").await?.results, []);
    place.end().await
}

#[tokio::test]
async fn figures_are_captured_with_and_without_show() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let silent = place
        .python("import matplotlib.pyplot as plt\nplt.figure(figsize=(4, 2))\nplt.plot([1, 2, 3], label='up')\nplt.title('T');")
        .await?;
    assert_eq!(
        (silent.outcome, silent.results.len(), silent.stderr.as_str()),
        (Outcome::Ok, 1, ""),
        "{:?}",
        silent.error
    );
    let image = png(&silent, 0)?;
    assert!(image.starts_with(b"\x89PNG\r\n\x1a\n"));
    let per_metre = image
        .windows(4)
        .position(|four| four == b"pHYs")
        .context("no resolution")?;
    assert_eq!(
        image[per_metre + 4..per_metre + 13],
        [0, 0, 0x17, 0x12, 0, 0, 0x17, 0x12, 1],
        "5906 per metre, 150 dpi"
    );
    let chart = value(silent.results[0].chart.as_ref().context("no chart data")?);
    assert_eq!((&chart["type"], &chart["title"]), (&"line".into(), &"T".into()));
    let shown = place
        .python("plt.bar(['a'], [1]); plt.show(); plt.pie([1, 2]); plt.show(); print('after')")
        .await?;
    assert_eq!((shown.results.len(), shown.stdout.as_str()), (2, "after\n"));
    assert_ne!(png(&shown, 0)?, png(&shown, 1)?);
    assert_eq!(
        shown.results[0]
            .chart
            .as_ref()
            .map(|chart| value(chart)["type"].clone()),
        Some("bar".into())
    );
    let two = place
        .python("for i in range(2):\n    plt.figure(); plt.plot([i])")
        .await?;
    assert_eq!(two.results.len(), 2);
    assert_eq!(
        place.python("1").await?.results.len(),
        1,
        "a captured figure is not captured again"
    );
    place.end().await
}

/// A newer matplotlib has no `labels`; models have learned to write it.
#[tokio::test]
async fn a_box_plot_takes_labels_as_models_write_them() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let drawn = place
        .python("import matplotlib.pyplot as plt\nplt.boxplot([[1, 2, 3], [2, 3, 4]], labels=['a', 'b']); plt.show()")
        .await?;
    assert_eq!(
        (drawn.outcome, drawn.results.len()),
        (Outcome::Ok, 1),
        "{:?}",
        drawn.error
    );
    place.end().await
}

#[tokio::test]
async fn a_data_frame_comes_as_text_html_and_data() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let shown = place
        .python("import pandas as pd\npd.DataFrame({'city': ['Oslo', 'Rom'], 'n': [1, 2]})")
        .await?;
    let data = &shown.results[0].data;
    assert!(
        data["text/plain"]
            .as_str()
            .is_some_and(|text| text.contains("0  Oslo  1")),
        "{data:?}"
    );
    assert!(
        data["text/html"]
            .as_str()
            .is_some_and(|html| html.contains("<td>Rom</td>")),
        "{data:?}"
    );
    assert_eq!(
        value(&data["e2b/data"]),
        serde_json::json!({"city": ["Oslo", "Rom"], "n": [1, 2]})
    );
    place.end().await
}

#[tokio::test]
async fn tracebacks_show_the_users_lines_and_none_of_ours() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.python("def broken(n):\n    return n / 0").await?;
    let failed = place.python("x = 1\nbroken(x)").await?;
    let error = failed.error.as_ref().context("no error")?;
    assert_eq!(
        (error.name.as_str(), error.value.as_str()),
        ("ZeroDivisionError", "division by zero")
    );
    let whole = error.traceback.join("\n");
    for line in [
        "Cell In[2], line 2",
        "broken(x)",
        "Cell In[1], line 2, in broken",
        "return n / 0",
    ] {
        assert!(whole.contains(line), "{line}: {whole}");
    }
    for ours in ["atoll", "IPython", "ipykernel", "\x1b", "/root", "run_code"] {
        assert!(!whole.contains(ours), "{ours}: {whole}");
    }
    assert_eq!(failed.stderr, "");
    let syntax = place.python("x = = 1").await?;
    assert_eq!(
        (syntax.outcome, syntax.error.map(|e| e.name)),
        (Outcome::Error, Some("SyntaxError".into()))
    );
    place.end().await
}

#[tokio::test]
async fn output_of_c_code_and_subprocesses_is_captured_in_order() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import ctypes, os, subprocess, sys\nlibc = ctypes.CDLL(None)\nprint('one')\n\
                libc.puts(b'two'); libc.fflush(None)\nprint('three', flush=True)\nsubprocess.run(['echo', 'four'])\n\
                os.write(1, b'five\\n')\n!echo six\nos.system('echo seven; echo bad >&2')\nprint('eight', file=sys.stderr)";
    let ran = place.python(code).await?;
    assert_eq!(ran.stdout, "one\ntwo\nthree\nfour\nfive\nsix\nseven\n", "{ran:?}");
    assert_eq!(ran.stderr, "bad\neight\n");
    assert_eq!(
        text(&place.python("lines = !printf 'a\\nb'\nlist(lines)").await?),
        Some("['a', 'b']")
    );
    place.end().await
}

#[tokio::test]
async fn await_works_at_the_top_level_and_the_loop_lives_on() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code =
        "import asyncio\nasync def f(n):\n    await asyncio.sleep(0)\n    return n\nawait asyncio.gather(f(1), f(2))";
    assert_eq!(text(&place.python(code).await?), Some("[1, 2]"));
    assert_eq!(text(&place.python("await f(3)").await?), Some("3"));
    place.end().await
}

#[tokio::test]
async fn asking_the_user_fails_at_once_and_says_what_to_do() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    for code in ["input('name? ')", "import getpass; getpass.getpass()"] {
        let asked = place.python(code).await?;
        let error = asked.error.context("no error")?;
        assert_eq!(
            (asked.outcome, error.name.as_str()),
            (Outcome::Error, "EOFError"),
            "{code}: {error:?}"
        );
        assert!(error.value.contains("input() is not available"), "{error:?}");
    }
    assert_eq!(text(&place.python("import sys; sys.stdin.read()").await?), Some("''"));
    place.end().await
}
