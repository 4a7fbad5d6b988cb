//! Many clients against one server: what they saw, what their neighbours felt, and what was left. The same code is a short
//! test and the long commands `cargo xtask bench load` and `soak`.

use crate::e2b::{Sandbox, create};
use crate::process::{descendants, eventually};
use crate::server::Server;
use anyhow::{Result, ensure};
use serde_json::json;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What every client runs.
pub const PANDAS: &str =
    "import pandas as pd\nint(pd.DataFrame({'k': ['a', 'b'] * 150, 'v': range(300)}).groupby('k').v.sum().sum())";
const PANDAS_SAYS: &str = "44850";
/// Without pandas, for templates that lack it.
pub const PLAIN: &str = "sum(range(300))";

#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Sandboxes that live all the time; some of them are used now and then.
    pub live: usize,
    /// Clients that make, use and end sandboxes.
    pub clients: usize,
    pub until: Until,
    pub code: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Until {
    /// This often for each client.
    Rounds(usize),
    After(Duration),
}

/// Milliseconds of what was done, and what went wrong.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub rounds: Vec<f64>,
    pub neighbours: Vec<f64>,
    pub failures: Vec<String>,
}

/// What a server holds of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    pub processes: usize,
    pub descriptors: usize,
    /// Of its own, without the pages of its program.
    pub memory_kib: u64,
}

impl Held {
    pub fn by(server: &Server) -> Self {
        let pid = server.pid();
        let descriptors = std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count);
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        Self {
            processes: descendants(pid).len(),
            descriptors,
            memory_kib: kib(&rollup, "Anonymous:"),
        }
    }
}

fn kib(rollup: &str, name: &str) -> u64 {
    let line = rollup.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// A server with room for many, with the pool that people have.
pub fn server(home: &Path, template: &str, room: usize, more: &[&str]) -> Result<Server> {
    let room = room.to_string();
    let mut flags = vec!["--template", template, "--log-level", "warn"];
    // All of it for the one tenant of the load.
    flags.extend([
        "--max-sandboxes",
        room.as_str(),
        "--max-tenant-sandboxes",
        room.as_str(),
    ]);
    flags.extend(more);
    let server = Server::start_as_it_is(home, &flags)?;
    // A pool of many takes its time to fill on a busy machine.
    for _ in 0..10 {
        if eventually("the server is ready", || is_ready(&server)).is_ok() {
            return Ok(server);
        }
    }
    anyhow::bail!("the server does not become ready: {}", server.log())
}

fn is_ready(server: &Server) -> bool {
    server
        .send("GET", "/readyz", None)
        .is_ok_and(|answer| answer.status == 200)
}

/// Make, run, end; how long it took until the result was there.
pub fn round(server: &Server, code: &str) -> Result<f64> {
    let began = Instant::now();
    let sandbox = create(server, &server.key, json!({}))?;
    let ran = run(server, &sandbox, code);
    let took = began.elapsed().as_secs_f64() * 1000.0;
    end(server, &sandbox)?;
    ran.map(|()| took)
}

/// Runs code that must give its number.
pub fn run(server: &Server, sandbox: &Sandbox, code: &str) -> Result<()> {
    let ran = sandbox.run(server, code)?;
    let says = format!("\"text\":\"{PANDAS_SAYS}\"");
    ensure!(
        ran.status == 200 && ran.body.contains(&says),
        "{} {}",
        ran.status,
        ran.body
    );
    Ok(())
}

pub fn end(server: &Server, sandbox: &Sandbox) -> Result<()> {
    let ended = server.send("DELETE", &format!("/sandboxes/{}", sandbox.id), None)?;
    ensure!(ended.status == 204, "{} {}", ended.status, ended.text());
    Ok(())
}

impl Load {
    /// Puts the load on `server` and takes it off again.
    pub fn run(&self, server: &Server) -> Result<Seen> {
        let live = (0..self.live)
            .map(|_| create(server, &server.key, json!({"timeout": 3600})))
            .collect::<Result<Vec<_>>>()?;
        let over = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..self.clients).map(|_| scope.spawn(|| self.client(server))).collect();
            let neighbour = scope.spawn(|| self.neighbour(server, &live, &over));
            let mut seen = Seen::default();
            for client in clients {
                seen.add(client.join().unwrap_or_else(|_| Seen::failed("a client panicked")));
            }
            over.store(true, Ordering::Release);
            seen.add(
                neighbour
                    .join()
                    .unwrap_or_else(|_| Seen::failed("the neighbour panicked")),
            );
            seen
        });
        for sandbox in &live {
            end(server, sandbox)?;
        }
        Ok(seen)
    }

    fn client(&self, server: &Server) -> Seen {
        let (began, mut seen) = (Instant::now(), Seen::default());
        let mut count = 0;
        while match self.until {
            Until::Rounds(rounds) => count < rounds,
            Until::After(long) => began.elapsed() < long,
        } {
            count += 1;
            match round(server, self.code) {
                Ok(took) => seen.rounds.push(took),
                Err(error) => seen.failures.push(format!("{error:#}")),
            }
        }
        seen
    }

    /// Uses one living sandbox after the other, as somebody beside the load would.
    fn neighbour(&self, server: &Server, live: &[Sandbox], over: &AtomicBool) -> Seen {
        let mut seen = Seen::default();
        for sandbox in live.iter().cycle() {
            if over.load(Ordering::Acquire) {
                break;
            }
            let began = Instant::now();
            match run(server, sandbox, PLAIN) {
                Ok(()) => seen.neighbours.push(began.elapsed().as_secs_f64() * 1000.0),
                Err(error) => seen.failures.push(format!("neighbour: {error:#}")),
            }
        }
        seen
    }
}

impl Seen {
    fn failed(why: &str) -> Self {
        Self {
            failures: vec![why.to_owned()],
            ..Self::default()
        }
    }

    fn add(&mut self, other: Self) {
        self.rounds.extend(other.rounds);
        self.neighbours.extend(other.neighbours);
        self.failures.extend(other.failures);
    }
}

/// A JSON body that is read whole and then refused, because metadata is shorter.
const LARGE_BODY_BYTES: usize = 10_000_000;

/// Sends large bodies at the same time, in turn for two tenants: together they fit into what the server keeps of requests.
/// Returns how many were read whole.
pub fn large_bodies(server: &Server, count: usize) -> Result<usize> {
    let other = server.new_key(&json!({"name": "other", "tenant": "other", "scopes": ["run"]}))?;
    let keys = [server.key.as_str(), other.as_str()];
    let body = json!({"metadata": {"large": "x".repeat(LARGE_BODY_BYTES)}}).to_string();
    let was_read = |key: &str| {
        let answer = server.send_as(key, "POST", "/v1/sandboxes", Some(&body));
        answer.is_ok_and(|answer| answer.status == 400)
    };
    Ok(std::thread::scope(|scope| {
        let was_read = &was_read;
        let sent: Vec<_> = keys
            .into_iter()
            .cycle()
            .take(count)
            .map(|key| scope.spawn(move || was_read(key)))
            .collect();
        sent.into_iter()
            .filter_map(|one| one.join().ok())
            .filter(|read| *read)
            .count()
    }))
}

/// Waits until the server holds no more than before: processes, and descriptors but for a few.
pub fn nothing_is_left(server: &Server, before: Held) -> Result<()> {
    let most = before.descriptors + 16;
    eventually("what the load used is given back", || {
        let now = Held::by(server);
        now.processes <= before.processes && now.descriptors <= most
    })
    .map_err(|error| error.context(format!("before {before:?}, now {:?}", Held::by(server))))
}
