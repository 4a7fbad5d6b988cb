//! The first process of a guest, for the rest of its life: makes the one sandbox, and does what the engine asks.
//!
//! The sandbox is one of the jail, with the same walls, made by the same code under the guest's own kernel. This process is
//! the guest's root. The agent's channel goes over one serial port, carried by a process of its own; questions of the engine
//! come over the other. When the agent, its carrier or the host goes, the machine switches itself off.

use super::control::{Counted, FromGuest, GuestPlan, ToGuest, read, write};
use super::init::{IMAGE, PLAN, TEMPLATE, TREE, give_up, tell};
use crate::cgroup::{InstanceGroups, Layout, SandboxGroups, StatKind, read_stat};
use crate::channel;
use crate::ferry::{self, Ferry, Side};
use crate::filter::Filters;
use crate::frame::DEVICES;
use crate::paths::{MIN_ABI, kernel_abi};
use crate::plan::{Mode, Wall};
use crate::receipt::Known;
use crate::root::{Part, attach, put_together, take_tree};
use crate::shell::{AgentMain, FromShell, ShellPlan};
use crate::spawner::{Attach, lay_into, map_ids};
use crate::step::{OfWall, Step, StepError};
use crate::sys::process::{Forked, OWN_NAMESPACES, exit_now, fork_with};
use crate::walls::NoWall;
use atoll_core::Limits;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::convert::Infallible;
use std::error::Error;
use std::ffi::CStr;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Names of the ports, as QEMU is told.
pub(super) const AGENT_PORT: &str = "atoll.agent";
pub(super) const CONTROL_PORT: &str = "atoll.control";

/// The user of the sandbox among the guest's own.
const HOST_ID: u32 = 100_000;
/// How long a host that is away is waited for before it is looked for again.
const AWAY: Duration = Duration::from_millis(5);
const GROUPS: &str = "/sys/fs/cgroup";
const INPUTS: &str = "/run/input";

type Fault = Box<dyn Error>;

pub fn main(agent: AgentMain) -> i32 {
    match Guest::start(agent).and_then(|mut guest| guest.serve()) {
        Ok(never) => match never {},
        Err(error) => give_up(error.as_ref()),
    }
}

struct Guest {
    plan: GuestPlan,
    control: File,
    groups: SandboxGroups,
    filters: Rc<Filters>,
    /// The sandbox's first process.
    shell: OwnedFd,
    /// Who carries the agent's channel.
    ferry: OwnedFd,
}

impl Guest {
    fn start(agent: AgentMain) -> Result<Self, Fault> {
        let mut plan: GuestPlan = serde_json::from_slice(&fs::read(PLAN)?)?;
        if kernel_abi() < MIN_ABI {
            let why = format!(
                "the guest kernel supports ABI version {}, and version {MIN_ABI} is required",
                kernel_abi()
            );
            plan.template.walls = plan.template.walls.without(Wall::Landlock, &why);
        }
        let mut control = open_port(CONTROL_PORT)?;
        match Self::build(plan, agent, control.try_clone()?) {
            Ok(guest) => {
                let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
                write(&mut control, &FromGuest::Up { kernel })?;
                Ok(guest)
            }
            Err(error) => {
                write(&mut control, &failed(error.as_ref()))?;
                Err(error)
            }
        }
    }

    fn build(plan: GuestPlan, agent: AgentMain, control: File) -> Result<Self, Fault> {
        // Those of a kernel's first process are lower than what a sandbox may be given.
        crate::rlimits::shed_inherited();
        // The sandbox's own ceiling decides, not a guess of how much the whole machine could need.
        fs::write("/proc/sys/vm/overcommit_memory", "1")?;
        lay_root().wall("mounts")?;
        let filters = Rc::new(Filters::compile(Mode::Root)?);
        let groups = make_groups(&plan.limits).wall("cgroups")?;
        crate::shell::ask_ahead();
        let (ours, theirs) = channel::pair()?;
        let shell = start_shell(&plan, agent, theirs, &filters, &groups)?;
        let ferry = start_ferry(ours)?;
        Ok(Self {
            plan,
            control,
            groups,
            filters,
            shell,
            ferry,
        })
    }

    /// Until the agent or its carrier ends.
    fn serve(&mut self) -> Result<Infallible, Fault> {
        loop {
            let mut fds = [
                PollFd::new(&self.shell, PollFlags::IN),
                PollFd::new(&self.ferry, PollFlags::IN),
                PollFd::new(&self.control, PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let [shell, ferry, control] = fds.map(|fd| fd.revents());
            if !shell.is_empty() {
                return Err(ended("the agent", &self.shell));
            }
            if !ferry.is_empty() {
                return Err(ended("the relay process", &self.ferry));
            }
            if control.contains(PollFlags::IN) {
                let asked = read(&self.control)?;
                let answer = self.answer(asked).unwrap_or_else(|error| failed(error.as_ref()));
                write(&self.control, &answer)?;
            } else if control.contains(PollFlags::HUP) {
                // The host is away: a machine that was saved. Nobody tells when another one is there.
                std::thread::sleep(AWAY);
            }
        }
    }

    fn answer(&mut self, asked: ToGuest) -> Result<FromGuest, Fault> {
        match asked {
            ToGuest::Renew { unix_nanos, seed } => renew(unix_nanos, &seed)?,
            ToGuest::Limit { limits } => self.limit(limits)?,
            ToGuest::Input { name, bytes, last } => self.take_piece(&name, bytes, last)?,
            ToGuest::Inspect { pid } => return self.inspect(pid),
            ToGuest::Count => return Ok(FromGuest::Counted(self.count()?)),
            ToGuest::Settle => fs::write("/proc/sys/vm/drop_caches", "3")?,
        }
        Ok(FromGuest::Done)
    }

    fn limit(&mut self, limits: Limits) -> Result<(), Fault> {
        self.groups.set_limits(&limits)?;
        let room = |limits: &Limits| (limits.scratch, limits.scratch_inodes);
        let resize = room(&limits) != room(&self.plan.limits);
        self.plan.limits = limits;
        self.give_rlimits()?;
        let asked = Attach {
            limits,
            names: Vec::new(),
            trees: Vec::new(),
        };
        match resize {
            true => lay_into(self.shell.as_fd(), &asked, true),
            false => Ok(()),
        }
    }

    /// To what the saved guest has running; the agent, which is the first, has none of the sandbox's.
    fn give_rlimits(&self) -> Result<(), Fault> {
        if self.plan.template.walls.is_off(Wall::Rlimits) {
            return Ok(());
        }
        for pid in self.groups.processes()? {
            let is_agent = number_inside(pid) == Some(1);
            let given = match rustix::process::Pid::from_raw(pid).filter(|_| !is_agent) {
                Some(pid) => crate::rlimits::give(pid, &self.plan.limits),
                None => Ok(()),
            };
            if given != Err(Errno::SRCH) {
                given.step("set a process's resource limits").wall("rlimits")?;
            }
        }
        Ok(())
    }

    /// Bytes of an input. When all are there, the file is shown inside, as read-only as any input.
    fn take_piece(&mut self, name: &str, bytes: usize, last: bool) -> Result<(), Fault> {
        let mut body = vec![0; bytes.min(super::control::PIECE)];
        (&self.control).read_exact(&mut body)?;
        let path = Path::new(INPUTS).join(name);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        let mut file = fs::OpenOptions::new().append(true).create(true).open(&path)?;
        std::io::Write::write_all(&mut file, &body)?;
        if !last {
            return Ok(());
        }
        let asked = Attach {
            limits: self.plan.limits,
            names: vec![name.to_owned()],
            trees: vec![take_tree(&path, false)?],
        };
        lay_into(self.shell.as_fd(), &asked, false)
    }

    fn inspect(&self, inside: u32) -> Result<FromGuest, Fault> {
        let known = Known {
            mode: Mode::Root,
            groups: Some(&self.groups),
            no_groups: None,
            limits: &self.plan.limits,
            walls: &self.plan.template.walls,
            filters: &self.filters.digest(),
            runtime: None,
            machine: false,
        };
        let found = self
            .groups
            .processes()?
            .into_iter()
            .find(|pid| number_inside(*pid) == Some(inside));
        let pid = found.and_then(rustix::process::Pid::from_raw).ok_or(Errno::SRCH)?;
        let pidfd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        let layers = crate::receipt::inspect(pidfd.as_fd(), known)?;
        Ok(FromGuest::Inspected { layers })
    }

    fn count(&self) -> Result<Counted, Fault> {
        let mut counted = Counted::default();
        for (kind, file) in self.groups.stat_files()? {
            let mut text = String::new();
            File::from(file).read_to_string(&mut text)?;
            let number = read_stat(kind, &text).unwrap_or(0);
            match kind {
                StatKind::OomKills => counted.oom_kills = number,
                StatKind::PidsEvents => counted.refused = number,
                StatKind::PeakBytes => counted.peak_bytes = number,
                StatKind::CpuNanos | StatKind::CpuStat => {}
            }
        }
        Ok(counted)
    }
}

/// How a child has ended, in words for the console.
fn ended(who: &str, pidfd: &OwnedFd) -> Fault {
    let status = waitid(WaitId::PidFd(pidfd.as_fd()), WaitIdOptions::EXITED);
    format!("{who} exited: {status:?}").into()
}

fn failed(error: &(dyn Error + 'static)) -> FromGuest {
    FromGuest::Failed {
        message: crate::step::chain(error),
        no_wall: NoWall::in_error(error).map(|wall| wall.layer),
    }
}

/// The device of the port with this name.
fn open_port(name: &str) -> Result<File, Fault> {
    for entry in fs::read_dir("/sys/class/virtio-ports")?.flatten() {
        let told = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if told.trim() == name {
            let device = PathBuf::from("/dev").join(entry.file_name());
            return Ok(File::options().read(true).write(true).open(device)?);
        }
    }
    Err(format!("the VM has no virtio port {name}").into())
}

/// The images, with the guest's own devices in them, where a sandbox's first process looks for its root.
fn lay_root() -> Result<(), StepError> {
    let at = |at: &str, directory| Part::Mount {
        at: at.to_owned(),
        directory,
    };
    let mut parts = vec![at("/", true), at("/opt/atoll", true)];
    let mut trees = vec![
        take_tree(Path::new(IMAGE), false)?,
        take_tree(&Path::new(TEMPLATE).join(TREE), false)?,
    ];
    for device in DEVICES {
        parts.push(at(device, false));
        trees.push(take_tree(Path::new(device), true)?);
    }
    let root = put_together(&parts, &trees)?;
    attach(root.as_fd(), Path::new("/run/tmpl")).step("mount the template's root")
}

fn make_groups(limits: &Limits) -> Result<SandboxGroups, StepError> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    rustix::mount::mount("cgroup2", GROUPS, "cgroup2", flags, None::<&CStr>).step("mount the cgroup file system")?;
    let all = InstanceGroups::create(Layout::detect()?, "guest", &[])?;
    all.create_sandbox("sandbox", limits, None)
}

fn start_shell(
    plan: &GuestPlan,
    main: AgentMain,
    agent: OwnedFd,
    filters: &Rc<Filters>,
    groups: &SandboxGroups,
) -> Result<OwnedFd, Fault> {
    let (ours, sync) = channel::pair()?;
    let shell = ShellPlan {
        limits: plan.limits,
        template: Rc::new(plan.template.clone()),
        mode: Mode::Root,
        alone: false,
        watched: false,
        scratch: None,
        agent,
        keeper: None,
        sync,
        filters: Rc::clone(filters),
        main,
    };
    let (pid, pidfd) = match fork_with(OWN_NAMESPACES)
        .step("create the sandbox's namespaces")
        .wall("namespaces")?
    {
        Forked::Child => crate::shell::run(shell),
        Forked::Parent { pid, pidfd } => (pid, pidfd),
    };
    drop(shell);
    map_ids(pid, HOST_ID).wall("ids")?;
    let members = groups.membership_files()?;
    let fds: Vec<_> = members.iter().map(AsFd::as_fd).collect();
    channel::send_bytes(&ours, b"go", &fds)?;
    loop {
        match channel::receive_to_the_end::<FromShell>(&ours)? {
            (FromShell::Open, _) => {}
            (FromShell::Ready, _) => return Ok(pidfd),
            (FromShell::Failed(failed), _) => return Err(failed.into_fault()),
        }
    }
}

fn start_ferry(channel: OwnedFd) -> Result<OwnedFd, Fault> {
    let port = OwnedFd::from(open_port(AGENT_PORT)?);
    match fork_with(0).step("fork the relay process")? {
        Forked::Parent { pidfd, .. } => Ok(pidfd),
        Forked::Child => {
            let Ok(writes_to) = port.try_clone() else { exit_now(1) };
            let ended = ferry::run(Ferry {
                side: Side::Guest,
                channels: vec![channel],
                reads_from: port,
                writes_to,
                adopted: Vec::new(),
                patient: true,
                holds: ferry::Holds::default(),
            });
            tell(&format!("the relay process exited: {ended}"));
            exit_now(0)
        }
    }
}

fn renew(unix_nanos: i64, seed: &[u8]) -> Result<(), Fault> {
    let now = rustix::time::Timespec {
        tv_sec: unix_nanos.div_euclid(1_000_000_000),
        tv_nsec: unix_nanos.rem_euclid(1_000_000_000),
    };
    rustix::time::clock_settime(rustix::time::ClockId::Realtime, now)?;
    let random = rustix::fs::open(
        "/dev/urandom",
        OFlags::RDWR | OFlags::CLOEXEC,
        rustix::fs::Mode::empty(),
    )?;
    rustix::io::write(&random, seed)?;
    Ok(crate::sys::random::reseed(random.as_fd())?)
}

/// The number that a process has in the sandbox, which the kernel tells last.
fn number_inside(pid: i32) -> Option<u32> {
    last_number(&fs::read_to_string(format!("/proc/{pid}/status")).ok()?)
}

fn last_number(status: &str) -> Option<u32> {
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    numbers.split_whitespace().last()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_its_last_number_in_the_sandbox() {
        assert_eq!(last_number("Name:\tpython3\nNSpid:\t412\t7\nThreads:\t1\n"), Some(7));
        assert_eq!(last_number("Name:\tpython3\n"), None);
    }
}
