//! The helper process that holds the powers: cgroups, host ids, trees of the host. One thread, no tokio.
//!
//! It starts one spawner per template and passes messages between it and the engine. When the engine goes, however
//! it goes, the jailer sees the end of its channel, ends every sandbox and removes what it made.

mod host;
mod sandboxes;
mod template;

pub use host::{Layer, Probe, probe};

use crate::cgroup::{self, InstanceGroups, Layout};
use crate::channel::{self, ChannelError, next_fd};
use crate::instance::Instance;
use crate::plan::{FromJailer, GENERATION, HostFacts, Mode, TemplatePlan, ToJailer};
use crate::spawner::{FromSpawner, ToSpawner};
use crate::step::{OfWall, chain};
use crate::walls::NoWall;
use atoll_core::SandboxId;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sandboxes::Sandbox;
use std::collections::{BTreeMap, HashMap};
use template::Template;

type Fault = Box<dyn std::error::Error>;

/// Runs until the engine goes. Descriptor 0 is the engine's channel.
pub fn main() -> i32 {
    // What is made for sandboxes is readable for them, whatever the caller's umask; the same for inherited limits.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    crate::rlimits::shed_inherited();
    match Jailer::start() {
        Ok(mut jailer) => {
            let served = jailer.serve();
            jailer.end_everything();
            i32::from(served.is_err())
        }
        Err(error) => {
            let no_wall = NoWall::in_error(error.as_ref());
            let no_wall = no_wall.unwrap_or_else(|| NoWall::new("jailer", chain(error.as_ref())));
            tell(&no_wall.answer(), &[]).ok();
            1
        }
    }
}

struct Jailer {
    mode: Mode,
    instance: Instance,
    groups: Option<InstanceGroups>,
    /// Why there are no groups, where there are none.
    no_groups: Option<String>,
    templates: BTreeMap<u32, Template>,
    /// Templates whose spawner has ended.
    lost: BTreeMap<u32, TemplatePlan>,
    sandboxes: HashMap<SandboxId, Sandbox>,
}

impl Jailer {
    fn start() -> Result<Self, Fault> {
        let (hello, _) = channel::receive::<ToJailer>(rustix::stdio::stdin())?;
        let ToJailer::Hello {
            generation: GENERATION,
            instance,
            run_dir,
        } = hello
        else {
            return Err("the engine speaks another generation of the jail's messages".into());
        };
        let mode = host::mode();
        let layout = host::check(mode, &own_processes())?;
        let instance = Instance::announce(&run_dir, &instance)?;
        instance.sweep();
        let (groups, no_groups) = match layout.and_then(|layout| make_groups(layout, &instance)) {
            Ok(groups) => (Some(groups), None),
            // The machine promised them.
            Err(why) if mode == Mode::Root => return Err(NoWall::new("cgroups", why).into()),
            Err(why) => (None, Some(why)),
        };
        if mode == Mode::Rootless {
            host::become_namespace_root().wall("user_namespaces")?;
        }
        let cgroups = groups.as_ref().map_or("none", |groups| groups.layout().kind());
        let host = HostFacts {
            mode,
            landlock_abi: crate::paths::kernel_abi(),
            cgroups: cgroups.to_owned(),
        };
        tell(&FromJailer::Hello { host }, &[])?;
        Ok(Self {
            mode,
            instance,
            groups,
            no_groups,
            templates: BTreeMap::new(),
            lost: BTreeMap::new(),
            sandboxes: HashMap::new(),
        })
    }

    fn serve(&mut self) -> Result<(), Fault> {
        loop {
            let (engine, spawners) = self.wait()?;
            for template in spawners {
                self.hear_spawner(template)?;
            }
            if engine {
                match channel::receive::<ToJailer>(rustix::stdio::stdin()) {
                    Err(ChannelError::Closed) => return Ok(()),
                    received => {
                        let (message, fds) = received?;
                        self.obey(message, fds)?;
                    }
                }
            }
        }
    }

    fn wait(&self) -> Result<(bool, Vec<u32>), Fault> {
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&stdin, PollFlags::IN)];
        let numbers: Vec<u32> = self.templates.keys().copied().collect();
        fds.extend(
            self.templates
                .values()
                .map(|t| PollFd::from_borrowed_fd(t.channel.as_fd(), PollFlags::IN)),
        );
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let spawners = numbers
            .into_iter()
            .zip(&fds[1..])
            .filter(|(_, fd)| ready(fd))
            .map(|(n, _)| n)
            .collect();
        Ok((ready(&fds[0]), spawners))
    }

    fn obey(&mut self, message: ToJailer, fds: Vec<OwnedFd>) -> Result<(), Fault> {
        let mut fds = fds.into_iter();
        match message {
            ToJailer::Hello { .. } => Err("the engine said hello twice".into()),
            ToJailer::OpenTemplate { template, plan } => {
                match Template::open(*plan, self.mode, &self.instance) {
                    Ok(opened) => drop(self.templates.insert(template, opened)),
                    Err(error) => {
                        tell_no_wall(error.as_ref())?;
                        let message = chain(error.as_ref());
                        tell(&FromJailer::ZygoteDown { template, message }, &[])?;
                    }
                }
                Ok(())
            }
            ToJailer::CreateSandbox {
                sandbox,
                template,
                limits,
            } => {
                let made = match next_fd(&mut fds) {
                    Ok(agent) => self.create_sandbox(&sandbox, template, limits, &agent),
                    // This process has no descriptor left: refused, and the others go on.
                    Err(error) => Err(error.into()),
                };
                if let Err(error) = made {
                    self.forget(&sandbox);
                    tell_no_wall(error.as_ref())?;
                    tell(
                        &FromJailer::SandboxFailed {
                            sandbox,
                            message: chain(error.as_ref()),
                        },
                        &[],
                    )?;
                }
                Ok(())
            }
            ToJailer::StartContext { sandbox, context } => {
                let stdio: Vec<OwnedFd> = fds.collect();
                let fds: Vec<BorrowedFd<'_>> = stdio.iter().map(AsFd::as_fd).collect();
                if self
                    .to_spawner(
                        &sandbox,
                        &ToSpawner::Context {
                            sandbox: sandbox.clone(),
                            context,
                        },
                        &fds,
                    )
                    .is_err()
                {
                    let message = "the sandbox has ended".to_owned();
                    tell(
                        &FromJailer::ContextFailed {
                            sandbox,
                            context,
                            message,
                        },
                        &[],
                    )?;
                }
                Ok(())
            }
            ToJailer::Claim {
                sandbox,
                limits,
                inputs,
            } => {
                let proofs: Vec<OwnedFd> = fds.collect();
                if let Err(error) = self.claim(&sandbox, limits, &inputs, &proofs) {
                    tell(
                        &FromJailer::ClaimFailed {
                            sandbox,
                            message: chain(error.as_ref()),
                        },
                        &[],
                    )?;
                }
                Ok(())
            }
            ToJailer::Inspect { sandbox } => match next_fd(&mut fds) {
                Ok(pidfd) => self.inspect(sandbox, &pidfd),
                Err(error) => tell(
                    &FromJailer::InspectFailed {
                        sandbox,
                        message: chain(&error),
                    },
                    &[],
                ),
            },
            ToJailer::EndSandbox { sandbox } => self.end_sandbox(sandbox),
            ToJailer::RotateZygote { template } => match self.templates.get(&template) {
                Some(template) => Ok(channel::send(&template.channel, &ToSpawner::Rotate, &[])?),
                None => Ok(()),
            },
        }
    }

    fn to_spawner(&self, id: &SandboxId, message: &ToSpawner, fds: &[BorrowedFd<'_>]) -> Result<(), Fault> {
        let sandbox = self.sandboxes.get(id).ok_or("there is no such sandbox")?;
        let template = self
            .templates
            .get(&sandbox.template)
            .ok_or("its template is not open")?;
        Ok(channel::send(&template.channel, message, fds)?)
    }

    fn hear_spawner(&mut self, number: u32) -> Result<(), Fault> {
        let Some(template) = self.templates.get(&number) else {
            return Ok(());
        };
        let (message, fds) = match channel::receive_to_the_end::<FromSpawner>(&template.channel) {
            Err(ChannelError::Closed) => return self.lose_template(number, "the spawner ended"),
            received => received?,
        };
        match message {
            FromSpawner::Up => {
                self.templates
                    .entry(number)
                    .and_modify(|template| template.is_up = true);
                Ok(())
            }
            FromSpawner::NoWall { layer, message } => tell(&NoWall::new(&layer, message).answer(), &[]),
            FromSpawner::Broken { message } => self.lose_template(number, &message),
            FromSpawner::ZygoteReady { facts } => tell(
                &FromJailer::ZygoteReady {
                    template: number,
                    facts,
                },
                &[],
            ),
            FromSpawner::ZygoteDown { message } => tell(
                &FromJailer::ZygoteDown {
                    template: number,
                    message,
                },
                &[],
            ),
            FromSpawner::SandboxReady { sandbox } => self.sandbox_is_ready(sandbox, fds),
            FromSpawner::SandboxFailed { sandbox, message } => {
                self.forget(&sandbox);
                tell(&FromJailer::SandboxFailed { sandbox, message }, &[])
            }
            FromSpawner::ContextStarted { sandbox, context } => {
                let pidfd: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
                tell(&FromJailer::ContextStarted { sandbox, context }, &pidfd)
            }
            FromSpawner::ContextFailed {
                sandbox,
                context,
                message,
            } => tell(
                &FromJailer::ContextFailed {
                    sandbox,
                    context,
                    message,
                },
                &[],
            ),
            FromSpawner::ContextExited {
                sandbox,
                context,
                code,
                signal,
            } => tell(
                &FromJailer::ContextExited {
                    sandbox,
                    context,
                    code,
                    signal,
                },
                &[],
            ),
            FromSpawner::Attached { sandbox } => tell(&FromJailer::Claimed { sandbox }, &[]),
            FromSpawner::AttachFailed { sandbox, message } => tell(&FromJailer::ClaimFailed { sandbox, message }, &[]),
            FromSpawner::Ended { sandbox } => {
                self.forget(&sandbox);
                tell(&FromJailer::Ended { sandbox }, &[])
            }
        }
    }

    /// A spawner is gone and all its sandboxes with it. The next sandbox gets another, if this one ever stood.
    fn lose_template(&mut self, number: u32, message: &str) -> Result<(), Fault> {
        if let Some(lost) = self.templates.remove(&number).filter(|lost| lost.is_up) {
            self.lost.insert(number, lost.plan.clone());
        }
        let lost: Vec<SandboxId> = self
            .sandboxes
            .iter()
            .filter(|(_, s)| s.template == number)
            .map(|(id, _)| id.clone())
            .collect();
        for sandbox in lost {
            self.forget(&sandbox);
            tell(&FromJailer::Ended { sandbox }, &[])?;
        }
        tell(
            &FromJailer::ZygoteDown {
                template: number,
                message: message.to_owned(),
            },
            &[],
        )
    }

    /// Removes the groups of a sandbox whose processes are gone.
    fn forget(&mut self, id: &SandboxId) {
        if let Some(groups) = self.sandboxes.remove(id).and_then(|sandbox| sandbox.groups) {
            groups.remove();
        }
    }

    /// The engine has gone: nothing of this instance stays.
    fn end_everything(&mut self) {
        // Dropping a template kills its spawner and waits for it; the kernel kills all below.
        self.templates.clear();
        let ids: Vec<SandboxId> = self.sandboxes.keys().cloned().collect();
        ids.iter().for_each(|id| self.forget(id));
        if let Some(groups) = &self.groups {
            groups.remove();
        }
        self.instance.remove_spool();
    }
}

/// Before the failure itself: that it was a wall which this host cannot build.
fn tell_no_wall(error: &(dyn std::error::Error + 'static)) -> Result<(), Fault> {
    match NoWall::in_error(error) {
        Some(no_wall) => tell(&no_wall.answer(), &[]),
        None => Ok(()),
    }
}

/// The engine and this process: an instance, before it has started anything.
fn own_processes() -> [u32; 2] {
    let engine = rustix::process::getppid().map_or(0, |pid| pid.as_raw_pid().cast_unsigned());
    [engine, std::process::id()]
}

fn make_groups(layout: Layout, instance: &Instance) -> Result<InstanceGroups, String> {
    cgroup::sweep(&layout, &|name| instance.is_alive(name));
    InstanceGroups::create(layout, &instance.name, &own_processes()).map_err(|error| chain(&error))
}

fn tell(message: &FromJailer, fds: &[BorrowedFd<'_>]) -> Result<(), Fault> {
    match channel::send(rustix::stdio::stdin(), message, fds) {
        // The engine is gone; the loop sees the end of its channel next.
        Err(ChannelError::Closed) => Ok(()),
        sent => Ok(sent?),
    }
}
