//! Policies from the outside: what is found, asked and denied; syntax errors in Python's own words.

use anyhow::{Context, Result};
use atoll_core::execution::CodeError;
use atoll_core::{Execution, ExecutionId, Language, Outcome, Verdict};
use atoll_engine::code_policy::review;
use atoll_engine::policy::{Policy, load};
use atoll_engine::{Choice, Control, Output, Request, SandboxSpec, Secrets, Walls, Warmth};
use atoll_tests::terminal::{Typed, typed};
use atoll_tests::{atoll, engine, execute, python, run, run_command, run_json, sandbox, stop};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

/// A data directory in which nothing can be started: whatever needs a template fails.
fn nowhere(args: &[&str]) -> Result<(Option<i32>, Execution)> {
    let dir = tempfile::tempdir()?;
    let ran = run_command(
        atoll()
            .args(["run", "--json"])
            .args(args)
            .env("ATOLL_HOME", "/proc/none")
            .current_dir(&dir),
    )?;
    let execution = serde_json::from_str(&ran.stdout).with_context(|| format!("not an answer: {ran:?}"))?;
    Ok((ran.code, execution))
}

#[test]
fn ordinary_code_runs_and_its_findings_are_told() -> Result<()> {
    let code = "import os, subprocess\nos.system('true')\nprint(subprocess.run(['echo', 'hi'], capture_output=True).stdout)\n!echo shell";
    let ran = run_json(&["--template", "python-min", "-c", code])?;
    assert_eq!((ran.outcome, ran.stdout.as_str()), (Outcome::Ok, "b'hi\\n'\nshell\n"));
    let found: Vec<_> = ran
        .findings
        .iter()
        .map(|one| (one.rule.as_str(), one.line, one.verdict))
        .collect();
    let shell = |line| ("process.shell", line, Verdict::Warn);
    assert_eq!(found, [shell(2), shell(3), shell(4)]);
    assert_eq!(ran.receipt.policy.as_deref(), Some(Policy::standard().digest()));
    Ok(())
}

#[test]
fn denied_code_starts_nothing_and_says_why() -> Result<()> {
    let (code, denied) = nowhere(&["--policy", "strict", "-c", "x = 1\nimport socket"])?;
    assert_eq!((code, denied.outcome), (Some(3), Outcome::Denied));
    assert_eq!(
        (&denied.sandbox_id, &denied.context_id, &denied.receipt.template),
        (&None, &None, &None)
    );
    let hint = denied.hint.context("no hint")?;
    assert_eq!(hint.rule, "policy strict: import.module = deny");
    assert!(hint.refused.contains("line 2: the module `socket`"), "{hint:?}");
    let words = run(&["run", "--policy", "strict", "-c", "import socket"])?;
    assert_eq!((words.code, words.stdout.as_str()), (Some(3), ""));
    assert!(
        words.stderr.contains("deny: line 1, column 8: the module `socket`"),
        "{words:?}"
    );
    assert!(
        words.stderr.contains("\nhint: use a module on the allow-list"),
        "{words:?}"
    );
    Ok(())
}

#[test]
fn without_a_terminal_a_question_is_answered_with_no() -> Result<()> {
    let (code, asked) = nowhere(&["--policy", "guarded", "-c", "import os; os.kill(1, 0)"])?;
    assert_eq!((code, asked.outcome), (Some(3), Outcome::ApprovalDenied));
    let hint = asked.hint.context("no hint")?;
    assert_eq!(hint.rule, "policy guarded: process.control = ask");
    assert!(hint.instead.ends_with("; run it on a terminal to be asked"), "{hint:?}");
    let passes = run_json(&[
        "--template",
        "python-min",
        "--policy",
        "guarded",
        "-c",
        "print(sum([1, 2]))",
    ])?;
    assert_eq!((passes.outcome, passes.stdout.as_str()), (Outcome::Ok, "3\n"));
    let passes = run_json(&[
        "--template",
        "python-min",
        "--policy",
        "strict",
        "-c",
        "import json\nprint(json.dumps([1]))",
    ])?;
    assert_eq!((passes.outcome, passes.stdout.as_str()), (Outcome::Ok, "[1]\n"));
    Ok(())
}

fn on_a_terminal(types: &str, args: &[&str]) -> Result<Typed> {
    let dir = tempfile::tempdir()?;
    let mut command = atoll();
    command.args(args).current_dir(&dir);
    typed(command, types)
}

#[test]
fn on_a_terminal_somebody_is_asked() -> Result<()> {
    let args = [
        "run",
        "--template",
        "python-min",
        "--policy",
        "guarded",
        "-c",
        "import os; os.nice(0); print('ran')",
    ];
    let agreed = on_a_terminal("y\n", &args)?;
    assert_eq!((agreed.code, agreed.stdout.as_str()), (Some(0), "ran\n"));
    for types in ["n\n", "\n"] {
        let declined = on_a_terminal(types, &args)?;
        assert_eq!((declined.code, declined.stdout.as_str()), (Some(3), ""));
        assert!(declined.shown.contains("not run: you answered no"), "{declined:?}");
    }
    Ok(())
}

/// Every execution of a sandbox passes its policy, in every language; refused code does not touch its context.
#[tokio::test]
async fn a_sandbox_has_a_policy_and_refused_code_leaves_no_trace() -> Result<()> {
    let engine = engine("python-min", Warmth::Cold, Walls::default()).await?;
    let spec = SandboxSpec {
        policy: Some(Arc::new(load("strict")?)),
        ..SandboxSpec::default()
    };
    let mut sandbox = engine.create(spec).await?;
    let first = python(&mut sandbox, "x = 41").await?;
    let denied = python(&mut sandbox, "x = 0\nimport os").await?;
    assert_eq!(
        (denied.outcome, &denied.context_id),
        (Outcome::Denied, &first.context_id)
    );
    assert!(denied.sandbox_id.is_some() && denied.receipt.layers.is_empty() && denied.error.is_some());
    let shell = execute(&mut sandbox, Language::Bash, "ls").await?;
    assert_eq!(shell.outcome, Outcome::Denied);
    let after = python(&mut sandbox, "print(x + 1)").await?;
    assert_eq!((after.outcome, after.stdout.as_str()), (Outcome::Ok, "42\n"));
    sandbox.end().await?;
    drop(sandbox);
    stop(engine).await
}

/// What the policy asks about runs only if somebody has said yes; what it denies never does.
#[tokio::test]
async fn a_yes_is_for_questions_only() -> Result<()> {
    let engine = engine("python-min", Warmth::Cold, Walls::default()).await?;
    let spec = SandboxSpec {
        policy: Some(Arc::new(load("guarded")?.tighten(&load("standard")?))),
        ..SandboxSpec::default()
    };
    let sandbox = engine.create(spec).await?;
    let ask = async |code: &'static str, approved: bool| {
        let request = Request {
            id: ExecutionId::from_random([7; 16]),
            context: Choice::Default(Language::Python),
            code,
            env: BTreeMap::new(),
            secrets: Secrets::default(),
            limits: None,
            control: Control::default(),
            room: atoll_engine::Room::default(),
            raw_results: false,
            policy: None,
            approved,
        };
        let mut sink = |_: Output<'_>| {};
        anyhow::Ok(sandbox.execute(request, &mut sink).await?.outcome)
    };
    assert_eq!(ask("import os; os.nice(0)", false).await?, Outcome::ApprovalDenied);
    assert_eq!(ask("import os; os.nice(0)", true).await?, Outcome::Ok);
    assert_eq!(ask("print((1)\nx", true).await?, Outcome::Error);
    sandbox.end().await?;
    drop(sandbox);
    stop(engine).await
}

#[test]
fn syntax_errors_are_told_before_anything_starts() -> Result<()> {
    let (code, broken) = nowhere(&["-c", "x = 1\nprint((x)"])?;
    assert_eq!((code, broken.outcome), (Some(1), Outcome::Error));
    let error = broken.error.context("no error")?;
    assert_eq!(
        (error.name.as_str(), error.value.as_str()),
        ("SyntaxError", "'(' was never closed (Cell In[1], line 2)")
    );
    let lines = [
        "  Cell In[1], line 2",
        "    print((x)",
        "         ^",
        "SyntaxError: '(' was never closed",
    ];
    assert_eq!(error.traceback, lines);
    Ok(())
}

const BROKEN: &[&str] = &[
    "print((1)",
    "x = 1\nprint((1)",
    "a = (1,\nb = 2",
    "x = [1, 2\ny = 3\nz = 4",
    "d = {'a': 1,\n     'b': (2, 3}\n",
    "print(1))",
    "x = 1\ny = ]",
    "x = (1]\ny",
    "a = f(1,\n  2]\n",
    "s = 'abc\nt = 1",
    "x = 1\ns = \"abc",
    "s = '''abc\ndef\n",
    "s = \"\"\"abc\ndef",
    "x = 1\n  y = 2",
    "def f():\n    return 1\n      x = 2",
    "x = 1\n\ty = 2\n",
    "print('a'\nprint('b')",
    "if x:\npass",
    "def f(:\n  pass",
    "for i in range(3) print(i)\n",
    "x = 5 5\n",
    "class A\n  pass\n",
    "f(a b)\nx",
    "1 = x\ny",
    "return = 3\n",
    "x = {1: 2, 3}\ny",
    "try:\n  x\ny = 1",
    "def f():\n  x = 1\n y = 2\n",
    "s = b'é'\n",
    "x = 0777\n",
    "x = 1 +\ny",
    "print(f'{a b}')\n",
    "f'{x'\ny",
    "lambda x: (yield\n",
    "a = [1, 2, 3\nfor b in a:\n    print(b)",
    "x = (\n",
    "foo(bar(baz[1)\n",
    "while True print(1)\ny",
    "else:\n  x\n",
    "x = $5\ny",
    "x = 5?6\ny",
    "a\0b = 1",
    "größe = 'é' + (1]\nx",
    "数 = [1, 2)\nx",
    "x = (1]\r\ny = 2\r\n",
    "x = 'abc  # comment\ny",
    "# (\nx = [1, # (\ny",
    "print(\"a\", 'b)\nx = 1",
    "x = '''a\nb\n\n\n",
    "f(x,\n  y,\n  (z,\n",
    "if (a and\n    b:\n    c = 1\n",
    "def f(a, b:\n    return a\n",
    "x = {'a': [1, 2, {'b': 3}\nprint(x)\n",
    "class A:\n    def f(self):\n        return (1\n\n    def g(self):\n        return 2\n",
    "x = 1\n    # comment\n    y = 2\n",
    "for i in x:\n    y\n        z\n",
    "a = r'\\'\nb = 'x\n",
    "print('it's')\nx = 1",
    "x = f'{a'\ny = 1",
    "x = f'{a}}'\ny",
    "x = f'abc\ny",
    "s = b'abc\nt",
    "s = 'abc\\\ndef\nt",
];

const WHOLE: &[&str] = &[
    "!ls 'x",
    "%timeit (1",
    "x = !echo )",
    "pip install 'nothing",
    "  x = 1\n  y = 2",
    ">>> x = 1\n>>> y = (x,\n...      2)",
    "%%bash\necho )",
    "%%time\nx = 1",
    "await f()",
    "print?",
    "?print",
    "match = 1\ncase = 2\ntype = 3\nmatch[0]\n",
    "type X = int\ndef f[T](x: T) -> T: return x\n",
    "f'{x!r:>{width}} {'nested'}'",
    "print(f'{{}} {1 + 1 = }')",
    "try:\n    x\nexcept* ValueError:\n    pass",
    "with (open('a') as f, open('b') as g):\n    pass",
    "x = 1_000_000j\nif x:=5: pass",
    "async with a: pass",
    "print(*[1], **{})\nlambda *a, b=1, **c: (a, b, c)",
    "t = t'{x}'",
    "try:\n    x\nexcept A, B:\n    pass",
    "def f(a, /, b, *, c): ...\nx[1:2, ::3, ...]",
    "\\\nx = 1",
    "x = 'a' \\\n  'b'",
    "if 1:\n\tx = 1\n\ty = 2\n",
    "x = '''\n  ( [ {\n'''",
    "# ( [ {\nx = 1",
];

/// What is told early is what the interpreter says, word for word; and what it takes is never told as broken.
#[tokio::test]
async fn our_words_are_pythons_words() -> Result<()> {
    let engine = engine("python-min", Warmth::Cold, Walls::default()).await?;
    let mut sandbox = sandbox(&engine).await?;
    let (mut sure, mut wrong) = (0, Vec::new());
    for code in BROKEN.iter().chain(WHOLE) {
        let Some(fault) = review(code, Language::Python, &Policy::standard().code)
            .syntax
            .filter(|fault| fault.certain)
        else {
            continue;
        };
        sure += 1;
        let said = python(&mut sandbox, code).await?.error;
        let said = said.map(|error| without_number(&error));
        let ours = CodeError {
            name: fault.name.to_owned(),
            value: fault.value(1),
            traceback: fault.traceback(1),
        };
        if said != Some(without_number(&ours)) {
            wrong.push(format!("{code:?}\n  ours {ours:?}\n  said {said:?}"));
        }
    }
    sandbox.end().await?;
    drop(sandbox);
    stop(engine).await?;
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(sure >= 15, "only {sure} are told early");
    Ok(())
}

/// The interpreter counts its cells.
fn without_number(error: &CodeError) -> CodeError {
    let bare = |text: &String| {
        let (before, rest) = text.split_once("Cell In[").unwrap_or((text, ""));
        format!("{before}{}", rest.split_once(']').map_or("", |(_, after)| after))
    };
    CodeError {
        name: error.name.clone(),
        value: bare(&error.value),
        traceback: error.traceback.iter().map(bare).collect(),
    }
}

#[test]
fn policies_are_checked_listed_and_shown() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text);
    write("own.toml", "inherit = 'standard'\n[code.rules]\n'network' = 'deny'\n")?;
    write("bad.toml", "inherit = 'standard'\n[code.rules]\n'networks' = 'deny'\n")?;
    write("fine.py", "print(1)\n")?;
    write("net.py", "import socket\nsocket.socket()\n")?;
    write("broken.py", "print((1)\n")?;
    let check = |args: &[&str]| run_command(atoll().args(["policy", "check"]).args(args).current_dir(&dir));
    let own = check(&["own.toml"])?;
    assert!(own.code == Some(0) && own.stdout.contains("sha256:"), "{own:?}");
    let bad = check(&["bad.toml"])?;
    assert!(bad.code == Some(2) && bad.stderr.contains("`networks`"), "{bad:?}");
    assert_eq!(check(&["nowhere"])?.code, Some(2));
    assert_eq!(check(&["own.toml", "--code", "fine.py"])?.code, Some(0));
    let denied = check(&["own.toml", "--code", "net.py"])?;
    assert!(
        denied.code == Some(3) && denied.stdout.contains("deny: line 2, column 1"),
        "{denied:?}"
    );
    let json = check(&["own.toml", "--code", "net.py", "--json"])?;
    let json: Value = serde_json::from_str(&json.stdout)?;
    assert_eq!(
        (&json["verdict"], &json["findings"][0]["rule"]),
        (&"deny".into(), &"network.use".into())
    );
    let broken = check(&["open", "--code", "broken.py"])?;
    assert!(
        broken.code == Some(1) && broken.stdout.contains("SyntaxError: '(' was never closed"),
        "{broken:?}"
    );
    let list = run(&["policy", "list"])?.stdout;
    assert!(
        ["open", "standard", "guarded", "strict"]
            .iter()
            .all(|name| list.contains(name)),
        "{list}"
    );
    let show = run(&["policy", "show", "strict"])?.stdout;
    assert!(show.contains("process.shell") && show.contains("statsmodels"), "{show}");
    assert_eq!(check(&["strict", "--code", "net.py", "--lang", "cobol"])?.code, Some(2));
    Ok(())
}
