//! One short test of the tier `wasm`: start, compute, limits, ten escape attempts with their controls, cleanup.
//!
//! `cargo xtask test` runs it; the other tests of the tier run with `--full`. Those of `container`, `gvisor` and `microvm`
//! are in `tests/tests/escape/smoke.rs`.

use crate::{engine, sandbox, sandbox_with};
use anyhow::{Context, Result, ensure};
use atoll_core::quantity::{CpuTimeMillis, MIB, MemoryBytes, WallMillis};
use atoll_core::{Language, Limits, Outcome};
use atoll_engine::Engine;
use atoll_tests::census::Watch;
use atoll_tests::{PATIENT, execute_within, home, python};
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

/// Limits of an execution, and what ends at them. The sandbox continues after each.
const ENDS: [(Limits, &str, Outcome); 3] = [
    (
        Limits {
            wall: WallMillis::known(1_000),
            ..PATIENT
        },
        "import time\ntime.sleep(60)",
        Outcome::Timeout,
    ),
    (
        Limits {
            cpu_time: CpuTimeMillis::known(1_000),
            ..PATIENT
        },
        "while True: pass",
        Outcome::CpuLimit,
    ),
    (
        Limits {
            memory: MemoryBytes::known(128 * MIB),
            ..PATIENT
        },
        "held = bytearray(400 << 20)",
        Outcome::MemoryLimit,
    ),
];

/// Prints for each attempt `True` if it succeeded, else `False` or the error. `DIR` and `PORT` are of the test.
const ATTEMPTS: &str = r"
import json, os, tempfile
DIR, PORT = ARGS
secret, scratch = DIR + '/secret', tempfile.mkdtemp()
def follow_link():
    os.symlink(secret, scratch + '/link')
    return open(scratch + '/link').read() == 'canary'
def connect():
    import socket
    return bool(socket.create_connection(('127.0.0.1', PORT), timeout=20))
def start_program():
    import subprocess
    return subprocess.run(['echo', 'started'], capture_output=True).stdout == b'started\n'
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[0] == pid
def call_c():
    import ctypes
    return ctypes.CDLL(None).getpid() == os.getpid()
attempts = {
    'environment': lambda: os.environ['ATOLL_CANARY'] == 'canary',
    'host file': lambda: open(secret).read() == 'canary',
    'link to a host file': follow_link,
    'path out of scratch': lambda: open(scratch + '/' + '../' * 40 + secret.lstrip('/')).read() == 'canary',
    'host directory': lambda: 'secret' in os.listdir(DIR),
    'new host file': lambda: open(DIR + '/written', 'w').write('x') == 1,
    'loopback': connect,
    'program': start_program,
    'fork': fork,
    'C library': call_c,
}
found = {}
for name, attempt in attempts.items():
    try:
        found[name] = str(bool(attempt()))
    except BaseException as error:
        found[name] = type(error).__name__
print('FOUND ' + json.dumps(found))
";

/// Makes two of the attempts succeed inside: the check detects a success there, too.
const PLANTED: &str =
    "import os\nos.environ['ATOLL_CANARY'] = 'canary'\nos.fork, os.waitpid = lambda: 7, lambda *a: (7, 0)";

type Found = BTreeMap<String, String>;

fn found(stdout: &str) -> Result<Found> {
    let line = stdout.lines().find_map(|line| line.strip_prefix("FOUND "));
    Ok(serde_json::from_str(line.context("no results")?)?)
}

fn succeeded(found: &Found) -> Vec<&str> {
    let succeeded = found.iter().filter(|(_, word)| *word == "True");
    succeeded.map(|(name, _)| name.as_str()).collect()
}

async fn computes_within_its_limits(engine: &Engine) -> Result<()> {
    for (limits, code, outcome) in ENDS {
        let memory = limits.memory;
        let mut own = sandbox_with(engine, Limits { memory, ..PATIENT }).await?;
        python(&mut own, "x = 41").await?;
        ensure!(python(&mut own, "print(x + 1)").await?.stdout == "42\n");
        let ended = execute_within(&mut own, limits, Language::Python, code).await?;
        ensure!(ended.outcome == outcome, "{code}: {ended:?}");
        ensure!(python(&mut own, "print(6 * 7)").await?.stdout == "42\n", "after {code}");
        own.end().await?;
    }
    Ok(())
}

async fn inside(engine: &Engine, code: &str) -> Result<Found> {
    let mut own = sandbox(engine).await?;
    let ran = python(&mut own, code).await?;
    let place = home().join("wasm/sandboxes").join(own.id().as_str());
    ensure!(place.is_dir(), "{} is absent", place.display());
    own.end().await?;
    ensure!(!place.exists(), "{} is left", place.display());
    found(&ran.stdout).with_context(|| format!("{ran:?}"))
}

/// The same attempts by the host's Python, where each must succeed.
fn outside(code: &str) -> Result<Found> {
    let mut command = Command::new("python3");
    let ran = command.args(["-c", code]).env("ATOLL_CANARY", "canary").output()?;
    found(&String::from_utf8_lossy(&ran.stdout)).with_context(|| format!("{ran:?}"))
}

async fn attempts_fail_inside(engine: &Engine, dir: &Path) -> Result<()> {
    std::fs::write(dir.join("secret"), "canary")?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let args = format!("ARGS = ({dir:?}, {})", listener.local_addr()?.port());
    let code = format!("{args}\n{ATTEMPTS}");
    let refused = inside(engine, &code).await?;
    ensure!(refused.len() == 10 && succeeded(&refused).is_empty(), "{refused:?}");
    ensure!(!dir.join("written").exists(), "a file was written on the host");
    let planted = inside(engine, &format!("{PLANTED}\n{code}")).await?;
    ensure!(
        succeeded(&planted) == ["environment", "fork"],
        "the control did not breach: {planted:?}"
    );
    let control = outside(&code)?;
    ensure!(
        succeeded(&control).len() == 10,
        "the control did not breach: {control:?}"
    );
    listener.set_nonblocking(true)?;
    let connections = std::iter::from_fn(|| listener.accept().ok()).count();
    ensure!(connections == 1, "{connections} connections, and one was the control's");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn wasm() -> Result<()> {
    let (watch, dir) = (Watch::start()?, tempfile::tempdir()?);
    let engine = engine().await?;
    computes_within_its_limits(&engine).await?;
    attempts_fail_inside(&engine, dir.path()).await?;
    engine.stop().await;
    watch.nothing_left()
}
