//! `atoll run --dry-run`: what the code would write, whom it reached for, what it started. Nothing is saved before a yes.

use anyhow::{Context, Result};
use atoll_core::dry_run::{ChangeKind, DryRun, Host};
use atoll_core::execution::Execution;
use atoll_tests::terminal::{Typed, typed, typed_ahead};
use atoll_tests::{atoll, run_command};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const WRITES: &str = "text = open('/data/input/sales.csv').read()\n\
    open('/data/output/sales.csv', 'w').write(text.replace('b,2', 'b,20'))\n\
    open('/data/output/new.txt', 'w').write('new')\n";

fn dry(dir: &Path, args: &[&str]) -> Command {
    let mut command = atoll();
    let usual = ["run", "--dry-run", "--template", "python-min"];
    command.args(usual).args(args).current_dir(dir);
    command
}

fn in_json(dir: &Path, args: &[&str]) -> Result<(Execution, DryRun)> {
    let ran = run_command(dry(dir, args).arg("--json"))?;
    let execution: Execution = serde_json::from_str(&ran.stdout).with_context(|| format!("no answer: {ran:?}"))?;
    let dry_run = execution.dry_run.clone().context("nothing is told")?;
    Ok((execution, dry_run))
}

/// What a piece of code reached for and started.
fn tried(language: &str, code: &str) -> Result<DryRun> {
    let dir = tempfile::tempdir()?;
    Ok(in_json(dir.path(), &["--lang", language, "-c", code])?.1)
}

fn paths(dry_run: &DryRun) -> Vec<&str> {
    let processes = &dry_run.attempts.processes;
    processes.iter().map(|program| program.path.as_str()).collect()
}

fn with_input() -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("sales.csv"), "a,1\nb,2\nc,3\n")?;
    Ok(dir)
}

fn is_untouched(dir: &Path) -> Result<bool> {
    let names = fs::read_dir(dir)?.map(|entry| Ok(entry?.file_name()));
    Ok(names.collect::<Result<Vec<_>>>()? == ["sales.csv"])
}

#[test]
fn files_are_told_against_the_inputs_and_nothing_is_saved() -> Result<()> {
    let dir = with_input()?;
    let (execution, dry_run) = in_json(dir.path(), &["--in", "sales.csv", "--out", "out", "-c", WRITES])?;
    let told: Vec<_> = dry_run
        .changes
        .iter()
        .map(|one| (one.path.as_str(), one.kind, one.size))
        .collect();
    let wanted = [
        ("/data/output/new.txt", ChangeKind::New, 3),
        ("/data/output/sales.csv", ChangeKind::Changed, 13),
    ];
    assert_eq!(told, wanted);
    let diff = dry_run.changes[1].diff.as_deref().context("no difference")?;
    assert!(diff.contains("-b,2\n+b,20\n"), "{diff}");
    assert!(execution.files.iter().all(|file| file.saved.is_none()));
    assert_eq!(execution.left_out.count, 2);
    assert!(is_untouched(dir.path())?);
    Ok(())
}

#[test]
fn a_plain_run_tells_of_no_dry_run() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut command = atoll();
    command.args([
        "run",
        "--json",
        "--template",
        "python-min",
        "-c",
        "import os; os.system('true')",
    ]);
    let ran = run_command(command.current_dir(dir.path()))?;
    let execution: Execution = serde_json::from_str(&ran.stdout)?;
    assert_eq!(execution.dry_run, None);
    Ok(())
}

#[test]
fn hosts_are_told_by_name_and_by_address_and_inner_ones_are_not() -> Result<()> {
    let code = "import socket\n\
        def go(f):\n    try: f()\n    except OSError: pass\n\
        go(lambda: socket.create_connection(('name.example', 443), 5))\n\
        go(lambda: socket.create_connection(('name.example', 443), 5))\n\
        go(lambda: socket.create_connection(('192.0.2.1', 80), 5))\n\
        go(lambda: socket.socket(socket.AF_INET6).connect(('2001:db8::5', 22)))\n\
        go(lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.9', 999)))\n\
        go(lambda: socket.socket(type=socket.SOCK_DGRAM).sendmsg([b'x'], [], 0, ('192.0.2.10', 999)))\n\
        go(lambda: socket.create_connection(('127.0.0.1', 1), 5))";
    let dry_run = tried("python", code)?;
    let host = |host: &str, port| Host {
        host: host.to_owned(),
        port,
    };
    let wanted = [
        host("name.example", None),
        host("192.0.2.1", Some(80)),
        host("2001:db8::5", Some(22)),
        host("192.0.2.9", Some(999)),
        host("192.0.2.10", Some(999)),
    ];
    assert_eq!(dry_run.attempts.hosts, wanted);
    Ok(())
}

#[test]
fn programs_of_python_are_told_with_their_words_however_deep() -> Result<()> {
    let code = "import subprocess, os\n\
        subprocess.run(['echo', 'a b'])\n\
        os.system('env true')\n\
        subprocess.run(['no-such-program']) if False else None";
    let dry_run = tried("python", code)?;
    assert_eq!(
        paths(&dry_run),
        ["/usr/bin/echo", "/bin/sh", "/usr/bin/env", "/usr/bin/true"]
    );
    assert_eq!(dry_run.attempts.processes[0].args, ["echo", "a b"]);
    Ok(())
}

#[test]
fn bash_and_its_programs_are_told_and_the_interpreter_itself_is_not() -> Result<()> {
    let dry_run = tried(
        "bash",
        "cat </dev/null\ngetent hosts shell.example\n: >/dev/tcp/192.0.2.7/81",
    )?;
    assert_eq!(paths(&dry_run), ["/usr/bin/cat", "/usr/bin/getent"]);
    let hosts: Vec<&str> = dry_run.attempts.hosts.iter().map(|host| host.host.as_str()).collect();
    assert_eq!(hosts, ["shell.example", "192.0.2.7"]);
    Ok(())
}

#[test]
fn javascript_is_watched_as_well() -> Result<()> {
    let code = "require('child_process').execFileSync('uname'); await fetch('http://js.example/').catch(() => 0)";
    let dry_run = tried("javascript", code)?;
    assert_eq!(paths(&dry_run), ["/usr/bin/uname"]);
    let asked = dry_run.attempts.hosts.iter().any(|host| host.host == "js.example");
    assert!(asked, "{dry_run:?}");
    Ok(())
}

#[test]
fn threads_and_forks_of_the_code_are_watched() -> Result<()> {
    let code = "import os, threading\n\
        one = threading.Thread(target=os.system, args=('uname',)); one.start(); one.join()\n\
        if os.fork() == 0: os.execv('/usr/bin/id', ['id'])\n\
        os.wait()";
    let dry_run = tried("python", code)?;
    let found = paths(&dry_run);
    assert!(
        found.contains(&"/usr/bin/uname") && found.contains(&"/usr/bin/id"),
        "{found:?}"
    );
    Ok(())
}

#[test]
fn code_cannot_answer_for_the_one_who_looks() -> Result<()> {
    let code = "import os\n\
        print(sorted({os.readlink(f'/proc/self/fd/{fd}').split(':')[0] for fd in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{fd}')}))";
    let dir = tempfile::tempdir()?;
    let (execution, _) = in_json(dir.path(), &["-c", code])?;
    assert!(!execution.stdout.contains("anon_inode"), "{}", execution.stdout);
    assert_eq!(execution.receipt.layers["seccomp"]["filters"], "4");
    Ok(())
}

#[test]
fn very_many_attempts_are_counted() -> Result<()> {
    let code = "import socket\nfor n in range(300):\n    try: socket.create_connection(('192.0.2.1', n + 1), 5)\n    except OSError: pass";
    let attempts = tried("python", code)?.attempts;
    assert_eq!((attempts.hosts.len(), attempts.more_hosts), (200, 100));
    Ok(())
}

fn at_a_terminal(dir: &Path, types: &str) -> Result<Typed> {
    typed(dry(dir, &["--in", "sales.csv", "--out", "out", "-c", WRITES]), types)
}

#[test]
fn on_a_terminal_a_yes_saves_exactly_what_was_shown() -> Result<()> {
    let dir = with_input()?;
    let ran = at_a_terminal(dir.path(), "y\n")?;
    let told = ran.shown.contains("would write: /data/output/new.txt (3 bytes, new)");
    assert!(told && ran.shown.contains("save these files? [y/N] "), "{ran:?}");
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert_eq!(
        fs::read_to_string(dir.path().join("out/sales.csv"))?,
        "a,1\nb,20\nc,3\n"
    );
    assert_eq!(fs::read_to_string(dir.path().join("out/new.txt"))?, "new");
    Ok(())
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() -> Result<()> {
    let dir = with_input()?;
    let command = dry(dir.path(), &["--in", "sales.csv", "--out", "out", "-c", WRITES]);
    let ran = typed_ahead(command, "y\ny\n", "n\n")?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(is_untouched(dir.path())?);
    Ok(())
}

#[test]
fn held_files_are_for_their_owner_and_what_was_killed_is_swept() -> Result<()> {
    let home = tempfile::tempdir()?;
    let left = home.path().join("dry-run-left");
    fs::create_dir(&left)?;
    symlink(atoll_tests::home().join("templates"), home.path().join("templates"))?;
    let dir = with_input()?;
    let ran = run_command(dry(dir.path(), &["--in", "sales.csv", "-c", WRITES]).env("ATOLL_HOME", home.path()))?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(!left.exists(), "{ran:?}");
    let names = fs::read_dir(home.path())?.map(|entry| Ok(entry?.file_name()));
    let names = names.collect::<Result<Vec<_>>>()?;
    assert!(
        !names.iter().any(|name| name.to_string_lossy().starts_with("dry-run-")),
        "{names:?}"
    );
    Ok(())
}

#[test]
fn a_yes_is_in_the_log_with_who_said_it() -> Result<()> {
    let home = tempfile::tempdir()?;
    symlink(atoll_tests::home().join("templates"), home.path().join("templates"))?;
    let dir = with_input()?;
    let own = |mut command: Command| {
        command.env("ATOLL_HOME", home.path()).current_dir(dir.path());
        command
    };
    let writes = dry(dir.path(), &["--in", "sales.csv", "--out", "out", "-c", WRITES]);
    assert_eq!(typed(own(writes), "y\n")?.code, Some(0));
    let mut asks = atoll();
    asks.args([
        "run",
        "--template",
        "python-min",
        "--policy",
        "guarded",
        "-c",
        "import os; os.nice(0)",
    ]);
    assert_eq!(typed(own(asks), "y\n")?.code, Some(0));
    let mut export = atoll();
    export.args(["audit", "export"]);
    let told = run_command(&mut own(export))?.stdout;
    let entries: Vec<serde_json::Value> = told.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let by_local: Vec<&str> = entries
        .iter()
        .filter(|entry| entry["approver"] == "local")
        .filter_map(|entry| entry["action"].as_str())
        .collect();
    assert_eq!(by_local, ["approval.answer", "execute"], "{told}");
    Ok(())
}

#[test]
fn programs_that_are_reached_by_odd_ways_are_told() -> Result<()> {
    let code = "import os, subprocess\n\
        subprocess.run(['/proc/self/root/usr/bin/true'])\n\
        os.symlink('/usr/bin/true', b'/tmp/\\xff')\n\
        subprocess.run([b'/tmp/\\xff'])\n\
        fd = os.open('/usr/bin/uname', os.O_RDONLY)\n\
        if os.fork() == 0: os.execve(fd, ['uname'], {})\n\
        os.wait()\n\
        for _ in range(3):\n    try: os.posix_spawn('/etc/passwd', ['x'], {})\n    except OSError: pass";
    let dry_run = tried("python", code)?;
    let wanted = ["/proc/self/root/usr/bin/true", "/tmp/\u{fffd}", "/usr/bin/uname"];
    let found = paths(&dry_run);
    assert!(
        found[..2] == wanted[..2] && found[2].ends_with("uname") && found.len() == 3,
        "{found:?}"
    );
    Ok(())
}

#[test]
fn very_many_words_stay_few() -> Result<()> {
    let code = "import os\nfor n in range(500):\n    if os.fork() == 0: os.execv('/usr/bin/true', ['x' * 4000] * 60 + [str(n)])\n    os.wait()";
    let dry_run = tried("python", code)?;
    let text = serde_json::to_string(&dry_run)?;
    assert!(
        text.len() < 200_000 && dry_run.attempts.processes.len() < 200,
        "{}",
        text.len()
    );
    Ok(())
}

#[test]
fn on_a_terminal_anything_else_saves_nothing() -> Result<()> {
    let dir = with_input()?;
    let ran = at_a_terminal(dir.path(), "no\n")?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(is_untouched(dir.path())?);
    Ok(())
}

#[test]
fn without_a_terminal_the_report_says_how() -> Result<()> {
    let dir = with_input()?;
    let ran = run_command(&mut dry(dir.path(), &["--in", "sales.csv", "-c", WRITES]))?;
    assert!(ran.stderr.starts_with("dry run: nothing was saved\n"), "{ran:?}");
    assert!(
        ran.stderr
            .contains("note: files were not saved: confirmation requires a terminal"),
        "{ran:?}"
    );
    assert!(is_untouched(dir.path())?);
    Ok(())
}
