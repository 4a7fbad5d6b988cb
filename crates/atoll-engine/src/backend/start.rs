//! Starting contexts that are programs of the agent, and how any context's end is heard of.

use super::agent::Asked;
use super::bare::BareSandbox;
use super::context::{Context, Interpreter, Parts};
use super::descriptors::{null, pipe, stream_pair};
use super::jail::Letters;
use super::{Layers, TierError};
use atoll_core::wire::agent::{Answer, Ask};
use atoll_jail::plan::FromJailer;
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
pub(super) struct Ends {
    pub(super) ours: [OwnedFd; 3],
    pub(super) theirs: [OwnedFd; 3],
}

impl Ends {
    pub(super) fn make() -> Result<Self, TierError> {
        let (control, their_control) = stream_pair()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        Ok(Self {
            ours: [control, stdout, stderr],
            theirs: [their_control, their_stdout, their_stderr],
        })
    }
}

/// A context that waits for code, and its walls as they were read back.
pub(crate) type Inspected = (Context, Layers);

impl BareSandbox {
    /// Starts an interpreter that is a program: it gets its control socket as descriptor 3.
    pub(crate) async fn start_program(
        &self,
        interpreter: Interpreter,
        argv: Vec<String>,
        env: &BTreeMap<String, String>,
        cwd: &str,
    ) -> Result<Inspected, TierError> {
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
        let (pid, pidfd) = match asked.next().await? {
            (Answer::Spawned { pid }, fds) => (pid, fds.into_iter().next()),
            _ => return Err(TierError::Agent),
        };
        let process = Some(asked.request);
        let stream = |at: usize| asked.streams.get(at).copied().unwrap_or(0);
        let streams = [stream(3), stream(1), stream(2)];
        let parent = Parent::Agent(asked);
        let mut context = Context::new(interpreter, ends.ours, Parts { pidfd, parent, process })?;
        context.inside = Some(pid);
        context.streams = streams;
        self.wall.begins(&mut context).await?;
        context.wait_ready().await?;
        let layers = self.wall.inspect(&context).await?;
        Ok((context, layers))
    }
}
