//! The process that makes a template's sandboxes: root of the template's own user and pid namespace, nothing outside.
//!
//! One thread, one loop: the jailer's channel, the zygotes' channels, shells that are being built, ended children. No
//! step of it waits for a sandbox: while one shell builds its mounts, the zygote forks into it, and others are served.

mod asked;
mod attach;
mod fork;
mod interpreter;
mod live;
mod messages;
mod reap;
mod sandbox;
mod zygotes;

pub(crate) use attach::{Attach, lay_into};
pub(crate) use messages::{FromSpawner, ToSpawner};
pub(crate) use sandbox::map_ids;

use crate::channel::{self, ChannelError, next_fd};
use crate::filter::Filters;
use crate::outbox::{Outbox, is_readable};
use crate::plan::{Mode, TemplatePlan};
use crate::shell::AgentMain;
use crate::step::{OfWall, chain};
use crate::vm::keeper::VmOrder;
use crate::walls::NoWall;
use atoll_core::SandboxId;
use fork::{Event, Fork, Owner};
use nix::sys::signalfd::SignalFd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::stdio::stdin;
use sandbox::{Progress, Sandbox};
use std::collections::HashMap;
use std::rc::Rc;
use zygotes::{Place, Zygotes};

type Fault = Box<dyn std::error::Error>;

/// Runs until the jailer goes. Descriptor 0 is the jailer's channel.
pub fn main(agent: AgentMain) -> i32 {
    match Spawner::start(agent).and_then(|mut spawner| spawner.serve()) {
        Ok(()) => 0,
        Err(error) => {
            if let Some(no_wall) = no_wall_in(error.as_ref()) {
                channel::send(stdin(), &no_wall, &[]).ok();
            }
            let message = chain(error.as_ref());
            channel::send(stdin(), &FromSpawner::Broken { message }, &[]).ok();
            1
        }
    }
}

struct Spawner {
    template: Rc<TemplatePlan>,
    mode: Mode,
    filters: Rc<Filters>,
    agent: AgentMain,
    children: SignalFd,
    zygotes: Zygotes,
    sandboxes: HashMap<SandboxId, Sandbox>,
    to_jailer: Outbox,
}

/// What a turn of the loop has found.
#[derive(Default)]
struct Found {
    jailer: bool,
    children: bool,
    zygotes: Vec<Place>,
    shells: Vec<SandboxId>,
}

impl Spawner {
    fn start(agent: AgentMain) -> Result<Self, Fault> {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        let (message, fds) = channel::receive::<ToSpawner>(stdin())?;
        let ToSpawner::Start {
            plan,
            parts,
            workshop,
            mode,
        } = message
        else {
            return Err("the jailer did not send a plan first".into());
        };
        crate::shell::ask_ahead();
        let filters = Rc::new(Filters::compile(mode)?);
        let trees = parts.iter().filter(|part| part.is_mount()).count().min(fds.len());
        let (own, others) = fds.split_at(trees);
        match &plan.runtime {
            None => crate::root::build(&parts, own).wall("mounts")?,
            Some(runtime) => {
                crate::oci::workshop::build(runtime.kind, (&parts, own), (&workshop, others)).wall("mounts")?;
            }
        }
        drop(fds);
        let template: Rc<TemplatePlan> = Rc::from(plan);
        let mut spawner = Self {
            mode,
            filters,
            agent,
            children: reap::watch_children()?,
            zygotes: Zygotes::new(Rc::clone(&template), mode),
            template,
            sandboxes: HashMap::new(),
            to_jailer: Outbox::default(),
        };
        spawner.zygotes.start()?;
        spawner.tell(&FromSpawner::Up)?;
        Ok(spawner)
    }

    fn serve(&mut self) -> Result<(), Fault> {
        loop {
            let found = self.wait()?;
            self.to_jailer.flush(stdin())?;
            if found.children {
                self.reap()?;
            }
            for place in found.zygotes {
                let events = self.zygotes.hear(place, &self.filters)?;
                self.tell_all(events)?;
            }
            let events = self.zygotes.send_waiting();
            self.tell_all(events)?;
            let events = self.zygotes.expire();
            self.tell_all(events)?;
            for id in found.shells {
                self.hear_shell(&id)?;
            }
            if found.jailer {
                match channel::receive::<ToSpawner>(stdin()) {
                    Err(ChannelError::Closed) => return Ok(()),
                    received => {
                        let (message, fds) = received?;
                        self.obey(message, fds)?;
                    }
                }
            }
        }
    }

    /// Sleeps until something is to be done. While the jailer does not read, nothing is taken that would be answered.
    fn wait(&self) -> Result<Found, Fault> {
        let listen = !self.to_jailer.is_full();
        let heard = |also: PollFlags| if listen { PollFlags::IN | also } else { also };
        let jailer = stdin();
        let mut fds = vec![
            PollFd::from_borrowed_fd(jailer, self.to_jailer.interest(listen)),
            PollFd::from_borrowed_fd(self.children.as_fd(), PollFlags::IN),
        ];
        let zygotes: Vec<(Place, &OwnedFd)> = self.zygotes.channels().collect();
        for (place, channel) in &zygotes {
            let room = *place == Place::Present && self.zygotes.wants_room();
            let also = if room { PollFlags::OUT } else { PollFlags::empty() };
            fds.push(PollFd::new(*channel, heard(also)));
        }
        let building = self.sandboxes.iter().filter_map(|(id, one)| Some((id, one.sync()?)));
        let shells: Vec<(&SandboxId, &OwnedFd)> = building.collect();
        fds.extend(shells.iter().map(|(_, sync)| PollFd::new(*sync, PollFlags::IN)));
        let patience = self
            .zygotes
            .time_to_start()
            .and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut fds, patience.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        let ready = |index: usize| fds.get(index).is_some_and(|fd| is_readable(fd.revents()));
        let after = 2 + zygotes.len();
        Ok(Found {
            jailer: ready(0),
            children: ready(1),
            zygotes: (2..)
                .zip(&zygotes)
                .filter(|(at, _)| ready(*at))
                .map(|(_, (place, _))| *place)
                .collect(),
            shells: (after..)
                .zip(&shells)
                .filter(|(at, _)| ready(*at))
                .map(|(_, (id, _))| (*id).clone())
                .collect(),
        })
    }

    fn obey(&mut self, message: ToSpawner, fds: Vec<OwnedFd>) -> Result<(), Fault> {
        match message {
            ToSpawner::Start { .. } => Err("the jailer sent a second plan".into()),
            ToSpawner::Sandbox {
                sandbox,
                host_id,
                limits,
                scratch,
                grouped,
                watched,
                keeper,
                context,
                vm,
            } => {
                let mut fds = fds.into_iter();
                let begun = self.take_order((host_id, limits, scratch, grouped, watched), &mut fds);
                // A keeper takes the context that its sandbox has already.
                let is_kept = self.template.runtime.is_some();
                let context = context.filter(|_| !is_kept);
                let begun = begun.and_then(|order| match vm {
                    Some(start) => {
                        let mut order = order.kept_by(keeper, &mut fds)?;
                        let fds = fds.by_ref().collect();
                        order.vm = Some(VmOrder { start, fds });
                        Ok(order)
                    }
                    None if is_kept => order.kept_by(keeper, &mut fds),
                    None => Ok(order),
                });
                match begun.and_then(|order| Sandbox::begin(order, &self.template, &self.filters)) {
                    Ok(begun) => drop(self.sandboxes.insert(sandbox.clone(), begun)),
                    Err(error) => return self.sandbox_failed(&sandbox, error.as_ref()),
                }
                match context {
                    Some(context) => self.start_context(Owner { sandbox, context }, fds),
                    None => Ok(()),
                }
            }
            ToSpawner::Groups { sandbox } => match self.sandboxes.get_mut(&sandbox).map(|one| one.go(fds)) {
                Some(Err(error)) => self.sandbox_failed(&sandbox, error.as_ref()),
                Some(Ok(())) | None => Ok(()),
            },
            ToSpawner::Context { sandbox, context } => self.start_context(Owner { sandbox, context }, fds.into_iter()),
            ToSpawner::Attach { sandbox, limits, names } => {
                let trees = fds;
                self.attach(&sandbox, Attach { limits, names, trees })
            }
            ToSpawner::End { sandbox } => match self.sandboxes.get(&sandbox) {
                Some(one) => {
                    one.kill();
                    Ok(())
                }
                None => self.tell(&FromSpawner::Ended { sandbox }),
            },
            ToSpawner::Rotate => Ok(self.zygotes.rotate()?),
        }
    }

    fn take_order(
        &self,
        (host_id, limits, scratch, grouped, watched): (u32, atoll_core::Limits, bool, bool, bool),
        fds: &mut std::vec::IntoIter<OwnedFd>,
    ) -> Result<sandbox::Order, Fault> {
        // If this process has no descriptor left, the sandbox is refused, and the others go on.
        let agent = next_fd(fds)?;
        let scratch = if scratch { Some(next_fd(fds)?) } else { None };
        Ok(sandbox::Order {
            host_id,
            limits,
            agent,
            scratch,
            main: self.agent,
            mode: self.mode,
            alone: self.mode == Mode::Rootless && !grouped,
            watched,
            vm: None,
            keeper: None,
        })
    }

    /// A shell that is being built has come further.
    fn hear_shell(&mut self, id: &SandboxId) -> Result<(), Fault> {
        let Some(sandbox) = self.sandboxes.get_mut(id) else {
            return Ok(());
        };
        match sandbox.hear() {
            Progress::Open => Ok(()),
            Progress::Failed(error) => self.sandbox_failed(id, error.as_ref()),
            Progress::Ready(machine) => {
                let claims = std::mem::take(&mut sandbox.claims);
                let ready = FromSpawner::SandboxReady { sandbox: id.clone() };
                self.to_jailer.post(stdin(), &ready, machine.into_iter().collect())?;
                claims.into_iter().try_for_each(|claim| self.attach(id, claim))
            }
        }
    }

    /// Tells it, and later the end: at once if there is no process, else when it is reaped.
    fn sandbox_failed(&mut self, id: &SandboxId, error: &(dyn std::error::Error + 'static)) -> Result<(), Fault> {
        self.tell_failed(id, error)?;
        match self.sandboxes.get_mut(id) {
            Some(sandbox) => {
                sandbox.give_up();
                Ok(())
            }
            None => self.tell(&FromSpawner::Ended { sandbox: id.clone() }),
        }
    }

    fn tell_failed(&mut self, id: &SandboxId, error: &(dyn std::error::Error + 'static)) -> Result<(), Fault> {
        self.tell_no_wall(error)?;
        self.tell(&FromSpawner::SandboxFailed {
            sandbox: id.clone(),
            message: chain(error),
        })
    }

    fn start_context(&mut self, owner: Owner, mut fds: std::vec::IntoIter<OwnedFd>) -> Result<(), Fault> {
        let mut next = || next_fd(&mut fds);
        let stdio = next().and_then(|control| Ok([control, next()?, next()?]));
        let fork = match (stdio, self.sandboxes.get_mut(&owner.sandbox)) {
            (Ok(stdio), Some(sandbox)) => Fork::new(owner.clone(), stdio, sandbox).map_err(|error| chain(&error)),
            (Err(error), _) => Err(chain(&error)),
            (Ok(_), None) => Err("the sandbox has ended".to_owned()),
        };
        let events = match fork {
            Ok(fork) => self.zygotes.request(fork),
            Err(message) => vec![owner.refused(message)],
        };
        self.tell_all(events)
    }

    /// Applies a claim, now or when the sandbox is ready.
    fn attach(&mut self, id: &SandboxId, asked: Attach) -> Result<(), Fault> {
        let attached = match self.sandboxes.get_mut(id) {
            Some(building) if building.sync().is_some() => {
                building.claims.push(asked);
                return Ok(());
            }
            Some(sandbox) => sandbox.attach(&asked),
            None => Err("the sandbox has ended".into()),
        };
        let sandbox = id.clone();
        match attached {
            Ok(()) => self.tell(&FromSpawner::Attached { sandbox }),
            Err(error) => {
                self.tell_no_wall(error.as_ref())?;
                let message = chain(error.as_ref());
                self.tell(&FromSpawner::AttachFailed { sandbox, message })
            }
        }
    }

    fn tell_all(&mut self, events: Vec<Event>) -> Result<(), Fault> {
        events.into_iter().try_for_each(|event| self.tell_event(event))
    }

    fn tell_event(&mut self, event: Event) -> Result<(), Fault> {
        let mut beside = Vec::new();
        let message = match event {
            Event::NoWall(NoWall { layer, message, .. }) => FromSpawner::NoWall { layer, message },
            Event::Ready(facts) => FromSpawner::ZygoteReady { facts },
            Event::Failed(message) => FromSpawner::ZygoteDown { message },
            Event::Forked { owner, pidfd } => {
                beside.push(pidfd);
                let Owner { sandbox, context } = owner;
                FromSpawner::ContextStarted { sandbox, context }
            }
            Event::Refused { owner, message } => FromSpawner::ContextFailed {
                sandbox: owner.sandbox,
                context: owner.context,
                message,
            },
            Event::Exited { owner, code, signal } => FromSpawner::ContextExited {
                sandbox: owner.sandbox,
                context: owner.context,
                code,
                signal,
            },
        };
        Ok(self.to_jailer.post(stdin(), &message, beside)?)
    }

    fn tell_no_wall(&mut self, error: &(dyn std::error::Error + 'static)) -> Result<(), Fault> {
        match no_wall_in(error) {
            Some(no_wall) => self.tell(&no_wall),
            None => Ok(()),
        }
    }

    fn tell(&mut self, message: &FromSpawner) -> Result<(), Fault> {
        Ok(self.to_jailer.post(stdin(), message, Vec::new())?)
    }
}

/// What is told before a failure that is a wall which this host cannot build.
fn no_wall_in(error: &(dyn std::error::Error + 'static)) -> Option<FromSpawner> {
    let NoWall { layer, message, .. } = NoWall::in_error(error)?;
    Some(FromSpawner::NoWall { layer, message })
}
