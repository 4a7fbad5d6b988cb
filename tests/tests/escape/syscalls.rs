//! One system call per row: the filter answers it, and without the filter the answer is another one.
//!
//! Every argument is bad on purpose (no descriptor, no memory, no known flag), so that nothing happens where the call
//! goes through; each is made in a child that ends at once. No row sets a clock, a name, a module or a mount.

use crate::lab::{engine_without, facts_of, with_args};
use crate::probe::Facts;
use crate::rootless::is_rootless;
use RowControl::{AsRoot, Both, Seccomp};
use anyhow::Result;
use atoll_engine::Wall;
use serde_json::{Map, Value, json};
use std::process::{Command, Stdio};

#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: &'static str,
    pub(crate) name: &'static str,
    number: u32,
    args: &'static [i64],
    answer: &'static str,
    control: RowControl,
}

/// Where the same call gets another answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowControl {
    /// In a sandbox without seccomp.
    Seccomp,
    /// In a sandbox without seccomp whose process keeps the capabilities of its own user namespace.
    Both,
    /// The kernel asks for a capability of the whole machine first: as the test's own root, outside of any sandbox, in
    /// a child that ends at once. Left out where the tests run without root.
    AsRoot,
}

const fn row(
    id: &'static str,
    name: &'static str,
    number: u32,
    args: &'static [i64],
    answer: &'static str,
    control: RowControl,
) -> Row {
    Row {
        id,
        name,
        number,
        args,
        answer,
        control,
    }
}

/// An address in the first page, which is never mapped.
const BAD: i64 = 0xDEAD;
const NO_FD: i64 = -1;
/// Flags that nobody knows.
const ODD: i64 = 0x7FFF_FFFF;

pub(crate) const ROWS: &[Row] = &[
    row("P08", "bpf", 321, &[0, BAD, ODD], "EPERM", Seccomp),
    row(
        "P08",
        "perf_event_open",
        298,
        &[BAD, 0, NO_FD, NO_FD, 0],
        "EPERM",
        Seccomp,
    ),
    row("P08", "userfaultfd", 323, &[ODD], "EPERM", Seccomp),
    row("P08", "io_uring_setup", 425, &[0, BAD], "EPERM", Seccomp),
    row("P08", "io_uring_enter", 426, &[NO_FD, 0, 0, 0, 0, 0], "EPERM", Seccomp),
    row(
        "P08",
        "io_uring_register",
        427,
        &[NO_FD, 0xffff, 0, 0],
        "EPERM",
        Seccomp,
    ),
    row("P08", "io_setup", 206, &[0, BAD], "EPERM", Seccomp),
    row("P08", "io_submit", 209, &[0, 0, 0], "EPERM", Seccomp),
    row("P08", "io_getevents", 208, &[0, 0, 0, 0, 0], "EPERM", Seccomp),
    row("P08", "io_pgetevents", 333, &[0, 0, 0, 0, 0, 0], "EPERM", Seccomp),
    row("P08", "io_destroy", 207, &[0], "EPERM", Seccomp),
    row("P08", "io_cancel", 210, &[0, BAD, BAD], "EPERM", Seccomp),
    row("P08", "fanotify_init", 300, &[0x200, ODD], "EPERM", Seccomp),
    row("P08", "fanotify_mark", 301, &[NO_FD, 0, 0, NO_FD, 0], "EPERM", Seccomp),
    row("P09", "add_key", 248, &[BAD, BAD, 0, 0, NO_FD], "EPERM", Seccomp),
    row("P09", "request_key", 249, &[BAD, BAD, 0, 0], "EPERM", Seccomp),
    row("P09", "keyctl", 250, &[9999, 0, 0, 0, 0], "EPERM", Seccomp),
    row("P09", "keyctl link", 250, &[8, NO_FD, NO_FD, 0, 0], "EPERM", Seccomp),
    row(
        "P10",
        "name_to_handle_at",
        303,
        &[NO_FD, BAD, BAD, BAD, ODD],
        "EPERM",
        Seccomp,
    ),
    row("P10", "open_by_handle_at", 304, &[NO_FD, BAD, 0], "EPERM", Seccomp),
    row("P10", "fsconfig", 431, &[NO_FD, 99, 0, 0, 0], "EPERM", Seccomp),
    row("P10", "fsmount", 432, &[NO_FD, ODD, 0], "EPERM", Both),
    row("P10", "mount", 165, &[BAD, BAD, BAD, 0, 0], "EPERM", Seccomp),
    row("P10", "umount2", 166, &[BAD, ODD], "EPERM", Seccomp),
    row("P10", "pivot_root", 155, &[BAD, BAD], "EPERM", Both),
    row("P10", "chroot", 161, &[BAD], "EPERM", Seccomp),
    row("P10", "move_mount", 429, &[NO_FD, BAD, NO_FD, BAD, ODD], "EPERM", Both),
    row(
        "P10",
        "mount_setattr",
        442,
        &[NO_FD, BAD, ODD, BAD, 0],
        "EPERM",
        Seccomp,
    ),
    row("P10", "fspick", 433, &[NO_FD, BAD, ODD], "EPERM", Both),
    row("P10", "open_tree", 428, &[NO_FD, BAD, ODD], "EPERM", Seccomp),
    row("P10", "fsopen", 430, &[BAD, ODD], "EPERM", Both),
    row("P12", "arch_prctl cpuid", 158, &[0x1012, 1], "ENOSYS", Seccomp),
    row("P12", "arch_prctl gs", 158, &[0x1001, 0], "ENOSYS", Seccomp),
    row("P12", "arch_prctl guest", 158, &[0x1025, 99], "ENOSYS", Seccomp),
    row("P12", "arch_prctl vdso", 158, &[0x2003, 0], "ENOSYS", Seccomp),
    row("P12", "arch_prctl tagged", 158, &[0x4002, 99], "ENOSYS", Seccomp),
    row("P12", "arch_prctl shadow", 158, &[0x5002, 99], "ENOSYS", Seccomp),
    row(
        "P12",
        "arch_prctl high bits",
        158,
        &[0x1_0000_1012, 1],
        "ENOSYS",
        Seccomp,
    ),
    row("P12", "modify_ldt", 154, &[0, 0, 0], "EPERM", Seccomp),
    row("P12", "iopl", 172, &[99], "EPERM", Seccomp),
    row("P12", "ioperm", 173, &[NO_FD, 1, 0], "EPERM", Seccomp),
    row("P12", "personality", 135, &[0x40000], "ENOSYS", Seccomp),
    row("P12", "personality exec", 135, &[0x400000], "ENOSYS", Seccomp),
    row("P13", "seccomp", 317, &[99, 0, 0], "EPERM", Seccomp),
    row("P13", "set_dumpable", 157, &[4, 99, 0, 0, 0], "EPERM", Seccomp),
    row("P13", "set_keepcaps", 157, &[8, 99, 0, 0, 0], "EPERM", Seccomp),
    row("P13", "set_seccomp", 157, &[22, 99, 0, 0, 0], "EPERM", Seccomp),
    row("P13", "capbset_drop", 157, &[24, 999, 0, 0, 0], "EPERM", Both),
    row("P13", "set_securebits", 157, &[28, 0, 0, 0, 0], "EPERM", Both),
    row("P13", "set_mm", 157, &[35, 1, 0, 1, 0], "EPERM", Seccomp),
    row("P13", "cap_ambient", 157, &[47, 99, 0, 0, 0], "EPERM", Seccomp),
    row(
        "P13",
        "set_ptracer",
        157,
        &[0x59616d61, 0x7ffff, 0, 0, 0],
        "EPERM",
        Seccomp,
    ),
    row("P13", "set_mdwe", 157, &[65, ODD, 0, 0, 0], "EPERM", Seccomp),
    row("P13", "set_tsc", 157, &[26, 99, 0, 0, 0], "ENOSYS", Seccomp),
    row("P13", "mce_kill", 157, &[33, 99, 0, 0, 0], "ENOSYS", Seccomp),
    row(
        "P13",
        "syscall_user_dispatch",
        157,
        &[59, 99, 0, 0, 0],
        "ENOSYS",
        Seccomp,
    ),
    row("P13", "sched_core", 157, &[62, 99, 0, 0, 0], "ENOSYS", Seccomp),
    row("P13", "set_io_flusher", 157, &[57, 99, 0, 0, 0], "ENOSYS", Seccomp),
    row("P13", "speculation", 157, &[53, 99, 0, 0, 0], "ENOSYS", Seccomp),
    row("P13", "set_thp_disable", 157, &[41, 0, 9, 9, 9], "ENOSYS", Seccomp),
    row(
        "P13",
        "dumpable high bits",
        157,
        &[0x100000004, 99, 0, 0, 0],
        "EPERM",
        Seccomp,
    ),
    row("P13", "landlock_create_ruleset", 444, &[0, 0, ODD], "EPERM", Seccomp),
    row(
        "P13",
        "landlock_add_rule",
        445,
        &[NO_FD, 99, BAD, ODD],
        "EPERM",
        Seccomp,
    ),
    row("P13", "landlock_restrict_self", 446, &[NO_FD, ODD], "EPERM", Seccomp),
    row("P17", "shmget", 29, &[77, 0, 0], "EPERM", Seccomp),
    row("P17", "shmat", 30, &[NO_FD, 0, 0], "EPERM", Seccomp),
    row("P17", "shmctl", 31, &[NO_FD, 0, 0], "EPERM", Seccomp),
    row("P17", "shmdt", 67, &[1], "EPERM", Seccomp),
    row("P17", "msgget", 68, &[77, 0], "EPERM", Seccomp),
    row("P17", "msgsnd", 69, &[NO_FD, BAD, 0, 0], "EPERM", Seccomp),
    row("P17", "msgrcv", 70, &[NO_FD, BAD, 0, 0, 0], "EPERM", Seccomp),
    row("P17", "msgctl", 71, &[NO_FD, 0, 0], "EPERM", Seccomp),
    row("P17", "semget", 64, &[77, 0, 0], "EPERM", Seccomp),
    row("P17", "semop", 65, &[NO_FD, BAD, 0], "EPERM", Seccomp),
    row("P17", "semctl", 66, &[NO_FD, 0, 0, 0], "EPERM", Seccomp),
    row("P17", "semtimedop", 220, &[NO_FD, BAD, 0, 0], "EPERM", Seccomp),
    row("P17", "mq_open", 240, &[BAD, 0, 0, 0], "EPERM", Seccomp),
    row("P17", "mq_unlink", 241, &[BAD], "EPERM", Seccomp),
    row("P17", "mq_timedsend", 242, &[NO_FD, BAD, 0, 0, 0], "EPERM", Seccomp),
    row("P17", "mq_timedreceive", 243, &[NO_FD, BAD, 0, 0, 0], "EPERM", Seccomp),
    row("P17", "mq_notify", 244, &[NO_FD, 0], "EPERM", Seccomp),
    row("P17", "mq_getsetattr", 245, &[NO_FD, 0, 0], "EPERM", Seccomp),
    row("P19", "kcmp", 312, &[0x7ffff, 0x7ffff, 0, 0, 0], "EPERM", Seccomp),
    row("P19", "pidfd_getfd", 438, &[NO_FD, 0, 0], "EPERM", Seccomp),
    row(
        "P19",
        "process_madvise",
        440,
        &[NO_FD, BAD, 0, 0, ODD],
        "EPERM",
        Seccomp,
    ),
    row("P19", "process_mrelease", 448, &[NO_FD, 0], "EPERM", Seccomp),
    row("P19", "move_pages", 279, &[0, 0, 0, 0, 0, 99], "EPERM", Seccomp),
    row("P19", "migrate_pages", 256, &[0x7ffff, 0, 0, 0], "EPERM", Seccomp),
    row("P19", "mbind", 237, &[1, 0, 0, 0, 0, 0], "EPERM", Seccomp),
    row("P19", "set_mempolicy", 238, &[99, 0, 0], "EPERM", Seccomp),
    row("P19", "get_mempolicy", 239, &[0, 0, 0, 0, 99], "EPERM", Seccomp),
    row("P19", "set_mempolicy_home_node", 450, &[0, 0, 0, 1], "EPERM", Seccomp),
    row(
        "P19",
        "process_vm_readv",
        310,
        &[0x7ffff, 0, 0, 0, 0, 9],
        "EPERM",
        Seccomp,
    ),
    row(
        "P19",
        "process_vm_writev",
        311,
        &[0x7ffff, 0, 0, 0, 0, 9],
        "EPERM",
        Seccomp,
    ),
    row("P19", "ptrace", 101, &[99, 0x7ffff, 0, 0], "EPERM", Seccomp),
    row("P21", "settimeofday", 164, &[BAD, 0], "EPERM", Seccomp),
    row("P21", "clock_settime", 227, &[99, BAD], "EPERM", Seccomp),
    row("P21", "clock_adjtime", 305, &[99, BAD], "EPERM", Seccomp),
    row("P21", "adjtimex", 159, &[BAD], "EPERM", Seccomp),
    row("P21", "sethostname", 170, &[BAD, NO_FD], "EPERM", Both),
    row("P21", "setdomainname", 171, &[BAD, NO_FD], "EPERM", Both),
    row("P21", "reboot", 169, &[0, 0, 0, 0], "EPERM", Both),
    row("P21", "swapon", 167, &[BAD, ODD], "EPERM", Seccomp),
    row("P21", "quotactl", 179, &[0xffffff00, 0, 0, 0], "EPERM", Seccomp),
    row("P21", "quotactl_fd", 443, &[NO_FD, 0, 0, 0], "EPERM", Seccomp),
    row("P21", "swapoff", 168, &[BAD], "EPERM", AsRoot),
    row("P21", "kexec_load", 246, &[0, 0, 0, ODD], "EPERM", Seccomp),
    row(
        "P21",
        "kexec_file_load",
        320,
        &[NO_FD, NO_FD, 0, 0, ODD],
        "EPERM",
        Seccomp,
    ),
    row("P21", "acct", 163, &[BAD], "EPERM", AsRoot),
    row("P21", "syslog", 103, &[99, 0, 0], "EPERM", AsRoot),
    row("P21", "init_module", 175, &[BAD, 0, BAD], "EPERM", Seccomp),
    row("P21", "finit_module", 313, &[NO_FD, BAD, ODD], "EPERM", Seccomp),
    row("P21", "delete_module", 176, &[BAD, ODD], "EPERM", Seccomp),
    row("P21", "vhangup", 153, &[], "EPERM", AsRoot),
    row("P21", "lookup_dcookie", 212, &[0, BAD, 0], "EPERM", Seccomp),
    row("F16", "splice", 275, &[NO_FD, 0, NO_FD, 0, 1, 0], "EPERM", Seccomp),
    row("F16", "tee", 276, &[NO_FD, NO_FD, 1, ODD], "EPERM", Seccomp),
    row("F16", "vmsplice", 278, &[NO_FD, 0, 0, ODD], "EPERM", Seccomp),
    row("F19", "setxattr", 188, &[BAD, BAD, BAD, 0, ODD], "EPERM", Seccomp),
    row("F19", "fsetxattr", 190, &[NO_FD, BAD, 0, 0, 0], "EPERM", Seccomp),
    row("F19", "fremovexattr", 199, &[NO_FD, BAD], "EPERM", Seccomp),
    row("F19", "lsetxattr", 189, &[BAD, BAD, BAD, 0, ODD], "EPERM", Seccomp),
    row("F19", "removexattr", 197, &[BAD, BAD], "EPERM", Seccomp),
    row("F19", "lremovexattr", 198, &[BAD, BAD], "EPERM", Seccomp),
    row("P26", "syncfs", 306, &[NO_FD], "ENOSYS", Seccomp),
    row("P26", "statmount", 457, &[BAD, BAD, 0, ODD], "ENOSYS", Seccomp),
    row("P26", "listmount", 458, &[BAD, BAD, 0, ODD], "ENOSYS", Seccomp),
    row("P26", "ustat", 136, &[0, BAD], "ENOSYS", Seccomp),
    row("P26", "sysfs", 139, &[99, 0, 0], "ENOSYS", Seccomp),
    row("P26", "pkey_alloc", 330, &[1, 1], "ENOSYS", Seccomp),
    row("P26", "cachestat", 451, &[NO_FD, BAD, BAD, 0], "ENOSYS", Seccomp),
    row("P26", "mseal", 462, &[1, 1, ODD], "ENOSYS", Seccomp),
    row("P26", "remap_file_pages", 216, &[1, 0, 0, 0, 0], "ENOSYS", Seccomp),
    row("P26", "lsm_list_modules", 461, &[BAD, BAD, ODD], "ENOSYS", Seccomp),
    row("P26", "clone3", 435, &[0, 0], "ENOSYS", Seccomp),
    row("P26", "munlockall", 152, &[], "ENOSYS", Seccomp),
    row("P26", "ioprio_get", 252, &[99, 0], "ENOSYS", Seccomp),
    row("P26", "setxattrat", 463, &[NO_FD, BAD, ODD, 0, 0, 0], "ENOSYS", Seccomp),
    row(
        "P26",
        "file_getattr",
        468,
        &[NO_FD, BAD, BAD, 0, ODD],
        "ENOSYS",
        Seccomp,
    ),
    row("P26", "memfd_secret", 447, &[ODD], "ENOSYS", Seccomp),
    row("P20", "sched_setscheduler", 144, &[0, 99, BAD], "EPERM", Seccomp),
    row("P20", "sched_setparam", 142, &[0, BAD], "EPERM", Seccomp),
    row("P20", "sched_setattr", 314, &[0, BAD, 0], "EPERM", Seccomp),
    row("P20", "ioprio_set", 251, &[9, 0, 0], "EPERM", Seccomp),
    row("P20", "mlockall", 151, &[0x7fff0000], "EPERM", Seccomp),
    row("P05", "unshare", 272, &[1], "EPERM", Seccomp),
    row("P05", "setns", 308, &[NO_FD, 0], "EPERM", Seccomp),
    row("P22", "setuid", 105, &[0], "EPERM", Seccomp),
    row("P22", "setgid", 106, &[0], "EPERM", Seccomp),
    row("P22", "setreuid", 113, &[0, 0], "EPERM", Seccomp),
    row("P22", "setregid", 114, &[0, 0], "EPERM", Seccomp),
    row("P22", "setresuid", 117, &[0, 0, 0], "EPERM", Seccomp),
    row("P22", "setresgid", 119, &[0, 0, 0], "EPERM", Seccomp),
    row("P22", "setgroups", 116, &[ODD, BAD], "EPERM", AsRoot),
    row("P22", "capset", 126, &[BAD, BAD], "EPERM", Seccomp),
    row("P22", "setfsuid", 122, &[1000], "EPERM", Seccomp),
    row("P22", "setfsgid", 123, &[1000], "EPERM", Seccomp),
];

#[tokio::test]
async fn every_row_is_answered_by_the_filter() {
    let strict = answers(&[]).await.unwrap();
    let open = answers(&[Wall::Seccomp]).await.unwrap();
    let wide_open = answers(&[Wall::Seccomp, Wall::Capabilities]).await.unwrap();
    let as_root = answers_as_root().unwrap();
    let mut faults: Vec<String> = strict.dead_twins();
    for row in ROWS {
        let (said, name) = (strict.word(row.name), row.name);
        if said != row.answer {
            faults.push(format!("{} {name}: answered {said}, not {}", row.id, row.answer));
        }
        let changed = match row.control {
            Seccomp => open.word(name),
            Both => wide_open.word(name),
            AsRoot if is_rootless() => continue,
            AsRoot => as_root.word(name),
        };
        if changed == row.answer || changed == "absent" {
            faults.push(format!(
                "{} {name} control: the answer without the filter is {changed}, too",
                row.id
            ));
        }
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

/// The rows for root, asked by a plain process of the test in a session of its own.
fn answers_as_root() -> Result<Facts> {
    let rows = ROWS.iter().filter(|row| row.control == AsRoot);
    let output = Command::new("setsid")
        .args(["-w", "timeout", "-s", "KILL", "20", "python3", "-I", "-c", &code(rows)])
        .stdin(Stdio::null())
        .output()?;
    Facts::read(&String::from_utf8_lossy(&output.stdout)).map_err(anyhow::Error::msg)
}

fn code<'a>(rows: impl Iterator<Item = &'a Row>) -> String {
    let rows: Vec<_> = rows.map(|row| json!([row.name, row.number, row.args])).collect();
    let args = Map::from_iter([("rows".to_owned(), Value::Array(rows))]);
    with_args(&args, include_str!("../../escape/syscalls.py"))
}

async fn answers(walls: &[Wall]) -> Result<Facts> {
    let engine = engine_without(walls).await?;
    let mut sandbox = atoll_tests::sandbox(&engine).await?;
    let execution = atoll_tests::python(&mut sandbox, &code(ROWS.iter())).await?;
    sandbox.end().await?;
    atoll_tests::stop(engine).await?;
    facts_of(&execution)
}
