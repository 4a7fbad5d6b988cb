//! tidy: table, one entry per load: what it does, where it must stop, and where it runs to its end.

use crate::load::{Load, Roomier};
use crate::probe::Expect;
use atoll_core::quantity::{CpuTimeMillis, MIB, MemoryBytes, OpenFiles, ScratchBytes, ScratchInodes, WallMillis};
use atoll_core::{Limits, Outcome};
use atoll_engine::Wall;

const SMALL: Limits = Limits::SMALL;
const LITTLE_MEMORY: Limits = Limits {
    memory: MemoryBytes::known(96 * MIB),
    ..SMALL
};
const TINY_MEMORY: Limits = Limits {
    memory: MemoryBytes::known(64 * MIB),
    ..SMALL
};
const SHORT: Limits = Limits {
    wall: WallMillis::known(1_000),
    ..SMALL
};
/// No group and no rlimit. The watcher that stands in for a missing group has no switch: where it would see the load,
/// its number is raised as well.
const NO_CEILING: &[Wall] = &[Wall::Cgroups, Wall::Rlimits];

macro_rules! code {
    ($name:literal) => {
        include_str!(concat!("../code/loads/", $name, ".py"))
    };
}

const fn e(fact: &'static str, answers: &'static [&'static str]) -> Expect {
    Expect { fact, answers }
}

pub const LOADS: &[Load] = &[
    Load {
        id: "R01",
        claim: "A fork bomb is stopped by the process limit",
        code: code!("r01_forks"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("forks", &["stopped EAGAIN"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("forks", "all")],
            safe: "200 sleeping children, ended at once",
        },
    },
    Load {
        id: "R01b",
        claim: "A thread bomb is stopped by the process limit",
        code: code!("r01_threads"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("threads", &["stopped"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("threads", "all")],
            safe: "200 sleeping threads",
        },
    },
    Load {
        id: "R02",
        claim: "Orphans are reaped, and zombies count towards the process limit",
        code: code!("r02_zombies"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("orphans", &["reaped"]), e("unwaited", &["stopped EAGAIN"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("unwaited", "all")],
            safe: "150 zombies, waited for",
        },
    },
    Load {
        id: "R03",
        claim: "Exceeding the memory limit ends the execution",
        code: code!("r03_memory"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::MemoryLimit],
        expect: &[],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("touched", "all")],
            safe: "200 MiB",
        },
    },
    Load {
        id: "R03b",
        claim: "Memory of child processes counts towards the sandbox limit",
        code: code!("r03_child_memory"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::Ok, Outcome::MemoryLimit, Outcome::Killed],
        expect: &[e("children", &["killed"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("children", "all")],
            safe: "200 MiB",
        },
    },
    Load {
        id: "R04",
        claim: "One quota limits the scratch bytes of all directories together",
        code: code!("r04_bytes"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("bytes", &["ENOSPC"])],
        control: Roomier {
            walls: &[],
            limits: Limits {
                scratch: ScratchBytes::known(200 * MIB),
                ..SMALL
            },
            breach: &[("bytes", "all")],
            safe: "160 MiB in memory files",
        },
    },
    Load {
        id: "R04b",
        claim: "The number of scratch files is limited",
        code: code!("r04_inodes"),
        limits: Limits {
            scratch_inodes: ScratchInodes::known(1_000),
            ..SMALL
        },
        ends: &[Outcome::Ok],
        expect: &[e("inodes", &["ENOSPC"])],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("inodes", "all")],
            safe: "2,000 empty files",
        },
    },
    Load {
        id: "R06",
        claim: "Bytes queued in sockets count as memory",
        code: code!("r06_socket_queues"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::MemoryLimit, Outcome::Ok],
        expect: &[e("queued", &["stopped ENOBUFS", "stopped ENOMEM"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: LITTLE_MEMORY,
            breach: &[("queued", "all")],
            safe: "about 100 MB",
        },
    },
    Load {
        id: "R07",
        claim: "The number of timers is limited",
        code: code!("r07_timers"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("timers", &["stopped EAGAIN"])],
        control: Roomier {
            walls: &[Wall::Rlimits],
            limits: SMALL,
            breach: &[("timers", "all")],
            safe: "2,000 timers that never start",
        },
    },
    Load {
        id: "R10",
        claim: "Exhausting file descriptors affects only the sandbox",
        code: code!("r10_descriptors"),
        limits: Limits {
            open_files: OpenFiles::known(256),
            ..SMALL
        },
        ends: &[Outcome::Ok],
        expect: &[e("descriptors", &["EMFILE"])],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("descriptors", "all")],
            safe: "500 descriptors",
        },
    },
    Load {
        id: "R11",
        claim: "A busy loop with every signal blocked ends at the deadline",
        code: code!("r11_spin"),
        limits: SHORT,
        ends: &[Outcome::Timeout],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("spun", "to the end")],
            safe: "six seconds of one processor",
        },
    },
    Load {
        id: "R11b",
        claim: "CPU time has its own limit",
        code: code!("r11_spin"),
        limits: Limits {
            cpu_time: CpuTimeMillis::known(1_000),
            wall: WallMillis::known(300_000),
            ..SMALL
        },
        ends: &[Outcome::CpuLimit],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("spun", "to the end")],
            safe: "six seconds of one processor",
        },
    },
    Load {
        id: "R12",
        claim: "Blocking forever ends at the deadline",
        code: code!("r12_blocked"),
        limits: SHORT,
        ends: &[Outcome::Timeout],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("waited", "to the end")],
            safe: "eight seconds of waiting",
        },
    },
    Load {
        id: "R06b",
        claim: "Bytes buffered in pipes count as memory",
        code: code!("r06_pipes"),
        limits: TINY_MEMORY,
        ends: &[Outcome::MemoryLimit],
        expect: &[],
        control: Roomier {
            walls: NO_CEILING,
            limits: TINY_MEMORY,
            breach: &[("piped", "all")],
            safe: "60 MiB, below what one user may hold in pipes",
        },
    },
    Load {
        id: "R06c",
        claim: "Bytes queued in TCP connections are bounded by the memory limit",
        code: code!("r06_tcp"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::Ok],
        expect: &[e("queued", &["bounded"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: LITTLE_MEMORY,
            breach: &[("queued", "all")],
            safe: "48 MiB over the own loopback",
        },
    },
    Load {
        id: "R06d",
        claim: "The number of file descriptors queued in sockets is limited",
        code: code!("r06_rights"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("rights", &["stopped ETOOMANYREFS"])],
        control: Roomier {
            walls: &[Wall::Rlimits],
            limits: SMALL,
            breach: &[("rights", "all")],
            safe: "3,000 copies of one descriptor",
        },
    },
    Load {
        id: "R07b",
        claim: "The number of pending signals is limited",
        code: code!("r07_signals"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("signals", &["stopped EAGAIN"])],
        control: Roomier {
            walls: &[Wall::Rlimits],
            limits: SMALL,
            breach: &[("signals", "all")],
            safe: "2,000 signals to oneself",
        },
    },
    Load {
        id: "R07c",
        claim: "epoll watches count as memory",
        code: code!("r07_epoll"),
        limits: TINY_MEMORY,
        ends: &[Outcome::MemoryLimit],
        expect: &[],
        control: Roomier {
            walls: NO_CEILING,
            limits: TINY_MEMORY,
            breach: &[("watches", "all")],
            safe: "about 70 MB",
        },
    },
    Load {
        id: "R08",
        claim: "Page tables count as memory",
        code: code!("r08_tables"),
        limits: TINY_MEMORY,
        ends: &[Outcome::MemoryLimit],
        expect: &[],
        control: Roomier {
            walls: NO_CEILING,
            limits: TINY_MEMORY,
            breach: &[("tables", "all")],
            safe: "96 MB of tables",
        },
    },
    Load {
        id: "D03",
        claim: "A decompression bomb is stopped by the memory limit of the sandbox",
        code: code!("d03_bomb"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::MemoryLimit],
        expect: &[],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("unfolded", "all")],
            safe: "200 MiB",
        },
    },
];
