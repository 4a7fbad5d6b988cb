//! What hostile code gives back, as the command line passes it on: cleaned by default, raw when asked for, and on a terminal
//! as text that cannot steer it.

use anyhow::{Context, Result};
use atoll_tests::{atoll, run, run_command, run_json};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::process::Stdio;

/// Each form of one value wants to act in a viewer.
const HOSTILE: &str = "from IPython.display import display\n\
    png = b'\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\0\\1\\0\\0\\0\\1\\x08\\0\\0\\0\\0sum.\\0\\0\\0\\0IENDsum.'\n\
    import base64\n\
    display({'text/plain': 'p', 'text/html': '<b>b</b><img src=//leak.example><script>x()</script>',\n\
             'text/markdown': '![m](https://leak.example/?q=1)',\n\
             'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\"><script>x()</script><rect/></svg>',\n\
             'image/png': base64.b64encode(png + b'<html>').decode(), 'image/jpeg': base64.b64encode(png).decode(),\n\
             'application/javascript': 'x()'}, raw=True)\n";

#[test]
fn results_are_cleaned_and_what_was_done_is_told() -> Result<()> {
    let answer = run_json(&["--template", "python-min", "-c", HOSTILE])?;
    let result = answer.results.first().context("no result")?;
    assert_eq!(result.data["text/html"], "<b>b</b>[image: ] (//leak.example)");
    assert_eq!(
        result.data["text/markdown"],
        "\\[image: m\\] `https://leak.example/?q=1`"
    );
    assert_eq!(
        result.data["image/svg+xml"],
        "<svg xmlns=\"http://www.w3.org/2000/svg\"><rect></rect></svg>"
    );
    let png = result.data["image/png"].as_str().unwrap_or_default();
    assert!(png.ends_with("AAAAAElFTkRzdW0u"), "cut behind its end: {png}");
    assert_eq!(
        result.cleaned,
        ["image/png", "image/svg+xml", "text/html", "text/markdown"]
    );
    let left_out: Vec<&str> = result.left_out.iter().map(|one| one.form.as_str()).collect();
    assert_eq!(left_out, ["application/javascript", "image/jpeg"]);
    let label = &answer.provenance;
    assert_eq!((label.trusted, &label.execution_id), (false, &answer.execution_id));
    let said = run(&["run", "--template", "python-min", "-c", HOSTILE])?.stderr;
    assert!(
        said.contains("removed active content from image/png, image/svg+xml, text/html, text/markdown"),
        "{said}"
    );
    assert!(
        said.contains("omitted: image/jpeg: content is not a JPEG image\n"),
        "{said}"
    );
    Ok(())
}

#[test]
fn raw_results_are_as_the_code_made_them() -> Result<()> {
    let answer = run_json(&["--template", "python-min", "--raw-results", "-c", HOSTILE])?;
    let result = answer.results.first().context("no result")?;
    assert_eq!(
        result.data["text/html"],
        "<b>b</b><img src=//leak.example><script>x()</script>"
    );
    assert_eq!(result.data["application/javascript"], "x()");
    assert!(result.cleaned.is_empty() && result.left_out.is_empty());
    Ok(())
}

/// Each result is cleaned on a thread of its own; what is printed after it stays after it.
#[test]
fn long_results_keep_their_place() -> Result<()> {
    let code = "from IPython.display import display, HTML\nfor n in range(5):\n    display(HTML(f'<p onclick=x>{n}' + 'x' * 200_000))\n    \
                display(n)\n    print(n)";
    let answer = run_json(&["--template", "python-min", "-c", code])?;
    let seen: Vec<String> = answer
        .results
        .iter()
        .map(
            |result| match result.data.get("text/html").and_then(|form| form.as_str()) {
                Some(html) => html.chars().take(4).collect(),
                None => result.data["text/plain"].as_str().unwrap_or_default().to_owned(),
            },
        )
        .collect();
    assert_eq!(seen, ["<p>0", "0", "<p>1", "1", "<p>2", "2", "<p>3", "3", "<p>4", "4"]);
    assert_eq!(answer.stdout, "0\n1\n2\n3\n4\n");
    Ok(())
}

const STEERING: &str = "import sys\nsys.stdout.write('a\\x1b]52;c;eA==\\x07b\\u202ec\\n')\nsys.stderr.write('rm\\rls\\n')\n\
                        for n in (1, 2): sys.stdout.write(f'\\r{n}% it/s')\n";

fn on_a_terminal(args: &[&str]) -> Result<String> {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?.into_string()?;
    let slave = OpenOptions::new().read(true).write(true).open(name)?;
    let mut command = atoll();
    command.args(["run", "--template", "python-min"]).args(args);
    command
        .stdout(Stdio::from(slave.as_fd().try_clone_to_owned()?))
        .stderr(Stdio::from(slave));
    let mut child = command.spawn()?;
    drop(command);
    let mut text = Vec::new();
    // The other side is gone at its end: an error on Linux.
    File::from(master).read_to_end(&mut text).ok();
    child.wait()?;
    Ok(String::from_utf8_lossy(&text).replace("\r\n", "\n"))
}

#[test]
fn a_terminal_is_shown_what_would_steer_it_and_a_pipe_gets_the_bytes() -> Result<()> {
    let shown = on_a_terminal(&["-c", STEERING])?;
    assert!(shown.contains("a\\u{1b}]52;c;eA==\\u{7}b\\u{202e}c\n"), "{shown:?}");
    assert!(shown.contains("rm\\rls\n"), "{shown:?}");
    assert!(
        shown.contains("\\r1% it/s\r\u{1b}[K2% it/s"),
        "a bar runs in its line: {shown:?}"
    );
    let piped = run(&["run", "--template", "python-min", "-c", STEERING])?;
    assert_eq!(
        (piped.stdout.as_str(), piped.stderr.as_str()),
        ("a\u{1b}]52;c;eA==\u{7}b\u{202e}c\n\r1% it/s\r2% it/s", "rm\rls\n")
    );
    let stripped = run(&["run", "--strip", "--template", "python-min", "-c", STEERING])?;
    assert_eq!(stripped.stderr, "rmls\n");
    assert!(stripped.stdout.starts_with("abc\n1% it/s"), "{stripped:?}");
    let both = run_command(atoll().args(["run", "--strip", "--json", "-c", "1"]))?;
    assert_eq!(both.code, Some(2), "an object is exact: {both:?}");
    Ok(())
}

#[test]
fn csv_for_a_spreadsheet_is_asked_for() -> Result<()> {
    let code =
        "open('/data/output/a.csv', 'w').write('a,b\\n=1+1,-1.5\\n')\nopen('/data/output/b.txt', 'w').write('=1')";
    let saved = |args: &[&str]| -> Result<(String, String)> {
        let dir = tempfile::tempdir()?;
        let ran = run_command(
            atoll()
                .args(["run", "--template", "python-min", "-c", code])
                .args(args)
                .current_dir(dir.path()),
        )?;
        assert_eq!(ran.code, Some(0), "{ran:?}");
        let read = |name: &str| std::fs::read_to_string(dir.path().join("atoll-out").join(name));
        Ok((read("a.csv")?, read("b.txt")?))
    };
    assert_eq!(saved(&[])?, ("a,b\n=1+1,-1.5\n".to_owned(), "=1".to_owned()));
    assert_eq!(
        saved(&["--csv-safe"])?,
        ("a,b\n'=1+1,-1.5\n".to_owned(), "=1".to_owned())
    );
    Ok(())
}

#[test]
fn a_table_that_cannot_be_made_safe_is_not_left_behind() -> Result<()> {
    let code = "open('/data/output/wide.csv', 'w', encoding='utf-16').write('=1')\nopen('/data/output/a.TSV', 'w').write('@x')";
    let dir = tempfile::tempdir()?;
    let mut command = atoll();
    command.args(["run", "--template", "python-min", "--csv-safe", "-c", code]);
    let ran = run_command(command.current_dir(dir.path()))?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(
        ran.stderr
            .contains("not saved: wide.csv: cannot escape formulas in this file: not text"),
        "{ran:?}"
    );
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir.path().join("atoll-out"))? {
        names.push(entry?.file_name());
    }
    assert_eq!(names, ["a.TSV"]);
    assert_eq!(std::fs::read_to_string(dir.path().join("atoll-out/a.TSV"))?, "'@x");

    let ran = run_command(command.arg("--json"))?;
    let told: serde_json::Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(told["left_out"]["files"][0]["path"], "/data/output/wide.csv", "{told}");
    let saved = |name: &str| {
        let all = told["files"].as_array().into_iter().flatten();
        let mut with = all.filter(|file| file["path"] == format!("/data/output/{name}"));
        with.next().map(|file| file["saved"].is_string())
    };
    assert_eq!((saved("wide.csv"), saved("a.TSV")), (Some(false), Some(true)), "{told}");
    Ok(())
}
