//! Loads that meet their limit, while a neighbour in the same engine keeps answering. All are bounded by themselves.

use crate::bench::{Bench, facts_of, patient, python, python_within, sandbox, sandbox_with, shown, with_args};
use crate::elsewhere::{Ground, LoadThere};
use crate::error::AttackError;
use crate::here::Here;
use crate::memory::{IdleMemory, LoadMemory};
use crate::probe::{Expect, Facts, layer_names};
use crate::tries::{Progress, in_words};
use crate::verdict::{Finding, Shown};
use atoll_core::quantity::{ProcessCount, WallMillis};
use atoll_core::{Execution, Limits, Outcome};
use atoll_engine::{Engine, Sandbox, Wall};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

#[derive(Debug)]
pub struct Load {
    pub id: &'static str,
    pub claim: &'static str,
    pub code: &'static str,
    pub limits: Limits,
    pub ends: &'static [Outcome],
    /// Facts of a load that reports; one that is stopped from outside has none.
    pub expect: &'static [Expect],
    pub control: Roomier,
}

/// Where the same load, bounded by itself, runs to its end.
#[derive(Debug)]
pub struct Roomier {
    pub walls: &'static [Wall],
    pub limits: Limits,
    pub breach: &'static [(&'static str, &'static str)],
    pub safe: &'static str,
}

/// The longest that a neighbour may wait for `x + 1` while loads run beside it on the same processors: this, or so many times
/// what it waits without the load. A busy host or an emulated processor is slow either way.
const PATIENCE: Duration = Duration::from_secs(120);
const SLOWDOWN: u32 = 10;
/// How often the neighbour is asked. In an emulated guest each answer is a good part of a processor's time.
const BEAT: Duration = Duration::from_millis(30);
const GUESTS_BEAT: Duration = Duration::from_millis(500);
/// How long a guest whose memory is full is waited for.
const STANDS_STILL: WallMillis = WallMillis::known(90_000);
/// How many loads run beside each other.
const AT_ONCE: usize = 3;

/// What a load did behind whole walls.
#[derive(Debug)]
struct Ran {
    execution: Execution,
    /// How often the neighbour answered.
    beats: u32,
    slowest: Duration,
    /// The slower of its answers before and after the load.
    usual: Duration,
    /// What the neighbour said that was wrong.
    neighbour: Option<String>,
    /// Whether the same sandbox computes afterwards.
    goes_on: bool,
    /// Of a load whose memory is measured.
    memory: Option<LoadMemory>,
}

type Controls = BTreeMap<&'static str, Result<Facts, String>>;

/// Runs every load behind its limit, and then with more room.
pub async fn loads(
    bench: &Bench,
    here: Here,
    loads: &[&'static Load],
    progress: &dyn Progress,
) -> Result<Vec<Finding>, AttackError> {
    let wanted: Vec<&'static Load> = loads
        .iter()
        .copied()
        .filter(|load| here.leaves_out(load.id).is_none() && bench.ground.asks(load.id))
        .collect();
    let mut findings = if wanted.is_empty() {
        Vec::new()
    } else {
        run_loads(bench, &wanted, progress).await?
    };
    for load in loads {
        if let Some(why) = here.leaves_out(load.id) {
            findings.push(Finding::left_out(load.id, load.claim, why));
        }
    }
    Ok(findings)
}

async fn run_loads(
    bench: &Bench,
    loads: &[&'static Load],
    progress: &dyn Progress,
) -> Result<Vec<Finding>, AttackError> {
    let ground = bench.ground;
    let engine = bench.engine(&[]).await?;
    progress.next(&format!("{} resource probes", loads.len()));
    let ran = all(&engine, loads, ground, |engine, load| async move {
        behind_its_limit(&engine, load, ground).await
    })
    .await;
    engine.stop().await;
    let mut controls = controls(bench, loads, progress).await;
    let mut findings = Vec::new();
    for (load, ran) in ran {
        let control = controls.remove(load.id).unwrap_or_else(|| Err("not run".to_owned()));
        findings.push(load.judge(ran, control, ground));
    }
    Ok(findings)
}

async fn controls(bench: &Bench, loads: &[&'static Load], progress: &dyn Progress) -> Controls {
    let mut sets: Vec<&[Wall]> = loads.iter().map(|load| load.control.walls).collect();
    sets.sort_unstable();
    sets.dedup();
    let mut found = Controls::new();
    for set in sets {
        let of_set: Vec<&'static Load> = loads.iter().copied().filter(|load| load.control.walls == set).collect();
        progress.next(&format!("{} resource probe controls", of_set.len()));
        match bench.engine(set).await {
            Ok(engine) => {
                let ground = bench.ground;
                let ran = all(&engine, &of_set, ground, |engine, load| async move {
                    with_room(&engine, load, ground).await
                })
                .await;
                engine.stop().await;
                found.extend(ran.into_iter().map(|(load, facts)| (load.id, facts)));
            }
            Err(error) => found.extend(of_set.iter().map(|load| (load.id, Err(error.in_words())))),
        }
    }
    found
}

/// Runs the loads, a few at a time.
async fn all<T, F>(
    engine: &Arc<Engine>,
    loads: &[&'static Load],
    ground: Ground,
    one: impl Fn(Arc<Engine>, &'static Load) -> F,
) -> Vec<(&'static Load, Result<T, String>)>
where
    T: Send + 'static,
    F: Future<Output = Result<T, AttackError>> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(ground.at_once(AT_ONCE)));
    let mut running = JoinSet::new();
    for load in loads.iter().copied() {
        let (run, room) = (one(Arc::clone(engine), load), Arc::clone(&room));
        running.spawn(async move {
            let _turn = room.acquire_owned().await;
            (load, in_words(run.await))
        });
    }
    running.join_all().await
}

async fn behind_its_limit(engine: &Engine, load: &Load, ground: Ground) -> Result<Ran, AttackError> {
    let mut neighbour = sandbox(engine).await?;
    python(&mut neighbour, "x = 41").await?;
    // Only the load itself has little time.
    let mut own = sandbox_with(engine, patient(load.limits)).await?;
    python(&mut own, "6*7").await?;
    let there = ground.load(load.id);
    let idle = if there.is_some_and(|there| there.is_measured) {
        Some(IdleMemory::measure(&mut own, ground).await?)
    } else {
        None
    };
    let before = answer_time(&mut neighbour).await?;
    let mut ran = beside(&mut own, load, &mut neighbour, ground).await?;
    ran.memory = idle.map(|idle| idle.under_load(&ran.execution));
    ran.usual = before.max(answer_time(&mut neighbour).await?);
    let mut next = match there.is_some_and(|there| there.ends_sandbox) {
        true => sandbox(engine).await?,
        false => own,
    };
    ran.goes_on = shown(&python(&mut next, "6*7").await?) == "42";
    let own = next;
    own.end().await?;
    neighbour.end().await?;
    Ok(ran)
}

async fn answer_time(neighbour: &mut Sandbox) -> Result<Duration, AttackError> {
    let begun = Instant::now();
    python(neighbour, "x + 1").await?;
    Ok(begun.elapsed())
}

/// Runs the load and asks the neighbour again and again until it has ended.
async fn beside(own: &mut Sandbox, load: &Load, neighbour: &mut Sandbox, ground: Ground) -> Result<Ran, AttackError> {
    let pause = if ground == Ground::Guest { GUESTS_BEAT } else { BEAT };
    let code = load.program(ground.load(load.id).is_some_and(|there| there.is_measured), true);
    let run = python_within(own, load.bounds(ground), &code);
    tokio::pin!(run);
    let (mut beats, mut slowest, mut wrong) = (0, Duration::ZERO, None);
    loop {
        let beat = async {
            let begun = Instant::now();
            let answer = python(neighbour, "x + 1").await?;
            let took = begun.elapsed();
            tokio::time::sleep(pause).await;
            Ok::<_, AttackError>((answer, took))
        };
        tokio::pin!(beat);
        let ended = tokio::select! {
            ended = &mut run => Some((ended, beat.await)),
            beaten = &mut beat => { hear(beaten?, &mut beats, &mut slowest, &mut wrong); None }
        };
        if let Some((execution, beaten)) = ended {
            hear(beaten?, &mut beats, &mut slowest, &mut wrong);
            return Ok(Ran {
                execution: execution?,
                beats,
                slowest,
                usual: Duration::ZERO,
                neighbour: wrong,
                goes_on: false,
                memory: None,
            });
        }
    }
}

fn hear(beat: (Execution, Duration), beats: &mut u32, slowest: &mut Duration, wrong: &mut Option<String>) {
    let (answer, took) = beat;
    *beats += 1;
    *slowest = (*slowest).max(took);
    if shown(&answer) != "42" {
        *wrong = Some(format!("outcome `{}`, error {:?}", answer.outcome, answer.error));
    }
}

async fn with_room(engine: &Engine, load: &Load, ground: Ground) -> Result<Facts, AttackError> {
    let mut own = sandbox_with(engine, load.room(ground)).await?;
    let execution = python(&mut own, &load.program(false, false)).await;
    own.end().await?;
    facts_of(&execution?)
}

impl Load {
    /// The whole program. A load whose memory is measured holds nothing else. One that a deadline stops would go on for long
    /// after it: a busy host may be late.
    fn program(&self, is_measured: bool, is_bounded: bool) -> String {
        let args = [("measured", is_measured), ("bounded", is_bounded)];
        let args = Map::from_iter(args.map(|(name, is)| (name.to_owned(), Value::Bool(is))));
        with_args(&args, self.code)
    }

    /// Where it must stop. A busy host or an emulated processor gets the time to come so far, unless time is what stops it.
    fn bounds(&self, ground: Ground) -> Limits {
        let untimed = (self.limits.wall, self.limits.cpu_time) == (Limits::SMALL.wall, Limits::SMALL.cpu_time);
        let may_stand_still = ground
            .load(self.id)
            .is_some_and(|there| there.ends.contains(&Outcome::Timeout));
        match ground {
            Ground::Guest if untimed && may_stand_still => Limits {
                wall: STANDS_STILL,
                ..patient(self.limits)
            },
            Ground::Host | Ground::Runc | Ground::Gvisor | Ground::Guest if untimed => patient(self.limits),
            Ground::Host | Ground::Runc | Ground::Gvisor | Ground::Guest => self.limits,
        }
    }

    /// Where it runs to its end. A guest always has groups: where they should be away, their numbers are raised.
    fn room(&self, ground: Ground) -> Limits {
        let limits = self.control.limits;
        match ground {
            Ground::Guest if self.control.walls.contains(&Wall::Cgroups) => patient(Limits {
                memory: Limits::SMALL.memory,
                processes: ProcessCount::known(400),
                ..limits
            }),
            Ground::Host | Ground::Runc | Ground::Gvisor | Ground::Guest => patient(limits),
        }
    }

    fn judge(&self, ran: Result<Ran, String>, control: Result<Facts, String>, ground: Ground) -> Finding {
        let mut shown = Shown::default();
        let there = ground.load(self.id);
        if let Some(row) = ground.row(self.id) {
            shown.saw(format!("different expected result in this tier: {}", row.why));
        }
        match ran {
            Ok(ran) => self.judge_claim(&ran, there, &mut shown),
            Err(why) => shown.doubt(why),
        }
        let breach = there.and_then(|there| there.breach).unwrap_or(self.control.breach);
        match control {
            Ok(facts) => facts.judge_control(breach, &self.control.place(), &mut shown),
            Err(why) => shown.doubt(format!("the control did not run: {why}")),
        }
        shown.judge(self.id, self.claim)
    }

    fn judge_claim(&self, ran: &Ran, there: Option<&LoadThere>, shown: &mut Shown) {
        let (outcome, facts) = (ran.execution.outcome, facts_of(&ran.execution).ok());
        let (ends, expect) = there.map_or((self.ends, &[][..]), |there| (there.ends, there.expect));
        let ends = if ends.is_empty() { self.ends } else { ends };
        let to_its_end = |facts: &Facts| expect.is_empty() && facts.missing(self.control.breach).is_empty();
        if facts.as_ref().is_some_and(to_its_end) {
            shown.breach(format!(
                "the load ran to completion with outcome `{outcome}`, expected its limit to stop it"
            ));
        } else if !ends.contains(&outcome) {
            let expected: Vec<&str> = ends.iter().map(|end| end.as_str()).collect();
            shown.doubt(format!(
                "outcome `{outcome}`, expected one of: {}; error {:?}",
                expected.join(", "),
                ran.execution.error
            ));
        }
        if let Some(memory) = &ran.memory {
            memory.judge(outcome, shown);
        }
        match &facts {
            Some(facts) => facts.judge((self.expect, expect), None, shown),
            None if outcome == Outcome::Ok => shown.doubt("the probe reported no results"),
            None => {}
        }
        shown.saw(format!("outcome: `{outcome}`"));
        self.judge_neighbour(ran, shown);
    }

    fn judge_neighbour(&self, ran: &Ran, shown: &mut Shown) {
        if let Some(wrong) = &ran.neighbour {
            shown.breach(format!("a neighbouring sandbox did not return 42: {wrong}"));
        }
        if ran.slowest > PATIENCE.max(SLOWDOWN * ran.usual) {
            shown.doubt(format!(
                "a neighbouring sandbox waited {:.1?}; the limit is {PATIENCE:?} or {SLOWDOWN} times its usual wait",
                ran.slowest
            ));
        }
        shown.works(
            ran.beats > 0,
            format!("a neighbouring sandbox responded {} times during the load", ran.beats),
        );
        shown.works(ran.goes_on, "the same sandbox, or the next one, works afterwards");
    }
}

impl Roomier {
    fn place(&self) -> String {
        match self.walls {
            [] => "in a sandbox with higher limits".to_owned(),
            walls => format!("in a sandbox without {}", layer_names(walls)),
        }
    }
}
