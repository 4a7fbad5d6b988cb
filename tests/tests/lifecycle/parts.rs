//! `atoll run` in a tier whose sandboxes have a keeper, and kills of its parts at different moments.

use anyhow::{Context, Result, ensure};
use atoll_tests::process::{Process, children, descendants, eventually};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Killed when dropped.
pub(crate) struct Run(pub(crate) Child);

impl Run {
    pub(crate) fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?))
    }

    pub(crate) fn jailer(&self) -> Option<Process> {
        let mut below = children(self.0.id()).into_iter();
        below.find(|child| child.command().contains("__jailer"))
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Engine,
    Spawner,
    Keeper,
    /// The runtime or the VM, or what it has just started.
    Youngest,
}

const PARTS: [Part; 4] = [Part::Engine, Part::Spawner, Part::Keeper, Part::Youngest];

impl Part {
    fn find(self, run: &Run) -> Option<Process> {
        let jailer = run.jailer()?;
        let spawner = || children(jailer.pid).first().copied();
        let keeper = || children(spawner()?.pid).first().copied();
        match self {
            Self::Engine => Process::of(run.0.id()),
            Self::Spawner => spawner(),
            Self::Keeper => keeper(),
            Self::Youngest => descendants(keeper()?.pid).last().copied(),
        }
    }
}

/// Kills one part of each run: as soon as it exists, and in the second half of the rounds up to `latest` after that. Then it
/// kills the engine. No process may survive.
pub(crate) fn kill_parts(rounds: u32, latest: Duration, start: impl Fn() -> Result<Run>) -> Result<()> {
    let mut hit = BTreeSet::new();
    for (round, part) in (0..rounds).zip(PARTS.into_iter().cycle()) {
        let mut run = start()?;
        eventually(&format!("{part:?}"), || part.find(&run).is_some())?;
        let percent = if round * 2 < rounds { 0 } else { round * 37 % 100 };
        let moment = Instant::now() + latest * percent / 100;
        eventually("the moment", || Instant::now() >= moment)?;
        let jailer = run.jailer().context("no jailer")?;
        let below = descendants(jailer.pid);
        // A runtime may have done its work and ended since: then another process is the youngest.
        eventually(&format!("the kill of {part:?}"), || {
            let victim = part.find(&run);
            victim.is_some_and(|victim| victim.signal(Signal::KILL).is_ok())
        })?;
        hit.insert(part);
        run.0.kill().ok();
        run.0.wait()?;
        eventually("the end of all below", || {
            !jailer.is_alive() && !below.iter().any(|process| process.is_alive())
        })?;
    }
    ensure!(hit.len() == PARTS.len(), "only hit {hit:?}");
    Ok(())
}
