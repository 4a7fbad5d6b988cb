//! What people try first, and what they are told when it is not quite right: rich results on a terminal, files in the wrong
//! place, inputs by their bare name, a data directory that is none.

use anyhow::{Context, Result};
use atoll_tests::{Ran, atoll, run, run_command, run_json};
use std::fs;
use std::path::Path;

fn run_in(dir: &Path, args: &[&str]) -> Result<Ran> {
    run_command(atoll().arg("run").args(args).current_dir(dir))
}

fn names(dir: &Path) -> Result<Vec<String>> {
    let mut names: Vec<String> = fs::read_dir(dir.join("atoll-out"))?
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<Result<_>>()?;
    names.sort();
    Ok(names)
}

#[test]
fn whatever_is_shown_is_printed_or_saved() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code = "from IPython.display import HTML, Markdown\ndisplay({'a': 1})\ndisplay(Markdown('# hi'))\n\
                display(HTML('<b>bold</b>'))\nprint('out')\n'last'";
    let ran = run_in(dir.path(), &["--template", "python-min", "-c", code])?;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (
            Some(0),
            "out\n",
            "shown: {'a': 1}\nshown: # hi\nresult: 'last'\nsaved: atoll-out/chart-1.html\n"
        )
    );
    assert_eq!(
        fs::read_to_string(dir.path().join("atoll-out/chart-1.html"))?,
        "<b>bold</b>"
    );
    Ok(())
}

#[test]
fn a_figure_of_plotly_is_saved_as_a_page_and_a_table_is_printed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code = "import pandas as pd, plotly.graph_objects as go\ndisplay(pd.DataFrame({'a': [1]}))\n\
                go.Figure(go.Bar(x=['a'], y=[1])).show()";
    let ran = run_in(dir.path(), &["-c", code])?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stderr.contains("shown:\n     a\n  0  1\n"), "{ran:?}");
    assert!(ran.stderr.contains("saved: atoll-out/chart-1.html\n"), "{ran:?}");
    assert_eq!(names(dir.path())?, ["chart-1.html"]);
    let page = fs::read_to_string(dir.path().join("atoll-out/chart-1.html"))?;
    assert!(
        page.contains("\"default-src 'none'; script-src"),
        "{} bytes",
        page.len()
    );
    Ok(())
}

#[test]
fn files_in_the_working_directory_are_told_of() -> Result<()> {
    let code = "import os\nos.mkdir('sub')\nfor name in ['b.csv', 'sub/a.txt', '.hidden']: open(name, 'w').write('x')\n\
                open('/data/output/kept.txt', 'w').write('x')";
    let ran = run(&["run", "--template", "python-min", "-c", code])?;
    let note = "note: 2 files in the working directory were not saved (/home/user/b.csv, /home/user/sub/a.txt); write to \
                /data/output to get files back\n";
    assert!(ran.stderr.contains(note), "{ran:?}");
    let answer = run_json(&["--template", "python-min", "-c", code])?;
    let left: Vec<_> = answer
        .left_out
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.why.as_str()))
        .collect();
    let why = "not in /data/output";
    assert_eq!(left, [("/home/user/b.csv", why), ("/home/user/sub/a.txt", why)]);
    assert_eq!(answer.left_out.count, 2);
    let nothing = run(&["run", "--template", "python-min", "-c", "open('/tmp/x', 'w')"])?;
    assert!(!nothing.stderr.contains("note"), "{nothing:?}");
    Ok(())
}

#[test]
fn an_input_that_is_looked_for_in_the_wrong_place_is_pointed_at() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let input = dir.path().join("sales.csv");
    fs::write(&input, "a,b\n")?;
    let input = input.to_str().context("not UTF-8")?;
    for (lang, code) in [
        ("python", "open('sales.csv')"),
        ("python", "open('data/sales.csv')"),
        ("bash", "cat sales.csv"),
        ("javascript", "fs.readFileSync('sales.csv')"),
    ] {
        let answer = run_json(&["--template", "python-min", "--in", input, "--lang", lang, "-c", code])?;
        let instead = answer.hint.map(|hint| hint.instead);
        assert_eq!(
            instead.as_deref(),
            Some("`sales.csv` is at `/data/input/sales.csv`"),
            "{code}"
        );
    }
    for (code, instead) in [
        (
            "open('other.csv')",
            Some("pass it with `--in`; it appears in /data/input"),
        ),
        (
            "open('/data/input/sales.csv2')",
            Some("pass it with `--in`; it appears in /data/input"),
        ),
        ("raise ValueError('sales.csv')", None),
    ] {
        let answer = run_json(&["--template", "python-min", "--in", input, "-c", code])?;
        assert_eq!(answer.hint.map(|hint| hint.instead).as_deref(), instead, "{code}");
    }
    Ok(())
}

#[test]
fn a_wall_that_needs_no_limit_has_a_hint() -> Result<()> {
    for (code, rule) in [
        ("import lightgbm", "packages: only those in the template"),
        (
            "open('/etc/x', 'w')",
            "files: read-only except /data/output, /home/user, /tmp and other scratch directories",
        ),
    ] {
        let answer = run_json(&["--template", "python-min", "-c", code])?;
        assert_eq!(answer.hint.map(|hint| hint.rule).as_deref(), Some(rule), "{code}");
    }
    Ok(())
}

#[test]
fn the_name_of_a_file_tells_its_language() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for (name, code, says) in [
        ("a.sh", "echo $((6 * 7))", "42\n"),
        ("a.js", "console.log([6, 7].map(n => n * 1).join())", "6,7\n"),
        ("a.ts", "const n: number = 42; console.log(n)", "42\n"),
        ("a.py", "print(6 * 7)", "42\n"),
        ("a.txt", "print(6 * 7)", "42\n"),
    ] {
        let path = dir.path().join(name);
        fs::write(&path, code)?;
        let ran = run(&["run", "--template", "python-min", path.to_str().context("not UTF-8")?])?;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), says), "{name}: {ran:?}");
    }
    let notebook = dir.path().join("n.ipynb");
    fs::write(&notebook, "{}")?;
    let ran = run(&["run", notebook.to_str().context("not UTF-8")?])?;
    assert!(
        ran.code == Some(2) && ran.stderr.contains("notebooks are not supported"),
        "{ran:?}"
    );
    Ok(())
}

/// The command line has flags; the API has fields (`hints_name_the_fields_of_the_api`).
#[test]
fn hints_of_a_run_name_flags() -> Result<()> {
    for (args, flags) in [
        (
            &["--timeout", "500ms", "-c", "while True: pass"][..],
            "raise the limit with `--timeout` or `--profile data`",
        ),
        (
            &["--cpu-time", "300ms", "-c", "while True: pass"],
            "raise the limit with `--cpu-time` or `--profile data`",
        ),
        (
            &["-c", "x = bytearray(1 << 45)"],
            "raise the limit with `--memory` or `--profile data`",
        ),
        (
            &["-c", "import socket; socket.create_connection(('example.org', 80))"],
            "pass the data as a file with `--in`",
        ),
    ] {
        let answer = run_json(&[&["--template", "python-min"], args].concat())?;
        let instead = answer.hint.map(|hint| hint.instead).unwrap_or_default();
        assert!(instead.ends_with(flags), "{args:?}: {instead}");
    }
    Ok(())
}

#[test]
fn a_data_directory_that_cannot_be_one_is_a_wrong_setting() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("file");
    fs::write(&file, "")?;
    for home in [&file, &file.join("below"), Path::new("/proc/atoll")] {
        for words in [
            &["run", "-c", "1"][..],
            &["keys", "list"],
            &["serve"],
            &["template", "build", "python-min"],
        ] {
            let ran = run_command(atoll().env("ATOLL_HOME", home).args(words))?;
            assert_eq!(ran.code, Some(2), "{home:?} {words:?}: {ran:?}");
            assert!(
                ran.stderr.contains("hint: set ATOLL_HOME"),
                "{home:?} {words:?}: {ran:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn javascript_that_nothing_awaits_is_waited_for() -> Result<()> {
    let code = "setTimeout(() => console.log('late'), 50); (async () => { await null; console.log('soon') })(); 0";
    let ran = run(&["run", "--template", "python-min", "--lang", "javascript", "-c", code])?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "soon\nlate\n"), "{ran:?}");
    let thrown = "setTimeout(() => { throw new TypeError('late') }, 1)";
    let ran = run(&["run", "--template", "python-min", "--lang", "javascript", "-c", thrown])?;
    assert_eq!(ran.code, Some(1), "{ran:?}");
    assert!(ran.stderr.contains("TypeError: late"), "{ran:?}");
    let endless = ["--timeout", "1s", "-c", "setInterval(() => {}, 100)"];
    let ran = run(&[
        &["run", "--template", "python-min", "--lang", "javascript"],
        &endless[..],
    ]
    .concat())?;
    assert_eq!(ran.code, Some(4), "{ran:?}");
    Ok(())
}

#[test]
fn languages_have_short_names() -> Result<()> {
    for (lang, code, says) in [
        ("py", "print(6 * 7)", "42\n"),
        ("sh", "echo $((6 * 7))", "42\n"),
        ("js", "console.log(6 * 7)", "42\n"),
        ("ts", "const n: number = 42; console.log(n)", "42\n"),
    ] {
        let ran = run(&["run", "--template", "python-min", "--lang", lang, "-c", code])?;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), says), "{lang}: {ran:?}");
    }
    Ok(())
}

/// Whether the error ends the code, is a command's, or is caught and printed.
#[test]
fn who_meets_a_wall_is_told_which_in_every_language() -> Result<()> {
    let places = "files: read-only except /data/output, /home/user, /tmp and other scratch directories";
    let calls = "system calls: only those on the allow-list";
    for (lang, code, rule) in [
        ("bash", "touch /usr/x", places),
        ("javascript", "require('fs').writeFileSync('/usr/x', '')", places),
        ("python", "open('/usr/x', 'w')", places),
        ("python", "import os; os.unshare(os.CLONE_NEWUSER)", calls),
    ] {
        let answer = run_json(&["--template", "python-min", "--lang", lang, "-c", code])?;
        let hint = answer.hint.as_ref().map(|hint| hint.rule.as_str());
        assert_eq!(hint, Some(rule), "{code}: {answer:?}");
    }
    Ok(())
}

#[test]
fn who_looks_for_the_network_is_told_that_there_is_none() -> Result<()> {
    let caught =
        "import urllib.request\ntry: urllib.request.urlopen('https://example.org')\nexcept Exception as e: print(e)";
    for (lang, code) in [
        ("bash", "curl -sS https://example.org"),
        ("bash", "curl -sS https://example.org || true"),
        ("bash", "wget https://example.org"),
        ("bash", "git clone https://example.org/a.git"),
        (
            "python",
            "import urllib.request; urllib.request.urlopen('https://example.org')",
        ),
        ("python", caught),
        ("javascript", "await fetch('https://example.org')"),
        (
            "javascript",
            "try { await fetch('https://example.org') } catch (e) { console.error(e) }",
        ),
    ] {
        let answer = run_json(&["--template", "python-min", "--lang", lang, "-c", code])?;
        let hint = answer
            .hint
            .as_ref()
            .map(|hint| (hint.refused.as_str(), hint.rule.as_str()));
        assert_eq!(hint, Some(("network access", "net: none")), "{code}: {answer:?}");
    }
    for (lang, code) in [
        ("bash", "curl -sS http://127.0.0.1:1"),
        ("python", "print('the host is not known')"),
        ("javascript", "await fetch('http://127.0.0.1:1')"),
    ] {
        let answer = run_json(&["--template", "python-min", "--lang", lang, "-c", code])?;
        assert_eq!(answer.hint, None, "{code}");
    }
    Ok(())
}

/// For clients that show the value of an error and no hint. What the code catches is as it was.
#[test]
fn an_error_for_want_of_a_network_says_so_in_its_value() -> Result<()> {
    let caught = "import requests\ntry: requests.get('https://example.org')\nexcept Exception as e: print(e)";
    for (lang, code) in [
        ("python", "import requests; requests.get('https://example.org')"),
        ("python", "import requests; requests.get('http://192.0.2.1')"),
        ("javascript", "await fetch('https://example.org')"),
    ] {
        let answer = run_json(&["--template", "python-data", "--lang", lang, "-c", code])?;
        let value = answer.error.as_ref().map_or("", |error| error.value.as_str());
        assert!(value.ends_with(" (no network in this sandbox)"), "{code}: {answer:?}");
    }
    let answer = run_json(&["--template", "python-data", "-c", caught])?;
    assert_eq!(answer.error, None, "{answer:?}");
    assert!(!answer.stdout.contains("no network"), "{answer:?}");
    let own = "class Answer(Exception): pass\nraise Answer('Network is unreachable')";
    let answer = run_json(&["--template", "python-min", "-c", own])?;
    let value = answer.error.as_ref().map(|error| error.value.as_str());
    assert_eq!(value, Some("Network is unreachable"), "{answer:?}");
    Ok(())
}

const SUBPROCESS_PIP: &str =
    "import subprocess, sys; subprocess.call([sys.executable, '-m', 'pip', 'install', 'no-such'])";

#[test]
fn pip_tells_what_is_there_and_what_cannot_come() -> Result<()> {
    for (lang, code) in [
        ("bash", "pip install no-such"),
        ("bash", "pip3 install no-such"),
        ("bash", "python3 -m pip install no-such"),
        ("bash", "echo no-such > /tmp/wishes.txt; pip install -r /tmp/wishes.txt"),
        ("bash", "npm install no-such"),
        ("python", "!cd /tmp && pip install no-such"),
        ("python", "import pip; pip.main(['install', 'no-such'])"),
        ("python", SUBPROCESS_PIP),
    ] {
        let answer = run_json(&["--template", "python-min", "--lang", lang, "-c", code])?;
        let hint = answer.hint.as_ref().map(|hint| hint.rule.as_str());
        assert_eq!(hint, Some("packages: only those in the template"), "{code}: {answer:?}");
        assert!(
            answer.stderr.contains("`no-such` is not installed"),
            "{code}: {answer:?}"
        );
        assert!(
            answer.stderr.contains("`atoll template build NAME"),
            "{code}: {answer:?}"
        );
        assert!(!answer.stderr.contains("/usr/"), "{code}: {}", answer.stderr);
    }
    let there = "pip install ipython && python3 -m pip install 'ipython>=1' && pip list | grep ^ipython && \
                 python3 -c 'import IPython'";
    for (lang, code) in [("bash", there), ("python", "!pip list | grep ^ipython")] {
        let answer = run_json(&["--template", "python-min", "--lang", lang, "-c", code])?;
        assert!(answer.stdout.contains("ipython "), "{answer:?}");
        assert_eq!((answer.error, answer.hint), (None, None), "{code}");
    }
    Ok(())
}
