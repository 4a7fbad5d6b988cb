//! However a sandbox ends, nothing of it is left on the host: cases that are not shipped. The shipped ones are in `atoll-attack`.

use crate::lab::{engine_without, host_id, processes_of, shown};
use crate::probe::{cases, shipped};
use anyhow::{Context, Result, ensure};
use atoll_attack::ends::{self as shipped, DAEMONS};
use atoll_core::{Language, Outcome};
use atoll_engine::{Engine, Output, Sandbox};
use atoll_tests::process::{BOUND, adopt_orphans, descendants};
use atoll_tests::{python, stop};
use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

async fn with_daemons() -> Result<(Arc<Engine>, Sandbox, u32)> {
    let engine = engine_without(&[]).await?;
    let mut sandbox = atoll_tests::sandbox(&engine).await?;
    let execution = python(&mut sandbox, DAEMONS).await?;
    ensure!(execution.outcome == Outcome::Ok, "{:?}", execution.error);
    let id = host_id(&execution)?;
    ensure!(processes_of(id).len() >= 7, "the twin is dead: {:?}", processes_of(id));
    Ok((engine, sandbox, id))
}

/// The same daemons as plain processes of the host, told by a word of their own: how many outlive their leader.
fn plain_daemons_stay() -> Result<()> {
    adopt_orphans()?;
    let word = format!("daemons-of-{}", std::process::id());
    let led = Command::new("python3")
        .args(["-I", "-c", DAEMONS, &word])
        .stdin(Stdio::null())
        .status()?;
    let left = descendants(std::process::id())
        .into_iter()
        .filter(|process| process.command().contains(&word));
    let left: Vec<i32> = left.filter_map(|process| i32::try_from(process.pid).ok()).collect();
    left.iter().try_for_each(|pid| kill(*pid))?;
    ensure!(led.success() && left.len() == 5, "the control did not breach: {left:?}");
    Ok(())
}

async fn gone_within(id: u32, limit: Duration) -> bool {
    let begun = Instant::now();
    while !processes_of(id).is_empty() && begun.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    processes_of(id).is_empty()
}

/// Device numbers of the file systems that a process has mounted.
fn file_systems(pid: impl std::fmt::Display) -> Result<BTreeSet<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))?;
    let devices = text.lines().filter_map(|line| line.split(' ').nth(2));
    Ok(devices.map(str::to_owned).collect())
}

fn kill(pid: i32) -> Result<()> {
    let pid = rustix::process::Pid::from_raw(pid).ok_or_else(|| anyhow::anyhow!("a pid"))?;
    Ok(rustix::process::kill_process(pid, rustix::process::Signal::KILL)?)
}

/// Thousands of files, deeper than a path can name, open and locked.
const DEEP: &str = "import os,fcntl\nos.chdir('BASE')\nfor i in range(3000): open('%d'%i,'w').close()\n\
    f=open('l','w'); fcntl.flock(f,fcntl.LOCK_EX)\nn=len(os.listdir('.'))\nfor i in range(1500):\n    os.mkdir('d'); os.chdir('d')\n\
    os.chdir('BASE')\nn >= 3000";

cases! { CASES:
    c_init_killed {
        id: "C02",
        claim: "When PID 1 of a sandbox is killed in the middle of a run, the run ends and nothing goes on",
        expected: "the execution is not ok, no process is left, and the engine makes the next sandbox",
        oracle: "the host's process list, by the sandbox's own id",
        twin: "the daemons were all there; a new sandbox of the same engine computes",
        control: "the same daemons without a pid namespace outlive the kill of their leader (plain processes of the test, ended by number)",
    } {
        let (engine, sandbox, id) = with_daemons().await?;
        let (first, _) = *processes_of(id).iter().find(|(_, inside)| *inside == 1).ok_or_else(|| anyhow::anyhow!("no PID 1"))?;
        // Its first output shows that it runs.
        let mut killed = None;
        let mut on_output = |_: Output<'_>| {
            killed.get_or_insert_with(|| kill(first));
        };
        let ran = sandbox
            .run(Language::Python, "import time\nprint('running', flush=True)\ntime.sleep(600)", Arc::default(), &mut on_output)
            .await;
        killed.context("no output")??;
        ensure!(ran.as_ref().map_or(true, |execution| execution.outcome != Outcome::Ok), "{ran:?}");
        ensure!(gone_within(id, BOUND).await, "left: {:?}", processes_of(id));
        sandbox.end().await.ok();
        let mut next = atoll_tests::sandbox(&engine).await?;
        ensure!(shown(&python(&mut next, "6*7").await?) == "42");
        next.end().await?;
        stop(engine).await?;
        plain_daemons_stay()?;
    }
    c_deep_files {
        id: "C06",
        claim: "Files that are hard to delete go with their sandbox, without anybody deleting them",
        expected: "of thousands of files, deep directories, and open and locked ones nothing is left when `end` returns",
        oracle: "the host's mounts: none of the sandbox's file systems; and its process list: no process is left that has them mounted",
        twin: "the files were made",
        control: "the same code without a mount of its own leaves every file behind its end (own directory of the test)",
    } {
        let engine = engine_without(&[]).await?;
        let mut sandbox = atoll_tests::sandbox(&engine).await?;
        let made = python(&mut sandbox, &DEEP.replace("BASE", "/tmp")).await?;
        ensure!(shown(&made) == "True", "the twin is dead: {:?}", made.error);
        let (inside, _) = *processes_of(host_id(&made)?).first().context("no process")?;
        let own = &file_systems(inside)? - &file_systems("self")?;
        ensure!(!own.is_empty(), "the twin is dead: the sandbox has no file system of its own");
        sandbox.end().await?;
        let left: Vec<_> = file_systems("self")?.intersection(&own).cloned().collect();
        ensure!(left.is_empty(), "still mounted: {left:?} of {own:?}");
        ensure!(processes_of(host_id(&made)?).is_empty(), "left: {:?}", processes_of(host_id(&made)?));
        stop(engine).await?;
        let dir = tempfile::tempdir()?;
        let base = dir.path().to_string_lossy().into_owned();
        Command::new("python3").args(["-I", "-c", &DEEP.replace("BASE", &base)]).stdin(Stdio::null()).status()?;
        ensure!(std::fs::read_dir(dir.path())?.count() > 3000, "the control did not breach");
        // Deeper than a path can name: only a walk by descriptors gets rid of it.
        Command::new("rm").arg("-rf").arg(dir.path()).status()?;
    }
}

shipped! { shipped:
    c_end: C03,
    c_jailer_killed: C01,
    r19_background: R19,
    c05_deadline: C05,
}
