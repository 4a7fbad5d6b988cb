//! The helper process that holds the powers: cgroups, host ids, trees of the host. One thread, no tokio.
//!
//! It starts one spawner per template and passes messages between it and the engine. When the engine goes, however
//! it goes, the jailer sees the end of its channel, ends every sandbox and removes what it made.

mod host;
pub(crate) mod host_ids;
mod sandboxes;
mod template;

pub use host::{Layer, Probe, probe, runtime_ids};

use crate::cgroup::{self, InstanceGroups, Layout};
use crate::channel::{self, ChannelError};
use crate::filter::Filters;
use crate::instance::Instance;
use crate::outbox::{Outbox, is_readable};
use crate::plan::{FromJailer, GENERATION, HostFacts, Mode, TemplatePlan, ToJailer};
use crate::spawner::{FromSpawner, ToSpawner};
use crate::step::{OfWall, Step, chain};
use crate::walls::NoWall;
use atoll_core::SandboxId;
use rustix::event::{PollFd, poll};
use rustix::fd::OwnedFd;
use rustix::stdio::stdin;
use sandboxes::{Sandbox, Wanted};
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
            let no_wall = no_wall.unwrap_or_else(|| {
                NoWall::new(
                    "jailer",
                    format!("the jailer failed to start: {}", chain(error.as_ref())),
                )
            });
            channel::send(stdin(), &no_wall.answer(), &[]).ok();
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
    to_engine: Outbox,
    /// The digest of the seccomp programs, for receipts.
    filters: String,
}

impl Jailer {
    fn start() -> Result<Self, Fault> {
        let (hello, _) = channel::receive::<ToJailer>(stdin())?;
        let ToJailer::Hello {
            generation: GENERATION,
            instance,
            run_dir,
        } = hello
        else {
            return Err("protocol version mismatch between engine and jailer".into());
        };
        let mode = host::mode();
        let layout = host::check(mode, &own_processes())?;
        if mode == Mode::Root {
            // Nobody below has any, and nobody there can take some: setgroups is denied in their namespaces.
            rustix::thread::set_thread_groups(&[])
                .step("drop supplementary groups")
                .wall("ids")?;
        }
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
        let mut jailer = Self {
            mode,
            instance,
            groups,
            no_groups,
            templates: BTreeMap::new(),
            lost: BTreeMap::new(),
            sandboxes: HashMap::new(),
            to_engine: Outbox::default(),
            filters: String::new(),
        };
        jailer.tell(&FromJailer::Hello { host })?;
        Ok(jailer)
    }

    fn serve(&mut self) -> Result<(), Fault> {
        loop {
            let (engine, spawners) = self.wait()?;
            self.flush()?;
            for template in spawners {
                self.hear_spawner(template)?;
            }
            if engine {
                match channel::receive::<ToJailer>(stdin()) {
                    Err(ChannelError::Closed) => return Ok(()),
                    received => {
                        let (message, fds) = received?;
                        self.obey(message, fds)?;
                    }
                }
            }
        }
    }

    /// Sleeps until something is to be done. Work is taken only while there is room for what follows from it; answers of
    /// spawners as long as there is room for them at the engine, which always reads.
    fn wait(&self) -> Result<(bool, Vec<u32>), Fault> {
        let answers = !self.to_engine.is_full();
        let work = answers && self.templates.values().all(|template| !template.outbox.is_full());
        let engine = stdin();
        let mut fds = vec![PollFd::from_borrowed_fd(engine, self.to_engine.interest(work))];
        for template in self.templates.values() {
            fds.push(PollFd::new(&template.channel, template.outbox.interest(answers)));
        }
        match poll(&mut fds, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |fd: &PollFd<'_>| is_readable(fd.revents());
        let spawners = self.templates.keys().zip(&fds[1..]).filter(|(_, fd)| ready(fd));
        Ok((ready(&fds[0]), spawners.map(|(number, _)| *number).collect()))
    }

    /// Sends what waited and now has room.
    fn flush(&mut self) -> Result<(), Fault> {
        match self.to_engine.flush(stdin()) {
            // The engine is gone; the loop sees the end of its channel next.
            Ok(()) | Err(ChannelError::Closed) => {}
            Err(error) => return Err(error.into()),
        }
        for template in self.templates.values_mut() {
            match template.outbox.flush(&template.channel) {
                // The spawner is gone; the loop sees the end of its channel next.
                Ok(()) | Err(ChannelError::Closed) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn obey(&mut self, message: ToJailer, fds: Vec<OwnedFd>) -> Result<(), Fault> {
        match message {
            ToJailer::Hello { .. } => Err("unexpected second Hello message from the engine".into()),
            ToJailer::OpenTemplate { template, plan } => match Template::open(*plan, self.mode, &self.instance) {
                Ok(opened) => {
                    self.templates.insert(template, opened);
                    // While the interpreter warms up.
                    self.filters = Filters::compile(self.mode)?.digest();
                    Ok(())
                }
                Err(error) => {
                    self.tell_no_wall(error.as_ref())?;
                    let message = chain(error.as_ref());
                    self.tell(&FromJailer::ZygoteDown { template, message })
                }
            },
            ToJailer::CreateSandbox {
                sandbox,
                template,
                limits,
                watched,
                keeper,
                context,
                vm,
            } => {
                let wanted = Wanted {
                    template,
                    limits,
                    watched,
                    keeper,
                    context,
                    vm,
                };
                if let Err(error) = self.create_sandbox(&sandbox, &wanted, fds) {
                    self.forget(&sandbox);
                    self.tell_failed(sandbox, error.as_ref())?;
                }
                Ok(())
            }
            ToJailer::StartContext { sandbox, context } => {
                let order = ToSpawner::Context {
                    sandbox: sandbox.clone(),
                    context,
                };
                match self.order(&sandbox, &order, fds) {
                    Ok(()) => Ok(()),
                    Err(_) => self.tell(&FromJailer::ContextFailed {
                        sandbox,
                        context,
                        message: "the sandbox has ended".to_owned(),
                    }),
                }
            }
            ToJailer::Claim {
                sandbox,
                limits,
                inputs,
            } => match self.claim(&sandbox, limits, &inputs, &fds) {
                Ok(()) => Ok(()),
                Err(error) => self.tell(&FromJailer::ClaimFailed {
                    sandbox,
                    message: chain(error.as_ref()),
                }),
            },
            ToJailer::Inspect { sandbox } => {
                let pidfd = self.whom(&sandbox, fds);
                self.inspect(sandbox, pidfd)
            }
            ToJailer::EndSandbox { sandbox } => self.end_sandbox(sandbox),
            ToJailer::RotateZygote { template } => match self.templates.get_mut(&template) {
                Some(template) => {
                    // A spawner that is gone has no zygote to replace; its end is seen next.
                    template.post(&ToSpawner::Rotate, Vec::new()).ok();
                    Ok(())
                }
                None => Ok(()),
            },
        }
    }

    /// Where the spawner has ended, the end of its sandboxes is told before the order is refused.
    fn order(&mut self, id: &SandboxId, order: &ToSpawner, fds: Vec<OwnedFd>) -> Result<(), Fault> {
        let number = self.sandboxes.get(id).ok_or("the sandbox does not exist")?.template;
        let template = self
            .templates
            .get_mut(&number)
            .ok_or("the sandbox's template is not open")?;
        match template.post(order, fds) {
            Err(ChannelError::Closed) => {
                self.hear_last_words(number)?;
                Err("the sandbox has ended".into())
            }
            posted => Ok(posted?),
        }
    }

    fn hear_spawner(&mut self, number: u32) -> Result<(), Fault> {
        let Some(template) = self.templates.get(&number) else {
            return Ok(());
        };
        let (message, fds) = match channel::receive_to_the_end::<FromSpawner>(&template.channel) {
            Err(ChannelError::Closed) => return self.lose_template(number, "the spawner exited"),
            received => received?,
        };
        match message {
            FromSpawner::Up => {
                self.templates
                    .entry(number)
                    .and_modify(|template| template.is_up = true);
                Ok(())
            }
            FromSpawner::NoWall { layer, message } => self.tell(&NoWall::new(&layer, message).answer()),
            FromSpawner::Broken { message } => self.lose_template(number, &message),
            FromSpawner::ZygoteReady { facts } => self.tell(&FromJailer::ZygoteReady {
                template: number,
                facts,
            }),
            FromSpawner::ZygoteDown { message } => self.tell(&FromJailer::ZygoteDown {
                template: number,
                message,
            }),
            FromSpawner::SandboxReady { sandbox } => self.sandbox_is_ready(sandbox, fds),
            FromSpawner::SandboxFailed { sandbox, message } => {
                self.tell(&FromJailer::SandboxFailed { sandbox, message })
            }
            FromSpawner::ContextStarted { sandbox, context } => {
                self.tell_with(&FromJailer::ContextStarted { sandbox, context }, fds)
            }
            FromSpawner::ContextFailed {
                sandbox,
                context,
                message,
            } => self.tell(&FromJailer::ContextFailed {
                sandbox,
                context,
                message,
            }),
            FromSpawner::ContextExited {
                sandbox,
                context,
                code,
                signal,
            } => self.tell(&FromJailer::ContextExited {
                sandbox,
                context,
                code,
                signal,
            }),
            FromSpawner::Attached { sandbox } => self.tell(&FromJailer::Claimed { sandbox }),
            FromSpawner::AttachFailed { sandbox, message } => self.tell(&FromJailer::ClaimFailed { sandbox, message }),
            FromSpawner::Ended { sandbox } => {
                self.forget(&sandbox);
                self.tell(&FromJailer::Ended {
                    sandbox,
                    with_spawner: false,
                })
            }
        }
    }

    /// A spawner is gone and all its sandboxes with it. The next sandbox gets another, if this one ever stood.
    /// The cause is told before the ends.
    fn lose_template(&mut self, number: u32, message: &str) -> Result<(), Fault> {
        let stood = self.templates.remove(&number).filter(|lost| lost.is_up);
        let with_spawner = stood.is_some();
        if let Some(lost) = stood {
            self.lost.insert(number, lost.plan.clone());
        }
        self.tell(&FromJailer::ZygoteDown {
            template: number,
            message: message.to_owned(),
        })?;
        let lost: Vec<SandboxId> = self
            .sandboxes
            .iter()
            .filter(|(_, s)| s.template == number)
            .map(|(id, _)| id.clone())
            .collect();
        for sandbox in lost {
            self.forget(&sandbox);
            self.tell(&FromJailer::Ended { sandbox, with_spawner })?;
        }
        Ok(())
    }

    /// The processes of a sandbox are gone: its groups go, too, and its host id is free.
    fn forget(&mut self, id: &SandboxId) {
        let Some(sandbox) = self.sandboxes.remove(id) else {
            return;
        };
        if let Some(groups) = &sandbox.groups {
            groups.remove();
        }
        if let Some(template) = self.templates.get_mut(&sandbox.template) {
            template.return_host_id(sandbox.host_id);
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

    /// Before the failure itself: that it was a wall which this host cannot build.
    fn tell_no_wall(&mut self, error: &(dyn std::error::Error + 'static)) -> Result<(), Fault> {
        match NoWall::in_error(error) {
            Some(no_wall) => self.tell(&no_wall.answer()),
            None => Ok(()),
        }
    }

    fn tell(&mut self, message: &FromJailer) -> Result<(), Fault> {
        self.tell_with(message, Vec::new())
    }

    fn tell_with(&mut self, message: &FromJailer, fds: Vec<OwnedFd>) -> Result<(), Fault> {
        match self.to_engine.post(stdin(), message, fds) {
            // The engine is gone; the loop sees the end of its channel next.
            Err(ChannelError::Closed) => Ok(()),
            posted => Ok(posted?),
        }
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
