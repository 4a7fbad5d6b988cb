//! The process that keeps one virtual machine: first of the sandbox's own namespaces, from the order to the machine's end.
//!
//! Runs on a copy of the spawner's memory, without exec. It builds a root with the host's programs only, starts QEMU there
//! without any power, and a ferry that carries the agent's channel to and from the guest. Then it does what the engine orders
//! ([`super::orders`]). When it is killed, the kernel kills QEMU, and with it the whole guest.

use super::command::{AGENT, arguments};
use super::orders::{Machine, serve};
use crate::channel;
use crate::ferry::{self, Ferry, Holds, Side};
use crate::order::Start;
use crate::plan::{VmPlan, VmStart, Wall};
use crate::root::{attach, enter_root, mount_proc};
use crate::shell::{Failed, FromShell, ShellPlan, become_user, keep_only, lay_null, lock_agent, wait_for_go};
use crate::step::{OfWall, Step, StepError};
use crate::sys::lockdown::{Lock, Off, Rlimit, lock_down};
use crate::sys::process::{Forked, default_signals, exit_now, fork_with, join_own_keyring, lay_all};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::pipe::PipeFlags;
use std::ffi::CString;
use std::fs;
use std::path::Path;

/// Room for the machine's state when it is saved; nothing else that it writes to is a file.
const STATE_BYTES: u64 = 64 << 20;
const OPEN_FILES: u64 = 256;
/// What a pipe holds, and how much of its end is told.
const CONSOLE_BYTES: usize = 64 << 10;
const LAST_WORDS: usize = 4096;

/// What QEMU is given besides the agent's channel: control and monitor sockets, memory, image, and either kernel and initial
/// file system or the saved state.
pub(crate) struct VmOrder {
    pub(crate) start: VmStart,
    pub(crate) fds: Vec<OwnedFd>,
}

/// Where the memory is among what QEMU is given.
const RAM: usize = 2;

/// Never returns: ends with the machine, or tells what failed.
pub(crate) fn run(plan: ShellPlan, vm: &VmPlan, order: VmOrder) -> ! {
    match start(&plan, vm, &order) {
        Ok((machine, ears)) => stay(plan, order, machine, &ears),
        Err(error) => {
            let failed = FromShell::Failed(Failed::of(&error));
            channel::send(&plan.sync, &failed, &[]).ok();
            exit_now(1)
        }
    }
}

/// Returns the machine, and where QEMU complains.
fn start(plan: &ShellPlan, vm: &VmPlan, order: &VmOrder) -> Result<(Machine, OwnedFd), StepError> {
    let own: Vec<&OwnedFd> = [&plan.agent, &plan.sync]
        .into_iter()
        .chain(&plan.keeper)
        .chain(&order.fds)
        .collect();
    lay_null()?;
    keep_only(&own)?;
    for cgroup in wait_for_go(plan)? {
        rustix::io::write(cgroup, b"0")
            .step("join the sandbox's cgroup")
            .wall("cgroups")?;
    }
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWCGROUP)
        .step("create a cgroup namespace")
        .wall("namespaces")?;
    become_user().wall("ids")?;
    // After the last change of ids, which would clear it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("set the parent-death signal")?;
    fs::write("/proc/sys/user/max_user_namespaces", "0")
        .step("disable nested user namespaces")
        .wall("namespaces")?;
    enter_workshop().wall("mounts")?;
    join_own_keyring();
    let begun = Start::hear(plan.keeper.as_ref())?;
    let (stream, theirs) = stream_pair()?;
    let (orders, taken) = stream_pair()?;
    let (ears, mouth) = console().step("create a pipe")?;
    let ferry = start_ferry(plan, begun, stream, taken)?;
    let (pid, qemu) = match fork_with(0).step("fork QEMU")? {
        Forked::Parent { pid, pidfd } => (pid, pidfd),
        Forked::Child => {
            let failed = become_qemu(plan, vm, order, &theirs, &mouth);
            let words = crate::step::chain(&failed);
            rustix::io::write(&mouth, words.as_bytes()).ok();
            exit_now(127)
        }
    };
    drop((theirs, mouth));
    lock_agent(&plan.template.walls, &plan.filters)?;
    channel::send(&plan.sync, &FromShell::Ready, &[qemu.as_fd()])
        .map_err(|_| Errno::PIPE)
        .step("report to the spawner that the VM is running")?;
    Ok((Machine { pid, ferry, orders }, ears))
}

fn stream_pair() -> Result<(OwnedFd, OwnedFd), StepError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).step("create the agent's stream")
}

/// The host's programs, read-only, and a `/proc` of the own processes.
fn enter_workshop() -> Result<(), StepError> {
    let root = Path::new("/run/tmpl");
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, root, flags).step("clone the VM's root mount")?;
    attach(tree.as_fd(), root).step("mount the VM's root")?;
    mount_proc(&root.join("proc"), "subset=pid,hidepid=2")?;
    enter_root(root)
}

fn become_qemu(plan: &ShellPlan, vm: &VmPlan, order: &VmOrder, stream: &OwnedFd, mouth: &OwnedFd) -> StepError {
    let run = || -> Result<std::convert::Infallible, StepError> {
        let copy = |fd: &OwnedFd| fd.try_clone().step("duplicate a descriptor");
        let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty());
        let mut fds = vec![null.step("open /dev/null")?, copy(mouth)?, copy(mouth)?];
        debug_assert_eq!(i32::try_from(fds.len()), Ok(AGENT));
        fds.push(copy(stream)?);
        for fd in &order.fds {
            fds.push(copy(fd)?);
        }
        lay_all(&fds, None)?;
        std::mem::forget(fds);
        nix::sys::signal::SigSet::empty()
            .thread_set_mask()
            .step("unblock signals")?;
        default_signals();
        lock_qemu(plan)?;
        let text = |word: &str| {
            CString::new(word)
                .map_err(std::io::Error::from)
                .step("encode the command line")
        };
        let program = text(&vm.program.to_string_lossy())?;
        let words = std::iter::once("qemu".to_owned()).chain(arguments(vm.accelerator, &order.start));
        let argv = words.map(|word| text(&word)).collect::<Result<Vec<_>, _>>()?;
        let env: [CString; 0] = [];
        nix::unistd::execve(&program, &argv, &env).step("start QEMU")
    };
    match run() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// No capability, no new privileges, none of the dangerous calls that an agent may not make; QEMU puts its own filter on top.
fn lock_qemu(plan: &ShellPlan) -> Result<(), StepError> {
    let walls = &plan.template.walls;
    let filters = [plan.filters.agent.as_slice()];
    let bound = |resource: u32, most: u64| Rlimit {
        resource: u64::from(resource),
        soft: most,
        hard: most,
    };
    let rlimits = [
        bound(libc::RLIMIT_CORE, 1),
        bound(libc::RLIMIT_NOFILE, OPEN_FILES),
        bound(libc::RLIMIT_MEMLOCK, 0),
        bound(libc::RLIMIT_FSIZE, STATE_BYTES),
    ];
    let lock = Lock {
        off: Off(walls.bits().0 | Off::LANDLOCK | if walls.is_off(Wall::Seccomp) { Off::SECCOMP } else { 0 }),
        ruleset: -1,
        filters: &filters,
        watch: &[],
        rlimits: &rlimits,
        expendable: true,
    };
    lock_down(&lock).map_err(|failed| StepError {
        what: format!("lock down QEMU (step {})", failed.step),
        errno: Errno::from_raw_os_error(failed.errno),
        layer: crate::walls::layer_of_step(failed.step),
    })
}

/// The host's ferry reads what the guest says, so it is a process without any power. It ends when either side is at its end.
fn start_ferry(plan: &ShellPlan, begun: Start, stream: OwnedFd, orders: OwnedFd) -> Result<OwnedFd, StepError> {
    match fork_with(0).step("fork the relay process")? {
        Forked::Parent { pidfd, .. } => Ok(pidfd),
        Forked::Child => match carry(plan, begun, stream, orders) {
            Ok(_) => exit_now(0),
            Err(error) => {
                let words = format!("the relay process failed to start: {}\n", crate::step::chain(&error));
                rustix::io::write(rustix::stdio::stderr(), words.as_bytes()).ok();
                exit_now(1)
            }
        },
    }
}

fn carry(plan: &ShellPlan, begun: Start, stream: OwnedFd, orders: OwnedFd) -> Result<ferry::Ended, StepError> {
    let own: Vec<&OwnedFd> = [&plan.agent, &stream, &orders]
        .into_iter()
        .chain(begun.adopted.iter().map(|(_, fd)| fd))
        .collect();
    keep_only(&own)?;
    lock_agent(&plan.template.walls, &plan.filters)?;
    let copy = |fd: &OwnedFd| fd.try_clone().step("duplicate a descriptor");
    Ok(ferry::run(Ferry {
        side: Side::Host,
        channels: vec![copy(&plan.agent)?],
        reads_from: copy(&stream)?,
        writes_to: stream,
        adopted: begun.adopted,
        patient: false,
        holds: Holds {
            orders: Some(orders),
            next: begun.from.next(),
        },
    }))
}

/// Until the ferry ends, which sees the end of the engine and of the machine.
fn stay(plan: ShellPlan, mut order: VmOrder, machine: Machine, ears: &OwnedFd) -> ! {
    if order.fds.len() <= RAM {
        exit_now(1)
    }
    let ram = order.fds.swap_remove(RAM);
    drop((plan.sync, plan.agent, order.fds));
    serve(&machine, plan.keeper, &ram);
    pass_on(ears);
    exit_now(0)
}

/// A pipe that nobody waits for: QEMU throws away what does not fit, and a guest that says much holds nobody up.
fn console() -> Result<(OwnedFd, OwnedFd), Errno> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
}

/// What QEMU and the guest's kernel last said, to the jailer's stderr, of which the engine keeps the end.
fn pass_on(ears: &OwnedFd) {
    let mut said = vec![0; CONSOLE_BYTES];
    if let Ok(count @ 1..) = rustix::io::read(ears, &mut said) {
        let last = &said[count.saturating_sub(LAST_WORDS)..count];
        rustix::io::write(rustix::stdio::stderr(), last).ok();
    }
}
