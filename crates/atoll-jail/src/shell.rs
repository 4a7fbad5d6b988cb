//! A sandbox's first process, from the fork in the spawner to the agent: PID 1 of its own namespaces.
//!
//! Runs on a copy of the spawner's memory, without exec. It builds the sandbox's mounts and says so, for forks of the
//! zygote may enter then; it gives up every power, and only then is it ready. What it becomes is the agent, a function
//! that the binary brings along.

use crate::channel;
use crate::filter::Filters;
use crate::frame::ASKS_FOR_NAMES;
use crate::paths::make_ruleset;
use crate::places::{SCRATCH_PLACES, is_shown};
use crate::plan::{Mode, TemplatePlan, Wall, Walls};
use crate::root::{attach, enter_root, mount_proc, mount_terminals, mount_tmpfs};
use crate::step::{OfWall, Step, StepError, chain};
use crate::sys::lockdown::{Lock, Off, Rlimit, lock_down};
use crate::sys::mounts::{NO_DEV, NO_EXEC, NO_SUID, READ_ONLY, clear_attributes, set_attributes};
use crate::sys::process::{exit_now, join_own_keyring, loopback_up};
use crate::walls::NoWall;
use atoll_core::Limits;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, OFlags};
use rustix::io::Errno;
use rustix::mount::{OpenTreeFlags, open_tree};
use rustix::process::{DumpableBehavior, Gid, Uid};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The one user of every sandbox.
pub(crate) const SANDBOX_ID: u32 = 1000;

/// Whose kernel an agent's commands run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// The host's.
    Linux,
    /// gVisor's, which lets a process set a few limits only.
    Gvisor,
}

/// What the agent gets: its channel, and what it locks its commands down with.
#[derive(Debug)]
pub struct AgentStart {
    pub channel: OwnedFd,
    pub ruleset: Option<OwnedFd>,
    pub env: Vec<(String, String)>,
    /// The root of the scratch file system, which has no place of its own: all the user's places are below it.
    pub scratch: Option<OwnedFd>,
    pub(crate) off: Off,
    /// It has no cgroups: rlimits stand in for them.
    pub(crate) alone: bool,
    pub(crate) kernel: Kernel,
    pub(crate) rlimits: Vec<Rlimit>,
    pub(crate) filters: Rc<Filters>,
    /// Its commands show their calls to the engine.
    pub(crate) watched: bool,
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
            alone: false,
            kernel: Kernel::Linux,
            rlimits: Vec::new(),
            filters: Rc::default(),
            watched: false,
        }
    }

    /// From now on commands start under these limits.
    pub fn set_limits(&mut self, limits: &Limits) {
        self.rlimits = match self.kernel {
            Kernel::Linux => crate::rlimits::of(limits, self.alone),
            Kernel::Gvisor => crate::rlimits::of_gvisor(limits),
        };
    }
}

/// The agent's main function.
pub type AgentMain = fn(AgentStart) -> i32;

pub(crate) struct ShellPlan {
    pub limits: Limits,
    pub template: Rc<TemplatePlan>,
    pub mode: Mode,
    /// An ordinary user's sandbox without cgroups.
    pub alone: bool,
    /// A dry run: contexts show to the engine what they start and whom they reach for.
    pub watched: bool,
    /// A file system on disk; without one, scratch files are in memory.
    pub scratch: Option<OwnedFd>,
    pub agent: OwnedFd,
    /// Where the engine talks to the keeper, if there is one.
    pub keeper: Option<OwnedFd>,
    /// Go (with the cgroups) from the spawner, the answers to it.
    pub sync: OwnedFd,
    pub filters: Rc<Filters>,
    pub main: AgentMain,
}

/// What the agent will want to know of the kernel, asked while its process may still look at itself: kernels before 6.4 tell it
/// in `/proc/self` only, and an agent without an answer dies. The library keeps the answer, and forks inherit it.
pub(crate) fn ask_ahead() {
    rustix::param::clock_ticks_per_second();
}

/// A shell's answers to its spawner: first open, then ready.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum FromShell {
    /// The mounts and the Landlock rules stand; the rules come beside it. A fork may enter and lock itself down.
    Open,
    /// The agent is locked down as well.
    Ready,
    Failed(Failed),
}

/// A failed step as it travels from one process to another.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Failed {
    message: String,
    no_wall: Option<String>,
}

impl Failed {
    pub(crate) fn words(&self) -> &str {
        &self.message
    }

    pub(crate) fn of(error: &StepError) -> Self {
        Self {
            message: chain(error),
            no_wall: NoWall::in_error(error).map(|wall| wall.layer),
        }
    }

    /// A wall that somebody else should have built.
    pub(crate) fn of_wall(layer: &str, message: String) -> Self {
        let no_wall = Some(layer.to_owned());
        Self { message, no_wall }
    }

    pub(crate) fn into_fault(self) -> Box<dyn std::error::Error> {
        match self.no_wall {
            Some(layer) => NoWall::new(&layer, self.message).into(),
            None => self.message.into(),
        }
    }
}

/// Never returns: becomes the agent, or tells what failed and ends.
pub(crate) fn run(plan: ShellPlan) -> ! {
    match set_up(&plan) {
        Ok((ruleset, scratch)) => become_agent(plan, ruleset, scratch),
        Err(error) => {
            let failed = FromShell::Failed(Failed::of(&error));
            channel::send(&plan.sync, &failed, &[]).ok();
            exit_now(1)
        }
    }
}

fn become_agent(plan: ShellPlan, ruleset: Option<OwnedFd>, scratch: OwnedFd) -> ! {
    if channel::send(&plan.sync, &FromShell::Ready, &[]).is_err() {
        exit_now(1)
    }
    let start = AgentStart {
        channel: plan.agent,
        ruleset,
        env: plan.template.env.clone().into_iter().collect(),
        scratch: Some(scratch),
        off: plan.template.walls.bits(),
        alone: plan.alone,
        kernel: Kernel::Linux,
        rlimits: crate::rlimits::of(&plan.limits, plan.alone),
        filters: plan.filters,
        watched: plan.watched,
    };
    // Already closed by number, with everything else of the spawner.
    std::mem::forget(plan.scratch);
    drop(plan.sync);
    exit_now((plan.main)(start))
}

fn set_up(plan: &ShellPlan) -> Result<(Option<OwnedFd>, OwnedFd), StepError> {
    for cgroup in wait_for_go(plan)? {
        rustix::io::write(cgroup, b"0")
            .step("join the sandbox's cgroup")
            .wall("cgroups")?;
    }
    // After joining: from now on the own group looks like the top.
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWCGROUP)
        .step("create a cgroup namespace")
        .wall("namespaces")?;
    become_user().wall("ids")?;
    // After the last change of ids, which would clear it: if the spawner dies, so does the sandbox.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("set the parent-death signal")?;
    // A second lock on nested user namespaces, besides the filter.
    fs::write("/proc/sys/user/max_user_namespaces", "0")
        .step("disable nested user namespaces")
        .wall("namespaces")?;
    let scratch = mount_sandbox(plan).wall("mounts")?;
    loopback_up()
        .step("bring up the loopback interface")
        .wall("namespaces")?;
    nix::unistd::sethostname("sandbox")
        .step("set the hostname")
        .wall("namespaces")?;
    join_own_keyring();
    let ruleset = if plan.template.walls.is_off(Wall::Landlock) {
        None
    } else {
        Some(ruleset(plan.mode, plan.template.root.is_some())?)
    };
    open_gates(plan, ruleset.as_ref())?;
    be_silent()?;
    let own: Vec<&OwnedFd> = [&plan.agent, &plan.sync, &scratch]
        .into_iter()
        .chain(&ruleset)
        .collect();
    keep_only(&own)?;
    lock_agent(&plan.template.walls, &plan.filters)?;
    Ok((ruleset, scratch))
}

/// The spawner has mapped the ids, and the jailer has made the cgroups, which come beside it.
pub(crate) fn wait_for_go(plan: &ShellPlan) -> Result<Vec<OwnedFd>, StepError> {
    channel::receive_bytes(&plan.sync)
        .map(|(_, cgroups)| cgroups)
        .map_err(|_| Errno::PIPE)
        .step("receive a message from the spawner")
}

/// From here on forks may enter, while the agent is still being locked down: no user byte comes before it is.
fn open_gates(plan: &ShellPlan, ruleset: Option<&OwnedFd>) -> Result<(), StepError> {
    let fds: Vec<_> = ruleset.into_iter().map(AsFd::as_fd).collect();
    channel::send(&plan.sync, &FromShell::Open, &fds)
        .map_err(|_| Errno::PIPE)
        .step("report the completed mounts to the spawner")
}

pub(crate) fn become_user() -> Result<(), StepError> {
    let (uid, gid) = (Uid::from_raw(SANDBOX_ID), Gid::from_raw(SANDBOX_ID));
    rustix::thread::set_thread_res_gid(gid, gid, gid).step("switch to the sandbox's group")?;
    rustix::thread::set_thread_res_uid(uid, uid, uid).step("switch to the sandbox's user")
}

/// Returns the root of the scratch file system, which afterwards is mounted nowhere.
fn mount_sandbox(plan: &ShellPlan) -> Result<OwnedFd, StepError> {
    let root = Path::new("/run/tmpl");
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, root, flags).step("clone the template's root")?;
    attach(tree.as_fd(), root).step("mount the template's root")?;
    // While the spawner's /proc is still visible; afterwards the kernel would refuse.
    let options = if plan.template.walls.is_off(Wall::ProcMask) {
        ""
    } else {
        "subset=pid,hidepid=2"
    };
    mount_proc(&root.join("proc"), options)?;
    mount_terminals(&root.join("dev/pts"))?;
    if plan.watched {
        ask_for_names(root)?;
    }
    let scratch = mount_scratch(plan, root)?;
    mount_tmpfs(&root.join("data/input"), &tmpfs_options(64 << 10, 300, SANDBOX_ID))?;
    enter_root(root)?;
    seal_inputs()?;
    Ok(scratch)
}

/// Without a network no name is asked for. In a dry run it is, so that it can be told; nobody answers.
fn ask_for_names(root: &Path) -> Result<(), StepError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let file = open_tree(CWD, root.join(ASKS_FOR_NAMES), flags).step("open the dry-run resolver configuration")?;
    attach(file.as_fd(), &root.join("etc/nsswitch.conf")).step("mount the dry-run resolver configuration")
}

/// One file system with one quota, shown at each place where the user may write.
fn mount_scratch(plan: &ShellPlan, root: &Path) -> Result<OwnedFd, StepError> {
    // Below the old root, with which its own place goes: unmounting it apart would wait for the whole kernel.
    let base = Path::new("/run/scratch");
    fill_scratch(plan, base, SANDBOX_ID, |_, place| {
        is_shown(root, place).then(|| root.join(place))
    })
}

/// The file system at `base`, its directories shown where `at` says, all of it the user's. Returns its root.
pub(crate) fn fill_scratch(
    plan: &ShellPlan,
    base: &Path,
    user: u32,
    at: impl Fn(&str, &str) -> Option<PathBuf>,
) -> Result<OwnedFd, StepError> {
    match &plan.scratch {
        Some(disk) => attach(disk.as_fd(), base).step("mount the scratch disk")?,
        None => mount_tmpfs(
            base,
            &tmpfs_options(plan.limits.scratch.get(), plan.limits.scratch_inodes.get(), user),
        )?,
    }
    for (name, place) in SCRATCH_PLACES {
        let dir = base.join(name);
        fs::create_dir(&dir).step("create a scratch directory")?;
        give(&dir, user)?;
        if let Some(at) = at(name, place) {
            let attributes = NO_SUID | NO_DEV | if *name == "shm" { NO_EXEC } else { 0 };
            show(&dir, attributes, &at, place)?;
        }
    }
    lay_links(&base.join("home"), &plan.template.links, user)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open(base, flags, rustix::fs::Mode::empty()).step("open the scratch root")
}

fn show(dir: &Path, attributes: u64, at: &Path, place: &str) -> Result<(), StepError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, dir, flags).step("clone a scratch directory's mount")?;
    set_attributes(tree.as_fd(), c"", attributes, false).step("set mount attributes on a scratch directory")?;
    attach(tree.as_fd(), at).step(&format!("mount /{place}"))
}

fn lay_links(home: &Path, links: &[(String, String)], user: u32) -> Result<(), StepError> {
    for (at, to) in links {
        let mut place = home.to_owned();
        let mut names = at.split('/').peekable();
        while let Some(name) = names.next() {
            place.push(name);
            if names.peek().is_none() {
                std::os::unix::fs::symlink(to, &place).step("create a symlink in the home directory")?;
            } else if place.exists() {
                continue;
            } else {
                fs::create_dir(&place).step("create a directory in the home directory")?;
            }
            give(&place, user)?;
        }
    }
    Ok(())
}

/// What root has made for the user. The user himself has made what is his already.
fn give(path: &Path, user: u32) -> Result<(), StepError> {
    if rustix::process::geteuid().as_raw() == user {
        return Ok(());
    }
    std::os::unix::fs::lchown(path, Some(user), Some(user)).step("change the owner of a scratch directory")
}

fn tmpfs_options(bytes: u64, inodes: u64, user: u32) -> String {
    format!("size={bytes},nr_inodes={inodes},mode=0755,uid={user},gid={user}")
}

pub(crate) fn ruleset(mode: Mode, is_image: bool) -> Result<OwnedFd, StepError> {
    make_ruleset(mode, is_image).map_err(|error| StepError {
        what: format!("create the Landlock rules ({})", chain(&error)),
        errno: Errno::OPNOTSUPP,
        layer: Some("landlock"),
    })
}

/// Standard input and output lead nowhere.
pub(crate) fn lay_null() -> Result<OwnedFd, StepError> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, rustix::fs::Mode::empty()).step("open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).step("redirect stdio to /dev/null")?;
    rustix::stdio::dup2_stdout(&null).step("redirect stdio to /dev/null")?;
    Ok(null)
}

/// And standard error.
pub(crate) fn be_silent() -> Result<(), StepError> {
    rustix::stdio::dup2_stderr(&lay_null()?).step("redirect stdio to /dev/null")
}

/// Nothing else of the spawner stays open above standard error. Without exec, close-on-exec means nothing.
pub(crate) fn keep_only(own: &[&OwnedFd]) -> Result<(), StepError> {
    use rustix::fd::AsRawFd;
    let mut keep: Vec<u32> = own.iter().map(|fd| fd.as_raw_fd().cast_unsigned()).collect();
    keep.sort_unstable();
    let mut from = 3;
    for fd in keep {
        crate::sys::process::close_from(from, fd)?;
        from = fd + 1;
    }
    crate::sys::process::close_from(from, u32::MAX)
}

/// The agent keeps no capability, cannot be looked into, and cannot make the calls that its own work never needs.
pub(crate) fn lock_agent(walls: &Walls, filters: &Filters) -> Result<(), StepError> {
    let off = Off(walls.bits().0 | Off::LANDLOCK);
    let filters = [filters.agent.as_slice()];
    let lock = Lock {
        off,
        ruleset: -1,
        filters: &filters,
        watch: &[],
        rlimits: &[],
        expendable: false,
    };
    lock_down(&lock).map_err(|failed| StepError {
        what: format!("lock down the agent (step {})", failed.step),
        errno: Errno::from_raw_os_error(failed.errno),
        layer: crate::walls::layer_of_step(failed.step),
    })?;
    if walls.is_off(Wall::Undumpable) {
        return Ok(());
    }
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step("make the agent non-dumpable")
}

/// Opens `/data/input` for new mount points: called in a helper that has joined the sandbox, before user code.
pub(crate) fn unseal_inputs() -> Result<(), StepError> {
    clear_attributes(CWD, c"/data/input", READ_ONLY).step("make /data/input writable")
}

/// Makes `/data/input` read-only.
pub(crate) fn seal_inputs() -> Result<(), StepError> {
    set_attributes(CWD, c"/data/input", READ_ONLY, false).step("make /data/input read-only")
}
