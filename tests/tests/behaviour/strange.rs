//! Strange but honest code: it must not confuse the answers of its own or of the next execution.

use anyhow::{Context, Result};
use atoll_core::Outcome;
use atoll_tests::Place;

#[tokio::test]
async fn text_that_is_no_unicode_still_gives_an_answer() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let shown = place.python("'a\\ud800b'").await?;
    assert_eq!((shown.outcome, shown.results.len()), (Outcome::Ok, 1), "{shown:?}");
    let raised = place.python("raise ValueError('a\\ud800b')").await?;
    let error = raised.error.context("no error")?;
    assert_eq!(
        (raised.outcome, error.name.as_str()),
        (Outcome::Error, "ValueError"),
        "{error:?}"
    );
    assert!(error.value.starts_with('a') && error.value.ends_with('b'), "{error:?}");
    let html = place
        .python("from IPython.display import HTML\nHTML('x\\udfff\\x00y')")
        .await?;
    assert_eq!((html.outcome, html.results.len()), (Outcome::Ok, 1), "{html:?}");
    place.end().await
}

#[tokio::test]
async fn numbers_that_json_does_not_know_still_give_an_answer() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code =
        "class J:\n    def _repr_json_(self): return {'nan': float('nan'), 'inf': float('inf'), 'big': 10**400}\nJ()";
    let shown = place.python(code).await?;
    assert_eq!((shown.outcome, shown.results.len()), (Outcome::Ok, 1), "{shown:?}");
    let deep = place.python("class D:\n    def _repr_json_(self):\n        x = []\n        for _ in range(100000): x = [x]\n        return x\nD()").await?;
    assert_eq!(deep.outcome, Outcome::Ok, "{:?}", deep.error);
    assert_eq!(place.python("print('next')").await?.stdout, "next\n");
    place.end().await
}

#[tokio::test]
async fn a_fork_that_runs_on_does_not_answer_for_its_parent() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let forked = place
        .python("import os\nme = os.getpid()\npid = os.fork()\n'shown'")
        .await?;
    assert_eq!((forked.outcome, forked.results.len()), (Outcome::Ok, 1), "{forked:?}");
    for number in 0..5 {
        let next = place
            .python(&format!("print(os.getpid() == me, pid > 0, {number})"))
            .await?;
        assert_eq!(next.stdout, format!("True True {number}\n"));
    }
    let waited = place.python("print(os.waitpid(pid, 0)[0] == pid)").await?;
    assert_eq!(waited.stdout, "True\n", "the child has ended by itself: {waited:?}");
    place.end().await
}

#[tokio::test]
async fn pools_of_processes_and_threads_work() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "import multiprocessing, concurrent.futures as cf\ndef f(x): return x * x\n\
                with multiprocessing.Pool(2) as p: print(p.map(f, range(4)))\n\
                with cf.ProcessPoolExecutor(2) as p: print(list(p.map(f, range(4))))\n\
                with cf.ThreadPoolExecutor(2) as p: print(list(p.map(f, range(4))))";
    let ran = place.python(code).await?;
    assert_eq!(ran.stdout, "[0, 1, 4, 9]\n".repeat(3), "{:?} {}", ran.error, ran.stderr);
    place.end().await
}

#[tokio::test]
async fn magics_work_and_an_install_says_that_there_is_no_network() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let cell = place.python("%%bash\necho from $((1+1)) bash\necho bad >&2").await?;
    assert_eq!(
        (cell.stdout.as_str(), cell.stderr.as_str()),
        ("from 2 bash\n", "bad\n"),
        "{:?}",
        cell.error
    );
    let lines = place
        .python("%cd /tmp\n%env CITY=Oslo\nimport os; print(os.getcwd(), os.environ['CITY'])")
        .await?;
    assert!(lines.stdout.ends_with("/tmp Oslo\n"), "{lines:?}");
    let timed = place.python("%timeit -n 1 -r 1 1+1").await?;
    assert!(
        timed.outcome == Outcome::Ok && timed.stdout.contains("per loop"),
        "{timed:?}"
    );
    let unknown = place.python("%no_such_magic").await?;
    assert_eq!(unknown.outcome, Outcome::Error, "{unknown:?}");
    place.end().await
}

#[tokio::test]
async fn an_endless_recursion_and_a_broken_repr_are_errors_of_the_code() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let deep = place.python("def f(): return f()\nf()").await?;
    assert_eq!(deep.error.map(|error| error.name), Some("RecursionError".into()));
    let broken = place
        .python("class B:\n    def __repr__(self): raise KeyError('no')\nB()")
        .await?;
    assert_eq!(
        (broken.outcome, broken.error.map(|error| error.name)),
        (Outcome::Error, Some("KeyError".into()))
    );
    let leaving = place
        .python("class E:\n    def __repr__(self): raise SystemExit(5)\nE()")
        .await?;
    assert_ne!(leaving.outcome, Outcome::Crashed, "{leaving:?}");
    let text = place.python("class S(str): pass\nS('ok')").await?;
    assert_eq!(text.results[0].data["text/plain"], "'ok'");
    place.end().await
}

#[tokio::test]
async fn a_lost_working_directory_or_replaced_builtins_hurt_only_the_code() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    place
        .python("import os, builtins, sys\nos.mkdir('/tmp/d'); os.chdir('/tmp/d'); os.rmdir('/tmp/d')")
        .await?;
    assert_eq!(place.python("print(1)").await?.stdout, "1\n");
    place
        .python("builtins.open = None; builtins.len = None; os.getcwd = None; sys.excepthook = None")
        .await?;
    let next = place.python("print(2)").await?;
    assert_eq!((next.outcome, next.stdout.as_str()), (Outcome::Ok, "2\n"), "{next:?}");
    let failed = place.python("1/0").await?;
    assert_eq!(failed.error.map(|error| error.name), Some("ZeroDivisionError".into()));
    place.end().await
}

#[tokio::test]
async fn code_as_long_as_is_allowed_runs() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let long = format!("#{}\nprint('end')", "é\"\\".repeat(2_000_000));
    assert!(long.len() < 10 << 20);
    let ran = place.python(&long).await?;
    assert_eq!((ran.outcome, ran.stdout.as_str()), (Outcome::Ok, "end\n"));
    let shell = format!(": '{}'; echo end", "x\n".repeat(1 << 20));
    assert_eq!(place.bash(&shell).await?.stdout, "end\n");
    place.end().await
}

#[tokio::test]
async fn results_and_prints_arrive_in_order_and_the_thousand_and_first_result_is_cut() -> Result<()> {
    let mut place = Place::new("python-min").await?;
    let code = "from IPython.display import display\nfor i in range(1001):\n    display(i)\n    print(i, flush=True)";
    let ran = place.python(code).await?;
    let shown: Vec<_> = ran
        .results
        .iter()
        .filter_map(|r| r.data["text/plain"].as_str())
        .collect();
    let expected: Vec<String> = (0..1000).map(|i| i.to_string()).collect();
    assert_eq!(shown, expected);
    assert!(ran.truncated.results && !ran.truncated.stdout, "{:?}", ran.truncated);
    assert_eq!(ran.stdout, (0..1001).map(|i| format!("{i}\n")).collect::<String>());
    place.end().await
}
