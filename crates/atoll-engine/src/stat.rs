//! What a sandbox used, read from open control files of the kernel.

use atoll_jail::cgroup::{StatKind, read_stat};
use rustix::fd::OwnedFd;

/// Open control files of one sandbox. Empty where there are no cgroups.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    files: Vec<(StatKind, OwnedFd)>,
}

impl Stats {
    pub(crate) fn new(kinds: Vec<StatKind>, fds: Vec<OwnedFd>) -> Self {
        Self {
            files: kinds.into_iter().zip(fds).collect(),
        }
    }

    /// Another file tells this one.
    pub(crate) fn told_by(&mut self, kind: StatKind, file: OwnedFd) {
        self.files.retain(|(one, _)| *one != kind);
        self.files.push((kind, file));
    }

    pub(crate) fn cpu_nanos(&self) -> Option<u64> {
        self.read(StatKind::CpuNanos).or_else(|| self.read(StatKind::CpuStat))
    }

    pub(crate) fn peak_bytes(&self) -> Option<u64> {
        self.read(StatKind::PeakBytes)
    }

    pub(crate) fn oom_kills(&self) -> u64 {
        self.read(StatKind::OomKills).unwrap_or(0)
    }

    pub(crate) fn refused_processes(&self) -> u64 {
        self.read(StatKind::PidsEvents).unwrap_or(0)
    }

    fn read(&self, kind: StatKind) -> Option<u64> {
        let (_, file) = self.files.iter().find(|(one, _)| *one == kind)?;
        let mut text = [0; 4096];
        let length = rustix::io::pread(file, &mut text, 0).ok()?;
        read_stat(kind, std::str::from_utf8(&text[..length]).ok()?)
    }
}

/// Processor time and memory of one process, where there is no cgroup to ask.
#[derive(Debug)]
pub(crate) struct ProcessStat {
    pub(crate) cpu_nanos: u64,
    pub(crate) peak_bytes: u64,
}

/// Reads it for the process behind a pidfd, its waited-for children included.
pub(crate) fn of_process(pidfd: &OwnedFd) -> Option<ProcessStat> {
    use rustix::fd::AsRawFd;
    let info = fs_err::read_to_string(format!("/proc/self/fdinfo/{}", pidfd.as_raw_fd())).ok()?;
    let pid: u32 = field(&info, "Pid:")?;
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let ticks: u64 = stat
        .rsplit(')')
        .next()?
        .split_whitespace()
        .skip(11)
        .take(4)
        .filter_map(|n| n.parse::<u64>().ok())
        .sum();
    let status = fs_err::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let peak_kib: u64 = field(&status, "VmHWM:").unwrap_or(0);
    let nanos_per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second().max(1);
    Some(ProcessStat {
        cpu_nanos: ticks * nanos_per_tick,
        peak_bytes: peak_kib * 1024,
    })
}

fn field<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}
