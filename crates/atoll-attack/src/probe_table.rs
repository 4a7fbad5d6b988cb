//! tidy: table, the probes of groups F, P, Z and N that are one piece of code each.

use crate::probe::{Control, Expect, Oracle, Probe};
use atoll_engine::Wall;

const GONE: &[&str] = &["ENOENT", "EACCES"];
const REFUSED: &[&str] = &["EPERM"];

const fn e(fact: &'static str, answers: &'static [&'static str]) -> Expect {
    Expect { fact, answers }
}

macro_rules! code {
    ($name:literal) => {
        include_str!(concat!("../code/probes/", $name, ".py"))
    };
}

pub const FILES: &[Probe] = &[
    Probe {
        id: "F01",
        claim: "Host files cannot be opened by path",
        code: code!("f01_canary"),
        already_without: &[],
        expect: &[e("canary *", GONE), e("host *", GONE)],
        oracle: Oracle::Canary,
        control: Control::Outside {
            breach: &[("canary config.toml", "ok"), ("canary keys.db", "ok")],
            safe: "opens only canary files that the attack created",
        },
    },
    Probe {
        id: "F02",
        claim: "Only the scratch directories, six device nodes and /dev/pts/ptmx are writable",
        code: code!("f02_writable"),
        already_without: &[],
        expect: &[
            e(
                "writable",
                &[
                    "/app /code /data/output /dev/full /dev/null /dev/pts/ptmx /dev/random /dev/shm /dev/tty /dev/urandom /dev/zero /home/user /mnt/data /tmp /var/tmp /workspace",
                ],
            ),
            e("create in *", &["EROFS", "EACCES", "ENOENT", "EPERM"]),
        ],
        oracle: Oracle::Tree,
        control: Control::Outside {
            breach: &[("writable", "TOP")],
            safe: "walks only the attack's own temporary directory",
        },
    },
    Probe {
        id: "F03",
        claim: "/proc exposes nothing about PID 1, and no link in it leads outside the sandbox",
        code: code!("f03_proc_one"),
        already_without: &[],
        expect: &[e("proc1 *", GONE), e("root of self", &["own"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::ProcMask],
            breach: &[("proc1 status", "ok"), ("proc1 cmdline", "ok")],
            safe: "PID 1 is the sandbox's own agent",
        },
    },
    Probe {
        id: "F04",
        claim: "Host-wide files in /proc are absent",
        code: code!("f04_proc_files"),
        already_without: &[],
        expect: &[e("read *", GONE), e("write *", GONE)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::ProcMask],
            breach: &[
                ("read interrupts", "ok"),
                ("read version", "ok"),
                ("read meminfo", "ok"),
            ],
            safe: "reads at most one byte per file; settings are opened but never written",
        },
    },
    Probe {
        id: "F05",
        claim: "/sys does not exist",
        code: code!("f05_sys"),
        already_without: &[],
        expect: &[e("/sys*", GONE)],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("/sys/kernel", "ok"), ("/sys/class/net", "ok")],
            safe: "only opens paths and reads nothing",
        },
    },
    Probe {
        id: "F08",
        claim: "Files outside the scratch directories cannot be hard-linked",
        code: code!("f08_hardlinks"),
        already_without: &[],
        expect: &[e("*", &["EXDEV", "EPERM", "EACCES", "ENOENT"])],
        oracle: Oracle::Tree,
        control: Control::Outside {
            breach: &[("by path", "ok"), ("by magic link", "ok")],
            safe: "links a canary file of the attack and removes the links",
        },
    },
    Probe {
        id: "F13",
        claim: "Device nodes cannot be created; only six devices and the sandbox's own terminals exist",
        code: code!("f13_devices"),
        already_without: &[],
        expect: &[
            e("make *", REFUSED),
            e("open *", GONE),
            e("controlling terminal", &["ENXIO"]),
            e("own terminals", &["/dev/pts/0: 0 ptmx"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::Seccomp],
            breach: &[("make char 0:0", "ok")],
            safe: "device number 0:0 is a whiteout, not a device",
        },
    },
    Probe {
        id: "F14",
        claim: "A set-user-ID program gains no privileges",
        code: code!("f14_setuid"),
        already_without: &[],
        expect: &[
            e("give away", &["EPERM", "EINVAL"]),
            e("runs as", &["caller"]),
            e("mounts", &["nosuid"]),
            e("no_new_privs", &["1"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("give away", "ok"), ("runs as", "other")],
            safe: "the program drops from root to `nobody`, in the attack's own directory",
        },
    },
    Probe {
        id: "F15",
        claim: "Mounts cannot be changed",
        code: code!("f15_mounts"),
        already_without: &[],
        expect: &[e("*", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp, Wall::Capabilities],
            breach: &[("fsopen", "ok"), ("umount", "ENOENT")],
            safe: "the sandbox has its own mount namespace, and the probe attaches nothing",
        },
    },
    Probe {
        id: "F16",
        claim: "The shared read-only tree cannot be changed",
        code: code!("f16_tree"),
        already_without: &[],
        expect: &[e("*", &["EROFS", "EACCES", "EPERM", "EBADF", "ENOSYS"])],
        oracle: Oracle::Tree,
        control: Control::Outside {
            breach: &[
                ("open to write", "ok"),
                ("truncate", "ok"),
                ("unnamed file", "ok"),
                ("chmod", "ok"),
            ],
            safe: "changes only a copy that the attack created",
        },
    },
    Probe {
        id: "F19",
        claim: "Extended attributes cannot be set",
        code: code!("f19_xattrs"),
        already_without: &[],
        expect: &[e("*", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("set user.x", "ok")],
            safe: "changes only a scratch file of the sandbox",
        },
    },
    Probe {
        id: "F22",
        claim: "Landlock alone denies access to a file that mounts and file modes would allow",
        code: code!("f22_landlock_alone"),
        already_without: &[],
        expect: &[e("*", &["EACCES"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock],
            breach: &[("open", "ok"), ("openat", "ok"), ("through /proc/self/root", "ok")],
            safe: "opens a canary file that exists in every sandbox for this probe only",
        },
    },
    Probe {
        id: "F22b",
        claim: "Without seccomp and the /proc mask, Landlock still denies access to the canary file",
        code: code!("f22_landlock_alone"),
        already_without: &[Wall::Seccomp, Wall::ProcMask],
        expect: &[e("*", &["EACCES"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock],
            breach: &[("open", "ok")],
            safe: "opens a canary file that exists in every sandbox for this probe only",
        },
    },
    Probe {
        id: "F22c",
        claim: "With /proc unmasked, the memory and environment of PID 1 remain inaccessible",
        code: code!("f23_landlock_memory"),
        already_without: &[Wall::ProcMask],
        expect: &[e("*", &["EACCES", "EPERM"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::ProcMask, Wall::Undumpable],
            breach: &[("environ", "ok"), ("mem", "ok"), ("root", "ok")],
            safe: "PID 1 is the sandbox's own agent",
        },
    },
    Probe {
        id: "F22d",
        claim: "With /proc unmasked and seccomp off, the memory and environment of PID 1 remain inaccessible",
        code: code!("f23_landlock_memory"),
        already_without: &[Wall::Seccomp, Wall::ProcMask],
        expect: &[e("*", &["EACCES", "EPERM"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::Seccomp, Wall::ProcMask, Wall::Undumpable],
            breach: &[("environ", "ok"), ("mem", "ok"), ("maps", "ok")],
            safe: "PID 1 is the sandbox's own agent",
        },
    },
];

pub const KERNEL: &[Probe] = &[
    Probe {
        id: "P01",
        claim: "No process can be traced",
        code: code!("p01_ptrace"),
        already_without: &[],
        expect: &[e("*", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("traceme", "ok")],
            safe: "the traced process is the probe's own child, which exits immediately",
        },
    },
    Probe {
        id: "P02",
        claim: "The memory of other processes is inaccessible",
        code: code!("p02_memory"),
        already_without: &[],
        expect: &[
            e("readv *", REFUSED),
            e("writev 1", REFUSED),
            e("mem of 1", GONE),
            e("mapped memory of 1", GONE),
            e("process_madvise", REFUSED),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("readv child", "secret")],
            safe: "reads only the memory of the probe's own child",
        },
    },
    Probe {
        id: "P02b",
        claim: "Without seccomp, Landlock and the agent's non-dumpable flag still protect the memory of PID 1",
        code: code!("p02_memory"),
        already_without: &[Wall::Seccomp],
        expect: &[
            e("readv child", &["secret"]),
            e("readv 1", REFUSED),
            e("readv *", &["EPERM", "ESRCH"]),
            e("writev 1", REFUSED),
            e("mem of 1", GONE),
            e("mapped memory of 1", GONE),
            e("process_madvise", &["EFAULT", "EBADF"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::Seccomp, Wall::Undumpable],
            breach: &[("mem of 1", "ok"), ("mapped memory of 1", "read")],
            safe: "reads 16 bytes of the sandbox's own agent",
        },
    },
    Probe {
        id: "P02c",
        claim: "Landlock alone protects the memory of PID 1",
        code: code!("p02_memory"),
        already_without: &[Wall::Seccomp, Wall::Undumpable],
        expect: &[
            e("readv child", &["secret"]),
            e("readv *", &["EPERM", "ESRCH"]),
            e("writev 1", REFUSED),
            e("mem of 1", GONE),
            e("mapped memory of 1", GONE),
            e("process_madvise", &["EFAULT", "EBADF"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::Seccomp, Wall::Undumpable],
            breach: &[("mem of 1", "ok"), ("mapped memory of 1", "read")],
            safe: "reads 16 bytes of the sandbox's own agent",
        },
    },
    Probe {
        id: "P02d",
        claim: "The non-dumpable flag alone protects the memory of PID 1",
        code: code!("p02_memory"),
        already_without: &[Wall::Landlock, Wall::Seccomp],
        expect: &[
            e("readv child", &["secret"]),
            e("readv *", &["EPERM", "ESRCH"]),
            e("writev 1", REFUSED),
            e("mem of 1", GONE),
            e("mapped memory of 1", GONE),
            e("process_madvise", &["EFAULT", "EBADF"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock, Wall::Seccomp, Wall::Undumpable],
            breach: &[("mem of 1", "ok"), ("mapped memory of 1", "read")],
            safe: "reads 16 bytes of the sandbox's own agent",
        },
    },
    Probe {
        id: "P03",
        claim: "No signal reaches PID 1",
        code: code!("p03_signals"),
        already_without: &[],
        expect: &[
            e("kill 1", REFUSED),
            e("tgkill 1", REFUSED),
            e("tkill 1", REFUSED),
            e("queue 1", REFUSED),
            e("pidfd 1", REFUSED),
            e("kill *", &["ESRCH"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock],
            breach: &[("kill 1", "ok"), ("tgkill 1", "ok"), ("pidfd 1", "ok")],
            safe: "signal 0 only checks permissions",
        },
    },
    Probe {
        id: "P04",
        claim: "None of the 64 signals from user code reaches PID 1",
        code: code!("p04_init_signals"),
        already_without: &[],
        expect: &[e("signal *", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Landlock],
            breach: &[("signal 0", "ok"), ("signal 28", "ok")],
            safe: "sends only signal 0, SIGWINCH and SIGURG, which PID 1 ignores by default",
        },
    },
    Probe {
        id: "P05",
        claim: "Namespaces cannot be created or entered",
        code: code!("p05_namespaces"),
        already_without: &[],
        expect: &[
            e("unshare *", REFUSED),
            e("clone time", &["ENOSYS"]),
            e("clone *", REFUSED),
            e("clone3 new user", &["ENOSYS"]),
            e("setns of 1", GONE),
            e("setns *", REFUSED),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[
                ("unshare files", "ok"),
                ("unshare user", "ENOSPC"),
                ("setns user", "EINVAL"),
                ("clone3 new user", "EFAULT"),
            ],
            safe: "runs in children that exit immediately; the user namespace limit still applies",
        },
    },
    Probe {
        id: "P06",
        claim: "Capabilities cannot be regained",
        code: code!("p06_nested_user"),
        already_without: &[],
        expect: &[
            e("user namespace", &["EPERM none"]),
            e("tool *", &["failed", "absent"]),
            e("capabilities", &["0000000000000000"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("user namespace", "ok all")],
            safe: "runs in an unprivileged child that exits immediately",
        },
    },
    Probe {
        id: "P06b",
        claim: "Without seccomp, the user namespace limit (max_user_namespaces) alone blocks nested user namespaces",
        code: code!("p06_nested_user"),
        already_without: &[Wall::Seccomp],
        expect: &[
            e("user namespace", &["ENOSPC none"]),
            e("tool *", &["failed", "absent"]),
            e("capabilities", &["0000000000000000"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("user namespace", "ok all")],
            safe: "runs in an unprivileged child that exits immediately",
        },
    },
    Probe {
        id: "P07",
        claim: "All common ways to start threads and processes work",
        code: code!("p07_processes"),
        already_without: &[],
        expect: &[e("clone3", &["ENOSYS"]), e("*", &["ok"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("clone3", "EINVAL")],
            safe: "the size argument is invalid, so no process is created",
        },
    },
    Probe {
        id: "P11",
        claim: "No system call is reachable through another ABI",
        code: code!("p11_abis"),
        already_without: &[],
        expect: &[
            e("int80 *", &["SIGSYS"]),
            e("far call", &["SIGSYS"]),
            e("x32 *", &["ENOSYS", "SIGSYS"]),
            e("minus one", &["ENOSYS", "SIGSYS"]),
            e("vsyscall page", &["returned", "SIGSEGV", "SIGSYS"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("int80 getpid", "pid")],
            safe: "the call that must succeed is getpid",
        },
    },
    Probe {
        id: "P14",
        claim: "Input cannot be injected into a terminal (TIOCSTI), regardless of high argument bits",
        code: code!("p14_terminal"),
        already_without: &[],
        expect: &[e("TIOC*", REFUSED), e("other *", &["ENOSYS"])],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[
                ("TIOCSTI", "ENOTTY"),
                ("TIOCSTI high 100000000", "ENOTTY"),
                ("other BLKDISCARD", "ENOTTY"),
            ],
            safe: "the file descriptor is /dev/null, not a terminal",
        },
    },
    Probe {
        id: "P15",
        claim: "Only Unix and IP sockets can be created",
        code: code!("p15_families"),
        already_without: &[],
        expect: &[
            e("family *", REFUSED),
            e("netlink *", REFUSED),
            e("raw: *", REFUSED),
            e("odd: *", &["ENOSYS"]),
            e("unspec", &["ENOSYS"]),
            e("high bits: vsock", REFUSED),
            e("pair: vsock", REFUSED),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp, Wall::Capabilities],
            breach: &[
                ("family NETLINK", "ok"),
                ("netlink ROUTE", "ok"),
                ("raw: raw ICMP", "ok"),
            ],
            safe: "sockets are created and closed; nothing is bound, connected or sent",
        },
    },
    Probe {
        id: "P15b",
        claim: "Sockets to a hypervisor (AF_VSOCK) cannot be created",
        code: code!("p15_vsock"),
        already_without: &[],
        expect: &[e("*", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("stream", "ok")],
            safe: "sockets are created and closed; nothing is bound, connected or sent",
        },
    },
    Probe {
        id: "P16",
        claim: "Abstract sockets of the host cannot be reached or listed",
        code: code!("p16_abstract"),
        already_without: &[],
        expect: &[
            e("connect", &["ECONNREFUSED", "EPERM"]),
            e("listed", &["no"]),
            e("names seen", &["none"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("connect", "ok")],
            safe: "connects only to the attack's own listener",
        },
    },
    Probe {
        id: "P18",
        claim: "Programs cannot run from /dev/shm, and memfd_secret is not available",
        code: code!("p18_exec"),
        already_without: &[],
        expect: &[
            e("from /dev/shm", &["EACCES"]),
            e("from /tmp", &["ok"]),
            e("from /home/user", &["ok"]),
            e("memfd_secret", &["ENOSYS"]),
            e("map /dev/shm to execute", &["EPERM"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("from /dev/shm", "ok")],
            safe: "runs a copy of `true` and removes it",
        },
    },
    Probe {
        id: "P20",
        claim: "Scheduling priority, locked memory and resource limits cannot be raised",
        code: code!("p20_priorities"),
        already_without: &[],
        expect: &[
            e("nice -20", &["EACCES", "EPERM"]),
            e("mlock 8 MiB", &["ENOMEM", "EPERM"]),
            e("raise NOFILE", &["EPERM"]),
            e("prlimit of 1", &["ENOSYS"]),
            e("*", REFUSED),
        ],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[
                ("setattr", "EFAULT"),
                ("setparam", "EFAULT"),
                ("ioprio", "EINVAL"),
                ("mlockall", "EINVAL"),
            ],
            safe: "the calls that must reach the kernel have invalid arguments",
        },
    },
    Probe {
        id: "P22",
        claim: "User ids, group ids and capabilities cannot be changed",
        code: code!("p22_identity"),
        already_without: &[],
        expect: &[e("ids after *", &["1000"]), e("*", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[
                ("setresuid own", "ok"),
                ("setuid 0", "EINVAL"),
                ("capset", "ok"),
                ("setfsuid", "ok"),
            ],
            safe: "switches only to the sandbox's own id or to an unmapped id",
        },
    },
    Probe {
        id: "P23",
        claim: "Exactly one user id is mapped inside, and it is not 0",
        code: code!("p23_uid_map"),
        already_without: &[],
        expect: &[
            e("uid_map", &["one"]),
            e("gid_map", &["one"]),
            e("setgroups", &["deny"]),
            e("write uid_map", &["EPERM", "EACCES"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Outside {
            breach: &[("uid_map", "wide"), ("gid_map", "wide")],
            safe: "reads the id maps and writes nothing",
        },
    },
];

pub const ZYGOTE: &[Probe] = &[
    Probe {
        id: "Z01",
        claim: "A context holds only its declared file descriptors",
        code: code!("z01_descriptors"),
        already_without: &[],
        expect: &[e("descriptors", &["0:char 1:pipe 2:pipe 3:socket 100:pipe 101:pipe"])],
        oracle: Oracle::Machine,
        control: Control::Planted {
            breach: &[(
                "descriptors",
                "0:char 1:pipe 2:pipe 3:socket 4:pipe 5:pipe 100:pipe 101:pipe",
            )],
            safe: "the extra descriptor is the probe's own pipe",
        },
    },
    Probe {
        id: "Z02",
        claim: "The control socket reveals nothing about the host",
        code: code!("z02_control_socket"),
        already_without: &[],
        expect: &[
            e("peer pid", &["none"]),
            e("peer uid", &["65534"]),
            e("names", &["''''"]),
            e("signal by peer pidfd", &["none", "EINVAL unnamed", "EPERM unnamed"]),
        ],
        oracle: Oracle::Machine,
        control: Control::Planted {
            breach: &[("peer pid", "seen"), ("peer uid", "1000")],
            safe: "the socket pair belongs to the probe",
        },
    },
    Probe {
        id: "Z03",
        claim: "A started program inherits only the three standard streams",
        code: code!("z03_exec_descriptors"),
        already_without: &[],
        expect: &[e("*", &["0 1 2"])],
        oracle: Oracle::Machine,
        control: Control::Planted {
            breach: &[("inherited", "more")],
            safe: "the extra descriptor is the probe's own pipe",
        },
    },
    Probe {
        id: "Z04",
        claim: "A context's memory contains no data of the host or of other sandboxes",
        code: code!("z04_memory"),
        already_without: &[],
        expect: &[
            e("needle *", &["none"]),
            e("first environment", &["clean"]),
            e("arguments", &["clean"]),
        ],
        oracle: Oracle::Canary,
        control: Control::Planted {
            breach: &[
                ("needle canary", "found"),
                ("needle data directory", "found"),
                ("needle code of a neighbour", "found"),
            ],
            safe: "searches only the probe's own memory",
        },
    },
    Probe {
        id: "Z11",
        claim: "No writable shared mapping is inherited",
        code: code!("z11_shared_maps"),
        already_without: &[],
        expect: &[e("*", &["none"])],
        oracle: Oracle::Machine,
        control: Control::Planted {
            breach: &[("shared and writable", "found")],
            safe: "maps only a scratch file of the sandbox",
        },
    },
    Probe {
        id: "Z16",
        claim: "Kernel keyrings are inaccessible",
        code: code!("z16_keyring"),
        already_without: &[],
        expect: &[e("read /proc/keys", GONE), e("*", REFUSED)],
        oracle: Oracle::Machine,
        control: Control::Without {
            walls: &[Wall::Seccomp],
            breach: &[("get session", "ok"), ("add_key", "EFAULT")],
            safe: "only requests the id of the sandbox's own keyring",
        },
    },
];

pub const NETWORK: &[Probe] = &[
    Probe {
        id: "N01",
        claim: "Services on the host's loopback interface cannot be reached",
        code: code!("n01_loopback"),
        already_without: &[],
        expect: &[e("*", &["ECONNREFUSED", "ENETUNREACH", "EADDRNOTAVAIL"])],
        oracle: Oracle::Network,
        control: Control::Outside {
            breach: &[("tcp 127.0.0.1", "ok"), ("udp 127.0.0.1", "ok")],
            safe: "connects only to the attack's own listeners",
        },
    },
    Probe {
        id: "N01b",
        claim: "No network is reachable",
        code: code!("n01_roads"),
        already_without: &[],
        expect: &[e("road *", &["ENETUNREACH"]), e("interfaces", &["lo"])],
        oracle: Oracle::Network,
        control: Control::Outside {
            breach: &[("road to 203.0.113.1", "ok")],
            safe: "uses an address reserved for documentation; connecting a UDP socket sends no packet",
        },
    },
];
