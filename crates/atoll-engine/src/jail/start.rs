//! Starting contexts: forked from the warm interpreter by the jailer, or spawned as a command by the agent.

use super::agent::Asked;
use super::context::{Context, Interpreter, Parts};
use super::link::JailError;
use super::mailbox::{Letters, Topic};
use super::sandbox::JailSandbox;
use atoll_core::wire::agent::{Answer, Ask};
use atoll_jail::plan::{FromJailer, ToJailer};
use rustix::fd::{AsFd, OwnedFd};
use serde_json::{Map, Value};
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

/// A context that waits for code, and its walls as the kernel told them.
pub(crate) type Inspected = (Context, Map<String, Value>);

/// A context that was asked for and has not answered yet.
pub(super) struct AskedContext {
    pub(super) number: u32,
    letters: Letters,
    ours: [OwnedFd; 3],
}

impl AskedContext {
    /// Also returns the context's own ends: control socket, stdout, stderr.
    pub(super) fn new(sandbox: &JailSandbox) -> Result<(Self, [OwnedFd; 3]), JailError> {
        let number = sandbox.next_context();
        let Ends { ours, theirs } = Ends::make()?;
        let letters = sandbox.mailbox.listen(Topic::Context(number));
        Ok((Self { number, letters, ours }, theirs))
    }

    /// Waits for a fork of the zygote. Its walls are read back as soon as it has locked itself down, while it gets ready;
    /// it has no code to run before both are done.
    pub(super) async fn start(mut self, sandbox: &JailSandbox) -> Result<Inspected, JailError> {
        let failed = |why: String| JailError::Context(format!("{why}{}", sandbox.link.complaint()));
        let explain = |error: JailError| match error {
            JailError::Context(why) => failed(why),
            other => other,
        };
        let pidfd = match self.letters.next().await? {
            (FromJailer::ContextStarted { .. }, fds) => fds.into_iter().next().ok_or(JailError::Agent)?,
            (FromJailer::ContextFailed { message, .. }, _) => return Err(failed(message)),
            (other, _) => return Err(JailError::Context(format!("unexpected {other:?}"))),
        };
        let parts = Parts {
            pidfd,
            parent: Parent::Jailer(self.letters),
            process: None,
        };
        let mut context = Context::new(Interpreter::Python, self.ours, parts)?;
        sandbox.watch_context(&mut context).await?;
        context.wait_locked().await.map_err(explain)?;
        let asked = sandbox.ask_inspect(&context).await?;
        context.wait_ready().await.map_err(explain)?;
        let layers = asked.layers().await?;
        Ok((context, layers))
    }
}

impl JailSandbox {
    /// Forks a context from the template's warm interpreter.
    pub(crate) async fn start_python(&self) -> Result<Inspected, JailError> {
        let (asked, theirs) = AskedContext::new(self)?;
        let message = ToJailer::StartContext {
            sandbox: self.id.clone(),
            context: asked.number,
        };
        self.link.send(&message, &theirs.each_ref().map(AsFd::as_fd)).await?;
        drop(theirs);
        asked.start(self).await.map_err(|error| self.link.blame(error))
    }

    /// Starts an interpreter that is a program: it gets its control socket as descriptor 3.
    pub(crate) async fn start_program(
        &self,
        interpreter: Interpreter,
        argv: Vec<String>,
        env: &BTreeMap<String, String>,
        cwd: &str,
    ) -> Result<Inspected, JailError> {
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
        self.watch_context(&mut context).await?;
        context.wait_ready().await?;
        let layers = self.inspect(&context).await?;
        Ok((context, layers))
    }

    /// In a dry run: takes the context's listener before anything runs in it.
    async fn watch_context(&self, context: &mut Context) -> Result<(), JailError> {
        let Some(watch) = &self.watch else {
            return Ok(());
        };
        let listener = context.take_listener().await?;
        watch.begin(listener, context.process.is_some())
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
