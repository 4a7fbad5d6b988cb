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
            safe: "starts at most 200 sleeping children and kills them",
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
            safe: "starts at most 200 sleeping threads",
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
            safe: "creates at most 150 zombies and reaps them",
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
            safe: "allocates at most 200 MiB",
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
            safe: "allocates at most 200 MiB in four children",
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
            safe: "writes at most 160 MiB to scratch files",
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
            safe: "creates at most 2,000 empty files",
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
            safe: "queues about 100 MB",
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
            safe: "creates at most 2,000 timers and arms none",
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
            safe: "opens at most 500 descriptors",
        },
    },
    Load {
        id: "R11",
        claim: "A busy loop that blocks every signal is stopped at the deadline",
        code: code!("r11_spin"),
        limits: SHORT,
        ends: &[Outcome::Timeout],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("spun", "to the end")],
            safe: "uses at most 6 s of CPU time",
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
            safe: "uses at most 6 s of CPU time",
        },
    },
    Load {
        id: "R12",
        claim: "Code that blocks forever is stopped at the deadline",
        code: code!("r12_blocked"),
        limits: SHORT,
        ends: &[Outcome::Timeout],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("waited", "to the end")],
            safe: "waits at most 8 s",
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
            safe: "buffers at most 60 MiB, below the kernel's limit of pipe memory per user",
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
            safe: "queues at most 48 MiB on the sandbox's own loopback interface",
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
            safe: "queues at most 3,000 copies of one descriptor",
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
            safe: "queues at most 2,000 signals to the probe's own process",
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
            safe: "uses about 70 MB of memory",
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
            safe: "creates at most 96 MB of page tables",
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
            safe: "decompresses at most 200 MiB",
        },
    },
];
