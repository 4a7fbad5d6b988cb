//! `atoll run` as people and scripts use it: where code comes from, what is printed, which code it exits with.

use anyhow::{Context, Result};
use atoll_core::{Language, Outcome};
use atoll_tests::{atoll, run, run_command, run_fed, run_json};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn code_comes_from_a_file_an_argument_or_standard_input() -> Result<()> {
    let dir = tempfile::tempdir()?;
    fs::write(dir.path().join("code.py"), "print('from file')\n")?;
    let min = ["run", "--template", "python-min"];
    let file = run_command(atoll().args(min).arg("code.py").current_dir(&dir))?;
    assert_eq!((file.code, file.stdout.as_str()), (Some(0), "from file\n"));
    for with_dash in [&["-"][..], &[]] {
        let piped = run_fed(atoll().args(min).args(with_dash), b"print('from stdin')")?;
        assert_eq!(
            (piped.code, piped.stdout.as_str()),
            (Some(0), "from stdin\n"),
            "{with_dash:?}"
        );
    }
    let dashed = run(&["run", "--template", "python-min", "-c", "-1 + 3"])?;
    assert_eq!((dashed.code, dashed.stdout.as_str()), (Some(0), ""), "{dashed:?}");
    assert_eq!(dashed.stderr, "result: 2\n");
    Ok(())
}

/// Standard output is the code's own: what a notebook would show is said beside it.
#[test]
fn the_value_of_the_last_line_is_said_on_stderr() -> Result<()> {
    let lines = run(&[
        "run",
        "--template",
        "python-min",
        "-c",
        "class T:\n    def __repr__(self): return 'a\\nb'\nT()",
    ])?;
    assert_eq!(
        (lines.stdout.as_str(), lines.stderr.as_str()),
        ("", "result:\n  a\n  b\n")
    );
    let none = run(&["run", "--template", "python-min", "-c", "print(1)"])?;
    assert_eq!((none.stdout.as_str(), none.stderr.as_str()), ("1\n", ""));
    Ok(())
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_code() -> Result<()> {
    let ran = run_fed(
        atoll().args(["run", "--template", "python-min"]),
        b"\xef\xbb\xbfx = 1\r\nprint(x)\r\n",
    )?;
    assert_eq!(
        (ran.code, ran.stdout.as_str(), ran.stderr.as_str()),
        (Some(0), "1\n", "")
    );
    Ok(())
}

#[test]
fn stdout_and_stderr_are_the_codes_own_bytes() -> Result<()> {
    let code = "import sys\nsys.stdout.buffer.write(b'\\xff\\x1b[31mred\\n')\nprint('err', file=sys.stderr)";
    let output = atoll().args(["run", "--template", "python-min", "-c", code]).output()?;
    assert_eq!(output.stdout, b"\xff\x1b[31mred\n");
    assert_eq!(output.stderr, b"err\n");
    Ok(())
}

#[test]
fn exit_codes_tell_the_kinds_of_endings_apart() -> Result<()> {
    let cases: &[(&[&str], i32)] = &[
        (&["-c", "print(1)"], 0),
        (&["-c", "import sys; sys.exit(0)"], 0),
        (&["-c", "1/0"], 1),
        (&["-c", "import sys; sys.exit(3)"], 1),
        (&["-c", "import ctypes; ctypes.string_at(0)"], 1),
        (&["--lang", "bash", "-c", "exit 9"], 1),
        (&["--lang", "cobol", "-c", "x"], 2),
        (&["--timeout", "1s", "-c", "while True: pass"], 4),
        (
            &[
                "--memory",
                "64MiB",
                "-c",
                "x = bytearray(1 << 30)\nfor i in range(0, 1 << 30, 4096): x[i] = 1",
            ],
            4,
        ),
        (&["--tier", "microvm", "-c", "print(1)"], 5),
    ];
    for (args, expected) in cases {
        let mut command = atoll();
        // Nothing to boot: a tier that this host cannot build.
        command.env("ATOLL_MICROVM_KERNEL", "/nonexistent");
        let ran = run_command(command.args(["run", "--template", "python-min"]).args(*args))?;
        assert_eq!(ran.code, Some(*expected), "{args:?}: {ran:?}");
    }
    Ok(())
}

#[test]
fn each_run_is_a_fresh_sandbox_with_the_given_environment() -> Result<()> {
    let code = "import os; print(os.environ.get('TOKEN'), os.path.exists('mark')); open('mark', 'w').close()";
    let first = run_json(&["--template", "python-min", "--env", "TOKEN=a=b c", "-c", code])?;
    let second = run_json(&["--template", "python-min", "-c", code])?;
    assert_eq!(
        (first.stdout.as_str(), second.stdout.as_str()),
        ("a=b c False\n", "None False\n")
    );
    assert_ne!(first.sandbox_id, second.sandbox_id);
    Ok(())
}

#[test]
fn the_environment_of_the_caller_stays_outside() -> Result<()> {
    let code = "import os; print('SECRET_OF_MINE' in os.environ, os.getcwd(), os.environ['HOME'], os.getuid())";
    let mut command = atoll();
    command
        .env("SECRET_OF_MINE", "1")
        .args(["run", "--template", "python-min", "-c", code]);
    let ran = run_command(&mut command)?;
    assert_eq!(ran.stdout, "False /home/user /home/user 1000\n", "{ran:?}");
    Ok(())
}

#[test]
fn errors_are_shown_with_their_traceback_and_limits_with_their_number() -> Result<()> {
    let failed = run(&["run", "--template", "python-min", "-c", "print('a')\n1/0"])?;
    assert_eq!(failed.stdout, "a\n");
    assert!(
        failed
            .stderr
            .starts_with("Traceback (most recent call last):\n  Cell In[1], line 2\n"),
        "{failed:?}"
    );
    assert!(
        failed.stderr.ends_with("ZeroDivisionError: division by zero\n"),
        "{failed:?}"
    );
    let late = run(&[
        "run",
        "--template",
        "python-min",
        "--timeout",
        "500ms",
        "-c",
        "while True: pass",
    ])?;
    assert!(
        late.stderr.contains("refused: more time (timeout: 500 ms)\n\nhint: "),
        "{late:?}"
    );
    Ok(())
}

#[test]
fn bash_and_the_profile_are_chosen_by_flags() -> Result<()> {
    let bash = run_json(&[
        "--template",
        "python-min",
        "--lang",
        "bash",
        "-c",
        "echo $((6*7)); exit 3",
    ])?;
    assert_eq!(
        (bash.language, bash.outcome, bash.exit_code),
        (Language::Bash, Outcome::Error, Some(3))
    );
    assert_eq!(bash.stdout, "42\n");
    let code = "import resource; print(resource.getrlimit(resource.RLIMIT_FSIZE)[0])";
    let data = run_json(&["--template", "python-min", "--profile", "data", "-c", code])?;
    assert_eq!(data.stdout, format!("{}\n", 5_u64 << 30));
    Ok(())
}

#[test]
fn ctrl_c_interrupts_the_code_and_everything_is_taken_down() -> Result<()> {
    let code = "print('MARK', flush=True)\nimport time; time.sleep(1000)";
    let mut command = atoll();
    command.args(["run", "--template", "python-min", "-c", code]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().context("no stdout")?).read_line(&mut line)?;
    assert_eq!(line, "MARK\n");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
    let output = child.wait_with_output()?;
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr)?;
    assert!(stderr.ends_with("KeyboardInterrupt\n"), "{stderr}");
    Ok(())
}

#[test]
fn a_reader_that_goes_away_is_no_failure_of_the_code() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code = "for i in range(100000): print(i)\nopen('/data/output/done', 'w').close()";
    let mut command = atoll();
    command
        .args(["run", "--template", "python-min", "-c", code])
        .current_dir(&dir);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    assert_eq!(
        (output.status.code(), String::from_utf8(output.stderr)?),
        (Some(0), "saved: atoll-out/done\n".into())
    );
    Ok(())
}
