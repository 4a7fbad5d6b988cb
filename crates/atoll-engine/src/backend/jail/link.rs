//! One jailer process and the channel to it. Messages are sent in order; answers are routed to who waits for them.

use super::mailbox::Mailbox;
use crate::backend::TierError;
use crate::backend::descriptors::{receive_on, send_on, watch};
use crate::lock::lock;
use atoll_core::SandboxId;
use atoll_jail::channel::{self, ChannelError};
use atoll_jail::plan::{FromJailer, GENERATION, HostFacts, TemplatePlan, ToJailer};
use rustix::fd::{BorrowedFd, OwnedFd};
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch as states;

/// How much of the jailer's and zygote's complaints is kept for an error message.
const COMPLAINT_BYTES: usize = 4096;

/// Whether a template's interpreter can be forked from.
#[derive(Clone, Debug)]
pub(crate) enum ZygoteState {
    Starting,
    Ready(Map<String, Value>),
    Down(String),
}

pub(crate) type Event = (FromJailer, Vec<OwnedFd>);

#[derive(Debug)]
pub(crate) struct Link {
    channel: Arc<AsyncFd<OwnedFd>>,
    routes: Routes,
    pub(crate) host: HostFacts,
    pub(crate) jailer_pid: u32,
    complaints: Arc<Mutex<Vec<u8>>>,
    exit: states::Receiver<bool>,
}

#[derive(Clone, Debug, Default)]
struct Routes {
    /// The wall that the next failure is about.
    no_wall: Arc<Mutex<Option<TierError>>>,
    sandboxes: Arc<Mutex<HashMap<SandboxId, Arc<Mailbox>>>>,
    zygotes: Arc<Mutex<HashMap<u32, states::Sender<ZygoteState>>>>,
}

impl Link {
    /// Starts `program __jailer` with an empty environment, in a process group of its own.
    pub(crate) async fn start(program: &Path, instance: &str, run_dir: &Path) -> Result<Self, TierError> {
        let (ours, theirs) = channel::pair().map_err(TierError::Channel)?;
        let mut child = std::process::Command::new(program)
            .arg("__jailer")
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .process_group_zero()
            .spawn()
            .map_err(TierError::Start)?;
        let jailer_pid = child.id();
        let complaints = keep_complaints(child.stderr.take());
        let (exited, exit) = states::channel(false);
        // Reaped on a thread of its own, which sleeps until then.
        std::thread::spawn(move || {
            child.wait().ok();
            exited.send_replace(true);
        });
        let channel = Arc::new(watch(ours)?);
        let hello = ToJailer::Hello {
            generation: GENERATION,
            instance: instance.to_owned(),
            run_dir: run_dir.to_owned(),
        };
        send_on(&channel, &hello, &[]).await?;
        let (answer, _) = receive_on(&channel)
            .await
            .map_err(|_| TierError::Gone(tail(&complaints)))?;
        let host = match answer {
            FromJailer::Hello { host } => host,
            FromJailer::NoWall { layer, message, fix } => return Err(TierError::NoWall { layer, message, fix }),
            _ => return Err(TierError::Gone(tail(&complaints))),
        };
        let routes = Routes::default();
        tokio::spawn(route(Arc::clone(&channel), routes.clone()));
        Ok(Self {
            channel,
            routes,
            host,
            jailer_pid,
            complaints,
            exit,
        })
    }

    pub(crate) async fn send(&self, message: &ToJailer, fds: &[BorrowedFd<'_>]) -> Result<(), TierError> {
        send_on(&self.channel, message, fds).await.map_err(|error| match error {
            TierError::Channel(ChannelError::Closed) => TierError::Gone(tail(&self.complaints)),
            other => other,
        })
    }

    /// A failure whose cause is a wall that this host cannot build is told as that.
    pub(crate) fn blame(&self, error: TierError) -> TierError {
        lock(&self.routes.no_wall).take().unwrap_or(error)
    }

    /// Why a template's interpreter is down, if it is.
    pub(super) fn why_down(&self, template: u32) -> String {
        match lock(&self.routes.zygotes)
            .get(&template)
            .map(|state| state.borrow().clone())
        {
            Some(ZygoteState::Down(message)) => format!(": {message}"),
            Some(ZygoteState::Starting | ZygoteState::Ready(_)) | None => String::new(),
        }
    }

    /// Hangs up and waits for the jailer's end.
    pub(crate) async fn stop(&self) {
        rustix::net::shutdown(self.channel.get_ref(), rustix::net::Shutdown::Both).ok();
        self.exit.clone().wait_for(|gone| *gone).await.ok();
    }

    /// What the jailer and its children last said on stderr.
    pub(crate) fn complaint(&self) -> String {
        tail(&self.complaints)
    }

    pub(crate) async fn open_template(
        &self,
        template: u32,
        plan: TemplatePlan,
    ) -> Result<states::Receiver<ZygoteState>, TierError> {
        let state = match plan.zygote {
            Some(_) => ZygoteState::Starting,
            None => ZygoteState::Ready(Map::new()),
        };
        let (sender, receiver) = states::channel(state);
        lock(&self.routes.zygotes).insert(template, sender);
        self.send(
            &ToJailer::OpenTemplate {
                template,
                plan: Box::new(plan),
            },
            &[],
        )
        .await?;
        Ok(receiver)
    }

    /// From now on, events of this sandbox go to the returned mailbox.
    pub(crate) fn mailbox(&self, sandbox: &SandboxId) -> Arc<Mailbox> {
        let mailbox = Arc::new(Mailbox::default());
        lock(&self.routes.sandboxes).insert(sandbox.clone(), Arc::clone(&mailbox));
        mailbox
    }

    /// Ends a sandbox without waiting: used when its owner is dropped. If the channel has no room now, a task waits for it.
    pub(crate) fn end_without_waiting(self: &Arc<Self>, sandbox: &SandboxId) {
        let message = ToJailer::EndSandbox {
            sandbox: sandbox.clone(),
        };
        let sent = channel::send(self.channel.get_ref(), &message, &[]);
        if let (Err(ChannelError::Socket(rustix::io::Errno::AGAIN)), Ok(runtime)) =
            (sent, tokio::runtime::Handle::try_current())
        {
            let link = Arc::clone(self);
            runtime.spawn(async move { link.send(&message, &[]).await });
        }
    }
}

trait ProcessGroup {
    fn process_group_zero(&mut self) -> &mut Self;
}

impl ProcessGroup for std::process::Command {
    /// A terminal's Ctrl-C reaches the engine, which decides; not the jailer.
    fn process_group_zero(&mut self) -> &mut Self {
        std::os::unix::process::CommandExt::process_group(self, 0)
    }
}

async fn route(channel: Arc<AsyncFd<OwnedFd>>, routes: Routes) {
    while let Ok((message, fds)) = receive_on(&channel).await {
        deliver(&routes, message, fds);
    }
    // The jailer is gone, and all sandboxes with it: whoever waits sees it.
    for (_, mailbox) in lock(&routes.sandboxes).drain() {
        mailbox.close();
    }
    for sender in lock(&routes.zygotes).values() {
        sender.send_replace(ZygoteState::Down("the jailer exited".into()));
    }
}

fn deliver(routes: &Routes, message: FromJailer, fds: Vec<OwnedFd>) {
    let state = match &message {
        FromJailer::ZygoteReady { template, facts } => Some((*template, ZygoteState::Ready(facts.clone()))),
        FromJailer::ZygoteDown { template, message } => Some((*template, ZygoteState::Down(message.clone()))),
        _ => None,
    };
    if let FromJailer::NoWall { layer, message, fix } = message {
        *lock(&routes.no_wall) = Some(TierError::NoWall { layer, message, fix });
        return;
    }
    if let Some((template, state)) = state {
        if let Some(sender) = lock(&routes.zygotes).get(&template) {
            sender.send_replace(state);
        }
        return;
    }
    let Some(sandbox) = sandbox_of(&message) else { return };
    let ended = matches!(message, FromJailer::Ended { .. });
    let mut sandboxes = lock(&routes.sandboxes);
    let mailbox = if ended {
        sandboxes.remove(sandbox)
    } else {
        sandboxes.get(sandbox).cloned()
    };
    drop(sandboxes);
    if let Some(mailbox) = mailbox {
        mailbox.deliver((message, fds));
    }
}

fn sandbox_of(message: &FromJailer) -> Option<&SandboxId> {
    match message {
        FromJailer::SandboxReady { sandbox, .. }
        | FromJailer::SandboxFailed { sandbox, .. }
        | FromJailer::ContextStarted { sandbox, .. }
        | FromJailer::ContextFailed { sandbox, .. }
        | FromJailer::ContextExited { sandbox, .. }
        | FromJailer::Inspected { sandbox, .. }
        | FromJailer::InspectFailed { sandbox, .. }
        | FromJailer::Claimed { sandbox }
        | FromJailer::ClaimFailed { sandbox, .. }
        | FromJailer::Ended { sandbox, .. } => Some(sandbox),
        FromJailer::Hello { .. }
        | FromJailer::NoWall { .. }
        | FromJailer::ZygoteReady { .. }
        | FromJailer::ZygoteDown { .. } => None,
    }
}

/// Reads the helpers' stderr to its end on a thread, keeping the last bytes.
fn keep_complaints(stderr: Option<std::process::ChildStderr>) -> Arc<Mutex<Vec<u8>>> {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&kept);
    std::thread::spawn(move || {
        use std::io::Read;
        let mut stderr = stderr;
        let mut piece = [0; 1024];
        while let Some(count) = stderr
            .as_mut()
            .and_then(|pipe| pipe.read(&mut piece).ok())
            .filter(|n| *n > 0)
        {
            let mut bytes = lock(&sink);
            bytes.extend_from_slice(&piece[..count]);
            let excess = bytes.len().saturating_sub(COMPLAINT_BYTES);
            bytes.drain(..excess);
        }
    });
    kept
}

fn tail(complaints: &Mutex<Vec<u8>>) -> String {
    let text = String::from_utf8_lossy(&lock(complaints)).trim().to_owned();
    if text.is_empty() { text } else { format!(": {text}") }
}

/// Where lock files and spooled inputs of this machine's instances live.
pub(crate) fn run_dir(home: &Path) -> PathBuf {
    if rustix::process::geteuid().is_root() {
        PathBuf::from("/run/atoll")
    } else {
        home.join("run")
    }
}
