//! `atoll run --secret`: where values come from, and that they are in nothing that comes back.

use anyhow::{Context, Result};
use atoll_core::wire::agent::TerminalSize;
use atoll_engine::{CommandEvent, CommandSpec, SandboxSpec, Secrets, Walls, Warmth};
use atoll_tests::process::BOUND;
use atoll_tests::server::atoll_in;
use atoll_tests::{atoll, engine, home, run_command, stop};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::process::Command;

const VALUE: &str = "hunter22 \"of\" hunter22";
const MARKER: &str = "[redacted: TOKEN]";

const TELLS: &str = "import os, sys, base64\n\
    t = os.environ['TOKEN']\n\
    print(len(t), t, t[::-1], repr(t), t.encode().hex(), base64.b64encode(t.encode()).decode())\n\
    for letter in 'go ' + t + ' on\\n': os.write(1, letter.encode())\n\
    print(t, file=sys.stderr)\n\
    open('/data/output/' + t, 'w').write('kept: ' + t)\n\
    raise ValueError(t)";

/// In a directory of its own, with the secret in its environment.
fn command(dir: &std::path::Path) -> Command {
    let mut command = atoll();
    command.args(["run", "--template", "python-min"]);
    command.env("TOKEN", VALUE).current_dir(dir);
    command
}

#[test]
fn a_secret_is_a_variable_of_the_code_and_comes_back_as_its_name() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let ran = run_command(command(dir.path()).args(["--secret", "TOKEN", "-c", TELLS]))?;
    let line = format!("22 {MARKER} {MARKER} '{MARKER}' {MARKER} {MARKER}\ngo {MARKER} on\n");
    assert_eq!(ran.stdout, line);
    assert!(
        ran.stderr.starts_with(&format!("{MARKER}\n")) && ran.stderr.contains(&format!("ValueError: {MARKER}")),
        "{ran:?}"
    );
    assert!(!ran.stderr.contains("hunter"), "{ran:?}");
    let saved = std::fs::read_to_string(dir.path().join("atoll-out").join(MARKER))?;
    assert_eq!(saved, format!("kept: {MARKER}"));
    let json = run_command(command(dir.path()).args(["--secret", "TOKEN", "--json", "-c", TELLS]))?;
    let answer: atoll_core::Execution = serde_json::from_str(&json.stdout).with_context(|| format!("{json:?}"))?;
    assert_eq!(
        (answer.stdout, answer.error.context("no error")?.value),
        (line, MARKER.to_owned())
    );
    assert!(!json.stdout.contains("hunter"), "{json:?}");
    Ok(())
}

/// Files are read in pieces of 256 KiB; the value in `large.csv` lies across the first border.
const WRITES: &str = "import os\n\
    t = os.environ['TOKEN']\n\
    x = 'x' * (256 * 1024 - 5)\n\
    def put(name, content): open('/data/output/' + name, 'wb').write(content)\n\
    put('clean.txt', b'plain')\n\
    put('data.txt', b'\\xff\\0' + t.encode())\n\
    put('large.csv', (x + t + x).encode())\n\
    put('small.bin', ('a ' + t + ' b').encode())";

#[test]
fn output_files_that_are_text_are_redacted_and_others_are_named() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let json = run_command(command(dir.path()).args(["--secret", "TOKEN", "--json", "-c", WRITES]))?;
    let answer: atoll_core::Execution = serde_json::from_str(&json.stdout).with_context(|| format!("{json:?}"))?;
    let x = "x".repeat(256 * 1024 - 5);
    let none: &[&str] = &[];
    let wanted = [
        ("clean.txt", b"plain".to_vec(), none),
        ("data.txt", [&b"\xff\0"[..], VALUE.as_bytes()].concat(), &["TOKEN"]),
        ("large.csv", format!("{x}{MARKER}{x}").into_bytes(), none),
        ("small.bin", format!("a {MARKER} b").into_bytes(), none),
    ];
    assert_eq!(answer.files.len(), wanted.len(), "{json:?}");
    for (file, (name, bytes, unredacted)) in answer.files.iter().zip(wanted) {
        let saved = std::fs::read(dir.path().join(file.saved.as_ref().context("not saved")?))?;
        assert!(saved == bytes, "{name}");
        let sha256: String = Sha256::digest(&bytes)
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        assert_eq!(
            (file.path.as_str(), file.size, file.sha256.as_str()),
            (
                format!("/data/output/{name}").as_str(),
                bytes.len() as u64,
                sha256.as_str()
            )
        );
        assert_eq!(file.unredacted, unredacted, "{name}");
    }
    let shown = run_command(command(dir.path()).args(["--secret", "TOKEN", "-c", WRITES]))?;
    let note = "note: /data/output/data.txt contains the value of the secret `TOKEN`; only text files are redacted\n";
    assert!(
        shown.stderr.contains(note) && shown.stderr.matches("contains the value").count() == 1,
        "{shown:?}"
    );
    Ok(())
}

/// Without secrets nothing is searched for, and nothing is changed.
#[test]
fn output_files_are_as_they_were_written_where_there_is_no_secret() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let code = WRITES.replace("os.environ['TOKEN']", "'hunter22 hunter22'");
    let ran = run_command(command(dir.path()).args(["-c", &code]))?;
    assert!(
        ran.code == Some(0) && !ran.stderr.contains("contains the value"),
        "{ran:?}"
    );
    let saved = std::fs::read_to_string(dir.path().join("atoll-out/small.bin"))?;
    assert_eq!(saved, "a hunter22 hunter22 b");
    Ok(())
}

#[test]
fn a_file_can_hold_the_secret_and_every_language_has_it() -> Result<()> {
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("token"), "of a file, with a line break\r\n")?;
    for (language, code) in [
        (
            "python",
            "import os\nprint(len(os.environ['TOKEN']), os.environ['TOKEN'])",
        ),
        ("bash", "echo ${#TOKEN} $TOKEN"),
        ("javascript", "console.log(process.env.TOKEN.length, process.env.TOKEN)"),
    ] {
        let ran = run_command(command(dir.path()).args(["--secret", "TOKEN=@token", "--lang", language, "-c", code]))?;
        assert_eq!(ran.stdout, format!("28 {MARKER}\n"), "{language} {ran:?}");
    }
    Ok(())
}

#[test]
fn what_is_no_secret_is_refused_before_anything_starts_and_not_shown() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for (args, words) in [
        (
            &["--secret", "TOKEN=hunter22hunter22"][..],
            "a value on the command line",
        ),
        (
            &["--secret", "TOKEN", "--secret", "hunter22"],
            "number 2: environment variable is not set",
        ),
        (&["--secret", "TOKEN=@hunter22"], "cannot read the file"),
        (&["--secret", "TOKEN", "--secret", "TOKEN"], "duplicate name"),
        (&["--secret", "TOKEN", "--env", "TOKEN=hunter22"], "set it only once"),
        (&["--secret", "SHORT"], "too short"),
    ] {
        let ran = run_command(
            command(dir.path())
                .env("SHORT", "hunter2")
                .args(args)
                .args(["-c", "print(1)"]),
        )?;
        assert!(ran.code == Some(2) && ran.stderr.contains(words), "{words}: {ran:?}");
        assert!(!ran.stderr.contains("hunter"), "{ran:?}");
        assert_eq!(ran.stdout, "");
    }
    Ok(())
}

#[test]
fn a_refused_secret_is_named_by_its_variable() -> Result<()> {
    let dir = tempfile::tempdir()?;
    for (args, words) in [
        (
            &["MISSING_TOKEN"][..],
            "`--secret MISSING_TOKEN`: environment variable is not set",
        ),
        (&["MY-TOKEN"], "`--secret MY-TOKEN`: invalid secret name"),
        (&["1TOKEN=@file"], "`--secret 1TOKEN`: invalid secret name"),
        (&["TOKEN=@nothing"], "`--secret TOKEN`: cannot read the file"),
        (&["my_token=@nothing"], "`--secret my_token`: cannot read the file"),
        (
            &["hunter22hunter22="],
            "`--secret` number 1: expected NAME or NAME=@FILE",
        ),
        (&["TOKEN=hunter22"], "`--secret TOKEN`: expected NAME or NAME=@FILE"),
        (&["TOKEN", "TOKEN"], "`--secret TOKEN`: duplicate name"),
        (&["SHORT"], "secret `SHORT` is too short"),
    ] {
        let mut asked = command(dir.path());
        asked.env("SHORT", "hunter2").env_remove("MISSING_TOKEN");
        for arg in args {
            asked.arg("--secret").arg(arg);
        }
        let ran = run_command(asked.args(["-c", "print(1)"]))?;
        assert!(ran.code == Some(2) && ran.stderr.contains(words), "{words}: {ran:?}");
        assert!(!ran.stderr.contains("hunter"), "{ran:?}");
    }
    Ok(())
}

/// Code that its policy refuses never starts; what is said about it, and what is kept of it, is searched all the same.
#[test]
fn refused_code_that_has_the_value_in_it_is_told_and_kept_without_it() -> Result<()> {
    let (dir, log) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let code = format!("import hunter22, os\nos.system('{VALUE}')\n__import__('hunter22_hunter22')\nx = '{VALUE}");
    let secret = "hunter22_hunter22";
    let mut refused = command(dir.path());
    refused
        .env("ATOLL_AUDIT_DIR", log.path().join("log"))
        .env("ATOLL_AUDIT_RECORD", "full")
        .env("OTHER", secret);
    let ran = run_command(refused.args([
        "--secret", "TOKEN", "--secret", "OTHER", "--policy", "strict", "-c", &code,
    ]))?;
    assert!(
        !ran.stderr.contains("22 \"of\"") && !ran.stderr.contains(secret),
        "{ran:?}"
    );
    let kept = run_command(
        atoll_in(&home())
            .env("ATOLL_AUDIT_DIR", log.path().join("log"))
            .args(["audit", "export"]),
    )?;
    assert!(
        kept.stdout.contains("os.system('[redacted: TOKEN]')") && kept.stdout.contains("[redacted: OTHER]"),
        "{kept:?}"
    );
    assert!(
        !kept.stdout.contains(secret) && !kept.stdout.contains("\\\"of\\\""),
        "{kept:?}"
    );
    Ok(())
}

/// Who types must see each letter, also one that a secret begins with. What a command is told as has no secret in it.
#[tokio::test]
async fn a_terminal_shows_after_a_moment_what_could_become_a_secret() -> Result<()> {
    let engine = engine("python-min", Warmth::Cold, Walls::default()).await?;
    let secrets = Secrets::new(BTreeMap::from([("TOKEN".to_owned(), VALUE.to_owned())]))?;
    let spec = SandboxSpec {
        secrets,
        ..SandboxSpec::default()
    };
    let sandbox = engine.create(spec).await?;
    let script = "stty -echo; printf hunter22; read; printf ' \"of\" hunter22.%s.' \"$1\"";
    let argv = ["/bin/bash", "-c", script, "bash", VALUE].map(str::to_owned).to_vec();
    let spec = CommandSpec {
        argv,
        terminal: Some(TerminalSize { columns: 80, rows: 24 }),
        ..CommandSpec::default()
    };
    let (command, mut listener) = sandbox.spawn(spec).await?;
    assert_eq!(command.info.spec.argv[4], MARKER);
    let mut shown = String::new();
    let mut typed = false;
    while let Some(event) = tokio::time::timeout(BOUND, listener.next()).await? {
        if let CommandEvent::Terminal(bytes) = event {
            shown.push_str(&String::from_utf8_lossy(&bytes));
        }
        if !typed && shown.ends_with("hunter22") {
            typed = command.write(b"\n").await?;
        }
    }
    // Of the value that waited its beginning was seen; of the other one nothing.
    assert_eq!(shown.replace("\r\n", ""), format!("hunter22{MARKER}.{MARKER}."));
    sandbox.end().await?;
    drop(sandbox);
    stop(engine).await
}
