//! What a sandbox used: which control files tell it, and how their text is read.

use super::{Controller, Version};
use serde::{Deserialize, Serialize};

/// Which fact a descriptor of a control file tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StatKind {
    /// Nanoseconds of processor time (version 1).
    CpuNanos,
    /// `usage_usec …` (version 2).
    CpuStat,
    PeakBytes,
    /// `oom_kill N` among other lines.
    OomKills,
    /// `max N`: how often a process was refused.
    PidsEvents,
}

pub(super) fn stat_names(controller: Controller, version: Version) -> &'static [(StatKind, &'static str)] {
    match (controller, version) {
        (Controller::Memory, Version::V1) => &[
            (StatKind::PeakBytes, "memory.max_usage_in_bytes"),
            (StatKind::OomKills, "memory.oom_control"),
        ],
        (Controller::Memory, Version::V2) => &[
            (StatKind::PeakBytes, "memory.peak"),
            (StatKind::OomKills, "memory.events"),
        ],
        (Controller::Cpuacct, Version::V1) => &[(StatKind::CpuNanos, "cpuacct.usage")],
        (Controller::Cpuacct, Version::V2) => &[(StatKind::CpuStat, "cpu.stat")],
        (Controller::Pids, _) => &[(StatKind::PidsEvents, "pids.events")],
        _ => &[],
    }
}

/// Reads a number out of a control file's text. Text that does not fit is `None`, never a panic.
pub fn read_stat(kind: StatKind, text: &str) -> Option<u64> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.trim().parse::<u64>().ok())
    };
    match kind {
        StatKind::CpuNanos | StatKind::PeakBytes => text.trim().parse().ok(),
        StatKind::CpuStat => field("usage_usec").and_then(|us| us.checked_mul(1000)),
        StatKind::OomKills => field("oom_kill"),
        StatKind::PidsEvents => field("max"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_read_from_the_kernels_own_words() {
        let cpu_stat = "usage_usec 1500\nuser_usec 1000\nsystem_usec 500\nnr_periods 0\n";
        let oom_v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        let oom_v2 = "low 0\nhigh 0\nmax 12\noom 4\noom_kill 2\noom_group_kill 9\n";
        for (kind, text, want) in [
            (StatKind::CpuNanos, "123456789\n", Some(123_456_789)),
            (StatKind::CpuStat, cpu_stat, Some(1_500_000)),
            (StatKind::PeakBytes, "1048576\n", Some(1_048_576)),
            (StatKind::OomKills, oom_v1, Some(3)),
            (StatKind::OomKills, oom_v2, Some(2)),
            (StatKind::PidsEvents, "max 7\n", Some(7)),
        ] {
            assert_eq!(read_stat(kind, text), want, "{kind:?} of {text:?}");
        }
    }

    #[test]
    fn text_that_does_not_fit_is_no_number() {
        let kinds = [
            StatKind::CpuNanos,
            StatKind::CpuStat,
            StatKind::PeakBytes,
            StatKind::OomKills,
            StatKind::PidsEvents,
        ];
        for kind in kinds {
            for text in [
                "",
                "\n",
                "max",
                "usage_usec",
                "oom_kill x",
                "-1",
                "max -1",
                "99999999999999999999",
            ] {
                assert_eq!(read_stat(kind, text), None, "{kind:?} of {text:?}");
            }
        }
        assert_eq!(read_stat(StatKind::CpuStat, &format!("usage_usec {}", u64::MAX)), None);
    }

    #[test]
    fn version_1_and_2_have_a_file_for_the_same_facts() {
        let controllers = [
            Controller::Memory,
            Controller::Cpu,
            Controller::Cpuacct,
            Controller::Pids,
        ];
        let facts = |version| {
            let names = controllers.iter().flat_map(|c| stat_names(*c, version));
            names
                .map(|(kind, _)| {
                    if *kind == StatKind::CpuStat {
                        StatKind::CpuNanos
                    } else {
                        *kind
                    }
                })
                .collect::<Vec<_>>()
        };
        let (mut one, mut two) = (facts(Version::V1), facts(Version::V2));
        one.sort_by_key(|kind| format!("{kind:?}"));
        two.sort_by_key(|kind| format!("{kind:?}"));
        assert_eq!(one, two);
    }
}
