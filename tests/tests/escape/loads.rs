//! Loads that meet their limit, while a neighbour in the same engine keeps answering. All are bounded by themselves.

use crate::lab::{engine_without, facts_of, shown, with_args};
use crate::probe::Expect;
use anyhow::{Result, ensure};
use atoll_core::quantity::{CpuTimeMillis, MIB, MemoryBytes, OpenFiles, ScratchBytes, ScratchInodes, WallMillis};
use atoll_core::{Execution, Limits, Outcome};
use atoll_engine::{Engine, Sandbox, SandboxSpec, Wall};
use atoll_tests::python;
use serde_json::{Map, Value};
use std::time::{Duration, Instant};

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) id: &'static str,
    pub(crate) claim: &'static str,
    code: &'static str,
    limits: Limits,
    ends: &'static [Outcome],
    /// Facts of a load that reports; one that is stopped from outside has none.
    expect: &'static [Expect],
    pub(crate) control: Roomier,
}

/// Where the same load, bounded by itself, runs to its end.
#[derive(Debug)]
pub(crate) struct Roomier {
    walls: &'static [Wall],
    limits: Limits,
    breach: &'static [(&'static str, &'static str)],
    pub(crate) safe: &'static str,
}

const SMALL: Limits = Limits::SMALL;
const LITTLE_MEMORY: Limits = Limits {
    memory: MemoryBytes::known(96 * MIB),
    ..SMALL
};
const SHORT: Limits = Limits {
    wall: WallMillis::known(1_000),
    ..SMALL
};
const NO_CEILING: &[Wall] = &[Wall::Cgroups, Wall::Rlimits];

macro_rules! code {
    ($name:literal) => {
        include_str!(concat!("../../escape/loads/", $name, ".py"))
    };
}

const fn e(fact: &'static str, answers: &'static [&'static str]) -> Expect {
    Expect { fact, answers }
}

pub(crate) const LOADS: &[Load] = &[
    Load {
        id: "R01",
        claim: "A fork bomb meets the process limit",
        code: code!("r01_forks"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("forks", &["stopped EAGAIN"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("forks", "all")],
            safe: "200 sleeping children, ended at once",
        },
    },
    Load {
        id: "R01b",
        claim: "A thread bomb meets the process limit",
        code: code!("r01_threads"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("threads", &["stopped"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("threads", "all")],
            safe: "200 sleeping threads",
        },
    },
    Load {
        id: "R02",
        claim: "Orphans are reaped, unwaited children are counted",
        code: code!("r02_zombies"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("orphans", &["reaped"]), e("unwaited", &["stopped EAGAIN"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: SMALL,
            breach: &[("unwaited", "all")],
            safe: "150 zombies, waited for",
        },
    },
    Load {
        id: "R03",
        claim: "Memory above the limit ends the execution",
        code: code!("r03_memory"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::MemoryLimit],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("touched", "all")],
            safe: "200 MiB",
        },
    },
    Load {
        id: "R03b",
        claim: "Memory of children counts for the whole sandbox",
        code: code!("r03_child_memory"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::Ok, Outcome::MemoryLimit, Outcome::Killed],
        expect: &[e("children", &["killed"])],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("children", "all")],
            safe: "200 MiB",
        },
    },
    Load {
        id: "R04",
        claim: "Scratch bytes meet one quota over all places",
        code: code!("r04_bytes"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("bytes", &["ENOSPC"])],
        control: Roomier {
            walls: &[],
            limits: Limits {
                scratch: ScratchBytes::known(200 * MIB),
                ..SMALL
            },
            breach: &[("bytes", "all")],
            safe: "160 MiB in memory files",
        },
    },
    Load {
        id: "R04b",
        claim: "Scratch files are counted",
        code: code!("r04_inodes"),
        limits: Limits {
            scratch_inodes: ScratchInodes::known(1_000),
            ..SMALL
        },
        ends: &[Outcome::Ok],
        expect: &[e("inodes", &["ENOSPC"])],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("inodes", "all")],
            safe: "2,000 empty files",
        },
    },
    Load {
        id: "R06",
        claim: "Bytes that wait in sockets count as memory",
        code: code!("r06_socket_queues"),
        limits: LITTLE_MEMORY,
        ends: &[Outcome::MemoryLimit, Outcome::Ok],
        expect: &[e("queued", &["stopped ENOBUFS", "stopped ENOMEM"])],
        control: Roomier {
            walls: NO_CEILING,
            limits: LITTLE_MEMORY,
            breach: &[("queued", "all")],
            safe: "about 100 MB",
        },
    },
    Load {
        id: "R07",
        claim: "Timers are counted",
        code: code!("r07_timers"),
        limits: SMALL,
        ends: &[Outcome::Ok],
        expect: &[e("timers", &["stopped EAGAIN"])],
        control: Roomier {
            walls: &[Wall::Rlimits],
            limits: SMALL,
            breach: &[("timers", "all")],
            safe: "2,000 timers that never start",
        },
    },
    Load {
        id: "R10",
        claim: "Descriptors run out inside only",
        code: code!("r10_descriptors"),
        limits: Limits {
            open_files: OpenFiles::known(256),
            ..SMALL
        },
        ends: &[Outcome::Ok],
        expect: &[e("descriptors", &["EMFILE"])],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("descriptors", "all")],
            safe: "500 descriptors",
        },
    },
    Load {
        id: "R11",
        claim: "A busy loop with every signal blocked ends at the deadline",
        code: code!("r11_spin"),
        limits: SHORT,
        ends: &[Outcome::Timeout],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("spun", "to the end")],
            safe: "four seconds of one processor",
        },
    },
    Load {
        id: "R11b",
        claim: "Processor time is a limit of its own",
        code: code!("r11_spin"),
        limits: Limits {
            cpu_time: CpuTimeMillis::known(1_000),
            ..SMALL
        },
        ends: &[Outcome::CpuLimit],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("spun", "to the end")],
            safe: "four seconds of one processor",
        },
    },
    Load {
        id: "R12",
        claim: "Waiting forever ends at the deadline",
        code: code!("r12_blocked"),
        limits: SHORT,
        ends: &[Outcome::Timeout],
        expect: &[],
        control: Roomier {
            walls: &[],
            limits: SMALL,
            breach: &[("waited", "to the end")],
            safe: "five seconds of waiting",
        },
    },
];

/// The longest that a neighbour may wait for `x + 1` while a load runs beside it on the same two processors.
const PATIENCE: Duration = Duration::from_secs(3);

#[tokio::test]
async fn loads_meet_their_limits() {
    let mut faults = Vec::new();
    let engine = engine_without(&[]).await.unwrap();
    for load in LOADS {
        faults.extend(
            meets_its_limit(&engine, load)
                .await
                .err()
                .map(|error| format!("{}: {error:#}", load.id)),
        );
    }
    atoll_tests::stop(engine).await.unwrap();
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test]
async fn without_the_limit_loads_run_to_their_end() {
    let mut faults = Vec::new();
    let mut sets: Vec<&[Wall]> = LOADS.iter().map(|load| load.control.walls).collect();
    sets.sort_unstable();
    sets.dedup();
    for set in sets {
        let engine = engine_without(set).await.unwrap();
        for load in LOADS.iter().filter(|load| load.control.walls == set) {
            faults.extend(
                runs_to_its_end(&engine, load)
                    .await
                    .err()
                    .map(|error| format!("{} control: {error:#}", load.id)),
            );
        }
        atoll_tests::stop(engine).await.unwrap();
    }
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

async fn meets_its_limit(engine: &Engine, load: &Load) -> Result<()> {
    let mut neighbour = atoll_tests::sandbox(engine).await?;
    python(&mut neighbour, "x = 41").await?;
    let mut sandbox = create(engine, load.limits).await?;
    let begun = Instant::now();
    let (execution, beats) = beside(&mut sandbox, load, &mut neighbour).await?;
    ensure!(
        load.ends.contains(&execution.outcome),
        "ended {:?}: {:?} {}",
        execution.outcome,
        execution.error,
        execution.stdout
    );
    ensure!(begun.elapsed() < Duration::from_secs(20), "took {:?}", begun.elapsed());
    if let Ok(facts) = facts_of(&execution) {
        let mut faults = facts.unmet(load.expect);
        faults.extend(facts.dead_twins());
        ensure!(faults.is_empty(), "{}", faults.join(", "));
    } else {
        ensure!(execution.outcome != Outcome::Ok, "no facts: {execution:?}");
    }
    ensure!(beats > 0, "the neighbour was never asked");
    ensure!(
        shown(&python(&mut sandbox, "6*7").await?) == "42",
        "the twin is dead: the same sandbox does not compute"
    );
    sandbox.end().await?;
    Ok(neighbour.end().await?)
}

/// Runs the load and asks the neighbour again and again until it has ended.
async fn beside(sandbox: &mut Sandbox, load: &Load, neighbour: &mut Sandbox) -> Result<(Execution, u32)> {
    let code = with_args(&Map::<String, Value>::new(), load.code);
    let run = python(sandbox, &code);
    tokio::pin!(run);
    let mut beats = 0;
    loop {
        let beat = async {
            let begun = Instant::now();
            let answer = python(neighbour, "x + 1").await?;
            ensure!(shown(&answer) == "42", "the neighbour answered {:?}", answer.error);
            ensure!(begun.elapsed() < PATIENCE, "the neighbour waited {:?}", begun.elapsed());
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok(())
        };
        tokio::pin!(beat);
        let ended = tokio::select! {
            ended = &mut run => Some(ended),
            beaten = &mut beat => { beaten?; None }
        };
        if let Some(ended) = ended {
            beat.await?;
            return Ok((ended?, beats + 1));
        }
        beats += 1;
    }
}

async fn runs_to_its_end(engine: &Engine, load: &Load) -> Result<()> {
    let mut sandbox = create(engine, load.control.limits).await?;
    let execution = python(&mut sandbox, &with_args(&Map::new(), load.code)).await?;
    sandbox.end().await?;
    let missing = facts_of(&execution)?.missing(load.control.breach);
    ensure!(missing.is_empty(), "{}", missing.join(", "));
    Ok(())
}

async fn create(engine: &Engine, limits: Limits) -> Result<Sandbox> {
    Ok(engine
        .create(SandboxSpec {
            limits,
            ..SandboxSpec::default()
        })
        .await?)
}
