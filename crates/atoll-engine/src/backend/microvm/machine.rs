//! Booting the guest that is saved, and bringing back one for each sandbox.

use super::control::Control;
use super::kept::{self, About};
use super::monitor::Monitor;
use super::wall::{Counts, MicrovmWall};
use super::{GUEST_BYTES, MicrovmBackend, initramfs, memory};
use crate::backend::agent::Asked;
use crate::backend::context::{Context, Interpreter, Parts as ContextParts};
use crate::backend::start::{Ends, Parent};
use crate::backend::{BareSandbox, Fresh, Made, TierError};
use atoll_core::Limits;
use atoll_core::quantity::MemoryBytes;
use atoll_core::wire::agent::{Answer, UNASKED};
use atoll_jail::ferry::host_streams;
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

/// A guest that runs, and its ways in.
struct Running {
    sandbox: BareSandbox,
    asked: Asked,
    control: Arc<Control>,
    monitor: Monitor,
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
            adopted: Vec::new(),
        };
        let made = Made {
            limits,
            inputs: Vec::new(),
            python: false,
            watched: false,
        };
        let mut running = self.run(&made, start, (&ram, own), UNASKED).await?;
        let kernel = match running.control.up().await {
            Ok(kernel) => kernel,
            Err(error) => {
                // Its last words come before its end.
                tokio::time::timeout(LAST_WORDS, running.sandbox.ended()).await.ok();
                return Err(error);
            }
        };
        match running.asked.next().await? {
            (Answer::Ready, _) => {}
            _ => return Err(TierError::Agent),
        }
        let sandbox = self.behind(running.sandbox, &running.control, &kernel, size)?;
        let (context, _) = self.python.start(&sandbox).await?;
        let process = context.process.ok_or(TierError::Agent)?;
        running.control.settle().await?;
        let state = memory::empty("state", 0)?;
        running.monitor.save(&state).await?;
        sandbox.end().await?;
        drop((context, sandbox));
        memory::seal(&ram)?;
        memory::seal(&state)?;
        Ok(Saved {
            ram,
            state,
            about: About {
                process,
                limits,
                kernel,
            },
        })
    }

    /// A sandbox of its own, from the saved guest.
    pub(super) async fn restore(&self, size: u64, saved: &Saved, made: Made) -> Result<Fresh, TierError> {
        let ends = Ends::make()?;
        let mut own = vec![memory::reopened(&saved.state)?];
        own.extend(ends.theirs);
        // As the saved context got them: stdout, stderr, control. Standard input leads nowhere and has no number.
        let mut numbers = host_streams();
        let mut next = || numbers.next().unwrap_or(0);
        let (stdout, stderr, control) = (next(), next(), next());
        let start = VmStart {
            ram_bytes: size + GUEST_BYTES,
            way: VmWay::Restore,
            adopted: vec![control, stdout, stderr],
        };
        let mut running = self.run(&made, start, (&saved.ram, own), saved.about.process).await?;
        running.monitor.load().await?;
        running.control.renew().await?;
        let mut sandbox = self.behind(running.sandbox, &running.control, &saved.about.kernel, size)?;
        let parts = ContextParts {
            pidfd: None,
            parent: Parent::Agent(running.asked),
            process: Some(saved.about.process),
        };
        let mut context = Context::new(Interpreter::Python, ends.ours, parts)?;
        context.warm("from atoll_kernel import reseed\nreseed.all()").await?;
        sandbox.limits = saved.about.limits;
        sandbox.claim(made.limits, made.inputs).await?;
        let layers = sandbox.inspect(&context).await?;
        Ok((sandbox, made.python.then_some((context, layers))))
    }

    /// Starts a machine's process with what every machine has and its own.
    async fn run(
        &self,
        made: &Made,
        start: VmStart,
        (ram, own): (&OwnedFd, Vec<OwnedFd>),
        under_way: u32,
    ) -> Result<Running, TierError> {
        let open = |path| fs::File::open(path).map(OwnedFd::from).map_err(TierError::Start);
        let (control, their_control) = Control::new()?;
        let (monitor, their_monitor) = Monitor::new()?;
        let ram = ram.try_clone().map_err(TierError::Start)?;
        let images = &self.parts.images;
        let mut beside = vec![
            their_control,
            their_monitor,
            ram,
            open(&images.base)?,
            open(&images.template)?,
        ];
        beside.extend(own);
        let (sandbox, asked) = self.jail.make_machine(made, start, beside, under_way).await?;
        Ok(Running {
            sandbox,
            asked,
            control: Arc::new(control),
            monitor,
        })
    }

    /// Behind the wall that the guest is.
    fn behind(
        &self,
        mut sandbox: BareSandbox,
        control: &Arc<Control>,
        kernel: &str,
        size: u64,
    ) -> Result<BareSandbox, TierError> {
        let counts = Counts::put_into(&mut sandbox.stats)?;
        let mut facts = self.parts.facts();
        facts["kernel"] = kernel.into();
        Ok(sandbox.put_behind(|inner| {
            Box::new(MicrovmWall {
                inner,
                control: Arc::clone(control),
                python: Arc::clone(&self.python),
                facts,
                most_memory: size,
                counts,
            })
        }))
    }
}
