//! Processes of one engine as the host sees them: who is whose child, who is still the one that was seen.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::time::{Duration, Instant};

/// How long anything of the machine may take to come about before a test gives up on it.
pub const BOUND: Duration = Duration::from_secs(30);

/// One process, told apart from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: u32,
    start: u64,
}

impl Process {
    pub fn of(pid: u32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        Some(Self { pid, start: stat.start })
    }

    /// It exists and is not just a dead entry waiting for its parent.
    pub fn is_alive(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.start == self.start && stat.state != 'Z')
    }

    pub fn signal(self, signal: Signal) -> Result<()> {
        if !self.is_alive() {
            bail!("process {} is gone", self.pid);
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw).context("pid")?;
        Ok(kill_process(pid, signal)?)
    }

    pub fn command(self) -> String {
        fs::read_to_string(format!("/proc/{}/cmdline", self.pid))
            .unwrap_or_default()
            .replace('\0', " ")
    }
}

struct Stat {
    state: char,
    parent: u32,
    start: u64,
}

impl Stat {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

pub fn all() -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Process::of(entry.file_name().to_str()?.parse().ok()?))
        .collect()
}

pub fn parent(pid: u32) -> Option<u32> {
    Stat::read(pid).map(|stat| stat.parent)
}

pub fn children(pid: u32) -> Vec<Process> {
    all()
        .into_iter()
        .filter(|process| parent(process.pid) == Some(pid))
        .collect()
}

/// Everything below `pid`, nearest first.
pub fn descendants(pid: u32) -> Vec<Process> {
    let mut found = children(pid);
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let below = children(process.pid);
        found.extend(below);
        next += 1;
    }
    found
}

/// The processes of one engine by what they are.
#[derive(Clone, Debug)]
pub struct Family {
    pub jailer: Process,
    pub spawner: Process,
    pub zygote: Option<Process>,
    /// First processes of sandboxes.
    pub agents: Vec<Process>,
}

impl Family {
    /// As it is now, below this jailer.
    pub fn of(jailer_pid: u32) -> Result<Self> {
        let jailer = Process::of(jailer_pid).context("no jailer")?;
        let spawner = *children(jailer_pid).first().context("no spawner")?;
        // An agent is a fork of the spawner and has its words; the zygote is another program.
        let (agents, others) = children(spawner.pid)
            .into_iter()
            .partition(|child| child.command().contains("__spawner"));
        let others: Vec<Process> = others;
        let zygote = others
            .into_iter()
            .find(|child| child.command().contains("zygote.main()"));
        Ok(Self {
            jailer,
            spawner,
            zygote,
            agents,
        })
    }

    /// Waits until there is a zygote other than `former`.
    pub fn with_zygote(jailer_pid: u32, former: Option<Process>) -> Result<(Self, Process)> {
        let mut found = None;
        eventually("another zygote", || {
            found = Self::of(jailer_pid)
                .ok()
                .and_then(|family| Some((family.clone(), family.zygote?)));
            found.as_ref().is_some_and(|(_, zygote)| Some(*zygote) != former)
        })?;
        found.context("no zygote")
    }
}

/// Polls until `holds`; an error that names it after [`BOUND`].
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) -> Result<()> {
    let began = Instant::now();
    while !holds() {
        if began.elapsed() > BOUND {
            bail!("not within {BOUND:?}: {what}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
