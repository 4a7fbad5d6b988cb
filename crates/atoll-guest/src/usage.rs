//! The user's processes as `/proc` tells them: what they use, for hosts that give the sandbox no cgroup, and who is in a group.

use atoll_core::wire::agent::Answer;
use nix::sys::signal::Signal;
use std::fs;
use std::str::FromStr;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_ms: u64,
    pub(crate) tasks: u64,
}

impl Usage {
    pub(crate) fn into_answer(self) -> Answer {
        Answer::Usage {
            memory_bytes: self.memory_bytes,
            cpu_ms: self.cpu_ms,
            tasks: self.tasks,
        }
    }
}

/// How much room the scratch files have left.
pub(crate) fn scratch(home: &str) -> Answer {
    let stat = rustix::fs::statvfs(home);
    let (free_bytes, free_inodes) = stat.map_or((0, 0), |stat| (stat.f_bavail * stat.f_frsize, stat.f_favail));
    Answer::Scratch {
        free_bytes,
        free_inodes,
    }
}

/// Every process but this one, and the scratch files. The quick sum counts a page that forks share once for each of
/// them; above `exact_above_bytes` it is counted again, each such page once.
pub(crate) fn read(exact_above_bytes: u64) -> Usage {
    let mut total = Usage {
        memory_bytes: scratch_bytes(),
        ..Usage::default()
    };
    for pid in pids() {
        total.memory_bytes += kib_of(&text(pid, "status"), "RssAnon:").unwrap_or(0) * 1024;
        let stat = text(pid, "stat");
        total.cpu_ms += cpu_ms(&stat);
        total.tasks += tasks(&stat);
    }
    if total.memory_bytes > exact_above_bytes {
        total.memory_bytes = scratch_bytes() + pids().map(exact_memory).sum::<u64>();
    }
    total
}

/// The process's share of its pages; all of them where the kernel does not let us see the shares.
fn exact_memory(pid: u32) -> u64 {
    let share = kib_of(&text(pid, "smaps_rollup"), "Pss_Anon:");
    share.or_else(|| kib_of(&text(pid, "status"), "RssAnon:")).unwrap_or(0) * 1024
}

/// The processes of a group.
pub(crate) fn members(group: i32) -> impl Iterator<Item = i32> {
    let found = pids().filter(move |pid| field(&text(*pid, "stat"), 5) == Some(group));
    found.filter_map(|pid| i32::try_from(pid).ok())
}

/// Whether anybody of a session is running, or would if it had a processor.
pub(crate) fn is_running(session: i32) -> bool {
    pids().map(|pid| text(pid, "stat")).any(|stat| {
        let state: Option<char> = field(&stat, 3);
        field(&stat, 6) == Some(session) && matches!(state, Some('R' | 'D'))
    })
}

/// Whether a process has a handler for a signal; one of which nothing can be told is taken to have one.
pub(crate) fn catches(pid: i32, signal: Signal) -> bool {
    let status = text(pid.unsigned_abs(), "status");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & (1 << (signal as i32 - 1)) != 0)
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != 1)
}

fn text(pid: u32, file: &str) -> String {
    fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default()
}

fn kib_of(table: &str, name: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Own and waited-for children's time, user and system: fields 14 to 17.
fn cpu_ms(stat: &str) -> u64 {
    let ticks: u64 = (14..=17).filter_map(|number| field::<u64>(stat, number)).sum();
    ticks * 1000 / rustix::param::clock_ticks_per_second().max(1)
}

/// Threads of the process: field 20.
fn tasks(stat: &str) -> u64 {
    field(stat, 20).unwrap_or(0)
}

/// A field behind the name, counted from one as in the manual: a name can have any letters.
fn field<T: FromStr>(stat: &str, number: usize) -> Option<T> {
    let after_name = stat.rsplit(')').next()?;
    after_name.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

fn scratch_bytes() -> u64 {
    rustix::fs::statvfs("/home/user").map_or(0, |stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_the_right_fields() {
        assert_eq!(
            kib_of("VmRSS:\t 900 kB\nRssAnon:\t     12 kB\nRssFile:\t 8 kB\n", "RssAnon:"),
            Some(12)
        );
        let stat = "7 (a ) b) S 0 7 7 0 -1 4194560 100 0 0 0 10 20 30 40 20 0 1 0 5 1 1";
        assert_eq!(cpu_ms(stat), 100 * 1000 / rustix::param::clock_ticks_per_second());
        assert_eq!((tasks(stat), field(stat, 5)), (1, Some(7)));
        assert_eq!((kib_of("", "RssAnon:"), cpu_ms(""), tasks("")), (None, 0, 0));
    }

    #[test]
    fn who_has_a_handler_catches_a_signal() {
        let ours = i32::try_from(std::process::id()).unwrap();
        // The runtime of Rust has one for SIGSEGV, to tell of a full stack.
        assert!(catches(ours, Signal::SIGSEGV));
        assert!(!catches(ours, Signal::SIGINT));
        assert!(catches(0, Signal::SIGINT), "there is no process 0");
    }
}
