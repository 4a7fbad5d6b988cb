//! Booting the guest that is saved, and bringing back one for each sandbox.

use super::control::Control;
use super::first_use::Phase;
use super::kept::{self, About};
use super::live::Ways;
use super::monitor::Monitor;
use super::wall::{Counts, MicrovmWall};
use super::{GUEST_BYTES, MicrovmBackend, initramfs, memory};
use crate::backend::context::Context;
use crate::backend::jail::Kept;
use crate::backend::saved::RESEED;
use crate::backend::{BareSandbox, Fresh, Made, Saved as Ready, SavedContext, TierError};
use atoll_core::quantity::MemoryBytes;
use atoll_core::wire::agent::Answer;
use atoll_core::{Gives, Limits, Tier};
use atoll_jail::order::Origin;
use atoll_jail::plan::{Mode, VmStart, VmWay};
use atoll_jail::vm::clock_khz;
use atoll_jail::vm::control::GuestPlan;
use fs_err as fs;
use rustix::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// How long the last words of a guest that did not boot are waited for.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// A guest that was booted, warmed and saved.
#[derive(Debug)]
pub(super) struct Saved {
    /// Nobody writes to these.
    pub(super) ram: OwnedFd,
    pub(super) state: OwnedFd,
    pub(super) about: About,
}

/// What every machine's process is given, and our ends of its sockets.
struct Given {
    fds: Vec<OwnedFd>,
    control: Arc<Control>,
    monitor: Monitor,
}

/// A guest that runs, and its ways in.
pub(super) struct Running {
    pub(super) kept: Kept,
    pub(super) control: Arc<Control>,
    pub(super) monitor: Monitor,
}

impl MicrovmBackend {
    /// The one that is kept; else boots a guest, starts and warms its Python, saves it and keeps it.
    pub(super) async fn saved(&self, size: u64) -> Result<Saved, TierError> {
        let memory = MemoryBytes::try_from(size).unwrap_or(MemoryBytes::MAX);
        let limits = Limits {
            memory,
            ..Limits::SMALL
        };
        let place = kept::place(&self.home, &self.parts, size, &limits);
        let from = place.clone();
        if let Ok(Some(saved)) = tokio::task::spawn_blocking(move || kept::load(&from)).await {
            return Ok(saved);
        }
        let saved = self.boot_and_save(size, limits).await;
        let saved = saved.map_err(|error| match error {
            TierError::Sandbox(why) => TierError::Sandbox(format!("{why}{}", self.jail.complaint())),
            other => other,
        })?;
        // One that cannot be kept is made again at the next start.
        let keeping = tokio::task::spawn_blocking(move || {
            kept::keep(&place, &saved).ok();
            saved
        });
        keeping
            .await
            .map_err(|error| TierError::Start(std::io::Error::other(error)))
    }

    async fn boot_and_save(&self, size: u64, limits: Limits) -> Result<Saved, TierError> {
        self.first_use.begins(Phase::Boot);
        let ram = memory::empty("ram", size + GUEST_BYTES)?;
        let plan = GuestPlan {
            template: self.parts.template.clone(),
            limits,
            mode: Mode::Root,
            modules: Vec::new(),
        };
        let first = initramfs::build(&self.parts.program, &self.parts.kernel, plan)?;
        let kernel = fs::read(&self.parts.kernel.image).map_err(TierError::Start)?;
        let own = vec![memory::holding("kernel", &kernel)?, memory::holding("initrd", &first)?];
        drop((first, kernel));
        let start = VmStart {
            ram_bytes: size + GUEST_BYTES,
            way: VmWay::Boot { tsc_khz: clock_khz() },
        };
        let made = Made {
            limits,
            inputs: Vec::new(),
            python: false,
            watched: false,
            gives: Gives::ALL,
        };
        let Given { fds, control, monitor } = self.given(&ram, own)?;
        let begun = self.jail.begin_kept(Tier::Microvm, &made, Some((start, fds)));
        let (kept, mut hello) = begun.await?;
        let kernel = match control.up().await {
            Ok(kernel) => kernel,
            Err(error) => {
                // Its last words come before its end.
                tokio::time::timeout(LAST_WORDS, kept.sandbox.ended()).await.ok();
                return Err(error);
            }
        };
        match hello.next().await? {
            (Answer::Ready, _) => {}
            _ => return Err(TierError::Agent),
        }
        let running = Running { kept, control, monitor };
        let (ready, state) = self.warm_and_save(running, &kernel, size).await?;
        memory::seal(&ram)?;
        memory::seal(&state)?;
        let about = About { ready, limits, kernel };
        Ok(Saved { ram, state, about })
    }

    /// The guest ends with it.
    async fn warm_and_save(&self, running: Running, kernel: &str, size: u64) -> Result<(Ready, OwnedFd), TierError> {
        let (sandbox, ways, _) = self.behind(running, kernel, size)?;
        self.first_use.begins(Phase::Python);
        let (context, _) = self.python.start(&sandbox).await?;
        self.first_use.begins(Phase::Save);
        let contexts = vec![SavedContext::of(&context)?];
        let talk = sandbox.agent.talk().await;
        ways.control.settle().await?;
        let state = memory::empty("state", 0)?;
        let monitor = &mut ways.machine.lock().await.monitor;
        monitor.greet().await?;
        monitor.save(&state).await?;
        sandbox.end().await?;
        Ok((Ready { talk, contexts }, state))
    }

    /// A sandbox of its own, from the saved guest.
    pub(super) async fn restored(&self, size: u64, saved: &Saved, made: Made) -> Result<Fresh, TierError> {
        let state = memory::reopened(&saved.state)?;
        let mut running = self.bring_back(&made, (size, saved), &saved.about.ready, state).await?;
        running.monitor.load().await?;
        running.control.renew().await?;
        let (mut sandbox, _, mut contexts) = self.behind(running, &saved.about.kernel, size)?;
        let mut context = contexts.pop().ok_or(TierError::Agent)?;
        context.warm(RESEED).await?;
        sandbox.limits = saved.about.limits;
        sandbox.claim(made.limits, made.inputs).await?;
        let layers = sandbox.inspect(&context).await?;
        Ok((sandbox, made.python.then_some((context, layers))))
    }

    /// Starts a machine's process that waits for its state, with the memory of the saved guest. The contexts of `ready` are in it.
    pub(super) async fn bring_back(
        &self,
        made: &Made,
        (size, saved): (u64, &Saved),
        ready: &Ready,
        state: OwnedFd,
    ) -> Result<Running, TierError> {
        let start = VmStart {
            ram_bytes: size + GUEST_BYTES,
            way: VmWay::Restore,
        };
        let Given { fds, control, monitor } = self.given(&saved.ram, vec![state])?;
        let next = ready.talk.stream;
        let source = (Origin::Snapshot { next }, Vec::new());
        let machine = Some((start, fds));
        let kept = self.jail.restore_kept(Tier::Microvm, made, ready, (source, machine));
        let mut running = Running {
            kept: kept.await?,
            control,
            monitor,
        };
        running.monitor.greet().await?;
        Ok(running)
    }

    fn given(&self, ram: &OwnedFd, own: Vec<OwnedFd>) -> Result<Given, TierError> {
        let open = |path| fs::File::open(path).map(OwnedFd::from).map_err(TierError::Start);
        let (control, their_control) = Control::new()?;
        let (monitor, their_monitor) = Monitor::new()?;
        let images = &self.parts.images;
        let mut fds = vec![
            their_control,
            their_monitor,
            ram.try_clone().map_err(TierError::Start)?,
            open(&images.base)?,
            open(&images.template)?,
        ];
        fds.extend(own);
        Ok(Given {
            fds,
            control: Arc::new(control),
            monitor,
        })
    }

    /// Behind the wall that the guest is. The contexts are those that it was brought back with.
    pub(super) fn behind(&self, running: Running, kernel: &str, size: u64) -> Result<Behind, TierError> {
        let Kept {
            mut sandbox,
            keeper,
            contexts,
        } = running.kept;
        let counts = Counts::put_into(&mut sandbox.stats)?;
        let mut facts = self.parts.facts();
        facts["kernel"] = kernel.into();
        let ways = Arc::new(Ways::new(running.control, running.monitor, keeper));
        let sandbox = sandbox.put_behind(|inner| {
            Box::new(MicrovmWall {
                inner,
                ways: Arc::clone(&ways),
                python: Arc::clone(&self.python),
                facts,
                most_memory: size,
                counts,
            })
        });
        Ok((sandbox, ways, contexts))
    }
}

/// A sandbox, our ways to its machine, and its contexts.
type Behind = (BareSandbox, Arc<Ways>, Vec<Context>);
