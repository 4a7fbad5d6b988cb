//! Processes of one engine as the host sees them: who is whose child, who is still the one that was seen.

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long anything of the machine may take to come about before a test gives up on it.
pub const BOUND: Duration = Duration::from_secs(120);

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

    /// Its first thread waits for something. (An emulated CPU is another thread, which may always run.)
    pub fn is_asleep(self) -> bool {
        Stat::read(self.pid).is_some_and(|stat| stat.state == 'S')
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
        Self::at(Path::new(&format!("/proc/{pid}/stat")))
    }

    fn at(path: &Path) -> Option<Self> {
        let text = fs::read_to_string(path).ok()?;
        let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// Every process of the host with its parent, in the order of their numbers.
fn with_parents() -> Vec<(Process, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let read = |entry: fs::DirEntry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let stat = Stat::read(pid)?;
        Some((Process { pid, start: stat.start }, stat.parent))
    };
    entries.filter_map(read).collect()
}

pub fn parent(pid: u32) -> Option<u32> {
    Stat::read(pid).map(|stat| stat.parent)
}

pub fn children(pid: u32) -> Vec<Process> {
    children_in(&with_parents(), pid)
}

fn children_in(all: &[(Process, u32)], pid: u32) -> Vec<Process> {
    let below = all.iter().filter(|(_, parent)| *parent == pid);
    below.map(|(process, _)| *process).collect()
}

/// Everything below `pid`, nearest first. A process whose parent dies at this moment may be missed.
pub fn descendants(pid: u32) -> Vec<Process> {
    let all = with_parents();
    let mut found = children_in(&all, pid);
    let mut next = 0;
    while let Some(process) = found.get(next) {
        let below = children_in(&all, process.pid);
        found.extend(below);
        next += 1;
    }
    found
}

/// Every thread of this process but the calling one waits for something.
pub fn other_threads_sleep() -> bool {
    let own = rustix::thread::gettid().as_raw_nonzero().to_string();
    let tasks = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    tasks
        .filter(|task| task.file_name() != own.as_str())
        .filter_map(|task| Stat::at(&task.path().join("stat")))
        .all(|stat| stat.state == 'S')
}

/// Makes this process the parent of every orphan below it, in place of init: [`descendants`] then has all of them.
pub fn adopt_orphans() -> Result<()> {
    let own = rustix::process::getpid();
    Ok(rustix::process::set_child_subreaper(Some(own))?)
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
