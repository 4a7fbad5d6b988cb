//! Prepared sandboxes: made, forked into, pre-touched and inspected before anybody asks. Each is handed out once.

mod expected;
mod size;

use crate::backend::{BareSandbox, Inspected};
use crate::door::{Door, Sandbox};
use crate::engine::{Engine, EngineError};
use crate::environment::with_secrets;
use crate::lock::lock;
use crate::sandbox::{SandboxSpec, Walled};
use atoll_core::{Gives, Language, Limits, Tier};
use size::{Demand, target};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

pub use expected::ExpectedClaim;
pub use size::PoolSize;

/// How often a pool looks whether it is too large.
const LOOK: Duration = Duration::from_secs(5);
/// Demand within this span is met from the pool; afterwards replacements are there.
const SPAN: Duration = Duration::from_secs(1);
/// Who has just taken one gets the machine for this long, as long as half of the pool is left.
const CALM: Duration = Duration::from_millis(30);
/// After a failure to prepare one, the next try waits.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

/// A sandbox that has run no user code.
#[derive(Debug)]
struct Prepared {
    bare: BareSandbox,
    python: Inspected,
}

#[derive(Debug)]
pub struct Pool {
    engine: Arc<Engine>,
    /// A claim is served by the first class that fits its limits.
    classes: Vec<SizeClass>,
}

/// Prepared sandboxes with the same limits.
#[derive(Debug)]
struct SizeClass {
    shared: Arc<Shared>,
    refill: tokio::task::JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    limits: Limits,
    size: PoolSize,
    ready: Mutex<VecDeque<Prepared>>,
    demand: Arc<Mutex<Demand>>,
    /// A prepared sandbox was taken, or a claim is expected.
    changed: Notify,
}

impl Pool {
    /// Fills up to the least size, and again whenever one was taken. Prepared ones have the limits `limits`.
    pub async fn start(engine: Arc<Engine>, size: PoolSize, limits: Limits) -> Result<Self, EngineError> {
        Self::start_classes(engine, &[(size, limits)]).await
    }

    /// The same with prepared sandboxes of several limits, each with its own size.
    pub async fn start_classes(engine: Arc<Engine>, classes: &[(PoolSize, Limits)]) -> Result<Self, EngineError> {
        engine.ready().await?;
        // What is prepared is a Python context; where there is none, sandboxes are made when they are asked for.
        let has_python = engine.programs().of(Language::Python).is_ok();
        let mut started = Vec::new();
        for (size, limits) in classes.iter().filter(|(size, _)| has_python && size.max > 0) {
            started.push(SizeClass::start(&engine, *size, *limits).await?);
        }
        Ok(Self {
            engine,
            classes: started,
        })
    }

    /// Hands out a prepared sandbox; an empty pool means that one is made now.
    pub async fn claim(&self, spec: SandboxSpec) -> Result<Sandbox, EngineError> {
        let engine = &self.engine;
        let door = Door::new(engine.audit.clone(), spec.by.clone());
        let wish = spec.clone();
        door.create(&engine.digest, &wish, self.take_or_make(spec)).await
    }

    async fn take_or_make(&self, spec: SandboxSpec) -> Result<Walled, EngineError> {
        with_secrets(&spec.env, &spec.secrets)?;
        let engine = &self.engine;
        match self.take(&spec) {
            Some(one) => Walled::claim(engine, one.bare, one.python, spec).await,
            None => {
                let has_python = engine.programs().of(Language::Python).is_ok();
                let start = has_python.then_some(Language::Python);
                engine.make(SandboxSpec { start, ..spec }).await
            }
        }
    }

    fn take(&self, spec: &SandboxSpec) -> Option<Prepared> {
        let class = self.class_of(&spec.limits);
        // A claim that is not served from the pool needs the CPU as well: refilling waits for it.
        let counted = class.or(self.classes.first())?;
        lock(&counted.shared.demand).claimed(Instant::now());
        // Prepared ones are not watched, and have all that a tier can give.
        let is_kept_from = self.engine.tier() == Tier::Wasm && spec.gives() != Gives::ALL;
        if spec.dry_run || is_kept_from || !self.engine.may_become(&spec.limits) {
            return None;
        }
        class?.take()
    }

    /// Prepares for a claim with these limits, which will come soon. `None`: the pool would not serve it.
    pub fn expect_claim(&self, limits: &Limits) -> Option<ExpectedClaim> {
        let class = self.class_of(limits).filter(|_| self.engine.may_become(limits))?;
        let expected = ExpectedClaim::new(Arc::clone(&class.shared.demand));
        class.shared.changed.notify_one();
        Some(expected)
    }

    fn class_of(&self, limits: &Limits) -> Option<&SizeClass> {
        self.classes.iter().find(|class| fits(limits, &class.shared.limits))
    }

    /// How many are ready now.
    pub fn depth(&self) -> usize {
        self.classes.iter().map(|class| lock(&class.shared.ready).len()).sum()
    }

    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }
}

/// Whether a sandbox with the limits `prepared` can be given the limits `asked`. Scratch files stay where they are: in memory,
/// where the file system can shrink, or on disk, where it keeps its size.
fn fits(asked: &Limits, prepared: &Limits) -> bool {
    let on_disk = |limits| atoll_jail::scratch_is_on_disk(limits);
    match (on_disk(asked), on_disk(prepared)) {
        (false, false) => asked.scratch <= prepared.scratch,
        (true, true) => (asked.scratch, asked.scratch_inodes) == (prepared.scratch, prepared.scratch_inodes),
        (true, false) | (false, true) => false,
    }
}

impl SizeClass {
    async fn start(engine: &Arc<Engine>, size: PoolSize, limits: Limits) -> Result<Self, EngineError> {
        let shared = Arc::new(Shared {
            engine: Arc::clone(engine),
            limits,
            size,
            ready: Mutex::default(),
            demand: Arc::default(),
            changed: Notify::new(),
        });
        for _ in 0..size.min {
            let prepared = prepare(&shared, true).await?;
            lock(&shared.ready).push_back(prepared);
        }
        let refill = tokio::spawn(refill(Arc::clone(&shared)));
        Ok(Self { shared, refill })
    }

    fn take(&self) -> Option<Prepared> {
        let taken = loop {
            match lock(&self.shared.ready).pop_front() {
                // One that was lost while it waited is no loss for who asks.
                Some(one) if one.bare.has_ended() => {}
                taken => break taken,
            }
        };
        self.shared.changed.notify_one();
        taken
    }
}

impl Drop for SizeClass {
    fn drop(&mut self) {
        self.refill.abort();
    }
}

/// Makes one sandbox at a time, so that those who work already are hardly disturbed.
async fn refill(shared: Arc<Shared>) {
    loop {
        let wanted = {
            let claims = lock(&shared.demand).next_claims(SPAN, Instant::now());
            target(shared.size, claims, free_memory())
        };
        let depth = lock(&shared.ready).len();
        if depth < wanted {
            let hurry = depth * 2 < wanted;
            if !hurry && until_calm(&shared).await {
                continue;
            }
            match prepare(&shared, !hurry).await {
                Ok(prepared) => lock(&shared.ready).push_back(prepared),
                // The next claim makes its own and says what is wrong.
                Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
            }
            continue;
        }
        if depth > wanted {
            // Dropped, it ends.
            let surplus = lock(&shared.ready).pop_front();
            drop(surplus);
        }
        tokio::select! {
            () = shared.changed.notified() => {}
            () = tokio::time::sleep(LOOK) => {}
        }
    }
}

/// Whether the last claim was just now; then the time is waited for in which it has the machine, or the next change.
async fn until_calm(shared: &Shared) -> bool {
    let calm = lock(&shared.demand).last().map(|at| at + CALM);
    let Some(calm) = calm.filter(|at| *at > Instant::now()) else {
        return false;
    };
    tokio::select! {
        () = shared.changed.notified() => {}
        () = tokio::time::sleep_until(calm) => {}
    }
    true
}

/// One more. To touch its pages ahead takes as long as its first result would: not while others wait for the machine.
async fn prepare(shared: &Shared, touched: bool) -> Result<Prepared, EngineError> {
    let engine = &shared.engine;
    let (bare, python) = engine.prepare(shared.limits).await?;
    let mut python = match python {
        Some(python) => python,
        None => bare.start_python().await?,
    };
    if let Some(touch) = engine
        .template()
        .and_then(|template| template.touch.as_ref())
        .filter(|_| touched)
    {
        python.0.warm(touch).await?;
    }
    Ok(Prepared { bare, python })
}

/// Memory that the host could give, in bytes; unknown means plenty.
fn free_memory() -> u64 {
    let text = fs_err::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use atoll_core::quantity::{GIB, MIB, MemoryBytes, ScratchBytes};

    #[test]
    fn each_profile_fits_its_own_class_only() {
        assert!(fits(&Limits::SMALL, &Limits::SMALL) && fits(&Limits::DATA, &Limits::DATA));
        assert!(!fits(&Limits::DATA, &Limits::SMALL) && !fits(&Limits::SMALL, &Limits::DATA));
    }

    #[test]
    fn scratch_in_memory_can_shrink_and_scratch_on_disk_keeps_its_size() {
        let with = |scratch, limits| Limits {
            scratch: ScratchBytes::known(scratch),
            ..limits
        };
        assert!(fits(&with(50 * MIB, Limits::SMALL), &Limits::SMALL));
        assert!(!fits(&with(101 * MIB, Limits::SMALL), &Limits::SMALL));
        assert!(!fits(&with(4 * GIB, Limits::DATA), &Limits::DATA));
        let less_memory = Limits {
            memory: MemoryBytes::known(2 * GIB),
            ..Limits::DATA
        };
        assert!(fits(&less_memory, &Limits::DATA));
    }
}
