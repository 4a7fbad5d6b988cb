//! The commands of a sandbox: started, found by their number, forgotten a while after their end.

use super::command::{Command, Listener, Reach};
use super::pump::{Sources, pump};
use crate::backend::{TierError, null, pipe, watch};
use crate::engine::EngineError;
use crate::lock::lock;
use crate::sandbox::Walled;
use atoll_core::wire::agent::{Answer, Ask, TerminalSize};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::mpsc;

/// How long the end of a command can still be asked for.
const KEPT: Duration = Duration::from_secs(30);

/// A program to start.
#[derive(Clone, Debug, Default)]
pub struct CommandSpec {
    pub argv: Vec<String>,
    /// On top of the sandbox's environment.
    pub env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    /// Without one it reads an empty standard input.
    pub stdin: bool,
    pub terminal: Option<TerminalSize>,
    /// A name that callers find it by.
    pub tag: Option<String>,
}

/// Copies are cheap, and show the same.
#[derive(Clone, Debug, Default)]
pub struct Commands {
    all: Arc<Mutex<Vec<Arc<Command>>>>,
}

impl Commands {
    pub fn list(&self) -> Vec<Arc<Command>> {
        let all = lock(&self.all);
        all.iter().filter(|command| command.end().is_none()).cloned().collect()
    }

    /// A command that runs or has ended a short while ago. A number that was used again means the newest.
    pub fn find(&self, pid: u32) -> Option<Arc<Command>> {
        lock(&self.all)
            .iter()
            .rev()
            .find(|command| command.info.pid == pid)
            .cloned()
    }

    pub fn find_by_tag(&self, tag: &str) -> Option<Arc<Command>> {
        let all = lock(&self.all);
        all.iter()
            .rev()
            .find(|command| command.info.spec.tag.as_deref() == Some(tag))
            .cloned()
    }

    fn keep(&self, command: Arc<Command>) {
        lock(&self.all).push(Arc::clone(&command));
        let all = Arc::clone(&self.all);
        tokio::spawn(async move {
            let end = command.wait().await;
            command.let_go().await;
            if end.is_some() {
                tokio::time::sleep(KEPT).await;
            }
            lock(&all).retain(|one| !Arc::ptr_eq(one, &command));
        });
    }
}

/// What a command is started with: what goes to it, and our ends.
struct Ends {
    theirs: Vec<OwnedFd>,
    stdin: Option<OwnedFd>,
    sources: Sources,
}

impl Ends {
    fn make(spec: &CommandSpec) -> Result<Self, TierError> {
        if spec.terminal.is_some() {
            let (theirs, stdin, sources) = (Vec::new(), None, Sources::default());
            return Ok(Self { theirs, stdin, sources });
        }
        let (their_stdin, stdin) = match spec.stdin {
            true => pipe().map(|(read, write)| (read, Some(write)))?,
            false => (null()?, None),
        };
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        Ok(Self {
            theirs: vec![their_stdin, their_stdout, their_stderr],
            stdin,
            sources: Sources::of_pipes(watch(stdout)?, watch(stderr)?),
        })
    }
}

impl Walled {
    pub(crate) fn commands(&self) -> &Commands {
        &self.commands
    }

    /// Starts a program. The listener hears everything from its first byte on.
    pub(crate) async fn spawn(&self, spec: CommandSpec) -> Result<(Arc<Command>, Listener), EngineError> {
        let ends = Ends::make(&spec)?;
        let mut env = self.variables();
        env.extend(spec.env.clone());
        crate::check_environment(&env)?;
        let ask = Ask::Spawn {
            argv: spec.argv.clone(),
            env,
            cwd: spec.cwd.clone().unwrap_or_default(),
            terminal: spec.terminal,
        };
        let fds: Vec<BorrowedFd<'_>> = ends.theirs.iter().map(AsFd::as_fd).collect();
        let mut asked = self.bare.agent.ask(ask, &fds).await?;
        drop(ends.theirs);
        let (Answer::Spawned { pid }, fds) = asked.next().await? else {
            return Err(TierError::Agent.into());
        };
        let mut fds = VecDeque::from(fds);
        let (stdin, sources) = match spec.terminal {
            None => (ends.stdin, ends.sources),
            Some(_) => terminal(fds.pop_back().ok_or(TierError::Agent)?)?,
        };
        let reach = self.reach(fds.pop_front(), asked.request);
        let sources = match self.hides() {
            Some(hides) => sources.hiding(&hides),
            None => sources,
        };
        let (command, listener, told) = Command::new(pid, self.told(spec), reach, stdin)?;
        let command = Arc::new(command);
        self.commands.keep(Arc::clone(&command));
        tokio::spawn(pump(told, asked, sources));
        Ok((command, listener))
    }

    fn reach(&self, pidfd: Option<OwnedFd>, process: u32) -> Reach {
        Reach {
            agent: Arc::clone(&self.bare.agent),
            process,
            pidfd: Mutex::new(pidfd),
        }
    }
}

/// A terminal's other end is read and written by us.
fn terminal(master: OwnedFd) -> Result<(Option<OwnedFd>, Sources), TierError> {
    let writer = master.try_clone().map_err(TierError::Start)?;
    Ok((Some(writer), Sources::of_terminal(watch(master)?)))
}

/// Where new listeners reach the task that reads a command's output.
pub(super) type Newcomers = mpsc::Receiver<mpsc::Sender<super::CommandEvent>>;
