//! Makes the tries of probes of one piece of code: one engine per set of walls, a fresh sandbox per try.
//!
//! Where sandboxes are slow, two tries are made at once. What the host sees is then told of both: none may change anything.

use crate::bench::{Bench, facts_in, facts_outside, python, sandbox};
use crate::error::AttackError;
use crate::here::Here;
use crate::lab::Lab;
use crate::probe::{Control, Facts, Probe, Tried, layer_names};
use crate::verdict::Finding;
use atoll_engine::{Engine, Wall};
use std::cell::RefCell;
use std::vec::IntoIter;

/// Hears of each try before it is made.
pub trait Progress {
    fn next(&self, what: &str);
}

impl<F: Fn(&str)> Progress for F {
    fn next(&self, what: &str) {
        self(what);
    }
}

struct Slot<'a> {
    probe: &'a Probe,
    tried: Tried,
}

/// Tries every probe behind whole walls, and then its control.
pub async fn probes(
    bench: &Bench,
    lab: &Lab,
    here: Here,
    probes: &[&'static Probe],
    progress: &dyn Progress,
) -> Result<Vec<Finding>, AttackError> {
    let asked = probes.iter().filter(|probe| bench.ground.asks(probe.id));
    let (out, wanted): (Vec<&Probe>, Vec<&Probe>) = asked.partition(|probe| here.leaves_out(probe.id).is_some());
    let mut slots: Vec<Slot<'_>> = wanted.into_iter().map(Slot::new).collect();
    for set in sets(&slots) {
        tries_of_set(bench, lab, here, &mut slots, set, progress).await?;
    }
    for slot in slots
        .iter_mut()
        .filter(|slot| matches!(slot.probe.control, Control::Outside { .. }))
    {
        progress.next(&format!("{} control", slot.probe.id));
        slot.tried.control = match here.leaves_out_control(slot.probe.id) {
            Some(why) => Err(why.to_owned()),
            None => in_words(facts_outside(&lab.code(slot.probe.code, &["outside"]), lab.dir()).await),
        };
    }
    let mut findings: Vec<Finding> = slots
        .iter()
        .map(|slot| slot.probe.judge(&slot.tried, bench.ground))
        .collect();
    for probe in out {
        let why = here.leaves_out(probe.id).unwrap_or_default();
        findings.push(Finding::left_out(probe.id, probe.claim, why));
    }
    Ok(findings)
}

impl<'a> Slot<'a> {
    fn new(probe: &'a Probe) -> Self {
        let not_yet = || Err("not run".to_owned());
        Self {
            probe,
            tried: Tried {
                claim: not_yet(),
                changed: None,
                control: not_yet(),
            },
        }
    }

    fn take(&mut self, done: Done) {
        match done.part {
            Part::Claim => (self.tried.claim, self.tried.changed) = (done.facts, done.changed),
            Part::Control => self.tried.control = done.facts,
        }
    }
}

/// The sets of walls that are away for a claim or a control. The empty one comes first. Without a try there is none.
fn sets(slots: &[Slot<'_>]) -> Vec<&'static [Wall]> {
    if slots.is_empty() {
        return Vec::new();
    }
    let mut sets: Vec<&'static [Wall]> = slots.iter().map(|slot| slot.probe.already_without).collect();
    sets.extend(slots.iter().filter_map(|slot| slot.probe.control.walls()));
    sets.push(&[]);
    sets.sort_unstable();
    sets.dedup();
    sets
}

async fn tries_of_set(
    bench: &Bench,
    lab: &Lab,
    here: Here,
    slots: &mut [Slot<'_>],
    set: &'static [Wall],
    progress: &dyn Progress,
) -> Result<(), AttackError> {
    let engine = match set {
        [] => bench.whole().await,
        _ => bench.engine(set).await,
    };
    let engine = match engine {
        Ok(engine) => engine,
        // Nothing can be shown at all.
        Err(error) if set.is_empty() => return Err(error),
        Err(error) => {
            without_engine(slots, set, &error);
            return Ok(());
        }
    };
    // Its code is looked for behind whole walls.
    if set.is_empty() {
        warm_a_neighbour(&engine, lab).await?;
    }
    let turns = Turns {
        engine: &engine,
        lab,
        here,
        progress,
        left: RefCell::new(tries(slots, set).into_iter()),
    };
    let done = match bench.ground.at_once(1) {
        1 => turns.take().await,
        _ => {
            let (mut one, other) = tokio::join!(turns.take(), turns.take());
            one.extend(other);
            one
        }
    };
    engine.stop().await;
    for done in done {
        slots[done.at].take(done);
    }
    Ok(())
}

/// A claim or a control of the probe at this place.
#[derive(Clone, Copy)]
struct Try<'a> {
    at: usize,
    part: Part,
    probe: &'a Probe,
}

#[derive(Clone, Copy)]
enum Part {
    Claim,
    Control,
}

struct Done {
    at: usize,
    part: Part,
    facts: Result<Facts, String>,
    changed: Option<String>,
}

fn tries<'a>(slots: &[Slot<'a>], set: &[Wall]) -> Vec<Try<'a>> {
    let mut all = Vec::new();
    for (at, Slot { probe, .. }) in slots.iter().enumerate() {
        let mut push = |part| all.push(Try { at, part, probe });
        if probe.already_without == set {
            push(Part::Claim);
        }
        if probe.control.walls() == Some(set) {
            push(Part::Control);
        }
    }
    all
}

/// What is left to try in sandboxes of one engine.
struct Turns<'a> {
    engine: &'a Engine,
    lab: &'a Lab,
    here: Here,
    progress: &'a dyn Progress,
    left: RefCell<IntoIter<Try<'a>>>,
}

impl Turns<'_> {
    /// One after the other until none is left.
    async fn take(&self) -> Vec<Done> {
        let mut done = Vec::new();
        loop {
            let next = self.left.borrow_mut().next();
            let Some(next) = next else { return done };
            done.push(self.make(next).await);
        }
    }

    async fn make(&self, Try { at, part, probe }: Try<'_>) -> Done {
        let (facts, changed) = match part {
            Part::Claim => {
                self.progress.next(probe.id);
                self.claim(probe).await
            }
            Part::Control => {
                self.progress.next(&format!("{} control", probe.id));
                (control(self.engine, self.lab, self.here, probe).await, None)
            }
        };
        Done {
            at,
            part,
            facts,
            changed,
        }
    }

    async fn claim(&self, probe: &Probe) -> (Result<Facts, String>, Option<String>) {
        let before = self.lab.look();
        let facts = in_words(facts_in(self.engine, &self.lab.code(probe.code, &[])).await);
        (facts, self.lab.changed(probe.oracle, &before))
    }
}

fn without_engine(slots: &mut [Slot<'_>], set: &[Wall], error: &AttackError) {
    let why = match set {
        [] => format!("cannot create a sandbox: {}", error.in_words()),
        _ => format!(
            "cannot create a sandbox without {}: {}",
            layer_names(set),
            error.in_words()
        ),
    };
    for slot in slots {
        if slot.probe.already_without == set {
            slot.tried.claim = Err(why.clone());
        }
        if slot.probe.control.walls() == Some(set) {
            slot.tried.control = Err(why.clone());
        }
    }
}

async fn control(engine: &Engine, lab: &Lab, here: Here, probe: &Probe) -> Result<Facts, String> {
    if let Some(why) = here.leaves_out_control(probe.id) {
        return Err(why.to_owned());
    }
    let on = match probe.control {
        Control::Planted { .. } => "planted",
        Control::Without { .. } | Control::Outside { .. } => "weakened",
    };
    in_words(facts_in(engine, &lab.code(probe.code, &[on])).await)
}

impl Control {
    /// The walls that are away in the sandbox of the control, if it is one.
    fn walls(&self) -> Option<&'static [Wall]> {
        match self {
            Self::Without { walls, .. } => Some(walls),
            Self::Planted { .. } => Some(&[]),
            Self::Outside { .. } => None,
        }
    }
}

/// Code that runs in another sandbox before.
async fn warm_a_neighbour(engine: &Engine, lab: &Lab) -> Result<(), AttackError> {
    let mut neighbour = sandbox(engine).await?;
    python(&mut neighbour, &format!("secret = {:?} * 20", lab.neighbour)).await?;
    Ok(neighbour.end().await?)
}

pub(crate) fn in_words<T>(result: Result<T, AttackError>) -> Result<T, String> {
    result.map_err(|error| error.in_words())
}
