//! A sandbox's first process, from the fork in the spawner to the agent: PID 1 of its own namespaces.
//!
//! Runs on a copy of the spawner's memory, without exec. It builds the sandbox's mounts, gives up every power, and
//! only then answers. What it becomes is the agent, a function that the binary brings along.

use crate::channel;
use crate::paths::make_ruleset;
use crate::plan::{Mode, Wall, Walls};
use crate::root::{attach, enter_root, mount_proc, mount_terminals, mount_tmpfs};
use crate::step::{Step, StepError, chain};
use crate::sys::lockdown::{Lock, Off, lock_down};
use crate::sys::mounts::{NO_DEV, NO_EXEC, NO_SUID, READ_ONLY, clear_attributes, set_attributes};
use crate::sys::process::{exit_now, join_own_keyring, loopback_up};
use atoll_core::Limits;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, UnmountFlags, open_tree, unmount};
use rustix::process::{DumpableBehavior, Gid, Uid};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// The one user of every sandbox.
pub(crate) const SANDBOX_ID: u32 = 1000;

/// What the agent gets: its channel, and what it locks its commands down with.
#[derive(Debug)]
pub struct AgentStart {
    pub channel: OwnedFd,
    pub ruleset: Option<OwnedFd>,
    pub env: Vec<(String, String)>,
    /// The root of the scratch file system, which has no place of its own: all the user's places are below it.
    pub scratch: Option<OwnedFd>,
    pub(crate) off: Off,
    pub(crate) filters: [Vec<u8>; 2],
    pub(crate) rlimits: Vec<crate::sys::lockdown::Rlimit>,
}

impl AgentStart {
    /// An agent outside of any sandbox, for tests of its work: the walls that it cannot have are named with the reason.
    pub fn outside(channel: OwnedFd, env: Vec<(String, String)>, walls: &Walls) -> Self {
        Self {
            channel,
            ruleset: None,
            env,
            scratch: None,
            off: walls.bits(),
            filters: [Vec::new(), Vec::new()],
            rlimits: Vec::new(),
        }
    }
}

/// The agent's main function.
pub type AgentMain = fn(AgentStart) -> i32;

pub(crate) struct ShellPlan {
    pub limits: Limits,
    pub walls: Walls,
    pub mode: Mode,
    pub links: Vec<(String, String)>,
    pub env: Vec<(String, String)>,
    pub cgroups: Vec<OwnedFd>,
    /// A file system on disk; without one, scratch files are in memory.
    pub scratch: Option<OwnedFd>,
    pub agent: OwnedFd,
    /// Go from the spawner, ready (with the ruleset) to it.
    pub sync: OwnedFd,
    pub filters: crate::filter::Filters,
    pub main: AgentMain,
}

/// A shell's answer to its spawner.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FromShell {
    Ready,
    Failed { message: String },
}

/// Never returns: becomes the agent, or tells what failed and ends.
pub(crate) fn run(plan: ShellPlan) -> ! {
    match set_up(&plan) {
        Ok((ruleset, scratch)) => become_agent(plan, ruleset, scratch),
        Err(error) => {
            let failed = FromShell::Failed { message: chain(&error) };
            channel::send(&plan.sync, &failed, &[]).ok();
            exit_now(1)
        }
    }
}

fn become_agent(plan: ShellPlan, ruleset: Option<OwnedFd>, scratch: OwnedFd) -> ! {
    let fds: Vec<_> = ruleset.iter().map(AsFd::as_fd).collect();
    if channel::send(&plan.sync, &FromShell::Ready, &fds).is_err() {
        exit_now(1)
    }
    let start = AgentStart {
        channel: plan.agent,
        ruleset,
        env: plan.env,
        scratch: Some(scratch),
        off: plan.walls.bits(),
        filters: [plan.filters.allow, plan.filters.deny],
        rlimits: crate::rlimits::of(&plan.limits, plan.mode),
    };
    // Already closed by number, with everything else of the spawner.
    std::mem::forget((plan.cgroups, plan.scratch));
    drop(plan.sync);
    exit_now((plan.main)(start))
}

fn set_up(plan: &ShellPlan) -> Result<(Option<OwnedFd>, OwnedFd), StepError> {
    for cgroup in &plan.cgroups {
        rustix::io::write(cgroup, b"0").step("join the sandbox's cgroup")?;
    }
    // After joining: from now on the own group looks like the top.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWCGROUP).step("make a cgroup namespace")?;
    wait_for_go(plan)?;
    become_user()?;
    // After the last change of ids, which would clear it: if the spawner dies, so does the sandbox.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL)).step("tie to the spawner")?;
    // A second lock on nested user namespaces, besides the filter.
    fs::write("/proc/sys/user/max_user_namespaces", "0").step("forbid nested user namespaces")?;
    let scratch = mount_sandbox(plan)?;
    loopback_up().step("switch loopback on")?;
    nix::unistd::sethostname("sandbox").step("set the host name")?;
    join_own_keyring();
    let ruleset = if plan.walls.is_off(Wall::Landlock) {
        None
    } else {
        Some(ruleset()?)
    };
    close_others(plan, ruleset.as_ref(), &scratch)?;
    lock_agent(plan)?;
    Ok((ruleset, scratch))
}

fn wait_for_go(plan: &ShellPlan) -> Result<(), StepError> {
    channel::receive_bytes(&plan.sync)
        .map(|_| ())
        .map_err(|_| Errno::PIPE)
        .step("hear from the spawner")
}

pub(crate) fn become_user() -> Result<(), StepError> {
    let (uid, gid) = (Uid::from_raw(SANDBOX_ID), Gid::from_raw(SANDBOX_ID));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("become the sandbox's group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("become the sandbox's user")
}

/// Returns the root of the scratch file system, which afterwards is mounted nowhere.
fn mount_sandbox(plan: &ShellPlan) -> Result<OwnedFd, StepError> {
    let root = Path::new("/run/tmpl");
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, root, flags).step("copy the template's root")?;
    attach(tree.as_fd(), root).step("mount the template's root")?;
    // While the spawner's /proc is still visible; afterwards the kernel would refuse.
    let options = if plan.walls.is_off(Wall::ProcMask) {
        ""
    } else {
        "subset=pid,hidepid=2"
    };
    mount_proc(&root.join("proc"), options)?;
    mount_terminals(&root.join("dev/pts"))?;
    let scratch = mount_scratch(plan, root)?;
    mount_tmpfs(&root.join("data/input"), &tmpfs_options(64 << 10, 300))?;
    enter_root(root)?;
    seal_inputs()?;
    Ok(scratch)
}

/// Where the user may write: the directory of the scratch file system, and where it is shown.
pub const SCRATCH_PLACES: &[(&str, &str)] = &[
    ("home", "home/user"),
    ("tmp", "tmp"),
    ("out", "data/output"),
    ("mnt", "mnt/data"),
    ("shm", "dev/shm"),
];

/// One file system with one quota, shown at each place where the user may write.
fn mount_scratch(plan: &ShellPlan, root: &Path) -> Result<OwnedFd, StepError> {
    let base = root.join("run/scratch");
    match &plan.scratch {
        Some(disk) => attach(disk.as_fd(), &base).step("mount the scratch disk")?,
        None => mount_tmpfs(
            &base,
            &tmpfs_options(plan.limits.scratch.get(), plan.limits.scratch_inodes.get()),
        )?,
    }
    for (name, place) in SCRATCH_PLACES {
        let dir = base.join(name);
        fs::create_dir(&dir).step("make a scratch directory")?;
        let tree = open_tree(
            CWD,
            &dir,
            OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC,
        )
        .step("take a scratch directory")?;
        let attributes = NO_SUID | NO_DEV | if *name == "shm" { NO_EXEC } else { 0 };
        set_attributes(tree.as_fd(), c"", attributes, false).step("protect a scratch directory")?;
        attach(tree.as_fd(), &root.join(place)).step(&format!("mount /{place}"))?;
    }
    lay_links(&base.join("home"), &plan.links)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let scratch = rustix::fs::open(&base, flags, rustix::fs::Mode::empty()).step("keep the scratch root")?;
    unmount(&base, UnmountFlags::DETACH).step("hide the scratch root")?;
    Ok(scratch)
}

fn lay_links(home: &Path, links: &[(String, String)]) -> Result<(), StepError> {
    for (at, to) in links {
        let at = home.join(at);
        if let Some(parent) = at.parent() {
            fs::create_dir_all(parent).step("make a directory of the home")?;
        }
        std::os::unix::fs::symlink(to, &at).step("lay a link of the home")?;
    }
    Ok(())
}

fn tmpfs_options(bytes: u64, inodes: u64) -> String {
    format!("size={bytes},nr_inodes={inodes},mode=0755,uid={SANDBOX_ID},gid={SANDBOX_ID}")
}

fn ruleset() -> Result<OwnedFd, StepError> {
    make_ruleset().map_err(|error| StepError {
        what: format!("make the Landlock rules ({})", chain(&error)),
        errno: Errno::OPNOTSUPP,
    })
}

/// Nothing of the spawner stays open. Without exec, close-on-exec means nothing.
fn close_others(plan: &ShellPlan, ruleset: Option<&OwnedFd>, scratch: &OwnedFd) -> Result<(), StepError> {
    use rustix::fd::AsRawFd;
    let mut keep: Vec<i32> = [&plan.agent, &plan.sync, scratch]
        .into_iter()
        .chain(ruleset)
        .map(AsRawFd::as_raw_fd)
        .collect();
    keep.sort_unstable();
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    for slot in [
        rustix::stdio::dup2_stdin,
        rustix::stdio::dup2_stdout,
        rustix::stdio::dup2_stderr,
    ] {
        slot(&null).step("lay /dev/null")?;
    }
    let mut from = 3;
    for fd in keep.into_iter().map(i32::cast_unsigned) {
        crate::sys::process::close_from(from, fd)?;
        from = fd + 1;
    }
    std::mem::forget(null);
    crate::sys::process::close_from(from, u32::MAX)
}

/// The agent keeps no capability, cannot be looked into, and cannot make the calls that its own work never needs.
fn lock_agent(plan: &ShellPlan) -> Result<(), StepError> {
    let off = Off(plan.walls.bits().0 | Off::LANDLOCK);
    let filters = [plan.filters.agent.as_slice()];
    let lock = Lock {
        off,
        ruleset: -1,
        filters: &filters,
        rlimits: &[],
        expendable: false,
    };
    lock_down(&lock).map_err(|failed| StepError {
        what: format!("lock the agent down at step {}", failed.step),
        errno: Errno::from_raw_os_error(failed.errno),
    })?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step("hide the agent's memory")
}

/// Opens `/data/input` for new mount points: called in a helper that has joined the sandbox, before user code.
pub(crate) fn unseal_inputs() -> Result<(), StepError> {
    clear_attributes(CWD, c"/data/input", READ_ONLY).step("unseal /data/input")
}

/// Makes `/data/input` read-only.
pub(crate) fn seal_inputs() -> Result<(), StepError> {
    set_attributes(CWD, c"/data/input", READ_ONLY, false).step("seal /data/input")
}
