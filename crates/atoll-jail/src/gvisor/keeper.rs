//! The process that keeps one sandbox under gVisor: first of an own pid and mount namespace, from the order to the end.
//!
//! Runs on a copy of the spawner's memory, without exec. It stages what is the sandbox's own, has `runsc` start or restore
//! it in the sandbox's groups, and starts the host's ferry. When any of them ends, it ends; when it is killed, the kernel
//! kills `runsc`'s processes, and their files go with its mounts.

use super::bundle;
use super::save::{self, IMAGE, ROOM};
use super::scratch::{self, SCRATCH};
use crate::channel;
use crate::ferry::{self, Ferry, Holds, Side};
use crate::oci::bundle::{PLACES, ROOT};
use crate::oci::inside::AgentPlan;
use crate::oci::keeper::{BUNDLE, STATE, await_runtime, begin_runtime, stage};
use crate::oci::workshop::SAVED;
use crate::order::{FromKeeper, Origin, Start, ToKeeper};
use crate::places;
use crate::plan::{Mode, RuntimePlan};
use crate::shell::{Failed, FromShell, SANDBOX_ID, ShellPlan, keep_only, lay_null, lock_agent, wait_for_go};
use crate::step::{OfWall, Step, StepError, chain};
use crate::sys::process::{Forked, exit_now, fork_with};
use nix::sys::wait::{WaitPidFlag, waitpid};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Gid, Uid};
use std::fs::{self, File};
use std::path::Path;

/// The host ferry's user: an id of the template's namespace that nobody else has.
const FERRY_ID: u32 = 2;

/// What `runsc` is told besides the platform: no network, and no groups but those that it is in.
const ALWAYS: [&str; 7] = [
    "--network=none",
    "--ignore-cgroups",
    "--file-access-mounts=shared",
    "--overlay2=none",
    "--host-uds=none",
    "--root",
    STATE,
];
/// Where `runsc` tells the number of the sandbox's kernel.
const PID: &str = "/tmp/pid";

/// What a sandbox is restored with, again and again: its groups, its ends of the line, where its first process complains.
pub(super) struct Kept<'a> {
    pub(super) runtime: &'a RuntimePlan,
    /// What its files may take.
    pub(super) scratch_bytes: u64,
    /// To the ferry.
    pub(super) orders: OwnedFd,
    cgroups: Vec<OwnedFd>,
    /// The sandbox's ends. Held here as well, so that the line outlives a restore in place.
    ends: Vec<OwnedFd>,
    ears: OwnedFd,
    /// The process that is the sandbox's kernel.
    kernel: Option<OwnedFd>,
    /// How often it was restored in place; `runsc` knows each by a name of its own.
    times: u32,
}

/// The host's ends of the line.
struct Line {
    reads_from: OwnedFd,
    writes_to: OwnedFd,
    orders: OwnedFd,
}

impl Kept<'_> {
    pub(super) fn name(&self) -> String {
        format!("sandbox-{}", self.times)
    }

    pub(super) fn restore(&mut self, from: &str) -> Result<(), Failed> {
        forget(&self.name());
        self.times += 1;
        self.run(&["restore", "-image-path", from])
    }

    fn run(&mut self, command: &[&str]) -> Result<(), Failed> {
        let failed = |error: StepError| Failed::of(&error);
        let name = self.name();
        let rest = ["-detach", "-pid-file", PID, "-bundle", BUNDLE, &name];
        let argv = arguments(self.runtime, &[command, &rest].concat());
        let ends: Vec<&OwnedFd> = self.ends.iter().collect();
        let begun = begin_runtime(&argv, &self.cgroups, &ends).map_err(failed)?;
        match await_runtime(&begun, &self.ears).map_err(failed)? {
            (0, _) => {
                self.kernel = Some(started().map_err(failed)?);
                Ok(())
            }
            (_, words) => Err(Failed::of_wall(
                "gvisor",
                format!("runsc {} failed: {words}", command[0]),
            )),
        }
    }

    /// Waits until nothing of the sandbox's kernel is left, for as long as it may take.
    pub(super) fn await_end(&self, within: &Timespec) {
        if let Some(kernel) = &self.kernel {
            let mut fds = [PollFd::new(kernel, PollFlags::IN)];
            poll(&mut fds, Some(within)).ok();
        }
        reap();
    }
}

/// What `runsc` has written down of one that is over.
fn forget(name: &str) {
    for entry in fs::read_dir(STATE).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(name) {
            fs::remove_file(entry.path()).ok();
        }
    }
}

fn started() -> Result<OwnedFd, StepError> {
    let what = "find the gVisor kernel process";
    let pid: i32 = fs::read_to_string(PID).step(what)?.trim().parse().unwrap_or(0);
    let pid = rustix::process::Pid::from_raw(pid).ok_or(Errno::SRCH).step(what)?;
    rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).step(what)
}

/// Orphans of the runtime are this process's children.
fn reap() {
    while let Ok(status) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
        if status.pid().is_none() {
            break;
        }
    }
}

/// Never returns: ends with the sandbox, or tells what failed.
pub(crate) fn run(plan: ShellPlan, runtime: &RuntimePlan) -> ! {
    match start(&plan, runtime) {
        Ok((kept, line, begun)) => stay(plan, kept, line, begun),
        Err(error) => {
            channel::send(&plan.sync, &FromShell::Failed(error), &[]).ok();
            exit_now(1)
        }
    }
}

fn start<'a>(plan: &ShellPlan, runtime: &'a RuntimePlan) -> Result<(Kept<'a>, Line, Start), Failed> {
    let failed = |error: StepError| Failed::of(&error);
    let (cgroups, mut begun) = prepare(plan).map_err(failed)?;
    let pipe = || pipe_with(PipeFlags::CLOEXEC).step("create a pipe").map_err(failed);
    let ((input, writes_to), (reads_from, output), (ears, mouth)) = (pipe()?, pipe()?, pipe()?);
    let orders = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
    let (orders, taken) = orders.step("create a channel to the relay process").map_err(failed)?;
    let mut kept = Kept {
        runtime,
        scratch_bytes: plan.limits.scratch.get(),
        orders,
        cgroups,
        ends: vec![input, output, mouth],
        ears,
        kernel: None,
        times: 0,
    };
    match begun.from {
        Origin::Nothing => kept.run(&["run"])?,
        Origin::Ready => kept.restore(SAVED)?,
        Origin::Snapshot { .. } => {
            take_image(std::mem::take(&mut begun.files)).map_err(failed)?;
            kept.restore(ROOM)?;
            save::let_go_of_room();
        }
    }
    let line = Line {
        reads_from,
        writes_to,
        orders: taken,
    };
    Ok((kept, line, begun))
}

/// `runsc` takes a directory, and the file of a snapshot has no name here: its bytes are brought over.
fn take_image(files: Vec<OwnedFd>) -> Result<(), StepError> {
    let what = "read the snapshot";
    let Ok([image, files]) = <[OwnedFd; 2]>::try_from(files) else {
        return Err(Errno::BADF).step(what);
    };
    scratch::lay(File::from(files), Path::new(PLACES))?;
    save::make_room()?;
    let mut to = File::create_new(Path::new(ROOM).join(IMAGE)).step(what)?;
    std::io::copy(&mut File::from(image), &mut to).step(what)?;
    Ok(())
}

pub(super) fn arguments<'a>(runtime: &'a RuntimePlan, command: &[&'a str]) -> Vec<&'a str> {
    let options = runtime.options.iter().map(String::as_str);
    std::iter::once("runsc")
        .chain(options)
        .chain(ALWAYS)
        .chain(command.iter().copied())
        .collect()
}

/// Returns the groups to join, and how it starts.
fn prepare(plan: &ShellPlan) -> Result<(Vec<OwnedFd>, Start), StepError> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("set the parent-death signal")?;
    lay_null()?;
    let own: Vec<&OwnedFd> = [&plan.agent, &plan.sync]
        .into_iter()
        .chain(&plan.scratch)
        .chain(&plan.keeper)
        .collect();
    keep_only(&own)?;
    let cgroups = wait_for_go(plan)?;
    drop(stage(plan, SANDBOX_ID).wall("mounts")?);
    let told = serde_json::to_string(&AgentPlan::of(plan))
        .map_err(std::io::Error::from)
        .step("write the agent's configuration")?;
    let places: Vec<_> = places::shown(Path::new(ROOT)).collect();
    let config = bundle::config(&told, &places);
    fs::write(format!("{BUNDLE}/config.json"), config.to_string()).step("write the OCI bundle")?;
    let begun = Start::hear(plan.keeper.as_ref())?;
    if begun.from == Origin::Ready {
        let kept = File::open(Path::new(SAVED).join(SCRATCH)).step("open the saved scratch files")?;
        scratch::lay(kept, Path::new(PLACES))?;
    }
    Ok((cgroups, begun))
}

fn stay(mut plan: ShellPlan, mut kept: Kept<'_>, line: Line, begun: Start) -> ! {
    let ferry = match start_ferry(&plan, line, begun) {
        Ok(ferry) => ferry,
        Err(error) => {
            channel::send(&plan.sync, &FromShell::Failed(Failed::of(&error)), &[]).ok();
            exit_now(1)
        }
    };
    if channel::send(&plan.sync, &FromShell::Ready, &[]).is_err() {
        exit_now(1)
    }
    let engine = plan.keeper.take();
    drop(plan);
    serve(&mut kept, engine, &ferry);
    exit_now(0)
}

/// The host's ferry reads what the sandbox says, so it is a process without any power.
fn start_ferry(plan: &ShellPlan, line: Line, begun: Start) -> Result<OwnedFd, StepError> {
    match fork_with(0).step("fork the relay process")? {
        Forked::Parent { pidfd, .. } => Ok(pidfd),
        Forked::Child => match carry(plan, line, begun) {
            Ok(ferry::Ended::Here | ferry::Ended::There) => exit_now(0),
            Ok(ended) => {
                let words = format!("the relay process exited: {ended}\n");
                rustix::io::write(rustix::stdio::stderr(), words.as_bytes()).ok();
                exit_now(1)
            }
            Err(error) => {
                let words = format!("the relay process failed to start: {}\n", chain(&error));
                rustix::io::write(rustix::stdio::stderr(), words.as_bytes()).ok();
                exit_now(1)
            }
        },
    }
}

fn carry(plan: &ShellPlan, line: Line, begun: Start) -> Result<ferry::Ended, StepError> {
    let own: Vec<&OwnedFd> = [&plan.agent, &line.reads_from, &line.writes_to, &line.orders]
        .into_iter()
        .chain(begun.adopted.iter().map(|(_, fd)| fd))
        .collect();
    keep_only(&own)?;
    if plan.mode == Mode::Root {
        let (uid, gid) = (Uid::from_raw(FERRY_ID), Gid::from_raw(FERRY_ID));
        rustix::thread::set_thread_res_gid(gid, gid, gid).step("switch to the relay's group")?;
        rustix::thread::set_thread_res_uid(uid, uid, uid).step("switch to the relay's user")?;
    }
    // After the change of ids, which would clear it.
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .step("set the parent-death signal")?;
    lock_agent(&plan.template.walls, &plan.filters)?;
    let next = begun.from.next();
    Ok(ferry::run(Ferry {
        side: Side::Host,
        channels: vec![plan.agent.try_clone().step("duplicate a descriptor")?],
        reads_from: line.reads_from,
        writes_to: line.writes_to,
        adopted: begun.adopted,
        patient: false,
        holds: Holds {
            orders: Some(line.orders),
            next,
        },
    }))
}

/// Until the ferry ends, which sees the end of either side first. The sandbox's end is the end of its kernel; then the line
/// is let go of, and what was said before still counts.
fn serve(kept: &mut Kept<'_>, mut engine: Option<OwnedFd>, ferry: &OwnedFd) {
    let mut hears = true;
    loop {
        let nothing = ferry.as_fd();
        let ears_fd = if hears { kept.ears.as_fd() } else { nothing };
        let engine_fd = engine.as_ref().map_or(nothing, AsFd::as_fd);
        let kernel_fd = kept.kernel.as_ref().map_or(nothing, AsFd::as_fd);
        let mut fds = [nothing, ears_fd, engine_fd, kernel_fd].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return,
        }
        let [ended, spoke, asked, over] = fds.each_ref().map(|fd| !fd.revents().is_empty());
        reap();
        if spoke && hears {
            hears = pass_on(&kept.ears);
        } else if ended {
            return;
        }
        if over && !asked && kept.kernel.take().is_some() {
            kept.ends.clear();
        }
        if asked && let Some(channel) = &engine {
            match obey(kept, channel) {
                Some(true) => {}
                Some(false) => kept.ends.clear(),
                None => engine = None,
            }
        }
    }
}

/// What the agent complains of before it is one, to the jailer's stderr, of which the engine keeps the end.
fn pass_on(ears: &OwnedFd) -> bool {
    let mut piece = [0; 1024];
    match rustix::io::read(ears, &mut piece) {
        Ok(count @ 1..) => {
            rustix::io::write(rustix::stdio::stderr(), &piece[..count]).ok();
            true
        }
        _ => false,
    }
}

/// Whether the sandbox goes on; `None` if the engine is gone.
fn obey(kept: &mut Kept<'_>, engine: &OwnedFd) -> Option<bool> {
    let Ok((ToKeeper::Save { goes_on }, fds)) = channel::receive::<ToKeeper>(engine) else {
        return None;
    };
    let answer = save::save(kept, goes_on, fds);
    let lives = goes_on && !matches!(answer, FromKeeper::Failed { over: true, .. });
    channel::send(engine, &answer, &[]).ok()?;
    Some(lives)
}
