//! The process that keeps one container: first of an own pid and mount namespace, from the order to the container's end.
//!
//! Runs on a copy of the spawner's memory, without exec, and stays the container's parent. It stages what is the sandbox's
//! own, has the runtime make the container, and waits. When it is killed, the kernel kills the runtime and the container,
//! however far they are, and its mounts, with the runtime's own files on them, are gone.

use super::bundle::{self, Bundle, PLACES, ROOT, SCRATCH, STAGE};
use super::inside::AgentPlan;
use super::workshop::RUNTIME;
use crate::channel;
use crate::places::{self, SCRATCH_PLACES};
use crate::plan::{RuntimeKind, RuntimePlan};
use crate::root::{mount_proc, mount_tmpfs};
use crate::shell::{Failed, FromShell, ShellPlan, fill_scratch, keep_only, lay_null, wait_for_go};
use crate::step::{OfWall, Step, StepError};
use crate::sys::process::{Forked, default_signals, exit_now, fork_with, join_namespaces, lay_all};
use nix::sys::wait::{WaitStatus, waitpid};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, UnmountFlags, mount_change, unmount};
use rustix::pipe::PipeFlags;
use std::ffi::CString;
use std::fs;
use std::path::Path;

/// Where the keeper mounts inputs, and a place of the scratch file system, by which its size is changed.
pub(crate) use super::bundle::INPUTS;
pub(crate) const ROOM: &str = "/tmp/places/home";

pub(crate) const BUNDLE: &str = "/tmp/bundle";
pub(crate) const STATE: &str = "/tmp/state";
const PID: &str = "/tmp/pid";
/// How much of a runtime's complaint is kept.
const COMPLAINT_BYTES: usize = 4096;

/// Never returns: ends with the container, or tells what failed.
pub(crate) fn run(plan: ShellPlan, runtime: &RuntimePlan, host_id: u32) -> ! {
    match start(&plan, runtime, host_id) {
        Ok(ears) => stay(plan, &ears),
        Err(error) => {
            channel::send(&plan.sync, &FromShell::Failed(error), &[]).ok();
            exit_now(1)
        }
    }
}

/// Returns where the container's first process tells what it fails at.
fn start(plan: &ShellPlan, runtime: &RuntimePlan, host_id: u32) -> Result<OwnedFd, Failed> {
    let failed = |error: StepError| Failed::of(&error);
    let (cgroups, beside) = prepare(plan, runtime, host_id).map_err(failed)?;
    let (ears, mouth) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .step("create a pipe")
        .map_err(failed)?;
    // Never a file of the host: runtimes give what they find there to the container's user.
    let [agent, agent_plan, scratch] = &beside;
    let fds = [&mouth, &mouth, &mouth, agent, agent_plan, scratch];
    let argv = arguments(runtime.kind);
    let begun = begin_runtime(&argv, &cgroups, &fds).map_err(failed)?;
    drop(mouth);
    let (code, words) = await_runtime(&begun, &ears).map_err(failed)?;
    match code {
        0 => forbid_nesting().map(|()| ears).map_err(failed),
        _ => Err(Failed::of_wall(
            "runtime",
            format!("{} failed: {words}", runtime.kind.as_str()),
        )),
    }
}

/// The groups to join, and what becomes descriptors 3, 4 and 5 of the agent.
fn prepare(plan: &ShellPlan, runtime: &RuntimePlan, host_id: u32) -> Result<(Vec<OwnedFd>, [OwnedFd; 3]), StepError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("set the parent-death signal")?;
    let own: Vec<&OwnedFd> = [&plan.agent, &plan.sync].into_iter().chain(&plan.scratch).collect();
    lay_null()?;
    keep_only(&own)?;
    let cgroups = wait_for_go(plan)?;
    let scratch = stage(plan, host_id).wall("mounts")?;
    let places: Vec<_> = places::shown(Path::new(ROOT)).collect();
    let bundle = Bundle {
        kind: runtime.kind,
        mode: plan.mode,
        host_id,
        walls: &plan.template.walls,
        places: &places,
    };
    let config = bundle::config(&bundle)
        .map_err(|_| Errno::INVAL)
        .step("write the seccomp profile")?;
    fs::write(format!("{BUNDLE}/config.json"), config.to_string()).step("write the OCI bundle")?;
    let agent = plan.agent.try_clone().step("duplicate a descriptor")?;
    Ok((cgroups, [agent, agent_plan(plan)?, scratch]))
}

/// What is this sandbox's own: scratch places, inputs, the runtime's files. Returns the root of the scratch.
pub(crate) fn stage(plan: &ShellPlan, host_id: u32) -> Result<OwnedFd, StepError> {
    mount_proc(Path::new("/proc"), "")?;
    mount_tmpfs(Path::new(STAGE), "size=4m,nr_inodes=1k,mode=0755")?;
    for dir in [INPUTS, SCRATCH, PLACES, BUNDLE, STATE] {
        fs::create_dir(dir).step(&format!("create {dir}"))?;
    }
    mount_tmpfs(Path::new(INPUTS), "size=64k,nr_inodes=300,mode=0755")?;
    mount_change(INPUTS, MountPropagationFlags::SHARED).step("enable mount propagation for inputs")?;
    for (name, _) in SCRATCH_PLACES {
        fs::create_dir(Path::new(PLACES).join(name)).step("create a scratch directory")?;
    }
    let base = Path::new(SCRATCH);
    let root = fill_scratch(plan, base, host_id, |name, _| Some(Path::new(PLACES).join(name)))?;
    // From its root no path leads to the stage.
    unmount(base, UnmountFlags::DETACH).step("unmount the scratch root")?;
    Ok(root)
}

fn agent_plan(plan: &ShellPlan) -> Result<OwnedFd, StepError> {
    let what = "write the agent's configuration";
    let body = serde_json::to_vec(&AgentPlan::of(plan))
        .map_err(std::io::Error::from)
        .step(what)?;
    let file = rustix::fs::memfd_create("plan", MemfdFlags::CLOEXEC).step(what)?;
    rustix::io::write(&file, &body).step(what)?;
    rustix::fs::seek(&file, rustix::fs::SeekFrom::Start(0)).step(what)?;
    Ok(file)
}

/// Starts the runtime in these groups, with these descriptors: 0, 1, 2 ….
pub(crate) fn begin_runtime(argv: &[&str], cgroups: &[OwnedFd], fds: &[&OwnedFd]) -> Result<(i32, OwnedFd), StepError> {
    match fork_with(0).step("fork the container runtime")? {
        Forked::Parent { pid, pidfd } => Ok((pid, pidfd)),
        Forked::Child => {
            let failed = become_runtime(argv, cgroups, fds);
            let words = crate::step::chain(&failed);
            rustix::io::write(rustix::stdio::stderr(), words.as_bytes()).ok();
            exit_now(127)
        }
    }
}

/// Waits until it has done its work. Its exit code, and its words.
pub(crate) fn await_runtime((pid, pidfd): &(i32, OwnedFd), ears: &OwnedFd) -> Result<(i32, String), StepError> {
    let words = listen(pidfd, ears)?;
    let code = match waitpid(nix::unistd::Pid::from_raw(*pid), None).step("wait for the container runtime")? {
        WaitStatus::Exited(_, code) => code,
        _ => 128,
    };
    Ok((code, words))
}

fn become_runtime(argv: &[&str], cgroups: &[OwnedFd], fds: &[&OwnedFd]) -> StepError {
    let run = || -> Result<std::convert::Infallible, StepError> {
        for cgroup in cgroups {
            rustix::io::write(cgroup, b"0")
                .step("join the sandbox's cgroup")
                .wall("cgroups")?;
        }
        let copy = |fd: &&OwnedFd| fd.try_clone().step("duplicate a descriptor");
        let fds = fds.iter().map(copy).collect::<Result<Vec<_>, _>>()?;
        lay_all(&fds, None)?;
        std::mem::forget(fds);
        nix::sys::signal::SigSet::empty()
            .thread_set_mask()
            .step("unblock signals")?;
        default_signals();
        let text = |word: &&str| {
            CString::new(*word)
                .map_err(std::io::Error::from)
                .step("encode the command line")
        };
        let argv = argv.iter().map(text).collect::<Result<Vec<_>, _>>()?;
        let env = [
            c"PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
            c"HOME=/tmp".to_owned(),
        ];
        let program = text(&RUNTIME)?;
        nix::unistd::execve(&program, &argv, &env).step("start the container runtime")
    };
    match run() {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

/// The groups are joined before; neither runtime may look for others.
fn arguments(kind: RuntimeKind) -> Vec<&'static str> {
    let alone: &[&str] = match kind {
        RuntimeKind::Crun => &["crun", "--cgroup-manager=disabled"],
        RuntimeKind::Runc => &["runc", "--rootless", "true"],
        RuntimeKind::Kata | RuntimeKind::Runsc => &[kind.as_str()],
    };
    let rest = ["--root", STATE, "run", "--detach", "--preserve-fds", "3"];
    let which = ["--pid-file", PID, "--bundle", BUNDLE, "sandbox"];
    [alone, &rest, &which].concat()
}

/// A second lock on nested user namespaces, besides the filters. No runtime has a word for it, so a helper joins the
/// container's user namespace and turns it; no code has come by then.
fn forbid_nesting() -> Result<(), StepError> {
    let what = "disable nested user namespaces";
    let pid: i32 = fs::read_to_string(PID).step(what)?.trim().parse().unwrap_or(0);
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::SRCH).step(what)?;
    let first = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).step(what)?;
    let helper = match fork_with(0).step(what)? {
        Forked::Parent { pid, .. } => pid,
        Forked::Child => {
            let turned = join_namespaces(first.as_fd(), libc::CLONE_NEWUSER)
                .step(what)
                .and_then(|()| fs::write("/proc/sys/user/max_user_namespaces", "0").step(what));
            exit_now(turned.err().map_or(0, |error| error.errno.raw_os_error()))
        }
    };
    match waitpid(nix::unistd::Pid::from_raw(helper), None).step(what)? {
        WaitStatus::Exited(_, 0) => Ok(()),
        WaitStatus::Exited(_, errno) => Err(Errno::from_raw_os_error(errno)).step(what).wall("namespaces"),
        _ => Err(Errno::SRCH).step(what),
    }
}

/// What the runtime says until it ends. The container inherits the pipe and may hold it longer.
fn listen(pidfd: &OwnedFd, ears: &OwnedFd) -> Result<String, StepError> {
    let mut words = Vec::new();
    let mut open = true;
    loop {
        let interest = if open { PollFlags::IN } else { PollFlags::empty() };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN), PollFd::new(ears, interest)];
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno).step("wait for the container runtime"),
        }
        let (ended, spoke) = (!fds[0].revents().is_empty(), fds[1].revents().contains(PollFlags::IN));
        if spoke {
            let mut piece = [0; 1024];
            let count = rustix::io::read(ears, &mut piece).step("read the container runtime's output")?;
            let room = COMPLAINT_BYTES.saturating_sub(words.len());
            words.extend_from_slice(&piece[..count.min(room)]);
            open = count > 0;
        } else if ended {
            return Ok(String::from_utf8_lossy(&words).trim().to_owned());
        } else if fds[1].revents().contains(PollFlags::HUP) {
            open = false;
        }
    }
}

/// Waits for the end of the container, whose first process is this process's child now.
fn stay(plan: ShellPlan, ears: &OwnedFd) -> ! {
    if channel::send(&plan.sync, &FromShell::Ready, &[]).is_err() {
        exit_now(1)
    }
    drop((plan.sync, plan.agent, plan.scratch));
    pass_on(ears);
    loop {
        match waitpid(None, None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(_) => exit_now(0),
        }
    }
}

/// What the agent complains of before it is one, to the jailer's stderr, of which the engine keeps the end. A working one
/// closes the pipe.
fn pass_on(ears: &OwnedFd) {
    let mut piece = [0; 1024];
    while let Ok(count @ 1..) = rustix::io::read(ears, &mut piece) {
        rustix::io::write(rustix::stdio::stderr(), &piece[..count]).ok();
    }
}
