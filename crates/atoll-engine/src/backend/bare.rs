//! A sandbox as its tier makes it: an agent to talk to, a wall, limits. It has no owner and no policy yet.

use super::agent::Agent;
use super::carried::Carried;
use super::context::Context;
use super::error::TierError;
use super::start::Inspected;
use super::{Layers, OpenInput, Wall};
use crate::stat::Stats;
use atoll_core::dry_run::Attempts;
use atoll_core::wire::agent::{Answer, Ask};
use atoll_core::{Limits, SandboxId, Tier};
use atoll_guard::redact::Redactor;
use rustix::fd::OwnedFd;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct BareSandbox {
    pub(crate) id: SandboxId,
    pub(crate) tier: Tier,
    pub(crate) stats: Stats,
    pub(crate) agent: Arc<Agent>,
    pub(super) limits: Limits,
    pub(super) wall: Box<dyn Wall>,
    /// Where it passes no descriptors: files come as bytes.
    pub(super) carried: Option<Carried>,
}

/// Why a file came without its descriptor.
const NO_DESCRIPTOR: &str = "out of file descriptors; raise the limit (`ulimit -n`)";

/// What all processes of a sandbox use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InUse {
    pub(crate) memory_bytes: u64,
    pub(crate) cpu_ms: u64,
    /// Processes and threads.
    pub(crate) tasks: u64,
}

/// What a directory of the sandbox holds: open files with their paths, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) files: Vec<(String, OwnedFd)>,
    pub(crate) skipped: Vec<(String, String)>,
    /// Entries that the agent did not even look at.
    pub(crate) unseen: u64,
}

impl Collected {
    /// Names without secrets. Each is still there once.
    pub(crate) fn hide(&mut self, hides: &Redactor) {
        let mut used: BTreeSet<String> = self.files.iter().map(|(path, _)| path.clone()).collect();
        for (path, _) in &mut self.files {
            let shown = hides.text(path).into_owned();
            if shown != *path {
                *path = free(shown, &used);
                used.insert(path.clone());
            }
        }
        for (path, why) in &mut self.skipped {
            hides.hide(path);
            hides.hide(why);
        }
    }
}

fn free(wanted: String, used: &BTreeSet<String>) -> String {
    let numbered = (2u32..).map(|number| format!("{wanted}-{number}"));
    let mut names = std::iter::once(wanted.clone()).chain(numbered);
    names.find(|name| !used.contains(name)).unwrap_or(wanted)
}

impl BareSandbox {
    /// Its tier does more, or otherwise, than the wall it was made with.
    pub(super) fn put_behind(self, wall: impl FnOnce(Box<dyn Wall>) -> Box<dyn Wall>) -> Self {
        Self {
            wall: wall(self.wall),
            ..self
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn has_cgroups(&self) -> bool {
        self.wall.has_cgroups()
    }

    pub(crate) async fn recount(&self) {
        self.wall.recount().await;
    }

    pub(crate) fn attempts(&self) -> Option<Attempts> {
        self.wall.attempts()
    }

    /// Applies what is personal to a prepared sandbox.
    pub(crate) async fn claim(&mut self, limits: Limits, inputs: Vec<OpenInput>) -> Result<(), TierError> {
        if inputs.is_empty() && limits == self.limits {
            return Ok(());
        }
        let changed = limits != self.limits;
        self.wall.claim(&self.agent, limits, inputs).await?;
        self.limits = limits;
        match changed {
            true => self.tell_agent_limits(limits).await,
            false => Ok(()),
        }
    }

    /// Programs that the agent starts have the limits that it knows.
    pub(super) async fn tell_agent_limits(&self, limits: Limits) -> Result<(), TierError> {
        match self.agent.ask_once(Ask::Limit { limits }).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(TierError::Agent),
        }
    }

    pub(crate) async fn start_python(&self) -> Result<Inspected, TierError> {
        self.wall.start_python(self).await
    }

    /// The walls of a context, read back.
    pub(crate) async fn inspect(&self, context: &Context) -> Result<Layers, TierError> {
        self.wall.inspect(context).await
    }

    /// Asks a context to stop what it runs, as Ctrl-C does.
    pub(crate) async fn interrupt(&self, context: &Context) -> Result<(), TierError> {
        self.signal(context, Signal::INT).await
    }

    /// An interrupt that came just before Python began to wait is seen when the wait ends. This ends it, and nothing else: what
    /// waits without an interrupt goes on to wait.
    pub(crate) async fn end_wait(&self, context: &Context) -> Result<(), TierError> {
        self.signal(context, Signal::URG).await
    }

    async fn signal(&self, context: &Context, signal: Signal) -> Result<(), TierError> {
        match context.pidfd {
            Some(_) => {
                context.signal(signal);
                Ok(())
            }
            None => self.signal_group(context, signal).await,
        }
    }

    /// Asks a shell to give up what it runs; `again`, because what it was just about to start has missed the first time. When
    /// this returns, no signal is on its way any more that the next code could get.
    pub(crate) async fn interrupt_shell(&self, context: &Context, again: bool) -> Result<(), TierError> {
        let Some(process) = context.process else {
            return Ok(());
        };
        match self.agent.ask_once(Ask::Interrupt { process, again }).await {
            Ok((Answer::Done, _)) | Err(TierError::Channel(_) | TierError::Agent) => Ok(()),
            Ok(_) => Err(TierError::Agent),
            Err(error) => Err(error),
        }
    }

    /// Signals a program of the agent, which leads a group, and what it has started: once each.
    pub(crate) async fn signal_group(&self, context: &Context, signal: Signal) -> Result<(), TierError> {
        let Some(process) = context.process else {
            return Ok(());
        };
        let signal = signal.as_raw();
        match self.agent.tell(Ask::Signal { process, signal }).await {
            // A sandbox that is gone already needs no signal; whoever waits for the context sees its end.
            Ok(()) | Err(TierError::Channel(_) | TierError::Agent) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Ends a context, and its group if it leads one.
    pub(crate) async fn kill(&self, context: &Context) -> Result<(), TierError> {
        self.signal_group(context, Signal::KILL).await?;
        context.signal(Signal::KILL);
        Ok(())
    }

    /// Where the wall is a kernel of its own, too much memory ends the whole sandbox, and its files are gone with it: that is told
    /// as what was left out.
    pub(crate) async fn collect(&self, dir: &str, max_files: u32) -> Result<Collected, TierError> {
        match self.collect_now(dir, max_files).await {
            Err(TierError::Channel(_) | TierError::Agent) if self.carried.is_some() => Ok(Collected {
                skipped: vec![(".".to_owned(), TierError::Over.to_string())],
                ..Collected::default()
            }),
            collected => collected,
        }
    }

    async fn collect_now(&self, dir: &str, max_files: u32) -> Result<Collected, TierError> {
        let dir = dir.to_owned();
        let mut asked = self.agent.ask(Ask::Collect { dir, max_files }, &[]).await?;
        let mut collected = Collected::default();
        loop {
            match asked.next().await? {
                (Answer::File { path, size }, fds) => match fds.into_iter().next() {
                    Some(fd) => match self.plain(fd, size).await {
                        Ok(fd) => collected.files.push((path, fd)),
                        Err(error) => collected.skipped.push((path, error.to_string())),
                    },
                    None => collected.skipped.push((path, NO_DESCRIPTOR.to_owned())),
                },
                (Answer::Skipped { path, why }, _) => collected.skipped.push((path, why)),
                (Answer::Collected { unseen }, _) => {
                    collected.unseen = unseen;
                    return Ok(collected);
                }
                _ => return Err(TierError::Agent),
            }
        }
    }

    /// Whether bytes only pass its wall, and no descriptors.
    pub(crate) fn is_carried(&self) -> bool {
        self.carried.is_some()
    }

    /// A file that the agent has handed over, as a descriptor that can be read from wherever one likes.
    pub(crate) async fn plain(&self, fd: OwnedFd, size: u64) -> Result<OwnedFd, TierError> {
        match &self.carried {
            Some(carried) => carried.plain(fd, size, self.limits.scratch.get()).await,
            None => Ok(fd),
        }
    }

    /// Plain files below a directory: how many, and the names of some.
    pub(crate) async fn left(&self, dir: &str) -> Result<(u64, Vec<String>), TierError> {
        match self.agent.ask_once(Ask::Left { dir: dir.to_owned() }).await {
            Ok((Answer::Left { count, names }, _)) => Ok((count, names)),
            Err(TierError::Channel(_) | TierError::Agent) if self.carried.is_some() => Ok((0, Vec::new())),
            Err(error) => Err(error),
            Ok(_) => Err(TierError::Agent),
        }
    }

    /// Free room of the scratch files: bytes, inodes.
    pub(crate) async fn scratch(&self) -> Result<(u64, u64), TierError> {
        match self.agent.ask_once(Ask::Scratch).await? {
            (
                Answer::Scratch {
                    free_bytes,
                    free_inodes,
                },
                _,
            ) => Ok((free_bytes, free_inodes)),
            _ => Err(TierError::Agent),
        }
    }

    /// Stops every process where it is, or lets all go on. Memory and files stay as they are.
    pub(crate) async fn freeze(&self, on: bool) -> Result<(), TierError> {
        match self.agent.ask_once(Ask::Freeze { on }).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(TierError::Agent),
        }
    }

    /// What all processes use now, from the agent.
    pub(crate) async fn usage(&self, exact_above_bytes: u64) -> Result<InUse, TierError> {
        match self.agent.ask_once(Ask::Usage { exact_above_bytes }).await? {
            (
                Answer::Usage {
                    memory_bytes,
                    cpu_ms,
                    tasks,
                },
                _,
            ) => Ok(InUse {
                memory_bytes,
                cpu_ms,
                tasks,
            }),
            _ => Err(TierError::Agent),
        }
    }

    /// Ends the sandbox and waits until nothing of it is left. Whoever waits for something of it sees its end.
    pub(crate) async fn end(&self) -> Result<(), TierError> {
        self.wall.end().await
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.wall.has_ended()
    }

    /// Waits for the end, whoever causes it.
    pub(crate) async fn ended(&self) {
        self.wall.ended().await;
    }
}
