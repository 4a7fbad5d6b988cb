//! What code shows more than once: updates of a display, cleared results, libraries that were made for a page.

use anyhow::Result;
use atoll_core::Outcome;
use atoll_core::execution::Execution;
use atoll_tests::{Place, value};

/// The plain text of every result, in order.
fn texts(execution: &Execution) -> Vec<&str> {
    let shown = execution.results.iter();
    shown
        .filter_map(|result| result.data.get("text/plain")?.as_str())
        .collect()
}

#[tokio::test]
async fn an_update_replaces_what_it_updates() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let ran = place
        .python("h = display(0, display_id='bar')\ndisplay('other')\nfor n in range(1, 3000): h.update(n)\n'last'")
        .await?;
    assert_eq!(texts(&ran), ["2999", "'other'", "'last'"], "{ran:?}");
    assert!(!ran.truncated.results);
    let later = place
        .python("h.update('new here')\nh.update('and updated')\nupdate_display = None")
        .await?;
    assert_eq!(
        texts(&later),
        ["'and updated'"],
        "another execution has its own results"
    );
    place.end().await
}

#[tokio::test]
async fn cleared_results_are_gone_and_text_stays() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place.python("from IPython.display import clear_output").await?;
    let ran = place
        .python("for n in range(3):\n    clear_output(wait=True)\n    print(n)\n    display(n)")
        .await?;
    assert_eq!((texts(&ran), ran.stdout.as_str()), (vec!["2"], "0\n1\n2\n"));
    let now = place.python("display(1)\nprint('kept')\nclear_output()").await?;
    assert_eq!((texts(&now), now.stdout.as_str()), (vec![], "kept\n"));
    let waiting = place
        .python("display(1)\nprint('before')\nclear_output(wait=True)")
        .await?;
    assert_eq!(texts(&waiting), ["1"], "nothing came after it");
    let replaced = place
        .python("display(1)\nclear_output(wait=True)\nprint('after')\n2")
        .await?;
    assert_eq!((texts(&replaced), replaced.stdout.as_str()), (vec!["2"], "after\n"));
    place.end().await
}

#[tokio::test]
async fn plotly_figures_are_shown_once_as_data_and_html() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let code = "import plotly.graph_objects as go, plotly.io as pio\npio.renderers.default = 'notebook'\n\
                fig = go.Figure(go.Bar(x=['a'], y=[1]))\nfig.show()\npio.show(fig.to_dict(), renderer='browser')\nfig";
    let ran = place.raw(code).await?;
    assert_eq!((ran.outcome, ran.stderr.as_str()), (Outcome::Ok, ""), "{:?}", ran.error);
    let main: Vec<bool> = ran.results.iter().map(|result| result.main).collect();
    assert_eq!(main, [false, false, true]);
    for result in &ran.results {
        assert_eq!(
            value(&result.data["application/vnd.plotly.v1+json"])["data"][0]["type"],
            "bar"
        );
        let html = result.data["text/html"].as_str().unwrap_or_default();
        assert!(html.contains("<script") && html.len() < 100_000, "{} bytes", html.len());
    }
    place.end().await
}

#[tokio::test]
async fn notebook_progress_bars_are_text() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let ran = place
        .python("from tqdm.notebook import tqdm, trange\nsum(tqdm([1, 2])) + sum(trange(3))")
        .await?;
    assert_eq!((ran.outcome, texts(&ran)), (Outcome::Ok, vec!["6"]), "{:?}", ran.error);
    assert!(
        ran.stderr.contains("2/2") && ran.stderr.contains("3/3"),
        "{}",
        ran.stderr
    );
    place.end().await
}

/// A bar is drawn only for queries of two seconds and more; whether it would be is a setting of each connection.
#[tokio::test]
async fn duckdb_draws_no_progress_bar_unless_it_is_told_to() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let ran = place
        .python(
            "import duckdb\nasks = \"select current_setting('enable_progress_bar')\"\n\
             told = [c.sql(asks).fetchall()[0][0] for c in (duckdb, duckdb.connect())]\n\
             duckdb.sql('set enable_progress_bar = true')\ntold + [duckdb.sql(asks).fetchall()[0][0]]",
        )
        .await?;
    assert_eq!(texts(&ran), ["[False, False, True]"], "{:?}", ran.error);
    place.end().await
}

#[tokio::test]
async fn drawing_what_has_no_chart_data_warns_nobody() -> Result<()> {
    let mut place = Place::new("python-data").await?;
    let ran = place
        .python("import matplotlib.pyplot as plt\nplt.imshow([[1, 2], [3, 4]]); plt.colorbar();")
        .await?;
    assert_eq!((ran.results.len(), ran.stderr.as_str()), (1, ""), "{:?}", ran.error);
    place.end().await
}

#[tokio::test]
async fn the_event_loop_is_there_without_a_warning() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import asyncio\nasync def f(): return 5\nasyncio.get_event_loop().run_until_complete(f())";
    let ran = place.python(code).await?;
    assert_eq!((texts(&ran), ran.stderr.as_str()), (vec!["5"], ""), "{:?}", ran.error);
    assert_eq!(texts(&place.python("await f() + 1").await?), ["6"]);
    place.end().await
}

#[tokio::test]
async fn broken_code_is_a_syntax_error_of_the_cell() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    for (code, name, place_of_it) in [
        ("x = (1,\n2", "SyntaxError", "line 1"),
        ("def f(:", "SyntaxError", "line 1"),
        ("x = 'abc", "SyntaxError", "line 1"),
        ("for i in [1]:\n    print(i)\n   print(2)", "IndentationError", "line 3"),
        ("if 1:\n\tprint(1)\n        print(2)", "TabError", "line 3"),
        ("x = 1\nreturn x", "SyntaxError", "line 2"),
    ] {
        let ran = place.python(code).await?;
        let error = ran.error.clone().unwrap_or_else(|| panic!("{code}: {ran:?}"));
        assert_eq!((ran.outcome, error.name.as_str()), (Outcome::Error, name), "{error:?}");
        let lines = error.traceback.join("\n");
        assert!(lines.contains("Cell In[") && lines.contains(place_of_it), "{lines}");
        assert!(!lines.contains("tokenize") && !lines.contains("<string>"), "{lines}");
    }
    place.end().await
}

#[tokio::test]
async fn pip_install_tells_what_is_there_and_refuses_the_rest() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let there = place.python("!pip install ipython 2>/dev/null\n_exit_code").await?;
    assert!(
        there.stdout.starts_with("Requirement already satisfied: ipython"),
        "{there:?}"
    );
    assert_eq!(texts(&there), ["0"]);
    let quiet = place.python("%pip install -q ipython\n_exit_code").await?;
    assert_eq!(
        (quiet.stdout.as_str(), quiet.stderr.as_str(), texts(&quiet)),
        ("", "", vec!["0"])
    );
    let missing = place.python("%pip install no-such-package\n_exit_code").await?;
    assert_eq!(
        (missing.outcome, texts(&missing)),
        (Outcome::Ok, vec!["1"]),
        "{missing:?}"
    );
    assert!(missing.stderr.contains("not installed in this template"), "{missing:?}");
    place.end().await
}
