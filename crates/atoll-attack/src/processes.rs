//! Processes of sandboxes as the host sees them: below a jailer of ours, or by the id that a sandbox's one user has.

use crate::error::AttackError;
use atoll_core::execution::Execution;
use rustix::process::{Pid, Signal, geteuid, getuid, kill_process};
use std::time::{Duration, Instant};

const LOOK: Duration = Duration::from_millis(20);

/// Processes of the host that belong to one sandbox, by its host id: pid and pid inside. Without root that id is the
/// user's own, so the engine is left out by the depth of its namespaces.
pub fn processes_of(host_id: u32) -> Vec<(i32, i32)> {
    pids()
        .filter_map(|pid| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
            let uid: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
            let numbers: Vec<&str> = field("NSpid:")?.split_whitespace().collect();
            let inside: i32 = numbers.last()?.parse().ok()?;
            (uid == host_id && numbers.len() > 2).then_some((pid, inside))
        })
        .collect()
}

/// Processes whose command line holds a word.
pub fn processes_with(word: &str) -> Vec<Process> {
    let holds = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|part| part == word))
    };
    let found = pids().filter(holds).filter_map(Process::of);
    found.map(|(process, _)| process).collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
}

/// The id on the host that a sandbox's one user is, from its receipt. Without root it is the caller's own.
pub fn host_id(execution: &Execution) -> Result<u32, AttackError> {
    if !geteuid().is_root() {
        return Ok(getuid().as_raw());
    }
    let map = execution.receipt.layers.get("uid_map").and_then(|map| map.as_str());
    let id = map.and_then(|map| user_in(map)?.parse().ok());
    id.ok_or_else(|| AttackError::Words("the receipt contains no host user id".to_owned()))
}

/// Of the triples of a map, the one of the user: a runtime may have mapped a root before it.
fn user_in(map: &str) -> Option<&str> {
    let words: Vec<&str> = map.split(' ').collect();
    let mut triples = words.chunks_exact(3);
    triples.find(|triple| triple[0] == "1000").map(|triple| triple[1])
}

/// One process, told apart from a later one with the same number by its start time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    pub pid: i32,
    start: u64,
}

impl Process {
    fn of(pid: i32) -> Option<(Self, i32)> {
        let (state, parent, start) = stat(pid)?;
        (state != "Z").then_some((Self { pid, start }, parent))
    }

    /// It exists and is not just a dead entry waiting for its parent.
    pub fn is_alive(self) -> bool {
        Self::of(self.pid).is_some_and(|(now, _)| now == self)
    }
}

/// State, parent and start time.
fn stat(pid: i32) -> Option<(String, i32, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit(')').next()?.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let parent = i32::try_from(number(1)?).ok()?;
    Some(((*fields.first()?).to_owned(), parent, number(19)?))
}

/// A process and everything below it.
pub fn below(pid: u32) -> Vec<Process> {
    let Ok(pid) = i32::try_from(pid) else { return Vec::new() };
    let all: Vec<(Process, i32)> = pids().filter_map(Process::of).collect();
    let mut found: Vec<Process> = all
        .iter()
        .map(|(process, _)| *process)
        .filter(|process| process.pid == pid)
        .collect();
    let mut next = 0;
    while let Some(above) = found.get(next).copied() {
        found.extend(
            all.iter()
                .filter(|(_, parent)| *parent == above.pid)
                .map(|(process, _)| *process),
        );
        next += 1;
    }
    found
}

/// Those below a jailer that are in a sandbox: a pid namespace deeper than the template's.
pub fn in_sandboxes(jailer_pid: u32) -> Vec<Process> {
    let inside = |process: &Process| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.is_some_and(|numbers| numbers.split_whitespace().count() > 2)
    };
    below(jailer_pid).into_iter().filter(inside).collect()
}

/// Those of the processes that are still there when the time is over.
pub async fn left_after(processes: &[Process], limit: Duration) -> Vec<Process> {
    let begun = Instant::now();
    loop {
        let left: Vec<Process> = processes.iter().copied().filter(|process| process.is_alive()).collect();
        if left.is_empty() || begun.elapsed() >= limit {
            return left;
        }
        tokio::time::sleep(LOOK).await;
    }
}

pub fn kill(pid: i32) -> Result<(), AttackError> {
    let pid = Pid::from_raw(pid).ok_or_else(|| AttackError::Words("invalid process id".to_owned()))?;
    kill_process(pid, Signal::KILL).map_err(|errno| AttackError::io("kill a process")(errno.into()))
}
