//! Numbers over HTTP: a real server, a plain client with a new connection for each call, and E2B's Python client.

use crate::baseline;
use crate::series::{Row, Series};
use anyhow::{Context, Result, ensure};
use atoll_tests::e2b::{Sandbox, create};
use atoll_tests::load::{self, Held, Load, PANDAS, PLAIN, Until};
use atoll_tests::server::{Server, connect};
use serde_json::json;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const COUNT: usize = 100;
const FILE_MIB: usize = 1024;
const TURNS: usize = 3;
const BURST: usize = 100;
const BODIES: usize = 40;
/// A pool that does not grow: what is left after a load can be compared with what was there before.
const STEADY: [&str; 4] = ["--pool-min", "8", "--pool-max", "8"];

fn since(began: Instant) -> f64 {
    began.elapsed().as_secs_f64() * 1000.0
}

/// Create and run with the pool full before each; beside it an empty request, and a fork that does the same work.
pub(crate) fn first() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-data", 40, &["--pool-min", "4", "--pool-max", "8"])?;
    let template = atoll_tests::template("python-data")?;
    let (one, pandas) = (first_results(&server, PLAIN)?, first_results(&server, PANDAS)?);
    let empty = Series::of(times(COUNT, || ensure_ok(&server))?).p50();
    let floor = Series::of(baseline::raw_fork(&template, PANDAS, COUNT)?).p50();
    let sandbox = create(&server, &server.key, json!({}))?;
    let live = Series::of(times(COUNT, || load::run(&server, &sandbox, PLAIN))?);
    load::end(&server, &sandbox)?;
    Ok(vec![
        one.row(
            "http_first",
            "HTTP: create -> first value",
            "ms",
            ("empty request", empty),
            "<= 8",
        ),
        pandas.row(
            "http_first",
            "HTTP: create -> first pandas",
            "ms",
            ("raw fork", floor),
            "<= 1.0",
        ),
        live.row(
            "http_first",
            "HTTP: run in a live sandbox",
            "ms",
            ("empty request", empty),
            "-",
        ),
    ])
}

fn first_results(server: &Server, code: &str) -> Result<Series> {
    let mut series = Series::default();
    for _ in 0..COUNT {
        // The pool refills beside us: this measures a claim, not the refill.
        std::thread::sleep(Duration::from_millis(60));
        match load::round(server, code) {
            Ok(took) => series.values.push(took),
            Err(_) => series.failures += 1,
        }
    }
    Ok(series)
}

fn ensure_ok(server: &Server) -> Result<()> {
    ensure!(server.send("GET", "/healthz", None)?.status == 200, "not healthy");
    Ok(())
}

fn times(count: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let one = |_| {
        let began = Instant::now();
        work()?;
        Ok(since(began))
    };
    (0..count).map(one).collect()
}

/// Create, pandas and end per second with four clients, against forks of the interpreter on each core.
pub(crate) fn throughput() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-data", 60, &["--pool-min", "8", "--pool-max", "16"])?;
    let template = atoll_tests::template("python-data")?;
    let began = Instant::now();
    let load = Load {
        live: 0,
        clients: 4,
        until: Until::Rounds(COUNT / 2),
        code: PANDAS,
    };
    let seen = load.run(&server)?;
    let rate = seen.rounds.len() as f64 / began.elapsed().as_secs_f64();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let floor = cores as f64 * 1000.0 / Series::of(baseline::raw_fork(&template, PANDAS, COUNT)?).p50();
    let mut series = Series::of(vec![rate]);
    series.failures = seen.failures.len();
    Ok(vec![series.row(
        "http_throughput",
        "HTTP: create+pandas+end per second",
        "1/s",
        ("raw forks", floor),
        ">= 0.7",
    )])
}

/// All at once: each one's time beside the whole.
pub(crate) fn burst() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-data", BURST + 60, &[])?;
    let began = Instant::now();
    let made: Vec<Result<(f64, Sandbox)>> = std::thread::scope(|scope| {
        let one = || {
            let began = Instant::now();
            let sandbox = create(&server, &server.key, json!({}))?;
            Ok((since(began), sandbox))
        };
        let threads: Vec<_> = (0..BURST).map(|_| scope.spawn(one)).collect();
        threads
            .into_iter()
            .map(|t| t.join().unwrap_or_else(|_| Err(anyhow::anyhow!("panicked"))))
            .collect()
    });
    let whole = since(began);
    let mut series = Series::default();
    for one in made {
        match one {
            Ok((took, sandbox)) => {
                series.values.push(took);
                load::end(&server, &sandbox)?;
            }
            Err(_) => series.failures += 1,
        }
    }
    let each = ("wall clock of all", whole);
    Ok(vec![series.row(
        "http_burst",
        "HTTP: each of 100 creates at once",
        "ms",
        each,
        "no failure",
    )])
}

/// Memory of the server after many large bodies at once, beside what it had before.
pub(crate) fn large_bodies() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-min", 60, &STEADY)?;
    let resident_mib = || anyhow::Ok(server.resident_bytes()? as f64 / f64::from(1 << 20));
    let idle = resident_mib()?;
    let read = load::large_bodies(&server, BODIES)?;
    std::thread::sleep(Duration::from_secs(10));
    let mut series = Series::of(vec![resident_mib()?]);
    series.failures = BODIES - read;
    Ok(vec![series.row(
        "burst",
        "server's RSS 10 s after 40 bodies of 10 MB",
        "MiB",
        ("idle", idle),
        "<= 2",
    )])
}

/// One file of a gigabyte in and out, beside a plain copy on the disk of the data directory.
pub(crate) fn files() -> Result<Vec<Row>> {
    let home = tempfile::tempdir_in(atoll_tests::home())?;
    let server = load::server(home.path(), "python-data", 20, &["--e2b-profile", "data"])?;
    let sandbox = create(&server, &server.key, json!({}))?;
    let copies = primed(home.path(), || copy(home.path()))?;
    let ups = primed(home.path(), || upload(&server, &sandbox))?;
    let downs = primed(home.path(), || download(&server, &sandbox))?;
    let copy = ("plain copy", Series::of(copies).p50());
    Ok(vec![
        Series::of(ups).row("http_files", "HTTP: 1 GiB upload", "ms", copy, "<= 1.67"),
        Series::of(downs).row("http_files", "HTTP: 1 GiB download", "ms", copy, "<= 1.67"),
    ])
}

/// A virtual machine may have given unused memory back to its host, and gets it again at many times the cost of a copy:
/// each turn begins with memory that was in use a moment ago.
fn primed(home: &Path, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
    let mut all = Vec::new();
    for _ in 0..TURNS {
        let used = home.join("used");
        std::fs::write(&used, vec![7; (2 * FILE_MIB) << 20])?;
        std::fs::remove_file(&used)?;
        all.extend(times(1, &mut work)?);
    }
    Ok(all)
}

fn copy(home: &Path) -> Result<()> {
    let (from, to) = (home.join("from"), home.join("to"));
    if !from.exists() {
        std::fs::write(&from, vec![7; FILE_MIB << 20])?;
    }
    std::fs::remove_file(&to).ok();
    ensure!(
        Command::new("cp")
            .args(["--reflink=never"])
            .arg(&from)
            .arg(&to)
            .status()?
            .success(),
        "cp failed"
    );
    Ok(())
}

fn head(server: &Server, sandbox: &Sandbox, method: &str, length: usize) -> String {
    format!(
        "{method} /files?path=big HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nE2b-Sandbox-Id: {}\r\nX-Access-Token: {}\r\n\
         Content-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n",
        server.api, sandbox.id, sandbox.token
    )
}

fn upload(server: &Server, sandbox: &Sandbox) -> Result<()> {
    let mut connection = connect(server.api)?;
    connection.write_all(head(server, sandbox, "POST", FILE_MIB << 20).as_bytes())?;
    let piece = vec![7; 1 << 20];
    for _ in 0..FILE_MIB {
        connection.write_all(&piece)?;
    }
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    ensure!(answer.contains(" 200 "), "{answer}");
    Ok(())
}

fn download(server: &Server, sandbox: &Sandbox) -> Result<()> {
    let mut connection = connect(server.api)?;
    connection.write_all(head(server, sandbox, "GET", 0).as_bytes())?;
    let (mut piece, mut all) = (vec![0; 1 << 20], 0);
    loop {
        match connection.read(&mut piece)? {
            0 => break,
            count => all += count,
        }
    }
    ensure!(all > FILE_MIB << 20, "only {all} bytes came");
    Ok(())
}

/// E2B's own Python client. The script prints what it measured as JSON.
pub(crate) fn sdk() -> Result<Vec<Row>> {
    let python = std::env::var("ATOLL_E2B_PYTHON").context(
        "ATOLL_E2B_PYTHON must name a Python with e2b-code-interpreter, for example xtask-e2b/bin/python in the target directory",
    )?;
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-data", 40, &["--pool-min", "4", "--pool-max", "8"])?;
    let url = format!("http://{}", server.api);
    let mut command = Command::new(python);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/sdk.py"));
    command.envs([
        ("E2B_API_URL", &url),
        ("E2B_SANDBOX_URL", &url),
        ("E2B_API_KEY", &server.key),
    ]);
    command.env("NO_PROXY", "127.0.0.1");
    let output = command.output()?;
    let told: serde_json::Value =
        serde_json::from_slice(&output.stdout).with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let series = |name: &str| -> Result<Series> { Ok(Series::of(serde_json::from_value(told[name].clone())?)) };
    let empty = ("its empty request", series("empty")?.p50());
    Ok(vec![
        series("one")?.row("http_sdk", "Python client: create -> first 1+1", "ms", empty, "<= 8"),
        series("pandas")?.row("http_sdk", "Python client: create -> first pandas", "ms", empty, "-"),
        series("live")?.row("http_sdk", "Python client: run in a live sandbox", "ms", empty, "-"),
    ])
}

/// 200 live, 50 clients, two minutes.
pub(crate) fn load() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-data", 300, &STEADY)?;
    let at_rest = Held::by(&server);
    load::round(&server, PANDAS)?;
    let alone = Series::of(times(COUNT, || load::round(&server, PANDAS).map(drop))?).p50();
    let sandbox = create(&server, &server.key, json!({}))?;
    let quiet = Series::of(times(COUNT, || load::run(&server, &sandbox, PLAIN))?).p50();
    load::end(&server, &sandbox)?;
    let load = Load {
        live: 200,
        clients: 50,
        until: Until::After(Duration::from_secs(120)),
        code: PANDAS,
    };
    let seen = load.run(&server)?;
    for failure in seen.failures.iter().take(5) {
        println!("failure: {failure}");
    }
    load::nothing_is_left(&server, at_rest)?;
    let mut rounds = Series::of(seen.rounds);
    rounds.failures = seen.failures.len();
    Ok(vec![
        rounds.row(
            "load",
            "50 clients beside 200: create -> pandas",
            "ms",
            ("alone", alone),
            "no failure",
        ),
        Series::of(seen.neighbours).row("load", "a neighbour's run under it", "ms", ("quiet", quiet), "p99 told"),
    ])
}

/// 10,000 sandboxes one after the other, four clients at a time; the server's own memory after the first thousand and at
/// the end.
pub(crate) fn soak() -> Result<Vec<Row>> {
    let home = tempfile::tempdir()?;
    let server = load::server(home.path(), "python-min", 60, &STEADY)?;
    let part = |rounds: usize| Load {
        live: 1,
        clients: 4,
        until: Until::Rounds(rounds / 4),
        code: PLAIN,
    };
    // With a full pool, as it will be again.
    let at_rest = Held::by(&server);
    let mut failures = part(1000).run(&server)?.failures;
    let first = Held::by(&server);
    let mut memory = Series::default();
    for turn in 1..=9 {
        failures.extend(part(1000).run(&server)?.failures);
        let held = Held::by(&server);
        memory.values.push(held.memory_kib as f64 / 1024.0);
        println!(
            "after {} sandboxes: {held:?}, {} failures",
            (turn + 1) * 1000,
            failures.len()
        );
    }
    load::nothing_is_left(&server, at_rest)?;
    memory.failures = failures.len();
    let base = ("after 1,000", first.memory_kib as f64 / 1024.0);
    let last = memory.values.last().copied().unwrap_or(f64::NAN);
    let mut row = memory.row(
        "soak",
        "the server's memory over 10,000 sandboxes",
        "MiB",
        base,
        "<= 1.1 at the end",
    );
    row.ratio = last / base.1;
    Ok(vec![row])
}
