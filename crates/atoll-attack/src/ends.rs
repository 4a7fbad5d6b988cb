//! However a sandbox ends, nothing of it is left on the host.

use crate::bench::{self, Bench, python, python_within, sandbox, say};
use crate::case::cases;
use crate::elsewhere::Ground;
use crate::error::AttackError;
use crate::lab::Lab;
use crate::processes::{Process, in_sandboxes, kill, left_after, processes_with};
use crate::verdict::Shown;
use atoll_core::quantity::WallMillis;
use atoll_core::{Execution, Limits, Outcome};
use atoll_engine::{Engine, Sandbox};
use std::sync::Arc;
use std::time::Duration;

/// `end` returns when the first process is reaped. The kernel keeps that one until all others of its PID namespace are gone.
const AT_ONCE: Duration = Duration::ZERO;
/// Nothing waits for the processes of a killed jailer. The daemons would stay for ten minutes.
const SOON: Duration = Duration::from_secs(120);

/// Daemons that ignore every signal they can, in sessions of their own. They end by themselves.
pub const DAEMONS: &str = "import os,signal,time
for n in range(5):
    if os.fork()==0:
        os.setsid()
        if os.fork()==0:
            for s in range(1,65):
                try: signal.signal(s,signal.SIG_IGN)
                except (OSError,ValueError): pass
            time.sleep(600)
        os._exit(0)
    os.wait()
1";

/// Five daemons, the context and the first process; of a guest, the machine and who keeps it.
fn seen_from_outside(ground: Ground) -> usize {
    match ground {
        Ground::Host | Ground::Runc | Ground::Gvisor => 7,
        Ground::Guest => 2,
    }
}

async fn with_daemons(bench: &Bench, shown: &mut Shown) -> Result<(Arc<Engine>, Sandbox, Vec<Process>), AttackError> {
    let engine = bench.engine(&[]).await?;
    let mut own = sandbox(&engine).await?;
    say(&mut own, DAEMONS).await?;
    let seen = in_sandboxes(engine.jailer_pid());
    shown.works(
        seen.len() >= seen_from_outside(bench.ground),
        format!("{} sandbox processes are running", seen.len()),
    );
    Ok((engine, own, seen))
}

/// What every end of a sandbox is compared with: without a pid namespace the daemons outlive their leader.
async fn plain_daemons_stay(lab: &Lab, shown: &mut Shown) -> Result<(), AttackError> {
    let word = format!("{}-daemons", lab.dir().display());
    bench::leave_outside(DAEMONS, &word, lab.dir()).await?;
    let left = processes_with(&word);
    left.iter().try_for_each(|process| kill(process.pid))?;
    // The next case counts the same words.
    left_after(&left, SOON).await;
    shown.control(
        left.len() == 5,
        format!("{} of 5 unsandboxed daemons outlive their parent", left.len()),
    );
    Ok(())
}

/// Deadlines until one is late enough for the child to start: a busy host or an emulated processor may be slow.
const DEADLINES: [WallMillis; 4] = [
    WallMillis::known(1_000),
    WallMillis::known(4_000),
    WallMillis::known(16_000),
    WallMillis::known(64_000),
];

/// A sandbox whose context was killed at its deadline, after it had started a child.
async fn killed_at_deadline(engine: &Engine) -> Result<(Sandbox, Execution), AttackError> {
    let code =
        "import subprocess,time\np=subprocess.Popen(['sleep','600'])\nprint('started',flush=True)\ntime.sleep(600)";
    let (mut own, mut last) = (sandbox(engine).await?, None);
    for wall in DEADLINES {
        let limits = Limits {
            wall,
            ..Limits::default()
        };
        let ran = python_within(&mut own, limits, code).await?;
        if ran.stdout.contains("started") {
            return Ok((own, ran));
        }
        last = Some(ran.outcome);
    }
    Err(AttackError::Words(format!(
        "the child process did not start; outcome of the last execution: `{}`",
        last.map_or("none", Outcome::as_str)
    )))
}

async fn nothing_left(seen: &[Process], limit: Duration, shown: &mut Shown) {
    let left = left_after(seen, limit).await;
    shown.holds(
        left.is_empty(),
        format!("{} of {} sandbox processes remain, expected 0", left.len(), seen.len()),
    );
}

cases! {
    C03 {
        id: "C03",
        claim: "Ending a sandbox ends all of its processes",
        expected: "no process is left when `end` returns",
        oracle: "the host's process list, by PID and start time",
        twin: "the code that starts the processes completes, and all of them are running",
        control: "the same daemons without a PID namespace outlive their parent (unsandboxed processes of the attack, killed by PID)",
    } |bench, lab, shown| {
        let (engine, own, seen) = with_daemons(bench, shown).await?;
        own.end().await?;
        nothing_left(&seen, AT_ONCE, shown).await;
        engine.stop().await;
        plain_daemons_stay(lab, shown).await?;
    }
    C01 {
        id: "C01",
        claim: "Killing the jailer ends all of its sandboxes",
        expected: "no process is left after 120 s; the daemons alone would run for 600 s",
        oracle: "the host's process list, by PID and start time",
        twin: "the code that starts the processes completes, and all of them are running",
        control: "the same daemons without a PID namespace outlive their parent (unsandboxed processes of the attack, killed by PID)",
    } |bench, lab, shown| {
        let (engine, own, seen) = with_daemons(bench, shown).await?;
        kill(i32::try_from(engine.jailer_pid()).unwrap_or(0))?;
        nothing_left(&seen, SOON, shown).await;
        own.end().await.ok();
        engine.stop().await;
        plain_daemons_stay(lab, shown).await?;
    }
    R19 {
        id: "R19",
        claim: "Background threads and processes end with the sandbox and do not affect later results",
        expected: "a later execution returns only its own output; no process is left after the sandbox ends",
        oracle: "the host's process list, by PID and start time",
        twin: "the background process keeps running between two executions, and the next execution works",
        control: "the same daemons without a PID namespace outlive their parent (unsandboxed processes of the attack, killed by PID)",
    } |bench, lab, shown| {
        let engine = bench.engine(&[]).await?;
        let mut own = sandbox(&engine).await?;
        say(&mut own, "import subprocess,threading,time\np=subprocess.Popen(['sleep','600'])\nthreading.Thread(target=lambda: time.sleep(600),daemon=True).start()\n1").await?;
        let lives = say(&mut own, "p.poll() is None").await?;
        shown.works(lives == "True", "the process keeps running between two executions");
        let later = python(&mut own, "6*7").await?;
        shown.holds(bench::shown(&later) == "42" && later.stdout.is_empty(), "a later execution returns only its own output");
        let seen = in_sandboxes(engine.jailer_pid());
        own.end().await?;
        nothing_left(&seen, AT_ONCE, shown).await;
        engine.stop().await;
        plain_daemons_stay(lab, shown).await?;
    }
    C05 {
        id: "C05",
        claim: "Children of a context killed at its deadline end with the sandbox at the latest",
        expected: "the outcome is `timeout`; no process is left after the sandbox ends",
        oracle: "the host's process list, by PID and start time",
        twin: "the child was running, and the same sandbox works afterwards",
        control: "the same daemons without a PID namespace outlive their parent (unsandboxed processes of the attack, killed by PID)",
    } |bench, lab, shown| {
        let engine = bench.engine(&[]).await?;
        let (mut own, ran) = killed_at_deadline(&engine).await?;
        shown.works(ran.outcome == Outcome::Timeout, format!("outcome: `{}`, expected `timeout`", ran.outcome));
        let seen = in_sandboxes(engine.jailer_pid());
        shown.works(seen.len() >= 2, "the child was running");
        shown.works(say(&mut own, "6*7").await? == "42", "the same sandbox works afterwards");
        own.end().await?;
        nothing_left(&seen, AT_ONCE, shown).await;
        engine.stop().await;
        plain_daemons_stay(lab, shown).await?;
    }
}
