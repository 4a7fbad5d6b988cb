//! Where files and charts go: below the named directory and nowhere else, each under a name of its own, none in silence.

use anyhow::{Context, Result};
use atoll_core::execution::Execution;
use atoll_tests::{Ran, atoll, run_command};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A picture that needs no package: one pixel, shown by the code.
const SHOW: &str = "from IPython.display import Image, display\n\
    display(Image(data=b'\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\rIHDR\\0\\0\\0\\1\\0\\0\\0\\1\\x08\\0\\0\\0\\0sum.\\0\\0\\0\\0IENDsum.', format='png'))\n";
const SHOWN: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0sum.\0\0\0\0IENDsum.";

fn run_in(dir: &Path, args: &[&str], code: &str) -> Result<Ran> {
    let mut command = atoll();
    command.args(["run", "--template", "python-min", "-c", code]).args(args);
    run_command(command.current_dir(dir))
}

fn json_in(dir: &Path, args: &[&str], code: &str) -> Result<(Option<i32>, Execution)> {
    let ran = run_in(dir, &[&["--json"], args].concat(), code)?;
    let answer = serde_json::from_str(&ran.stdout).with_context(|| format!("not an answer: {ran:?}"))?;
    Ok((ran.code, answer))
}

#[test]
fn links_below_the_named_directory_are_never_followed() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (out, elsewhere) = (dir.path().join("o"), dir.path().join("elsewhere"));
    fs::create_dir(&out)?;
    fs::create_dir(&elsewhere)?;
    fs::write(dir.path().join("victim"), "precious")?;
    symlink("../victim", out.join("chart-1.png"))?;
    symlink("../victim", out.join("plain"))?;
    symlink("../new", out.join("dangling"))?;
    symlink(&elsewhere, out.join("sub"))?;
    let code = format!(
        "{SHOW}import os\nos.makedirs('/data/output/sub')\n\
         for name in ['plain', 'dangling', 'sub/a']: open('/data/output/' + name, 'w').write('theirs')"
    );
    let ran = run_in(dir.path(), &["--out", "o"], &code)?;
    assert_eq!(fs::read_to_string(dir.path().join("victim"))?, "precious", "{ran:?}");
    assert!(!dir.path().join("new").exists(), "{ran:?}");
    assert_eq!(fs::read_dir(&elsewhere)?.count(), 0, "{ran:?}");
    assert_eq!(fs::read(out.join("chart-1.png"))?, SHOWN);
    assert_eq!(fs::read_to_string(out.join("plain"))?, "theirs");
    assert!(
        ran.stderr
            .contains("not saved: sub/a: the file name cannot be used on this host"),
        "{ran:?}"
    );
    Ok(())
}

#[test]
fn no_two_things_are_saved_under_one_name() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code =
        format!("{SHOW}for name in ['chart-1.png', 'a\\nb', 'a_b']: open('/data/output/' + name, 'w').write(name)");
    let (code, answer) = json_in(dir.path(), &["--out", "o"], &code)?;
    assert_eq!(code, Some(0), "{answer:?}");
    for file in &answer.files {
        let saved = file.saved.as_deref().context("not saved")?;
        let name = file.path.strip_prefix("/data/output/").context("a path inside")?;
        assert_eq!(fs::read_to_string(dir.path().join(saved))?, name, "{file:?}");
    }
    assert_eq!(fs::read(dir.path().join("o/chart-2.png"))?, SHOWN);
    assert_eq!(fs::read_dir(dir.path().join("o"))?.count(), 4);
    Ok(())
}

#[test]
fn a_directory_in_the_way_of_a_chart_costs_nothing_else() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code = format!(
        "{SHOW}import os\nos.makedirs('/data/output/chart-1.png')\n\
         open('/data/output/chart-1.png/x', 'w').write('q')\nprint('work done')"
    );
    let (_, answer) = json_in(dir.path(), &["--out", "o"], &code)?;
    assert_eq!(
        (answer.stdout.as_str(), answer.files.len()),
        ("work done\n", 1),
        "{answer:?}"
    );
    assert_eq!(fs::read_to_string(dir.path().join("o/chart-1.png/x"))?, "q");
    Ok(())
}

#[test]
fn json_saves_files_too_and_says_where() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let (_, answer) = json_in(dir.path(), &[], "open('/data/output/zz', 'w').write('1')")?;
    assert_eq!(answer.files[0].saved.as_deref(), Some("atoll-out/zz"));
    assert_eq!(fs::read_to_string(dir.path().join("atoll-out/zz"))?, "1");
    assert_eq!((answer.left_out.count, answer.left_out.files.len()), (0, 0));
    Ok(())
}

#[test]
fn json_counts_what_was_left_out() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let many = "for n in range(1005): open(f'/data/output/{n:04}', 'w').close()";
    let (_, answer) = json_in(dir.path(), &["--out", "o"], many)?;
    assert_eq!((answer.files.len(), answer.left_out.count), (1000, 5));
    let odd = "import os\nos.chdir('/data/output')\nos.mkfifo('pipe'); os.symlink('/etc/passwd', 'link')\n\
               open(b'\\xff', 'w').close(); open('good', 'w').close()";
    let (_, answer) = json_in(dir.path(), &["--out", "o"], odd)?;
    let why: Vec<_> = answer
        .left_out
        .files
        .iter()
        .map(|file| (file.path.as_str(), file.why.as_str()))
        .collect();
    assert_eq!(
        why,
        [
            ("/data/output/link", "symbolic link"),
            ("/data/output/pipe", "not a regular file"),
            ("/data/output/\u{fffd}", "file name is not valid UTF-8"),
        ]
    );
    assert_eq!((answer.files.len(), answer.left_out.count), (1, 3));
    Ok(())
}

#[test]
fn a_directory_that_cannot_be_is_refused_before_the_code_runs() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("afile"), "")?;
    symlink("nowhere/at/all", dir.path().join("dangling"))?;
    for out in ["afile/sub", "/proc/x", "dangling", "afile"] {
        let ran = run_in(dir.path(), &["--out", out], "print('ran')")?;
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{out}: {ran:?}");
        assert!(ran.stderr.contains(out), "{ran:?}");
    }
    let empty = run_in(dir.path(), &["--out", "made/below"], "print('ran')")?;
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), "ran\n"), "{empty:?}");
    assert!(!dir.path().join("made").exists(), "nothing to save leaves no directory");
    Ok(())
}

/// What goes wrong while saving is our fault, and costs neither the answer nor the other files.
#[test]
fn an_answer_survives_files_that_cannot_be_saved() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("atoll-out"), "in the way")?;
    let work = "print('work done')\nopen('/data/output/x', 'w').write('x')";
    let (code, answer) = json_in(dir.path(), &[], work)?;
    assert_eq!((code, answer.stdout.as_str()), (Some(6), "work done\n"));
    assert_eq!(
        (answer.files[0].saved.as_deref(), answer.left_out.count),
        (None, 1),
        "{answer:?}"
    );
    let text = run_in(dir.path(), &[], work)?;
    assert_eq!((text.code, text.stdout.as_str()), (Some(6), "work done\n"), "{text:?}");
    assert!(text.stderr.contains("error: cannot save output file `x`: "), "{text:?}");
    Ok(())
}
