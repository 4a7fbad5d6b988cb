//! tidy: table, one row per probe that is judged otherwise on another ground, with the reason.

use crate::elsewhere::{Elsewhere, Ground, Instead, LoadThere};
use crate::probe::Expect;
use atoll_core::Outcome;

const fn e(fact: &'static str, answers: &'static [&'static str]) -> Expect {
    Expect { fact, answers }
}

const fn gvisor(id: &'static str, why: &'static str, instead: Instead) -> Elsewhere {
    let at = Ground::Gvisor;
    Elsewhere { id, at, why, instead }
}

const fn runc(id: &'static str, why: &'static str, instead: Instead) -> Elsewhere {
    let at = Ground::Runc;
    Elsewhere { id, at, why, instead }
}

const fn guest(id: &'static str, why: &'static str, instead: Instead) -> Elsewhere {
    let at = Ground::Guest;
    Elsewhere { id, at, why, instead }
}

const fn answers(expect: &'static [Expect]) -> Instead {
    Instead::Answers { expect, breach: None }
}

const fn with_control(expect: &'static [Expect], breach: &'static [(&'static str, &'static str)]) -> Instead {
    let breach = Some(breach);
    Instead::Answers { expect, breach }
}

/// The host ends gVisor's kernel, and with it the sandbox.
const fn ends(ends: &'static [Outcome]) -> Instead {
    Instead::Load(LoadThere {
        ends,
        expect: &[],
        breach: None,
        ends_sandbox: true,
        counted_bytes: 0,
    })
}

/// It runs to its end, in memory of gVisor's kernel that is counted as the sandbox's.
const fn counted(expect: &'static [Expect], counted_bytes: u64) -> Instead {
    Instead::Load(LoadThere {
        ends: &[Outcome::Ok],
        expect,
        breach: None,
        ends_sandbox: false,
        counted_bytes,
    })
}

/// The same, and there may be no room for it: then the host ends gVisor's kernel.
const fn counted_or_ends(expect: &'static [Expect], counted_bytes: u64) -> Instead {
    Instead::Load(LoadThere {
        ends: &[Outcome::Ok, Outcome::MemoryLimit],
        expect,
        breach: None,
        ends_sandbox: true,
        counted_bytes,
    })
}

/// Its memory is full, and its deadline may come before its end.
const fn or_deadline(ends: &'static [Outcome]) -> Instead {
    Instead::Load(LoadThere {
        ends,
        expect: &[],
        breach: None,
        ends_sandbox: false,
        counted_bytes: 0,
    })
}

const FULL: &str = "a guest's kernel takes the pages of programs from the sandbox again and again before it takes a process: it stands \
                    still at its limit, and the deadline may come first";
const LANDLOCK: &str =
    "gVisor's kernel has no Landlock; what is behind its files is asked by T01b: a process without any";
const OF_HOST: &str =
    "it looks at processes of the sandbox from outside, and there are none: only gVisor's kernel, asked by T01b";
const JUST_FITS: &str = "gVisor's kernel keeps them in its own memory, which the sandbox's group counts: they just fit, or that kernel is ended";
const MEMORY: &str =
    "the host ends gVisor's kernel when the group's memory is used up; the neighbour and the host go on";
const COUNTED: &str = "gVisor's kernel keeps it in its own memory, which the sandbox's group counts and bounds; the host's tables hold none";

const OLD_LANDLOCK: &str = "Linux 6.1 has no Landlock that we can use. What it would keep shut besides is the guest's own; that being undumpable \
                            alone is enough is asked by P02d, F22c and F22d";
const OF_GUEST: &str =
    "it looks at processes of the sandbox from outside, and there are none: only the machine's, asked by C01 and C03";
const OWN_WATCH: &str =
    "each sandbox has a kernel of its own: a neighbour's is never seen, so the control watches the own process";
const MACHINE: &str =
    "the host sees the machine and who keeps it: the daemons are in the guest's memory and go with it";

pub const ELSEWHERE: &[Elsewhere] = &[
    gvisor(
        "F02",
        "/dev is gVisor's own and has a /dev/fuse, which only gVisor's kernel would serve, and to nobody without a mount",
        answers(&[e(
            "writable",
            &[
                "/data/output /dev/full /dev/fuse /dev/null /dev/pts/ptmx /dev/random /dev/shm /dev/tty /dev/urandom /dev/zero /home/user /mnt/data /tmp",
            ],
        )]),
    ),
    gvisor(
        "F03",
        "gVisor's /proc cannot hide processes: PID 1 is the sandbox's own agent, holds no secret, and its memory and root stay shut",
        answers(&[
            e("proc1 cmdline", &["ok"]),
            e("proc1 environ", &["ok"]),
            e("proc1 fd", &["ok"]),
            e("proc1 maps", &["ok"]),
            e("proc1 status", &["ok"]),
            e("proc1 task", &["ok"]),
        ]),
    ),
    gvisor(
        "F04",
        "these are gVisor's words about itself, another version than the host's (the receipt compares them); of the host only how much memory it has, which `sysinfo` tells in the jail as well",
        with_control(
            &[
                e("read cmdline", &["ok"]),
                e("read meminfo", &["ok"]),
                e("read version", &["ok"]),
            ],
            &[("read version", "ok"), ("read meminfo", "ok")],
        ),
    ),
    gvisor(
        "F05",
        "gVisor always has the directory; ours is empty",
        answers(&[e("/sys", &["ok"])]),
    ),
    gvisor(
        "F13",
        "gVisor's kernel refuses nodes to everybody without a capability, filter or not, so no control makes one; that a device \
         which is there would be found is shown by its own /dev/fuse",
        with_control(
            &[e("open fuse", &["ok"]), e("controlling terminal", &["EIO"])],
            &[("open fuse", "ok")],
        ),
    ),
    gvisor(
        "F14",
        "this gVisor shows no nosuid and knows no set-user-id programs at all: the copy runs as its caller",
        answers(&[e(
            "mounts",
            &["/ /data/input /data/output /dev/shm /home/user /mnt/data /opt/atoll /proc /tmp /usr"],
        )]),
    ),
    gvisor(
        "F15",
        "without the filter gVisor's kernel answers: it has no such call",
        with_control(&[], &[("fsopen", "ENOSYS")]),
    ),
    gvisor(
        "F16",
        "gVisor's own word for files without a name",
        answers(&[e("unnamed file", &["ENOTSUP", "EROFS"])]),
    ),
    gvisor(
        "F17",
        "watches are gVisor's own, one kernel per sandbox: a neighbour's is never seen, so the control watches the own process",
        Instead::Itself,
    ),
    gvisor("F17b", "gVisor's kernel has no F_NOTIFY", Instead::NotAsked),
    gvisor(
        "F19",
        "without the filter gVisor's kernel answers: it keeps no such attributes",
        with_control(&[], &[("set user.x", "ENOTSUP")]),
    ),
    gvisor("F22", LANDLOCK, Instead::NotAsked),
    gvisor("F22b", LANDLOCK, Instead::NotAsked),
    gvisor("F22c", LANDLOCK, Instead::NotAsked),
    gvisor("F22d", LANDLOCK, Instead::NotAsked),
    gvisor(
        "P02",
        "gVisor's /proc shows the map of PID 1; its memory stays shut, and the calls do not exist without the filter",
        with_control(&[e("mapped memory of 1", &["EPERM"])], &[("readv child", "ENOSYS")]),
    ),
    gvisor("P02b", LANDLOCK, Instead::NotAsked),
    gvisor("P02c", LANDLOCK, Instead::NotAsked),
    gvisor("P02d", LANDLOCK, Instead::NotAsked),
    gvisor(
        "P03",
        "PID 1 is the sandbox's own agent and of the same user, in a kernel without Landlock: who signals it ends his own \
         sandbox (P04b). No number of the host can be named",
        with_control(
            &[
                e("kill 1", &["ok"]),
                e("tgkill 1", &["ok"]),
                e("tkill 1", &["ok"]),
                e("queue 1", &["ok"]),
                e("pidfd 1", &["ENOSYS"]),
            ],
            &[("kill 1", "ok"), ("tgkill 1", "ok")],
        ),
    ),
    gvisor(
        "P04",
        "code may end its own PID 1; P04b asks that nobody else suffers",
        Instead::NotAsked,
    ),
    gvisor(
        "P05",
        "gVisor's /proc has not all namespaces as files; without the filter its own kernel would make some of its own",
        with_control(&[e("setns *", &["EPERM", "ENOENT"])], &[("unshare files", "ok")]),
    ),
    gvisor(
        "P06b",
        "the second lock is a setting of the host's kernel. A namespace that gVisor's kernel makes has power over that kernel's \
         things only; the filter refuses it (P06)",
        answers(&[e("user namespace", &["ok all"]), e("tool unshare", &["worked"])]),
    ),
    gvisor(
        "P07",
        "a claim about what works, not about the wall: gVisor's kernel has no clone3 either, and a pool of processes may hang in it",
        Instead::NotAsked,
    ),
    gvisor(
        "P11",
        "no other ABI exists: gVisor takes `int 0x80` for the usual call of that number, which its filter has judged, and \
         32-bit code cannot run",
        with_control(
            &[
                e("int80 getpid", &["other"]),
                e("int80 write 64-bit number", &["pid"]),
                e("far call", &["SIGSEGV"]),
            ],
            &[("int80 write 64-bit number", "pid")],
        ),
    ),
    gvisor(
        "P15",
        "raw sockets ask for a capability that not even the first process has",
        with_control(&[], &[("family NETLINK", "ok"), ("netlink ROUTE", "ok")]),
    ),
    gvisor(
        "P15b",
        "gVisor's kernel does not know the family",
        with_control(&[], &[("stream", "not loaded")]),
    ),
    gvisor(
        "P16b",
        "contexts of one sandbox can meet, because there is no Landlock; two sandboxes cannot",
        Instead::Itself,
    ),
    gvisor(
        "P18",
        "gVisor's kernel looks at noexec when a program starts and not when a file is mapped; what is mapped runs in the same \
         process behind the same wall",
        answers(&[e("map /dev/shm to execute", &["ok"])]),
    ),
    gvisor(
        "P20",
        "a priority is a number that gVisor's kernel keeps and nobody looks at: the host's shares are the group's",
        with_control(
            &[e("nice -20", &["ok"])],
            &[("setattr", "ENOSYS"), ("mlockall", "EINVAL")],
        ),
    ),
    gvisor(
        "P22",
        "without the filter gVisor's kernel answers, with its own words for another id",
        with_control(&[], &[("setresuid own", "ok"), ("capset", "ok")]),
    ),
    gvisor(
        "P23",
        "gVisor's kernel has every id, none of which is one of the host: those are in the map around it, asked by T01b",
        answers(&[
            e("uid_map", &["wide"]),
            e("gid_map", &["wide"]),
            e("setgroups", &["ENOENT"]),
        ]),
    ),
    gvisor("P23b", OF_HOST, Instead::NotAsked),
    gvisor(
        "Z02",
        "the other end is the agent in the same gVisor kernel; the engine's end is a byte stream without a name",
        answers(&[e("peer pid", &["seen"]), e("peer uid", &["1000"])]),
    ),
    gvisor(
        "Z16",
        "gVisor's kernel has no keys: without the filter it refuses with a word of its own",
        with_control(&[], &[("get session", "EACCES"), ("add_key", "EACCES")]),
    ),
    gvisor("Z16b", "gVisor's kernel has no keyrings", Instead::NotAsked),
    gvisor("Z17", OF_HOST, Instead::NotAsked),
    gvisor(
        "N01b",
        "gVisor's own word for a network that is not there",
        answers(&[e("road *", &["EHOSTUNREACH", "ENETUNREACH"])]),
    ),
    gvisor(
        "R01",
        "gVisor's kernel does not count processes: the group does, and ends that kernel",
        ends(&[Outcome::Killed, Outcome::MemoryLimit, Outcome::Error]),
    ),
    gvisor("R03", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R03b", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R06b", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R08", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("D03", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R06", JUST_FITS, counted_or_ends(&[e("queued", &["all"])], 4 << 20)),
    gvisor("R06c", JUST_FITS, counted_or_ends(&[e("queued", &["all"])], 8 << 20)),
    gvisor("R06d", COUNTED, counted(&[e("rights", &["all"])], 0)),
    gvisor("R07", COUNTED, counted(&[e("timers", &["all"])], 0)),
    gvisor("R07c", JUST_FITS, counted_or_ends(&[e("watches", &["all"])], 16 << 20)),
    gvisor(
        "R07b",
        "gVisor's kernel has a bound of its own, whatever the limit says: no control goes beyond it",
        Instead::Load(LoadThere {
            ends: &[],
            expect: &[],
            breach: Some(&[("signals", "stopped EAGAIN")]),
            ends_sandbox: false,
            counted_bytes: 0,
        }),
    ),
    guest("R03", FULL, or_deadline(&[Outcome::MemoryLimit, Outcome::Timeout])),
    guest(
        "R03b",
        FULL,
        or_deadline(&[Outcome::Ok, Outcome::MemoryLimit, Outcome::Killed, Outcome::Timeout]),
    ),
    guest(
        "R06",
        FULL,
        or_deadline(&[Outcome::MemoryLimit, Outcome::Ok, Outcome::Timeout]),
    ),
    guest("R06b", FULL, or_deadline(&[Outcome::MemoryLimit, Outcome::Timeout])),
    guest("R08", FULL, or_deadline(&[Outcome::MemoryLimit, Outcome::Timeout])),
    guest("D03", FULL, or_deadline(&[Outcome::MemoryLimit, Outcome::Timeout])),
    guest(
        "R06c",
        "the group of a guest's kernel counts these bytes as the sandbox's memory, and they fit into it",
        counted(&[e("queued", &["all"])], 8 << 20),
    ),
    guest(
        "R07c",
        "the kernel of a guest has a bound of its own for them, by its small memory, so no control goes beyond it. What they take is \
         the guest's own memory and never the host's: R03 and R08 ask for its bound",
        Instead::NotAsked,
    ),
    guest(
        "F15",
        "a guest's agent has no capability that a context could keep: without the filter the kernel looks for the path before it refuses",
        with_control(&[], &[("umount", "ENOENT")]),
    ),
    guest("F17", OWN_WATCH, Instead::Itself),
    guest("F17b", OWN_WATCH, Instead::Itself),
    guest(
        "F19",
        "scratch files of kernels before 6.6 have no such attributes at all; the filter refuses the call before that is asked",
        with_control(&[], &[("set user.x", "ENOTSUP")]),
    ),
    guest("F22", OLD_LANDLOCK, Instead::NotAsked),
    guest("F22b", OLD_LANDLOCK, Instead::NotAsked),
    guest("P02b", OLD_LANDLOCK, Instead::NotAsked),
    guest("P02c", OLD_LANDLOCK, Instead::NotAsked),
    guest(
        "P03",
        "without Landlock PID 1 is of the same user: the sandbox's own agent, to whom the kernel gives no signal that it did not ask for \
         (P04). No number of the host can be named",
        answers(&[
            e("kill 1", &["ok"]),
            e("tgkill 1", &["ok"]),
            e("tkill 1", &["ok"]),
            e("queue 1", &["ok"]),
            e("pidfd 1", &["ok"]),
        ]),
    ),
    guest(
        "P04",
        "without Landlock they are sent; the kernel gives the first process of a namespace none that it did not ask for, and it goes on serving",
        answers(&[e("signal *", &["ok"])]),
    ),
    guest(
        "P07",
        "a claim about what works, not about the wall: emulated interpreters start more slowly than its clock allows; the behaviour suite asks it of guests",
        Instead::NotAsked,
    ),
    guest(
        "P15",
        "raw sockets ask for a capability, and a guest's agent has none that a context could keep",
        with_control(&[], &[("family NETLINK", "ok"), ("netlink ROUTE", "ok")]),
    ),
    guest(
        "P15b",
        "the guest has no driver for sockets to its host, and no module can be loaded from inside",
        with_control(&[], &[("stream", "not loaded")]),
    ),
    guest(
        "P16b",
        "contexts of one sandbox can meet, because there is no Landlock; two sandboxes cannot",
        Instead::Itself,
    ),
    guest("P23b", OF_GUEST, Instead::NotAsked),
    guest("Z17", OF_GUEST, Instead::NotAsked),
    guest("C01", MACHINE, Instead::Itself),
    guest("C03", MACHINE, Instead::Itself),
    runc(
        "P22",
        "runc maps a root, so without the filter the kernel knows the id 0 and asks for a capability",
        with_control(&[], &[("setresuid own", "ok"), ("capset", "ok"), ("setfsuid", "ok")]),
    ),
    runc(
        "P23",
        "runc cannot set a container up without a root: two ids, both nobody outside, and nobody inside can become the other",
        answers(&[
            e("uid_map", &["one and a root"]),
            e("gid_map", &["one and a root"]),
            e("setgroups", &["allow"]),
        ]),
    ),
];

/// Calls that are answered with the filter's own word where the filter is away: not by the host's kernel, but by the one that
/// is there, because a root is mapped, or because a guest's agent has no capability that a context could keep. Each of their groups has other calls that do answer otherwise.
pub const ALIKE: &[(Ground, &str, &str)] = &[
    (Ground::Gvisor, "bpf", "EPERM"),
    (Ground::Gvisor, "io_uring_enter", "EPERM"),
    (Ground::Gvisor, "mount", "EPERM"),
    (Ground::Gvisor, "umount2", "EPERM"),
    (Ground::Gvisor, "pivot_root", "EPERM"),
    (Ground::Gvisor, "chroot", "EPERM"),
    (Ground::Gvisor, "modify_ldt", "EPERM"),
    (Ground::Gvisor, "iopl", "EPERM"),
    (Ground::Gvisor, "ioperm", "EPERM"),
    (Ground::Gvisor, "set_mm", "EPERM"),
    (Ground::Gvisor, "kcmp", "EPERM"),
    (Ground::Gvisor, "move_pages", "EPERM"),
    (Ground::Gvisor, "migrate_pages", "EPERM"),
    (Ground::Gvisor, "sched_setparam", "EPERM"),
    (Ground::Gvisor, "ioprio_set", "EPERM"),
    (Ground::Gvisor, "settimeofday", "EPERM"),
    (Ground::Gvisor, "clock_settime", "EPERM"),
    (Ground::Gvisor, "clock_adjtime", "EPERM"),
    (Ground::Gvisor, "adjtimex", "EPERM"),
    (Ground::Gvisor, "sethostname", "EPERM"),
    (Ground::Gvisor, "setdomainname", "EPERM"),
    (Ground::Gvisor, "reboot", "EPERM"),
    (Ground::Gvisor, "swapon", "EPERM"),
    (Ground::Gvisor, "quotactl", "EPERM"),
    (Ground::Gvisor, "kexec_load", "EPERM"),
    (Ground::Gvisor, "kexec_file_load", "EPERM"),
    (Ground::Gvisor, "init_module", "EPERM"),
    (Ground::Gvisor, "finit_module", "EPERM"),
    (Ground::Gvisor, "delete_module", "EPERM"),
    (Ground::Gvisor, "lookup_dcookie", "EPERM"),
    (Ground::Gvisor, "setuid", "EPERM"),
    (Ground::Gvisor, "setgid", "EPERM"),
    (Ground::Gvisor, "setreuid", "EPERM"),
    (Ground::Gvisor, "setregid", "EPERM"),
    (Ground::Gvisor, "setresuid", "EPERM"),
    (Ground::Gvisor, "setresgid", "EPERM"),
    (Ground::Gvisor, "statmount", "ENOSYS"),
    (Ground::Gvisor, "listmount", "ENOSYS"),
    (Ground::Gvisor, "ustat", "ENOSYS"),
    (Ground::Gvisor, "sysfs", "ENOSYS"),
    (Ground::Gvisor, "pkey_alloc", "ENOSYS"),
    (Ground::Gvisor, "cachestat", "ENOSYS"),
    (Ground::Gvisor, "mseal", "ENOSYS"),
    (Ground::Gvisor, "remap_file_pages", "ENOSYS"),
    (Ground::Gvisor, "lsm_list_modules", "ENOSYS"),
    (Ground::Gvisor, "clone3", "ENOSYS"),
    (Ground::Gvisor, "setxattrat", "ENOSYS"),
    (Ground::Gvisor, "file_getattr", "ENOSYS"),
    (Ground::Gvisor, "memfd_secret", "ENOSYS"),
    (Ground::Guest, "bpf", "EPERM"),
    (Ground::Guest, "open_by_handle_at", "EPERM"),
    (Ground::Guest, "fsmount", "EPERM"),
    (Ground::Guest, "pivot_root", "EPERM"),
    (Ground::Guest, "move_mount", "EPERM"),
    (Ground::Guest, "fspick", "EPERM"),
    (Ground::Guest, "fsopen", "EPERM"),
    (Ground::Guest, "capbset_drop", "EPERM"),
    (Ground::Guest, "set_securebits", "EPERM"),
    (Ground::Guest, "sethostname", "EPERM"),
    (Ground::Guest, "setdomainname", "EPERM"),
    (Ground::Guest, "reboot", "EPERM"),
    (Ground::Guest, "kexec_load", "EPERM"),
    (Ground::Guest, "kexec_file_load", "EPERM"),
    (Ground::Guest, "init_module", "EPERM"),
    (Ground::Guest, "finit_module", "EPERM"),
    (Ground::Guest, "delete_module", "EPERM"),
    (Ground::Guest, "statmount", "ENOSYS"),
    (Ground::Guest, "listmount", "ENOSYS"),
    (Ground::Guest, "cachestat", "ENOSYS"),
    (Ground::Guest, "mseal", "ENOSYS"),
    (Ground::Guest, "lsm_list_modules", "ENOSYS"),
    (Ground::Guest, "setxattrat", "ENOSYS"),
    (Ground::Guest, "file_getattr", "ENOSYS"),
    (Ground::Guest, "memfd_secret", "ENOSYS"),
    (Ground::Runc, "setuid", "EPERM"),
    (Ground::Runc, "setgid", "EPERM"),
    (Ground::Runc, "setreuid", "EPERM"),
    (Ground::Runc, "setregid", "EPERM"),
    (Ground::Runc, "setresuid", "EPERM"),
    (Ground::Runc, "setresgid", "EPERM"),
];
