//! One sandbox of the jail tier: made, claimed, given contexts, emptied of its outputs, ended.

use super::context::{Context, Interpreter};
use super::link::{Event, JailError, Link, nonblocking, receive_on, send_bytes_on};
use crate::stat::Stats;
use atoll_core::wire::agent::{FromAgent, ToAgent, encode};
use atoll_core::{ContextId, Limits, SandboxId};
use atoll_jail::channel;
use atoll_jail::plan::{FromJailer, InputPlan, ToJailer};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

#[derive(Debug)]
pub(crate) struct JailSandbox {
    pub(crate) id: SandboxId,
    pub(crate) stats: Stats,
    link: Arc<Link>,
    events: mpsc::Receiver<Event>,
    agent: AsyncFd<OwnedFd>,
    next_number: u32,
    ended: bool,
}

/// What a directory of the sandbox holds: open files with their paths, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) files: Vec<(String, OwnedFd)>,
    pub(crate) skipped: Vec<(String, String)>,
    pub(crate) complete: bool,
}

impl JailSandbox {
    pub(crate) async fn create(link: Arc<Link>, template: u32, limits: Limits) -> Result<Self, JailError> {
        let id = SandboxId::from_random(crate::random_bytes());
        let (ours, theirs) = channel::pair().map_err(JailError::Channel)?;
        let mut events = link.listen(&id);
        let message = ToJailer::CreateSandbox { sandbox: id.clone(), template, limits };
        link.send(&message, &[theirs.as_fd()]).await?;
        drop(theirs);
        let agent = AsyncFd::new(nonblocking(ours)?).map_err(JailError::Start)?;
        let stats = match events.recv().await {
            Some((FromJailer::SandboxReady { stats, .. }, fds)) => Stats::new(stats, fds),
            Some((FromJailer::SandboxFailed { message, .. }, _)) => return Err(JailError::Sandbox(message)),
            Some((FromJailer::Ended { .. }, _)) => return Err(JailError::Sandbox("it ended at once".into())),
            _ => return Err(JailError::Gone(link.complaint())),
        };
        let mut sandbox = Self { id, stats, link, events, agent, next_number: 0, ended: false };
        match sandbox.hear_agent().await? {
            (FromAgent::Ready, _) => Ok(sandbox),
            _ => Err(JailError::Agent),
        }
    }

    /// Applies what is personal to a prepared sandbox.
    pub(crate) async fn claim(&mut self, limits: Limits, inputs: Vec<(InputPlan, OwnedFd)>) -> Result<(), JailError> {
        let (plans, proofs): (Vec<InputPlan>, Vec<OwnedFd>) = inputs.into_iter().unzip();
        let fds: Vec<BorrowedFd<'_>> = proofs.iter().map(AsFd::as_fd).collect();
        self.link.send(&ToJailer::Claim { sandbox: self.id.clone(), limits, inputs: plans }, &fds).await?;
        match self.next_event().await? {
            (FromJailer::Claimed { .. }, _) => Ok(()),
            (FromJailer::ClaimFailed { message, .. }, _) => Err(JailError::Claim(message)),
            (other, _) => Err(JailError::Claim(format!("unexpected {other:?}"))),
        }
    }

    /// Forks a context from the template's warm interpreter.
    pub(crate) async fn start_python(&mut self) -> Result<Context, JailError> {
        let number = self.number();
        let (control, their_control) = stream_pair()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        let fds = [their_control.as_fd(), their_stdout.as_fd(), their_stderr.as_fd()];
        self.link.send(&ToJailer::StartContext { sandbox: self.id.clone(), context: number }, &fds).await?;
        drop((their_control, their_stdout, their_stderr));
        let pidfd = loop {
            match self.next_event().await? {
                (FromJailer::ContextStarted { context, .. }, fds) if context == number => break fds.into_iter().next(),
                (FromJailer::ContextFailed { message, context, .. }, _) if context == number => {
                    return Err(JailError::Context(format!("{message}{}", self.link.complaint())));
                }
                _ => {}
            }
        };
        let pidfd = pidfd.ok_or(JailError::Agent)?;
        let id = ContextId::from_random(crate::random_bytes());
        let mut context = Context::new(id, number, Interpreter::Python, control, stdout, stderr, pidfd)?;
        if let Err(why) = context.wait_ready().await {
            return Err(JailError::Context(format!("{why}{}", self.link.complaint())));
        }
        Ok(context)
    }

    /// Starts a shell that keeps its state.
    pub(crate) async fn start_bash(&mut self, env: &BTreeMap<String, String>) -> Result<Context, JailError> {
        let number = self.number();
        let (control, their_control) = stream_pair()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .map_err(|errno| JailError::Start(errno.into()))?;
        let argv = ["/bin/bash", "--noprofile", "--norc", "-c", atoll_guest::BASH_DRIVER, "bash"];
        let spawn = ToAgent::Spawn {
            process: number,
            argv: argv.map(str::to_owned).to_vec(),
            env: env.clone(),
            cwd: "/home/user".into(),
        };
        let fds = [null.as_fd(), their_stdout.as_fd(), their_stderr.as_fd(), their_control.as_fd()];
        self.tell_agent(&spawn, &fds).await?;
        drop((their_control, their_stdout, their_stderr));
        let pidfd = match self.hear_agent().await? {
            (FromAgent::Spawned { .. }, fds) => fds.into_iter().next().ok_or(JailError::Agent)?,
            (FromAgent::SpawnFailed { message, .. }, _) => return Err(JailError::Context(message)),
            _ => return Err(JailError::Agent),
        };
        let id = ContextId::from_random(crate::random_bytes());
        let mut context = Context::new(id, number, Interpreter::Bash, control, stdout, stderr, pidfd)?;
        context.wait_ready().await.map_err(JailError::Context)?;
        Ok(context)
    }

    /// The walls of a context, read back from the kernel.
    pub(crate) async fn inspect(&mut self, context: &Context) -> Result<Map<String, Value>, JailError> {
        let message = ToJailer::Inspect { sandbox: self.id.clone() };
        self.link.send(&message, &[context.pidfd.as_fd()]).await?;
        loop {
            match self.next_event().await? {
                (FromJailer::Inspected { layers, .. }, _) => return Ok(layers),
                (FromJailer::InspectFailed { message, .. }, _) => return Err(JailError::Context(message)),
                _ => {}
            }
        }
    }

    /// How a context that is gone has ended, as its parent saw it: exit code, signal.
    pub(crate) async fn exit_of(&mut self, context: &Context) -> Result<(Option<i32>, Option<i32>), JailError> {
        match context.interpreter {
            Interpreter::Python => loop {
                if let (FromJailer::ContextExited { context: number, code, signal, .. }, _) = self.next_event().await?
                    && number == context.number
                {
                    return Ok((code, signal));
                }
            },
            Interpreter::Bash => loop {
                if let (FromAgent::Exited { process, code, signal }, _) = self.hear_agent().await?
                    && process == context.number
                {
                    return Ok((code, signal));
                }
            },
        }
    }

    pub(crate) async fn signal_group(&self, context: u32, signal: i32) -> Result<(), JailError> {
        self.tell_agent(&ToAgent::Signal { process: context, signal }, &[]).await
    }

    pub(crate) async fn collect(&mut self, dir: &str, max_files: u32) -> Result<Collected, JailError> {
        self.tell_agent(&ToAgent::Collect { dir: dir.to_owned(), max_files }, &[]).await?;
        let mut collected = Collected::default();
        loop {
            match self.hear_agent().await? {
                (FromAgent::File { path, .. }, fds) => {
                    collected.files.extend(fds.into_iter().next().map(|fd| (path, fd)));
                }
                (FromAgent::Skipped { path, why }, _) => collected.skipped.push((path, why)),
                (FromAgent::Collected { complete }, _) => {
                    collected.complete = complete;
                    return Ok(collected);
                }
                _ => {}
            }
        }
    }

    /// Free room of the scratch files: bytes, inodes.
    pub(crate) async fn scratch(&mut self) -> Result<(u64, u64), JailError> {
        self.tell_agent(&ToAgent::Scratch, &[]).await?;
        loop {
            if let (FromAgent::Scratch { free_bytes, free_inodes }, _) = self.hear_agent().await? {
                return Ok((free_bytes, free_inodes));
            }
        }
    }

    /// Ends the sandbox and waits until nothing of it is left.
    pub(crate) async fn end(mut self) -> Result<(), JailError> {
        self.ended = true;
        self.link.send(&ToJailer::EndSandbox { sandbox: self.id.clone() }, &[]).await?;
        loop {
            match self.next_event().await {
                Ok((FromJailer::Ended { .. }, _)) => return Ok(()),
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn number(&mut self) -> u32 {
        self.next_number += 1;
        self.next_number
    }

    async fn next_event(&mut self) -> Result<Event, JailError> {
        self.events.recv().await.ok_or_else(|| JailError::Gone(self.link.complaint()))
    }

    async fn tell_agent(&self, message: &ToAgent, fds: &[BorrowedFd<'_>]) -> Result<(), JailError> {
        let body = encode(message).ok_or(JailError::Agent)?;
        send_bytes_on(&self.agent, &body, fds).await
    }

    async fn hear_agent(&mut self) -> Result<(FromAgent, Vec<OwnedFd>), JailError> {
        receive_on(&self.agent).await.map_err(|_| JailError::Agent)
    }
}

impl Drop for JailSandbox {
    fn drop(&mut self) {
        if !self.ended {
            self.link.end_without_waiting(&self.id);
        }
    }
}

fn stream_pair() -> Result<(OwnedFd, OwnedFd), JailError> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| JailError::Start(errno.into()))
}

fn pipe() -> Result<(OwnedFd, OwnedFd), JailError> {
    rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).map_err(|errno| JailError::Start(errno.into()))
}
