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
        is_measured: false,
    })
}

/// It runs to its end, in memory of gVisor's kernel that is counted as the sandbox's.
const fn counted(expect: &'static [Expect], is_measured: bool) -> Instead {
    Instead::Load(LoadThere {
        ends: &[Outcome::Ok],
        expect,
        breach: None,
        ends_sandbox: false,
        is_measured,
    })
}

/// The same, and there may be no room for it: then the host ends gVisor's kernel.
const fn counted_or_ends(expect: &'static [Expect]) -> Instead {
    Instead::Load(LoadThere {
        ends: &[Outcome::Ok, Outcome::MemoryLimit],
        expect,
        breach: None,
        ends_sandbox: true,
        is_measured: true,
    })
}

/// Its memory is full, and its deadline may come before its end.
const fn or_deadline(ends: &'static [Outcome]) -> Instead {
    Instead::Load(LoadThere {
        ends,
        expect: &[],
        breach: None,
        ends_sandbox: false,
        is_measured: false,
    })
}

const FULL: &str = "at the memory limit the guest kernel keeps evicting program pages before it kills a process, so \
                    the sandbox stalls and may hit its deadline first";
const LANDLOCK: &str =
    "gVisor's kernel has no Landlock; T01b checks instead that its process on the host can open no files";
const OF_HOST: &str = "the probe inspects the sandbox's processes from the host, and gVisor has none there; T01b checks gVisor's \
     kernel instead";
const JUST_FITS: &str = "gVisor's kernel stores this data in its own memory, which is charged to the sandbox's cgroup: \
                         the data fits, or the host kills gVisor's kernel";
const MEMORY: &str =
    "the host kills gVisor's kernel when the cgroup is out of memory; the neighbour and the host keep running";
const COUNTED: &str = "gVisor's kernel stores this data in its own memory, which the sandbox's cgroup charges and \
                       limits; nothing is stored in the host's kernel";

const OLD_LANDLOCK: &str = "Linux 6.1 does not have the Landlock version that Atoll needs. Landlock would only \
                            protect parts of the guest itself; P02d, F22c and F22d check that the non-dumpable flag \
                            alone is sufficient";
const OF_GUEST: &str =
    "the probe inspects the sandbox's processes from the host, which sees only the VM's; C01 and C03 check those";
const OWN_WATCH: &str =
    "each sandbox has its own kernel, so neighbours are never visible; the control watches the sandbox's own process";
const MACHINE: &str =
    "the host sees only the VM and its supervisor; the daemons live in the guest's memory and end with it";

pub const ELSEWHERE: &[Elsewhere] = &[
    gvisor(
        "F02",
        "/dev is emulated by gVisor and includes /dev/fuse, which is served by gVisor's kernel only and is useless \
         without a mount",
        answers(&[e(
            "writable",
            &[
                "/app /code /data/output /dev/full /dev/fuse /dev/null /dev/pts/ptmx /dev/random /dev/shm /dev/tty /dev/urandom /dev/zero /home/user /mnt/data /tmp /var/tmp /workspace",
            ],
        )]),
    ),
    gvisor(
        "F03",
        "gVisor's /proc cannot hide processes: PID 1 is the sandbox's own agent, which holds no secrets, and its \
         memory and root stay inaccessible",
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
        "these files describe gVisor's own kernel, whose version differs from the host's (the receipt compares the \
         two); the only fact about the host is its amount of memory, which `sysinfo` shows in the jail too",
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
        "gVisor always provides the directory; here it is empty",
        answers(&[e("/sys", &["ok"])]),
    ),
    gvisor(
        "F13",
        "gVisor's kernel refuses to create device nodes without a capability, with or without the filter, so no \
         control can create one; gVisor's own /dev/fuse shows that an existing device would be found",
        with_control(
            &[e("open fuse", &["ok"]), e("controlling terminal", &["EIO"])],
            &[("open fuse", "ok")],
        ),
    ),
    gvisor(
        "F14",
        "this gVisor release does not show nosuid and does not support set-user-ID programs: the copy runs as its \
         caller",
        answers(&[e(
            "mounts",
            &["/ /data/input /data/output /dev/shm /home/user /mnt/data /opt/atoll /proc /tmp /usr"],
        )]),
    ),
    gvisor(
        "F15",
        "without the filter gVisor's kernel handles the call, which it does not implement",
        with_control(&[], &[("fsopen", "ENOSYS")]),
    ),
    gvisor(
        "F16",
        "gVisor returns a different error for unnamed files",
        answers(&[e("unnamed file", &["ENOTSUP", "EROFS"])]),
    ),
    gvisor(
        "F17",
        "gVisor implements watches itself, with one kernel per sandbox, so neighbours are never visible; the control \
         watches the sandbox's own process",
        Instead::Itself,
    ),
    gvisor("F17b", "gVisor's kernel does not implement F_NOTIFY", Instead::NotAsked),
    gvisor(
        "F19",
        "without the filter gVisor's kernel handles the call, and it does not support these attributes",
        with_control(&[], &[("set user.x", "ENOTSUP")]),
    ),
    gvisor("F22", LANDLOCK, Instead::NotAsked),
    gvisor("F22b", LANDLOCK, Instead::NotAsked),
    gvisor("F22c", LANDLOCK, Instead::NotAsked),
    gvisor("F22d", LANDLOCK, Instead::NotAsked),
    gvisor(
        "P02",
        "gVisor's /proc shows the memory map of PID 1, but not its memory; without the filter the calls are not \
         implemented",
        with_control(&[e("mapped memory of 1", &["EPERM"])], &[("readv child", "ENOSYS")]),
    ),
    gvisor("P02b", LANDLOCK, Instead::NotAsked),
    gvisor("P02c", LANDLOCK, Instead::NotAsked),
    gvisor("P02d", LANDLOCK, Instead::NotAsked),
    gvisor(
        "P03",
        "PID 1 is the sandbox's own agent with the same user, in a kernel without Landlock: code that signals it \
         ends its own sandbox (P04b). Host PIDs cannot be addressed",
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
        "code can kill its own PID 1; P04b checks that no other sandbox is affected",
        Instead::NotAsked,
    ),
    gvisor(
        "P05",
        "gVisor's /proc does not list all namespaces; without the filter gVisor's kernel would create its own",
        with_control(&[e("setns *", &["EPERM", "ENOENT"])], &[("unshare files", "ok")]),
    ),
    gvisor(
        "P06b",
        "the second layer is a sysctl of the host's kernel. A namespace created by gVisor's kernel has privileges in \
         that kernel only, and the filter refuses it (P06)",
        answers(&[e("user namespace", &["ok all"]), e("tool unshare", &["worked"])]),
    ),
    gvisor(
        "P07",
        "the claim is about functionality, not isolation: gVisor's kernel does not implement clone3 either, and a \
         process pool may hang in it",
        Instead::NotAsked,
    ),
    gvisor(
        "P11",
        "there is no other ABI: gVisor treats `int 0x80` as the regular call with that number, to which the filter \
         applies, and 32-bit code cannot run",
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
        "raw sockets require a capability that not even the first process has",
        with_control(&[], &[("family NETLINK", "ok"), ("netlink ROUTE", "ok")]),
    ),
    gvisor(
        "P15b",
        "gVisor's kernel does not support the address family",
        with_control(&[], &[("stream", "not loaded")]),
    ),
    gvisor(
        "P16b",
        "without Landlock, contexts of one sandbox can reach each other; two sandboxes cannot",
        Instead::Itself,
    ),
    gvisor(
        "P18",
        "gVisor's kernel enforces noexec when a program starts, not when a file is mapped; mapped code runs in the \
         same process under the same isolation",
        answers(&[e("map /dev/shm to execute", &["ok"])]),
    ),
    gvisor(
        "P20",
        "gVisor's kernel stores priorities and does not use them; CPU shares on the host are those of the cgroup",
        with_control(
            &[e("nice -20", &["ok"])],
            &[("setattr", "ENOSYS"), ("mlockall", "EINVAL")],
        ),
    ),
    gvisor(
        "P22",
        "without the filter gVisor's kernel handles the calls, and returns different errors for other ids",
        with_control(&[], &[("setresuid own", "ok"), ("capset", "ok")]),
    ),
    gvisor(
        "P23",
        "all ids exist inside gVisor's kernel, and none is a host id; T01b checks the id map around that kernel",
        answers(&[
            e("uid_map", &["wide"]),
            e("gid_map", &["wide"]),
            e("setgroups", &["ENOENT"]),
        ]),
    ),
    gvisor("P23b", OF_HOST, Instead::NotAsked),
    gvisor(
        "Z02",
        "the peer is the agent in the same gVisor kernel; the engine's end is an anonymous byte stream",
        answers(&[e("peer pid", &["seen"]), e("peer uid", &["1000"])]),
    ),
    gvisor(
        "Z16",
        "gVisor's kernel has no key management: without the filter it returns a different error",
        with_control(&[], &[("get session", "EACCES"), ("add_key", "EACCES")]),
    ),
    gvisor("Z16b", "gVisor's kernel has no keyrings", Instead::NotAsked),
    gvisor("Z17", OF_HOST, Instead::NotAsked),
    gvisor(
        "N01b",
        "gVisor returns a different error for an absent network",
        answers(&[e("road *", &["EHOSTUNREACH", "ENETUNREACH"])]),
    ),
    gvisor(
        "R01",
        "gVisor's kernel does not limit processes; the cgroup does, and exceeding it ends that kernel",
        ends(&[Outcome::Killed, Outcome::MemoryLimit, Outcome::Error]),
    ),
    gvisor("R03", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R03b", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R06b", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R08", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("D03", MEMORY, ends(&[Outcome::MemoryLimit])),
    gvisor("R06", JUST_FITS, counted_or_ends(&[e("queued", &["all"])])),
    gvisor("R06c", JUST_FITS, counted_or_ends(&[e("queued", &["all"])])),
    gvisor("R06d", COUNTED, counted(&[e("rights", &["all"])], false)),
    gvisor("R07", COUNTED, counted(&[e("timers", &["all"])], false)),
    gvisor("R07c", JUST_FITS, counted_or_ends(&[e("watches", &["all"])])),
    gvisor(
        "R07b",
        "gVisor's kernel has a fixed limit of its own, which no control can exceed",
        Instead::Load(LoadThere {
            ends: &[],
            expect: &[],
            breach: Some(&[("signals", "stopped EAGAIN")]),
            ends_sandbox: false,
            is_measured: false,
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
        "the guest kernel's cgroup charges these bytes as the sandbox's memory, and they fit into its limit",
        counted(&[e("queued", &["all"])], true),
    ),
    guest(
        "R07c",
        "the guest kernel limits epoll watches by its own small memory, so no control can exceed that limit. The \
         watches use the guest's memory, never the host's; R03 and R08 check its limit",
        Instead::NotAsked,
    ),
    guest(
        "F15",
        "the agent in a guest has no capabilities that a context could retain: without the filter the kernel looks \
         up the path before it refuses",
        with_control(&[], &[("umount", "ENOENT")]),
    ),
    guest("F17", OWN_WATCH, Instead::Itself),
    guest("F17b", OWN_WATCH, Instead::Itself),
    guest(
        "F19",
        "before Linux 6.6, scratch file systems do not support these attributes; with the filter the call is refused \
         earlier",
        with_control(&[], &[("set user.x", "ENOTSUP")]),
    ),
    guest("F22", OLD_LANDLOCK, Instead::NotAsked),
    guest("F22b", OLD_LANDLOCK, Instead::NotAsked),
    guest("P02b", OLD_LANDLOCK, Instead::NotAsked),
    guest("P02c", OLD_LANDLOCK, Instead::NotAsked),
    guest(
        "P03",
        "without Landlock, code can signal PID 1, the sandbox's own agent with the same user; the kernel drops \
         signals for which PID 1 has no handler (P04). Host PIDs cannot be addressed",
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
        "without Landlock the signals are sent, but the kernel drops those for which PID 1 has no handler, and PID 1 \
         keeps running",
        answers(&[e("signal *", &["ok"])]),
    ),
    guest(
        "P07",
        "the claim is about functionality, not isolation: emulated interpreters start too slowly for the probe's \
         timeout; the behaviour suite covers it in guests",
        Instead::NotAsked,
    ),
    guest(
        "P15",
        "raw sockets require a capability, and the agent in a guest has none that a context could retain",
        with_control(&[], &[("family NETLINK", "ok"), ("netlink ROUTE", "ok")]),
    ),
    guest(
        "P15b",
        "the guest has no vsock driver, and no kernel module can be loaded from inside",
        with_control(&[], &[("stream", "not loaded")]),
    ),
    guest(
        "P16b",
        "without Landlock, contexts of one sandbox can reach each other; two sandboxes cannot",
        Instead::Itself,
    ),
    guest("P23b", OF_GUEST, Instead::NotAsked),
    guest("Z17", OF_GUEST, Instead::NotAsked),
    guest("C01", MACHINE, Instead::Itself),
    guest("C03", MACHINE, Instead::Itself),
    runc(
        "P22",
        "runc maps a root user, so without the filter id 0 exists and the kernel requires a capability",
        with_control(&[], &[("setresuid own", "ok"), ("capset", "ok"), ("setfsuid", "ok")]),
    ),
    runc(
        "P23",
        "runc cannot set up a container without a root user: two ids are mapped, both unprivileged on the host, and \
         neither can switch to the other",
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
