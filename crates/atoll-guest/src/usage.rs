//! What the user's processes use, added up from `/proc`: for hosts that give the sandbox no cgroup.

use std::fs;

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_ms: u64,
}

/// Every process but this one. Pages shared with the zygote do not count, scratch files do.
pub(crate) fn read() -> Usage {
    let mut total = Usage { memory_bytes: scratch_bytes(), cpu_ms: 0 };
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()).filter(|pid| *pid != 1) else { continue };
        let text = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        total.memory_bytes += own_memory(&text("status"));
        total.cpu_ms += cpu_ms(&text("stat"));
    }
    total
}

fn own_memory(status: &str) -> u64 {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    field("RssAnon:") * 1024
}

/// Own and waited-for children's time, user and system: fields 14 to 17.
fn cpu_ms(stat: &str) -> u64 {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(4).filter_map(|n| n.parse::<u64>().ok()).sum();
    ticks * 1000 / rustix::param::clock_ticks_per_second().max(1)
}

fn scratch_bytes() -> u64 {
    rustix::fs::statvfs("/home/user").map_or(0, |stat| (stat.f_blocks - stat.f_bfree) * stat.f_frsize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_the_right_fields() {
        assert_eq!(own_memory("VmRSS:\t 900 kB\nRssAnon:\t     12 kB\nRssFile:\t 8 kB\n"), 12 * 1024);
        let stat = "7 (a ) b) S 0 7 7 0 -1 4194560 100 0 0 0 10 20 30 40 20 0 1 0 5 1 1";
        assert_eq!(cpu_ms(stat), 100 * 1000 / rustix::param::clock_ticks_per_second());
        assert_eq!((own_memory(""), cpu_ms("")), (0, 0));
    }
}
