//! However a sandbox ends, nothing of it is left on the host.

use crate::lab::{engine_without, host_id, processes_of, shown};
use crate::probe::cases;
use anyhow::{Context, Result, ensure};
use atoll_core::quantity::WallMillis;
use atoll_core::{Limits, Outcome};
use atoll_engine::{Engine, Sandbox, SandboxSpec};
use atoll_tests::{process, python, stop};
use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Daemons that ignore every signal they can, in sessions of their own.
const DAEMONS: &str = "import os,signal,time\n\
    for n in range(5):\n    if os.fork()==0:\n        os.setsid()\n        if os.fork()==0:\n            for s in range(1,65):\n                try: signal.signal(s,signal.SIG_IGN)\n                except (OSError,ValueError): pass\n            time.sleep(300)\n        os._exit(0)\n    os.wait()\n1";

async fn with_daemons() -> Result<(Arc<Engine>, Sandbox, u32)> {
    let engine = engine_without(&[]).await?;
    let mut sandbox = atoll_tests::sandbox(&engine).await?;
    let execution = python(&mut sandbox, DAEMONS).await?;
    ensure!(execution.outcome == Outcome::Ok, "{:?}", execution.error);
    let id = host_id(&execution)?;
    ensure!(processes_of(id).len() >= 7, "the twin is dead: {:?}", processes_of(id));
    Ok((engine, sandbox, id))
}

/// The same daemons as plain processes of the host, told by a word of their own. Their leader is killed.
fn left_by_a_plain_leader(word: &str) -> Result<Vec<i32>> {
    let code = format!("{DAEMONS}\nprint('up', flush=True)\ntime.sleep(300)");
    let mut leader = Command::new("python3")
        .args(["-I", "-c", &code, word])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut up = [0; 3];
    leader.stdout.take().context("a pipe")?.read_exact(&mut up)?;
    leader.kill()?;
    leader.wait()?;
    let left: Vec<i32> = process::all()
        .into_iter()
        .filter(|process| process.command().contains(word))
        .filter_map(|process| i32::try_from(process.pid).ok())
        .collect();
    left.iter().try_for_each(|pid| kill(*pid))?;
    Ok(left)
}

/// What every end of a sandbox is compared with: without a pid namespace the daemons outlive their leader.
fn plain_daemons_stay() -> Result<()> {
    let left = left_by_a_plain_leader(&format!("daemons-of-{}", std::process::id()))?;
    ensure!(left.len() == 5, "the control did not breach: {left:?}");
    Ok(())
}

async fn gone_within(id: u32, limit: Duration) -> bool {
    let begun = Instant::now();
    while !processes_of(id).is_empty() && begun.elapsed() < limit {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    processes_of(id).is_empty()
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
    c_end {
        id: "C03",
        claim: "When a sandbox is ended, all of its processes are gone",
        expected: "none is left when `end` returns",
        oracle: "the host's process list, by the sandbox's own id",
        twin: "the code that started them ran to its end, and they were all there",
        control: "the same daemons without a pid namespace outlive the kill of their leader (plain processes of the test, ended by number)",
    } {
        let (engine, sandbox, id) = with_daemons().await?;
        sandbox.end().await?;
        ensure!(gone_within(id, Duration::from_millis(200)).await, "left: {:?}", processes_of(id));
        stop(engine).await?;
        plain_daemons_stay()?;
    }
    c_jailer_killed {
        id: "C01",
        claim: "When the jailer is killed, every sandbox of it ends",
        expected: "no process is left within two seconds",
        oracle: "the host's process list, by the sandbox's own id",
        twin: "the code that started them ran to its end, and they were all there",
        control: "the same daemons without a pid namespace outlive the kill of their leader (plain processes of the test, ended by number)",
    } {
        let (engine, sandbox, id) = with_daemons().await?;
        kill(i32::try_from(engine.jailer_pid())?)?;
        ensure!(gone_within(id, Duration::from_secs(2)).await, "left: {:?}", processes_of(id));
        sandbox.end().await.ok();
        stop(engine).await?;
        plain_daemons_stay()?;
    }
    c_init_killed {
        id: "C02",
        claim: "When PID 1 of a sandbox is killed in the middle of a run, the run ends and nothing goes on",
        expected: "the execution is not ok, no process is left, and the engine makes the next sandbox",
        oracle: "the host's process list, by the sandbox's own id",
        twin: "the daemons were all there; a new sandbox of the same engine computes",
        control: "the same daemons without a pid namespace outlive the kill of their leader (plain processes of the test, ended by number)",
    } {
        let (engine, mut sandbox, id) = with_daemons().await?;
        let (first, _) = *processes_of(id).iter().find(|(_, inside)| *inside == 1).ok_or_else(|| anyhow::anyhow!("no PID 1"))?;
        let (ran, _) = tokio::join!(python(&mut sandbox, "import time; time.sleep(30)"), async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            kill(first)
        });
        ensure!(ran.as_ref().map_or(true, |execution| execution.outcome != Outcome::Ok), "{ran:?}");
        ensure!(gone_within(id, Duration::from_secs(2)).await, "left: {:?}", processes_of(id));
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
        oracle: "the host's mounts, and its process list: nobody is left who holds the sandbox's mounts",
        twin: "the files were made",
        control: "the same code without a mount of its own leaves every file behind its end (own directory of the test)",
    } {
        let engine = engine_without(&[]).await?;
        let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
        let mut sandbox = atoll_tests::sandbox(&engine).await?;
        let made = python(&mut sandbox, &DEEP.replace("BASE", "/tmp")).await?;
        ensure!(shown(&made) == "True", "the twin is dead: {:?}", made.error);
        sandbox.end().await?;
        ensure!(std::fs::read_to_string("/proc/self/mountinfo")? == mounts);
        ensure!(processes_of(host_id(&made)?).is_empty(), "left: {:?}", processes_of(host_id(&made)?));
        stop(engine).await?;
        let dir = tempfile::tempdir()?;
        let base = dir.path().to_string_lossy().into_owned();
        Command::new("python3").args(["-I", "-c", &DEEP.replace("BASE", &base)]).stdin(Stdio::null()).status()?;
        ensure!(std::fs::read_dir(dir.path())?.count() > 3000, "the control did not breach");
        // Deeper than a path can name: only a walk by descriptors gets rid of it.
        Command::new("rm").arg("-rf").arg(dir.path()).status()?;
    }
    r19_background {
        id: "R19",
        claim: "Threads and processes left after a result end with the sandbox and disturb no later result",
        expected: "a later execution shows only its own output; after the end nothing is left",
        oracle: "the host's process list, by the sandbox's own id",
        twin: "the background process lives on between two executions; the next one computes",
        control: "the same daemons without a pid namespace outlive their leader (plain processes of the test, ended by number)",
    } {
        let engine = engine_without(&[]).await?;
        let mut sandbox = atoll_tests::sandbox(&engine).await?;
        let first = python(&mut sandbox, "import subprocess,threading,time\np=subprocess.Popen(['sleep','300'])\nthreading.Thread(target=lambda: time.sleep(300),daemon=True).start()\n1").await?;
        let id = host_id(&first)?;
        ensure!(shown(&python(&mut sandbox, "p.poll() is None").await?) == "True", "the twin is dead");
        ensure!(shown(&python(&mut sandbox, "6*7").await?) == "42");
        sandbox.end().await?;
        ensure!(gone_within(id, Duration::from_millis(200)).await, "left: {:?}", processes_of(id));
        stop(engine).await?;
        plain_daemons_stay()?;
    }
    c05_deadline {
        id: "C05",
        claim: "A context that is killed at its deadline takes its children along at the latest with the sandbox",
        expected: "timeout is reported; after the end nothing is left",
        oracle: "the host's process list, by the sandbox's own id",
        twin: "the child was there; the same sandbox computes afterwards",
        control: "the same daemons without a pid namespace outlive their leader (plain processes of the test, ended by number)",
    } {
        let engine = engine_without(&[]).await?;
        let limits = Limits { wall: WallMillis::known(1_000), ..Limits::default() };
        let mut sandbox = engine.create(SandboxSpec { limits, ..SandboxSpec::default() }).await?;
        let ran = python(&mut sandbox, "import subprocess,time\np=subprocess.Popen(['sleep','300'])\ntime.sleep(300)").await?;
        ensure!(ran.outcome == Outcome::Timeout, "{:?}", ran.outcome);
        let id = host_id(&ran)?;
        ensure!(!processes_of(id).is_empty(), "the twin is dead");
        ensure!(shown(&python(&mut sandbox, "6*7").await?) == "42");
        sandbox.end().await?;
        ensure!(gone_within(id, Duration::from_millis(200)).await, "left: {:?}", processes_of(id));
        stop(engine).await?;
        plain_daemons_stay()?;
    }
}
