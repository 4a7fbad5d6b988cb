//! One sandbox of the jail tier: made, claimed, looked at, emptied of its outputs, ended. Shared by those who use it.

use super::agent::{Agent, Asked};
use super::context::Context;
use super::link::{JailError, Link};
use super::mailbox::{Letters, Mailbox, Topic};
use super::start::{AskedContext, Inspected};
use super::watch::Watch;
use crate::stat::Stats;
use atoll_core::wire::agent::{Answer, Ask};
use atoll_core::{Limits, SandboxId};
use atoll_guard::redact::Redactor;
use atoll_jail::channel;
use atoll_jail::plan::{FromJailer, InputPlan, ToJailer};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

#[derive(Debug)]
pub(crate) struct JailSandbox {
    pub(crate) id: SandboxId,
    pub(crate) stats: Stats,
    pub(crate) agent: Agent,
    pub(super) link: Arc<Link>,
    pub(super) mailbox: Arc<Mailbox>,
    limits: Limits,
    /// Only in a dry run: what its contexts try.
    pub(crate) watch: Option<Arc<Watch>>,
    /// Questions to the jailer about the whole sandbox go one after the other.
    turn: tokio::sync::Mutex<()>,
    contexts: AtomicU32,
    ended: AtomicBool,
}

/// What a sandbox is made of.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) template: u32,
    pub(crate) limits: Limits,
    pub(crate) inputs: Vec<(InputPlan, OwnedFd)>,
    /// A Python context starts with it.
    pub(crate) python: bool,
    pub(crate) watched: bool,
}

/// Why a file came without its descriptor.
const NO_DESCRIPTOR: &str = "there are too few file descriptors for it (`ulimit -n`)";

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

impl JailSandbox {
    /// Makes a sandbox, with its inputs and, if wanted, its first Python context: all asked at once, then awaited.
    pub(crate) async fn create(link: Arc<Link>, made: Made) -> Result<(Self, Option<Inspected>), JailError> {
        let made = Self::make(Arc::clone(&link), made).await;
        made.map_err(|error| link.blame(error))
    }

    async fn make(link: Arc<Link>, made: Made) -> Result<(Self, Option<Inspected>), JailError> {
        let Made {
            template,
            limits,
            inputs,
            python,
            watched,
        } = made;
        let (ours, theirs) = channel::pair().map_err(JailError::Channel)?;
        let (mut sandbox, mut hello) = Self::new(link, limits, ours)?;
        sandbox.watch = watched.then(Arc::default);
        let (context, stdio) = match python {
            true => AskedContext::new(&sandbox).map(|(asked, theirs)| (Some(asked), Vec::from(theirs)))?,
            false => (None, Vec::new()),
        };
        let message = ToJailer::CreateSandbox {
            sandbox: sandbox.id.clone(),
            template,
            limits,
            watched,
            context: context.as_ref().map(|asked| asked.number),
        };
        let fds: Vec<BorrowedFd<'_>> = std::iter::once(&theirs).chain(&stdio).map(AsFd::as_fd).collect();
        let mut made = sandbox.mailbox.listen(Topic::Made);
        sandbox.link.send(&message, &fds).await?;
        drop((theirs, stdio));
        let claimed = match inputs.is_empty() {
            true => None,
            false => Some(sandbox.ask_claim(limits, inputs).await?),
        };
        sandbox.stats = sandbox.await_ready(template, &mut made, &mut hello).await?;
        if let Some(claimed) = claimed {
            await_claim(claimed).await?;
        }
        match context {
            Some(asked) => {
                let context = asked.start(&sandbox).await?;
                Ok((sandbox, Some(context)))
            }
            None => Ok((sandbox, None)),
        }
    }

    fn new(link: Arc<Link>, limits: Limits, agent: OwnedFd) -> Result<(Self, Asked), JailError> {
        let id = SandboxId::from_random(crate::random_bytes());
        let mailbox = link.mailbox(&id);
        let (agent, hello) = Agent::start(agent)?;
        let sandbox = Self {
            id,
            stats: Stats::default(),
            agent,
            link,
            mailbox,
            limits,
            watch: None,
            turn: tokio::sync::Mutex::default(),
            contexts: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        };
        Ok((sandbox, hello))
    }

    /// The agent's word comes last: it is locked down, too.
    async fn await_ready(&self, template: u32, made: &mut Letters, hello: &mut Asked) -> Result<Stats, JailError> {
        let stats = match made.next().await {
            Ok((FromJailer::SandboxReady { stats, .. }, fds)) => Stats::new(stats, fds),
            Ok((FromJailer::SandboxFailed { message, .. }, _)) => return Err(JailError::Sandbox(message)),
            Ok((other, _)) => return Err(JailError::Sandbox(format!("unexpected {other:?}"))),
            Err(_) => {
                let why = format!("{}{}", self.link.why_down(template), self.link.complaint());
                return Err(JailError::Sandbox(format!("it ended at once{why}")));
            }
        };
        match hello.next().await? {
            (Answer::Ready, _) => Ok(stats),
            _ => Err(JailError::Agent),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    pub(crate) fn has_cgroups(&self) -> bool {
        self.link.host.has_cgroups()
    }

    /// Applies what is personal to a prepared sandbox.
    pub(crate) async fn claim(&mut self, limits: Limits, inputs: Vec<(InputPlan, OwnedFd)>) -> Result<(), JailError> {
        if inputs.is_empty() && limits == self.limits {
            return Ok(());
        }
        let changed = limits != self.limits;
        let claimed = self.ask_claim(limits, inputs).await?;
        await_claim(claimed).await?;
        match changed {
            true => self.tell_agent_limits(limits).await,
            false => Ok(()),
        }
    }

    /// Programs that the agent starts have the limits that it knows.
    async fn tell_agent_limits(&self, limits: Limits) -> Result<(), JailError> {
        match self.agent.ask_once(Ask::Limit { limits }).await? {
            (Answer::Done, _) => Ok(()),
            _ => Err(JailError::Agent),
        }
    }

    async fn ask_claim(&mut self, limits: Limits, inputs: Vec<(InputPlan, OwnedFd)>) -> Result<Letters, JailError> {
        let (plans, proofs): (Vec<InputPlan>, Vec<OwnedFd>) = inputs.into_iter().unzip();
        let fds: Vec<BorrowedFd<'_>> = proofs.iter().map(AsFd::as_fd).collect();
        let message = ToJailer::Claim {
            sandbox: self.id.clone(),
            limits,
            inputs: plans,
        };
        let letters = self.mailbox.listen(Topic::Claim);
        self.link.send(&message, &fds).await?;
        self.limits = limits;
        Ok(letters)
    }

    /// The walls of a context, read back from the kernel.
    pub(crate) async fn inspect(&self, context: &Context) -> Result<Map<String, Value>, JailError> {
        self.ask_inspect(context).await?.layers().await
    }

    /// Asks for them; the answer is awaited later.
    pub(super) async fn ask_inspect(&self, context: &Context) -> Result<AskedInspect<'_>, JailError> {
        let turn = self.turn.lock().await;
        let message = ToJailer::Inspect {
            sandbox: self.id.clone(),
        };
        let letters = self.mailbox.listen(Topic::Inspect);
        self.link.send(&message, &[context.pidfd.as_fd()]).await?;
        Ok(AskedInspect { letters, _turn: turn })
    }

    pub(crate) async fn collect(&self, dir: &str, max_files: u32) -> Result<Collected, JailError> {
        let dir = dir.to_owned();
        let mut asked = self.agent.ask(Ask::Collect { dir, max_files }, &[]).await?;
        let mut collected = Collected::default();
        loop {
            match asked.next().await? {
                (Answer::File { path, .. }, fds) => match fds.into_iter().next() {
                    Some(fd) => collected.files.push((path, fd)),
                    None => collected.skipped.push((path, NO_DESCRIPTOR.to_owned())),
                },
                (Answer::Skipped { path, why }, _) => collected.skipped.push((path, why)),
                (Answer::Collected { unseen }, _) => {
                    collected.unseen = unseen;
                    return Ok(collected);
                }
                _ => return Err(JailError::Agent),
            }
        }
    }

    /// Plain files below a directory: how many, and the names of some.
    pub(crate) async fn left(&self, dir: &str) -> Result<(u64, Vec<String>), JailError> {
        match self.agent.ask_once(Ask::Left { dir: dir.to_owned() }).await? {
            (Answer::Left { count, names }, _) => Ok((count, names)),
            _ => Err(JailError::Agent),
        }
    }

    /// Free room of the scratch files: bytes, inodes.
    pub(crate) async fn scratch(&self) -> Result<(u64, u64), JailError> {
        match self.agent.ask_once(Ask::Scratch).await? {
            (
                Answer::Scratch {
                    free_bytes,
                    free_inodes,
                },
                _,
            ) => Ok((free_bytes, free_inodes)),
            _ => Err(JailError::Agent),
        }
    }

    /// What all processes use now, from the agent.
    pub(crate) async fn usage(&self, exact_above_bytes: u64) -> Result<InUse, JailError> {
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
            _ => Err(JailError::Agent),
        }
    }

    /// Ends the sandbox and waits until nothing of it is left. Whoever waits for something of it sees its end.
    pub(crate) async fn end(&self) -> Result<(), JailError> {
        if !self.ended.swap(true, Ordering::Relaxed) && !self.mailbox.has_ended() {
            let message = ToJailer::EndSandbox {
                sandbox: self.id.clone(),
            };
            self.link.send(&message, &[]).await?;
        }
        self.mailbox.ended().await;
        Ok(())
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.mailbox.has_ended()
    }

    /// Waits for the end, whoever causes it.
    pub(crate) async fn ended(&self) {
        self.mailbox.ended().await;
    }

    pub(super) fn next_context(&self) -> u32 {
        self.contexts.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// A context's walls are being read back.
pub(super) struct AskedInspect<'a> {
    letters: Letters,
    _turn: tokio::sync::MutexGuard<'a, ()>,
}

impl AskedInspect<'_> {
    pub(super) async fn layers(mut self) -> Result<Map<String, Value>, JailError> {
        match self.letters.next().await? {
            (FromJailer::Inspected { layers, .. }, _) => Ok(layers),
            (FromJailer::InspectFailed { message, .. }, _) => Err(JailError::Context(message)),
            (other, _) => Err(JailError::Context(format!("unexpected {other:?}"))),
        }
    }
}

async fn await_claim(mut letters: Letters) -> Result<(), JailError> {
    match letters.next().await? {
        (FromJailer::Claimed { .. }, _) => Ok(()),
        (FromJailer::ClaimFailed { message, .. }, _) => Err(JailError::Claim(message)),
        (other, _) => Err(JailError::Claim(format!("unexpected {other:?}"))),
    }
}

impl Drop for JailSandbox {
    fn drop(&mut self) {
        if !self.ended.load(Ordering::Relaxed) {
            self.link.end_without_waiting(&self.id);
        }
    }
}
