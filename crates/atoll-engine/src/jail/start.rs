//! Starting contexts: forked from the warm interpreter by the jailer, or spawned as a command by the agent.

use super::agent::Asked;
use super::context::{Context, Interpreter, Parts};
use super::link::JailError;
use super::mailbox::{Letters, Topic};
use super::sandbox::JailSandbox;
use atoll_core::wire::agent::{Answer, Ask};
use atoll_jail::plan::{FromJailer, ToJailer};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeMap;

const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

/// Where the end of a context is told: by the jailer for a fork, by the agent for a command.
#[derive(Debug)]
pub(super) enum Parent {
    Jailer(Letters),
    Agent(Asked),
}

impl Parent {
    /// How the context has ended, as its parent saw it: exit code, signal. With the sandbox's first process the
    /// kernel kills all others.
    pub(super) async fn exit(&mut self) -> (Option<i32>, Option<i32>) {
        loop {
            match self {
                Self::Jailer(letters) => match letters.next().await {
                    Ok((FromJailer::ContextExited { code, signal, .. }, _)) => return (code, signal),
                    Ok(_) => {}
                    Err(_) => return (None, Some(SIGKILL)),
                },
                Self::Agent(asked) => match asked.next().await {
                    Ok((Answer::Exited { code, signal }, _)) => return (code, signal),
                    Ok(_) => {}
                    Err(_) => return (None, Some(SIGKILL)),
                },
            }
        }
    }
}

/// Our ends of a context's descriptors, and the other ends.
struct Ends {
    ours: [OwnedFd; 3],
    theirs: [OwnedFd; 3],
}

impl Ends {
    fn make() -> Result<Self, JailError> {
        let (control, their_control) = stream_pair()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        Ok(Self {
            ours: [control, stdout, stderr],
            theirs: [their_control, their_stdout, their_stderr],
        })
    }
}

/// A context that was asked for and has not answered yet.
pub(super) struct AskedContext {
    letters: Letters,
    ours: [OwnedFd; 3],
}

impl AskedContext {
    pub(super) async fn ask(sandbox: &JailSandbox) -> Result<Self, JailError> {
        let context = sandbox.next_context();
        let ends = Ends::make()?;
        let letters = sandbox.mailbox.listen(Topic::Context(context));
        let message = ToJailer::StartContext {
            sandbox: sandbox.id.clone(),
            context,
        };
        let fds = ends.theirs.each_ref().map(AsFd::as_fd);
        sandbox.link.send(&message, &fds).await?;
        Ok(Self {
            letters,
            ours: ends.ours,
        })
    }

    pub(super) async fn start(mut self, sandbox: &JailSandbox) -> Result<Context, JailError> {
        let pidfd = match self.letters.next().await? {
            (FromJailer::ContextStarted { .. }, fds) => fds.into_iter().next().ok_or(JailError::Agent)?,
            (FromJailer::ContextFailed { message, .. }, _) => {
                return Err(JailError::Context(format!("{message}{}", sandbox.link.complaint())));
            }
            (other, _) => return Err(JailError::Context(format!("unexpected {other:?}"))),
        };
        let parent = Parent::Jailer(self.letters);
        let mut context = Context::new(
            Interpreter::Python,
            self.ours,
            Parts {
                pidfd,
                parent,
                process: None,
            },
        )?;
        match context.wait_ready().await {
            Ok(()) => Ok(context),
            Err(JailError::Context(why)) => Err(JailError::Context(format!("{why}{}", sandbox.link.complaint()))),
            Err(error) => Err(error),
        }
    }
}

impl JailSandbox {
    /// Forks a context from the template's warm interpreter.
    pub(crate) async fn start_python(&self) -> Result<Context, JailError> {
        let started = AskedContext::ask(self).await?.start(self).await;
        started.map_err(|error| self.link.blame(error))
    }

    /// Starts an interpreter that is a program: it gets its control socket as descriptor 3.
    pub(crate) async fn start_program(
        &self,
        interpreter: Interpreter,
        argv: Vec<String>,
        env: &BTreeMap<String, String>,
        cwd: &str,
    ) -> Result<Context, JailError> {
        let ends = Ends::make()?;
        let null = null()?;
        let [control, stdout, stderr] = ends.theirs.each_ref().map(AsFd::as_fd);
        let spawn = Ask::Spawn {
            argv,
            env: env.clone(),
            cwd: cwd.to_owned(),
            terminal: None,
        };
        let mut asked = self.agent.ask(spawn, &[null.as_fd(), stdout, stderr, control]).await?;
        drop(ends.theirs);
        let pidfd = match asked.next().await? {
            (Answer::Spawned { .. }, fds) => fds.into_iter().next().ok_or(JailError::Agent)?,
            _ => return Err(JailError::Agent),
        };
        let process = Some(asked.request);
        let parent = Parent::Agent(asked);
        let mut context = Context::new(interpreter, ends.ours, Parts { pidfd, parent, process })?;
        context.wait_ready().await?;
        Ok(context)
    }
}

pub(crate) fn null() -> Result<OwnedFd, JailError> {
    rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
        .map_err(|errno| JailError::Start(errno.into()))
}

fn stream_pair() -> Result<(OwnedFd, OwnedFd), JailError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| JailError::Start(errno.into()))
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), JailError> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| JailError::Start(errno.into()))
}
