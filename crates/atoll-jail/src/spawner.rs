//! The process that makes a template's sandboxes: root of the template's own user and pid namespace, nothing outside.
//!
//! One thread, one loop over three descriptors: the jailer's channel, the zygote's channel, ended children.
//! It holds the template's root directory, starts and restarts the zygote, and knows every live sandbox.

mod messages;
mod sandbox;
mod zygote;

pub(crate) use messages::{FromSpawner, ToSpawner};

use crate::channel::{self, ChannelError, next_fd};
use crate::filter::Filters;
use crate::plan::{Mode, TemplatePlan};
use crate::shell::AgentMain;
use crate::step::{OfWall, chain};
use crate::walls::NoWall;
use atoll_core::SandboxId;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, OwnedFd};
use sandbox::Sandbox;
use std::collections::HashMap;
use zygote::Zygote;

type Fault = Box<dyn std::error::Error>;

/// Runs until the jailer goes. Descriptor 0 is the jailer's channel.
pub fn main(agent: AgentMain) -> i32 {
    match Spawner::start(agent).and_then(|mut spawner| spawner.serve()) {
        Ok(()) => 0,
        Err(error) => {
            tell_no_wall(error.as_ref()).ok();
            let message = chain(error.as_ref());
            tell(&FromSpawner::Broken { message }, &[]).ok();
            1
        }
    }
}

struct Spawner {
    plan: TemplatePlan,
    mode: Mode,
    filters: Filters,
    agent: AgentMain,
    children: SignalFd,
    zygote: Zygote,
    sandboxes: HashMap<SandboxId, Sandbox>,
}

impl Spawner {
    fn start(agent: AgentMain) -> Result<Self, Fault> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        let (message, fds) = channel::receive::<ToSpawner>(rustix::stdio::stdin())?;
        let ToSpawner::Start { plan, parts, mode } = message else {
            return Err("the jailer did not begin with a plan".into());
        };
        let filters = Filters::compile(mode)?;
        crate::root::build(&parts, &fds).wall("mounts")?;
        drop(fds);
        let children = watch_children()?;
        let zygote = Zygote::new(plan.zygote.clone(), plan.walls.clone(), mode, plan.env.clone());
        let mut spawner = Self {
            plan: *plan,
            mode,
            filters,
            agent,
            children,
            zygote,
            sandboxes: HashMap::new(),
        };
        spawner.zygote.start()?;
        tell(&FromSpawner::Up, &[])?;
        Ok(spawner)
    }

    fn serve(&mut self) -> Result<(), Fault> {
        loop {
            let (jailer, zygote, children) = self.wait()?;
            if children {
                self.reap()?;
            }
            if zygote {
                self.hear_zygote()?;
            }
            if jailer {
                match channel::receive::<ToSpawner>(rustix::stdio::stdin()) {
                    Err(ChannelError::Closed) => return Ok(()),
                    received => {
                        let (message, fds) = received?;
                        self.obey(message, fds)?;
                    }
                }
            }
        }
    }

    fn wait(&self) -> Result<(bool, bool, bool), Fault> {
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
        ];
        if let Some(channel) = self.zygote.channel() {
            fds.push(PollFd::from_borrowed_fd(channel, PollFlags::IN));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd: &PollFd<'_>| !fd.revents().is_empty());
        Ok((ready(0), ready(2), ready(1)))
    }

    fn obey(&mut self, message: ToSpawner, fds: Vec<OwnedFd>) -> Result<(), Fault> {
        let mut fds = fds.into_iter();
        match message {
            ToSpawner::Start { .. } => Err("the jailer sent a second plan".into()),
            ToSpawner::Sandbox {
                sandbox,
                host_id,
                limits,
                scratch,
            } => {
                let mut next = || next_fd(&mut fds);
                match next().and_then(|agent| Ok((agent, if scratch { Some(next()?) } else { None }))) {
                    Ok((agent, scratch)) => {
                        let cgroups = fds.collect();
                        let (main, mode) = (self.agent, self.mode);
                        let order = sandbox::Order {
                            host_id,
                            limits,
                            agent,
                            cgroups,
                            scratch,
                            main,
                            mode,
                        };
                        self.make_sandbox(sandbox, order)
                    }
                    // This process has no descriptor left: refused, and the others go on.
                    Err(error) => tell(
                        &FromSpawner::SandboxFailed {
                            sandbox,
                            message: chain(&error),
                        },
                        &[],
                    ),
                }
            }
            ToSpawner::Context { sandbox, context } => {
                let mut next = || next_fd(&mut fds);
                match next().and_then(|control| Ok([control, next()?, next()?])) {
                    Ok(stdio) => self.start_context(sandbox, context, stdio),
                    Err(error) => tell(
                        &FromSpawner::ContextFailed {
                            sandbox,
                            context,
                            message: chain(&error),
                        },
                        &[],
                    ),
                }
            }
            ToSpawner::Attach { sandbox, limits, names } => self.attach(sandbox, limits, &names, fds.collect()),
            ToSpawner::End { sandbox } => self.end(&sandbox),
            ToSpawner::Rotate => self.zygote.rotate()?.into_iter().try_for_each(tell_event),
        }
    }

    fn make_sandbox(&mut self, id: SandboxId, order: sandbox::Order) -> Result<(), Fault> {
        match Sandbox::create(order, &self.plan, &self.filters) {
            Ok(sandbox) => {
                tell(
                    &FromSpawner::SandboxReady { sandbox: id.clone() },
                    &[sandbox.shell.as_fd()],
                )?;
                self.sandboxes.insert(id, sandbox);
            }
            Err(error) => {
                tell_no_wall(error.as_ref())?;
                tell(
                    &FromSpawner::SandboxFailed {
                        sandbox: id,
                        message: chain(error.as_ref()),
                    },
                    &[],
                )?;
            }
        }
        Ok(())
    }

    fn start_context(&mut self, id: SandboxId, context: u32, stdio: [OwnedFd; 3]) -> Result<(), Fault> {
        let Some(sandbox) = self.sandboxes.get(&id) else {
            let message = "the sandbox has ended".to_owned();
            return tell(
                &FromSpawner::ContextFailed {
                    sandbox: id,
                    context,
                    message,
                },
                &[],
            );
        };
        match zygote::Fork::new(id.clone(), context, stdio, sandbox, self.mode) {
            Ok(fork) => self.zygote.request(fork).into_iter().try_for_each(tell_event),
            Err(error) => tell(
                &FromSpawner::ContextFailed {
                    sandbox: id,
                    context,
                    message: chain(&error),
                },
                &[],
            ),
        }
    }

    fn attach(
        &mut self,
        id: SandboxId,
        limits: atoll_core::Limits,
        names: &[String],
        trees: Vec<OwnedFd>,
    ) -> Result<(), Fault> {
        let attached = match self.sandboxes.get_mut(&id) {
            Some(sandbox) => sandbox.attach(limits, names, &trees),
            None => Err("the sandbox has ended".into()),
        };
        match attached {
            Ok(()) => tell(&FromSpawner::Attached { sandbox: id }, &[]),
            Err(error) => {
                tell_no_wall(error.as_ref())?;
                let message = chain(error.as_ref());
                tell(&FromSpawner::AttachFailed { sandbox: id, message }, &[])
            }
        }
    }

    fn end(&mut self, id: &SandboxId) -> Result<(), Fault> {
        match self.sandboxes.get(id) {
            Some(sandbox) => Ok(rustix::process::pidfd_send_signal(
                &sandbox.shell,
                rustix::process::Signal::KILL,
            )?),
            None => tell(&FromSpawner::Ended { sandbox: id.clone() }, &[]),
        }
    }

    fn hear_zygote(&mut self) -> Result<(), Fault> {
        self.zygote.hear(&self.filters)?.into_iter().try_for_each(tell_event)
    }

    /// Every ended child: a shell (its sandbox is over), a zygote (start another), or a fork of a dead zygote.
    fn reap(&mut self) -> Result<(), Fault> {
        while let Ok(Some(_)) = self.children.read_signal() {}
        loop {
            let (pid, code, signal) = match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) => (pid.as_raw(), Some(code), None),
                Ok(WaitStatus::Signaled(pid, signal, _)) => (pid.as_raw(), None, Some(signal as i32)),
                Ok(WaitStatus::StillAlive) | Err(_) => return Ok(()),
                Ok(_) => continue,
            };
            let shell = self
                .sandboxes
                .iter()
                .find(|(_, s)| s.pid == pid)
                .map(|(id, _)| id.clone());
            if let Some(sandbox) = shell {
                self.sandboxes.remove(&sandbox);
                tell(&FromSpawner::Ended { sandbox }, &[])?;
            } else if self.zygote.is(pid) {
                let how = format!("the zygote ended (exit {code:?}, signal {signal:?})");
                // What it said before it died tells more than how it died.
                if self.zygote.has_unread_words() {
                    self.hear_zygote()?;
                }
                if self.zygote.failure().is_none() {
                    tell(&FromSpawner::ZygoteDown { message: how.clone() }, &[])?;
                }
                self.zygote.restart(&how)?.into_iter().try_for_each(tell_event)?;
            } else if let Some(unsaid) = self.zygote.retire(pid) {
                unsaid.into_iter().try_for_each(tell_event)?;
            } else if let Some((sandbox, context)) = self.zygote.forget(pid) {
                tell(
                    &FromSpawner::ContextExited {
                        sandbox,
                        context,
                        code,
                        signal,
                    },
                    &[],
                )?;
            }
        }
    }
}

fn tell_event(event: zygote::Event) -> Result<(), Fault> {
    match event {
        zygote::Event::NoWall(NoWall { layer, message, .. }) => tell(&FromSpawner::NoWall { layer, message }, &[]),
        zygote::Event::Ready(facts) => tell(&FromSpawner::ZygoteReady { facts }, &[]),
        zygote::Event::Failed(message) => tell(&FromSpawner::ZygoteDown { message }, &[]),
        zygote::Event::Forked {
            sandbox,
            context,
            pidfd,
        } => tell(&FromSpawner::ContextStarted { sandbox, context }, &[pidfd.as_fd()]),
        zygote::Event::Refused {
            sandbox,
            context,
            message,
        } => tell(
            &FromSpawner::ContextFailed {
                sandbox,
                context,
                message,
            },
            &[],
        ),
        zygote::Event::Exited {
            sandbox,
            context,
            code,
            signal,
        } => tell(
            &FromSpawner::ContextExited {
                sandbox,
                context,
                code,
                signal,
            },
            &[],
        ),
    }
}

fn tell_no_wall(error: &(dyn std::error::Error + 'static)) -> Result<(), Fault> {
    match NoWall::in_error(error) {
        Some(NoWall { layer, message, .. }) => tell(&FromSpawner::NoWall { layer, message }, &[]),
        None => Ok(()),
    }
}

fn tell(message: &FromSpawner, fds: &[rustix::fd::BorrowedFd<'_>]) -> Result<(), Fault> {
    Ok(channel::send(rustix::stdio::stdin(), message, fds)?)
}

fn watch_children() -> Result<SignalFd, Fault> {
    let mut mask = SigSet::empty();
    mask.add(Signal::SIGCHLD);
    mask.thread_block()?;
    Ok(SignalFd::with_flags(
        &mask,
        SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC,
    )?)
}
