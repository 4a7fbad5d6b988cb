//! A running helper program and everything that it started: whether they get on, and their end.
//!
//! Read from `/proc`. Members are found by their parent, never by name, and are ended by a descriptor that was opened
//! while they were members.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::collections::HashMap;

/// What a family has done since it was started, as far as its living members tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Activity {
    /// Bytes read and written, also from and to the network by `read` and `write`.
    io_bytes: u64,
    cpu_ticks: u64,
}

impl Activity {
    /// Less processor time than this is what a program uses that only waits.
    const BUSY_TICKS: u64 = 100;

    /// Whether something was done between the two looks. Members that ended take their numbers with them.
    pub(super) fn has_moved_since(self, before: Self) -> bool {
        self.io_bytes != before.io_bytes || self.cpu_ticks.abs_diff(before.cpu_ticks) >= Self::BUSY_TICKS
    }
}

/// Looks at the program with this number and its descendants.
pub(super) fn activity(root: u32) -> Activity {
    let all = processes();
    members(root, &all)
        .into_iter()
        .fold(Activity::default(), |sum, pid| Activity {
            io_bytes: sum.io_bytes.wrapping_add(io_bytes(pid)),
            cpu_ticks: sum.cpu_ticks + all.get(&pid).map_or(0, |process| process.cpu_ticks),
        })
}

/// How often a family is looked at until all of it stands still. Each look reads `/proc` once.
const MOST_LOOKS: usize = 200;

/// Kills all of them. They are stopped first: a member that runs could start another one just before its end, and that
/// would no longer be found by its parent.
pub(super) fn kill(root: u32) {
    let mut before = 0;
    for _ in 0..MOST_LOOKS {
        let all = processes();
        let family = members(root, &all);
        let running: Vec<_> = family.iter().filter_map(|pid| Some((*pid, all.get(pid)?))).collect();
        let running: Vec<_> = running.into_iter().filter(|(_, process)| process.can_go_on()).collect();
        if running.is_empty() && family.len() == before {
            break;
        }
        before = family.len();
        for (pid, process) in running {
            send(pid, process, Signal::STOP);
        }
    }
    let all = processes();
    for pid in members(root, &all) {
        if let Some(process) = all.get(&pid) {
            send(pid, process, Signal::KILL);
        }
    }
}

/// To the process of that beginning, not to a successor with its number.
fn send(pid: u32, seen: &Process, signal: Signal) {
    let Some(handle) = open(pid) else { return };
    if process(pid).is_some_and(|now| now.started == seen.started) {
        pidfd_send_signal(&handle, signal).ok();
    }
}

fn open(pid: u32) -> Option<rustix::fd::OwnedFd> {
    pidfd_open(Pid::from_raw(i32::try_from(pid).ok()?)?, PidfdFlags::empty()).ok()
}

#[derive(Clone, Copy)]
struct Process {
    parent: u32,
    state: char,
    cpu_ticks: u64,
    started: u64,
}

impl Process {
    /// Neither stopped nor ended. In the state `D` it waits in the kernel, perhaps for a child that is stopped, and sees its
    /// own signal before it runs on.
    fn can_go_on(&self) -> bool {
        !"TtDZX".contains(self.state)
    }
}

fn processes() -> HashMap<u32, Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return HashMap::new();
    };
    let numbers = entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter_map(|pid: u32| Some((pid, process(pid)?))).collect()
}

fn process(pid: u32) -> Option<Process> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The name may hold anything, so fields are counted from its closing parenthesis.
fn parse_stat(text: &str) -> Option<Process> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        state: fields.first()?.chars().next()?,
        parent: u32::try_from(number(1)?).ok()?,
        cpu_ticks: number(11)? + number(12)?,
        started: number(19)?,
    })
}

fn members(root: u32, all: &HashMap<u32, Process>) -> Vec<u32> {
    let mut family = vec![root];
    let mut at = 0;
    while let Some(parent) = family.get(at).copied() {
        family.extend(
            all.iter()
                .filter(|(_, process)| process.parent == parent)
                .map(|(pid, _)| *pid),
        );
        at += 1;
    }
    family
}

fn io_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
    let counts = |line: &&str| line.starts_with("rchar:") || line.starts_with("wchar:");
    let numbers = text.lines().filter(counts).filter_map(|line| line.split_once(' '));
    numbers
        .filter_map(|(_, number)| number.trim().parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::io::Read;
    use std::process::{Command, Stdio};

    #[test]
    fn a_stat_line_is_read_whatever_the_name_holds() {
        let line = "7 (a) b (c)) S 3 7 7 0 -1 0 1 1 0 0 20 22 0 0 20 0 1 0 555 0 0";
        let process = parse_stat(line).unwrap();
        assert_eq!(
            (process.parent, process.state, process.cpu_ticks, process.started),
            (3, 'S', 42, 555)
        );
        assert!(parse_stat("7 (cut").is_none() && parse_stat("7 (x) S 3").is_none());
    }

    #[test]
    fn waiting_is_no_activity_and_work_is() {
        let still = Activity::default();
        let ticks = |cpu_ticks| Activity { cpu_ticks, ..still };
        assert!(!still.has_moved_since(still) && !ticks(5).has_moved_since(still));
        assert!(ticks(Activity::BUSY_TICKS).has_moved_since(still));
        assert!(Activity { io_bytes: 1, ..still }.has_moved_since(still));
    }

    #[test]
    fn a_child_of_a_child_is_seen_and_ended() {
        let script = "cat > /dev/null & echo started; head -c 100000 /dev/zero > /dev/null; wait";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut word = [0; 8];
        let mut output = shell.stdout.take().unwrap();
        output.read_exact(&mut word).unwrap();
        assert!(activity(shell.id()).io_bytes > 0);
        kill(shell.id());
        shell.wait().unwrap();
        assert_eq!(output.read(&mut word).unwrap(), 0, "nobody is left to hold the pipe");
    }

    /// Each child holds the pipe. One that is started while the family is killed must go, too.
    #[test]
    fn a_program_that_goes_on_to_start_children_leaves_none() {
        let script = "echo started; i=0; while [ $i -lt 300 ]; do sleep 1000 & i=$((i+1)); done; wait";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut word = [0; 8];
        let mut output = shell.stdout.take().unwrap();
        output.read_exact(&mut word).unwrap();
        kill(shell.id());
        shell.wait().unwrap();
        let minute = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        let mut pipe = [PollFd::new(&output, PollFlags::IN)];
        assert_eq!(poll(&mut pipe, Some(&minute)).unwrap(), 1, "a child holds the pipe");
    }
}
