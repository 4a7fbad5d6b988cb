//! One sandbox of the jail tier: made, claimed, given contexts, emptied of its outputs, ended.

use super::context::{Context, Interpreter};
use super::link::{Event, JailError, Link, receive_on, send_bytes_on, watch};
use crate::stat::Stats;
use atoll_core::wire::agent::{FromAgent, ToAgent, encode};
use atoll_core::{ContextId, Limits, SandboxId};
use atoll_jail::channel;
use atoll_jail::plan::{FromJailer, InputPlan, ToJailer};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;

const SIGKILL: i32 = rustix::process::Signal::KILL.as_raw();

#[derive(Debug)]
pub(crate) struct JailSandbox {
    pub(crate) id: SandboxId,
    pub(crate) stats: Stats,
    limits: Limits,
    link: Arc<Link>,
    events: mpsc::Receiver<Event>,
    agent: AsyncFd<OwnedFd>,
    /// Messages that came while another was awaited.
    heard: VecDeque<(FromAgent, Vec<OwnedFd>)>,
    next_number: u32,
    ended: bool,
    /// The jailer has said that nothing of it is left.
    over: bool,
}

/// What a directory of the sandbox holds: open files with their paths, and what was left out.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) files: Vec<(String, OwnedFd)>,
    pub(crate) skipped: Vec<(String, String)>,
    pub(crate) complete: bool,
}

impl JailSandbox {
    /// Makes a sandbox, with its inputs and, if wanted, its first Python context: all asked at once, then awaited.
    pub(crate) async fn create(
        link: Arc<Link>,
        template: u32,
        limits: Limits,
        inputs: Vec<(InputPlan, OwnedFd)>,
        python: bool,
    ) -> Result<(Self, Option<Context>), JailError> {
        let id = SandboxId::from_random(crate::random_bytes());
        let (ours, theirs) = channel::pair().map_err(JailError::Channel)?;
        let events = link.listen(&id);
        let message = ToJailer::CreateSandbox {
            sandbox: id.clone(),
            template,
            limits,
        };
        link.send(&message, &[theirs.as_fd()]).await?;
        drop(theirs);
        let agent = watch(ours)?;
        let mut sandbox = Self {
            id,
            stats: Stats::default(),
            limits,
            link,
            events,
            agent,
            heard: VecDeque::new(),
            next_number: 0,
            ended: false,
            over: false,
        };
        let claimed = !inputs.is_empty();
        if claimed {
            sandbox.ask_claim(limits, inputs).await?;
        }
        let context = if python {
            Some(sandbox.ask_python().await?)
        } else {
            None
        };
        sandbox.await_ready().await?;
        if claimed {
            sandbox.await_claim().await?;
        }
        match context {
            Some(asked) => {
                let context = asked.start(&mut sandbox).await?;
                Ok((sandbox, Some(context)))
            }
            None => Ok((sandbox, None)),
        }
    }

    async fn await_ready(&mut self) -> Result<(), JailError> {
        self.stats = match self.next_event().await? {
            (FromJailer::SandboxReady { stats, .. }, fds) => Stats::new(stats, fds),
            (FromJailer::SandboxFailed { message, .. }, _) => return Err(JailError::Sandbox(message)),
            // Asked in one go with the sandbox, and refused before it stood.
            (FromJailer::ClaimFailed { message, .. }, _) => return Err(JailError::Claim(message)),
            (FromJailer::ContextFailed { message, .. }, _) => return Err(JailError::Context(message)),
            (FromJailer::Ended { .. }, _) => {
                return Err(JailError::Sandbox(format!("it ended at once{}", self.link.complaint())));
            }
            (other, _) => return Err(JailError::Sandbox(format!("unexpected {other:?}"))),
        };
        match self.hear_agent().await? {
            (FromAgent::Ready, _) => Ok(()),
            _ => Err(JailError::Agent),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Applies what is personal to a prepared sandbox.
    pub(crate) async fn claim(&mut self, limits: Limits, inputs: Vec<(InputPlan, OwnedFd)>) -> Result<(), JailError> {
        if inputs.is_empty() && limits == self.limits {
            return Ok(());
        }
        self.ask_claim(limits, inputs).await?;
        self.await_claim().await
    }

    async fn ask_claim(&mut self, limits: Limits, inputs: Vec<(InputPlan, OwnedFd)>) -> Result<(), JailError> {
        let (plans, proofs): (Vec<InputPlan>, Vec<OwnedFd>) = inputs.into_iter().unzip();
        let fds: Vec<BorrowedFd<'_>> = proofs.iter().map(AsFd::as_fd).collect();
        self.limits = limits;
        self.link
            .send(
                &ToJailer::Claim {
                    sandbox: self.id.clone(),
                    limits,
                    inputs: plans,
                },
                &fds,
            )
            .await
    }

    async fn await_claim(&mut self) -> Result<(), JailError> {
        match self.next_event().await? {
            (FromJailer::Claimed { .. }, _) => Ok(()),
            (FromJailer::ClaimFailed { message, .. }, _) => Err(JailError::Claim(message)),
            (other, _) => Err(JailError::Claim(format!("unexpected {other:?}"))),
        }
    }

    /// Forks a context from the template's warm interpreter.
    pub(crate) async fn start_python(&mut self) -> Result<Context, JailError> {
        let asked = self.ask_python().await?;
        asked.start(self).await
    }

    async fn ask_python(&mut self) -> Result<AskedContext, JailError> {
        let number = self.number();
        let (control, their_control) = stream_pair()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        let fds = [their_control.as_fd(), their_stdout.as_fd(), their_stderr.as_fd()];
        self.link
            .send(
                &ToJailer::StartContext {
                    sandbox: self.id.clone(),
                    context: number,
                },
                &fds,
            )
            .await?;
        Ok(AskedContext {
            number,
            control,
            stdout,
            stderr,
        })
    }

    /// Starts a shell that keeps its state.
    pub(crate) async fn start_bash(&mut self, env: &BTreeMap<String, String>) -> Result<Context, JailError> {
        let number = self.number();
        let (control, their_control) = stream_pair()?;
        let (stdout, their_stdout) = pipe()?;
        let (stderr, their_stderr) = pipe()?;
        let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, rustix::fs::Mode::empty())
            .map_err(|errno| JailError::Start(errno.into()))?;
        let argv = [
            "/bin/bash",
            "--noprofile",
            "--norc",
            "-c",
            atoll_guest::BASH_DRIVER,
            "bash",
        ];
        let spawn = ToAgent::Spawn {
            process: number,
            argv: argv.map(str::to_owned).to_vec(),
            env: env.clone(),
            cwd: "/home/user".into(),
        };
        let fds = [
            null.as_fd(),
            their_stdout.as_fd(),
            their_stderr.as_fd(),
            their_control.as_fd(),
        ];
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
        let message = ToJailer::Inspect {
            sandbox: self.id.clone(),
        };
        self.link.send(&message, &[context.pidfd.as_fd()]).await?;
        loop {
            match self.next_event().await? {
                (FromJailer::Inspected { layers, .. }, _) => return Ok(layers),
                (FromJailer::InspectFailed { message, .. }, _) => return Err(JailError::Context(message)),
                _ => {}
            }
        }
    }

    /// How a context that is gone has ended, as its parent saw it: exit code, signal. With the sandbox's first process
    /// the kernel kills all others.
    pub(crate) async fn exit_of(&mut self, context: &Context) -> Result<(Option<i32>, Option<i32>), JailError> {
        match context.interpreter {
            Interpreter::Python => loop {
                match self.next_event().await {
                    Ok((
                        FromJailer::ContextExited {
                            context: number,
                            code,
                            signal,
                            ..
                        },
                        _,
                    )) if number == context.number => {
                        return Ok((code, signal));
                    }
                    Ok((FromJailer::Ended { .. }, _)) | Err(JailError::Over) => return Ok((None, Some(SIGKILL))),
                    other => drop(other?),
                }
            },
            Interpreter::Bash => loop {
                match self.hear_agent().await {
                    Ok((FromAgent::Exited { process, code, signal }, _)) if process == context.number => {
                        return Ok((code, signal));
                    }
                    Ok(_) => {}
                    Err(_) => return Ok((None, Some(SIGKILL))),
                }
            },
        }
    }

    pub(crate) async fn signal_group(&self, context: u32, signal: i32) -> Result<(), JailError> {
        self.tell_agent(
            &ToAgent::Signal {
                process: context,
                signal,
            },
            &[],
        )
        .await
    }

    pub(crate) async fn collect(&mut self, dir: &str, max_files: u32) -> Result<Collected, JailError> {
        self.tell_agent(
            &ToAgent::Collect {
                dir: dir.to_owned(),
                max_files,
            },
            &[],
        )
        .await?;
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
            if let (
                FromAgent::Scratch {
                    free_bytes,
                    free_inodes,
                },
                _,
            ) = self.hear_agent().await?
            {
                return Ok((free_bytes, free_inodes));
            }
        }
    }

    /// What all processes use now, from the agent: memory in bytes, processor time in milliseconds.
    pub(crate) async fn usage(&mut self, exact_above_bytes: u64) -> Result<(u64, u64), JailError> {
        self.tell_agent(&ToAgent::Usage { exact_above_bytes }, &[]).await?;
        loop {
            match self.hear_new().await? {
                (FromAgent::Usage { memory_bytes, cpu_ms }, _) => return Ok((memory_bytes, cpu_ms)),
                other => self.heard.push_back(other),
            }
        }
    }

    pub(crate) async fn kill_all(&self) -> Result<(), JailError> {
        self.tell_agent(&ToAgent::KillAll, &[]).await
    }

    /// Ends the sandbox and waits until nothing of it is left.
    pub(crate) async fn end(mut self) -> Result<(), JailError> {
        self.ended = true;
        if self.over {
            return Ok(());
        }
        self.link
            .send(
                &ToJailer::EndSandbox {
                    sandbox: self.id.clone(),
                },
                &[],
            )
            .await?;
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
        if self.over {
            return Err(JailError::Over);
        }
        let event = self
            .events
            .recv()
            .await
            .ok_or_else(|| JailError::Gone(self.link.complaint()))?;
        self.over = matches!(event.0, FromJailer::Ended { .. });
        Ok(event)
    }

    async fn tell_agent(&self, message: &ToAgent, fds: &[BorrowedFd<'_>]) -> Result<(), JailError> {
        let body = encode(message).ok_or(JailError::Agent)?;
        send_bytes_on(&self.agent, &body, fds).await
    }

    async fn hear_agent(&mut self) -> Result<(FromAgent, Vec<OwnedFd>), JailError> {
        match self.heard.pop_front() {
            Some(earlier) => Ok(earlier),
            None => self.hear_new().await,
        }
    }

    async fn hear_new(&mut self) -> Result<(FromAgent, Vec<OwnedFd>), JailError> {
        receive_on(&self.agent).await.map_err(|_| JailError::Agent)
    }
}

/// A context that was asked for and has not answered yet.
struct AskedContext {
    number: u32,
    control: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
}

impl AskedContext {
    async fn start(self, sandbox: &mut JailSandbox) -> Result<Context, JailError> {
        let pidfd = loop {
            match sandbox.next_event().await? {
                (FromJailer::ContextStarted { context, .. }, fds) if context == self.number => {
                    break fds.into_iter().next().ok_or(JailError::Agent)?;
                }
                (FromJailer::ContextFailed { message, context, .. }, _) if context == self.number => {
                    return Err(JailError::Context(format!("{message}{}", sandbox.link.complaint())));
                }
                _ => {}
            }
        };
        let id = ContextId::from_random(crate::random_bytes());
        let parts = (self.control, self.stdout, self.stderr);
        let mut context = Context::new(id, self.number, Interpreter::Python, parts.0, parts.1, parts.2, pidfd)?;
        match context.wait_ready().await {
            Ok(()) => Ok(context),
            Err(why) => Err(JailError::Context(format!("{why}{}", sandbox.link.complaint()))),
        }
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
