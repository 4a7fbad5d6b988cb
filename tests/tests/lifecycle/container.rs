//! The tier `container`: both runtimes, what is personal, and what is left when a part of it dies.

use crate::parts::{Run, kill_parts};
use anyhow::{Context, Result, bail, ensure};
use atoll_core::quantity::{MIB, MemoryBytes};
use atoll_core::{Language, Limits, Outcome, Tier};
use atoll_engine::{Engine, EngineError, Pool, PoolSize, RuntimeKind, Sandbox, SandboxSpec, TierError, Wall, Walls};
use atoll_tests::census::{Census, Watch};
use atoll_tests::process::{BOUND, Process, children, descendants, eventually};
use atoll_tests::user::User;
use atoll_tests::{atoll, container_engine, execute, input, python, run, run_command, run_json, sandbox, stop};
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const RUNTIMES: [RuntimeKind; 2] = [RuntimeKind::Crun, RuntimeKind::Runc];
const USER: u32 = 12_351;

async fn whole(runtime: RuntimeKind) -> Result<Arc<Engine>> {
    container_engine("python-min", runtime, Walls::default()).await
}

/// Runs code that must work, and checks that every wall is up around it.
async fn works(sandbox: &mut Sandbox, code: &str, want: &str) -> Result<()> {
    let execution = timeout(BOUND, python(sandbox, code)).await.context("no answer")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.stdout == want,
        "{execution:?}"
    );
    let layers = &execution.receipt.layers;
    ensure!(execution.tier == Tier::Container, "{execution:?}");
    ensure!(
        layers["seccomp"]["mode"] == "2" && layers["no_new_privs"] == true,
        "{layers:?}"
    );
    ensure!(
        layers["capabilities"] == "none" && layers["landlock"]["proven"] == true,
        "{layers:?}"
    );
    ensure!(
        layers["namespaces"].as_array().is_some_and(|list| list.len() == 7),
        "{layers:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_runtime_makes_a_sandbox_with_every_wall_and_says_its_name() -> Result<()> {
    for runtime in RUNTIMES {
        let engine = whole(runtime).await?;
        let mut one = sandbox(&engine).await?;
        works(&mut one, "x = 41; print(x)", "41\n").await?;
        works(&mut one, "print(x + 1)", "42\n").await?;
        let told = python(&mut one, "1").await?.receipt.layers["runtime"].clone();
        assert_eq!(told["name"], runtime.as_str());
        assert!(
            told["version"].as_str().is_some_and(|version| version.starts_with('1')),
            "{told}"
        );
        for (language, code) in [
            (Language::Bash, "echo $((6*7))"),
            (Language::Javascript, "console.log(6*7)"),
        ] {
            assert_eq!(execute(&mut one, language, code).await?.stdout, "42\n");
        }
        let crashed = timeout(BOUND, python(&mut one, "import os\nos._exit(7)")).await??;
        assert_eq!((crashed.outcome, crashed.exit_code), (Outcome::Error, Some(7)));
        works(&mut one, "print('again')", "again\n").await?;
        one.end().await?;
        stop(engine).await?;
    }
    Ok(())
}

/// What a person types.
#[test]
fn a_run_has_its_inputs_and_gives_its_outputs() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("in.csv");
    std::fs::write(&file, "a\n41\n")?;
    let path = file.to_str().context("a path")?;
    let code = "n = int(open('/data/input/in.csv').read().split()[1])\nopen('/data/output/o.txt', 'w').write(str(n + 1))\n\
                try: open('/data/input/in.csv', 'w')\nexcept OSError as e: print(e.errno)";
    let execution = run_json(&[
        "--tier",
        "container",
        "--template",
        "python-min",
        "--in",
        path,
        "-c",
        code,
    ])?;
    assert_eq!(
        (execution.outcome, execution.stdout.as_str()),
        (Outcome::Ok, "30\n"),
        "{execution:?}"
    );
    assert_eq!(execution.files.len(), 1, "{execution:?}");
    assert_eq!(execution.receipt.tier, Tier::Container);
    Ok(())
}

/// The limits are read back from the kernel, and hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_brings_limits_and_inputs_into_a_prepared_container() -> Result<()> {
    for runtime in RUNTIMES {
        let engine = whole(runtime).await?;
        let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(1), Limits::default()).await?;
        let dir = tempfile::tempdir()?;
        std::fs::write(dir.path().join("f"), "from outside")?;
        let limits = Limits {
            memory: MemoryBytes::try_from(200 * MIB)?,
            ..Limits::default()
        };
        let spec = SandboxSpec {
            limits,
            inputs: vec![input(dir.path().join("f"), "in.txt")?],
            ..SandboxSpec::default()
        };
        let mut one = pool.claim(spec).await?;
        works(&mut one, "print(open('/data/input/in.txt').read())", "from outside\n").await?;
        let told = python(&mut one, "1").await?.receipt.layers["cgroups"].clone();
        assert_eq!(told["memory_bytes"], (200 * MIB).to_string(), "{told}");
        let eaten = timeout(BOUND, python(&mut one, "x = bytearray(400 << 20)")).await??;
        assert_eq!(eaten.outcome, Outcome::MemoryLimit, "{eaten:?}");
        one.end().await?;
        drop(pool);
        eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
        stop(engine).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_come_and_go_and_leave_nothing() -> Result<()> {
    let engine = whole(RuntimeKind::Crun).await?;
    let jailer = engine.jailer_pid();
    let mut first = sandbox(&engine).await?;
    works(&mut first, "print(1)", "1\n").await?;
    first.end().await?;
    let before = Census::settled(jailer)?;
    for _ in 0..5 {
        let (mut a, mut b) = (sandbox(&engine).await?, sandbox(&engine).await?);
        works(&mut a, "open('/tmp/x', 'w').write('a'); print(1)", "1\n").await?;
        works(&mut b, "import os; print(os.path.exists('/tmp/x'))", "False\n").await?;
        a.end().await?;
        drop(b);
    }
    before.is_again(jailer)?;
    stop(engine).await
}

/// The processes of one container: its keeper, and its own first process.
fn parts(engine: &Engine) -> Result<(Process, Process)> {
    let mut found = None;
    eventually("a container", || {
        let spawner = children(engine.jailer_pid()).first().copied();
        let keeper = spawner.and_then(|spawner| children(spawner.pid).first().copied());
        let agent = |keeper: Process| {
            let below = children(keeper.pid);
            below.into_iter().find(|one| one.command().contains("__agent"))
        };
        found = keeper.and_then(|keeper| Some((keeper, agent(keeper)?)));
        found.is_some()
    })?;
    found.context("no container")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_part_ends_its_sandbox_and_no_other() -> Result<()> {
    for part in ["keeper", "agent"] {
        let engine = whole(RuntimeKind::Crun).await?;
        let mut one = sandbox(&engine).await?;
        works(&mut one, "print(1)", "1\n").await?;
        let (keeper, agent) = parts(&engine)?;
        let mut other = sandbox(&engine).await?;
        works(&mut other, "x = 1; print(1)", "1\n").await?;
        let below: Vec<Process> = descendants(keeper.pid);
        match part {
            "keeper" => keeper.signal(Signal::KILL)?,
            _ => agent.signal(Signal::KILL)?,
        }
        eventually("the end of all below", || {
            !keeper.is_alive() && !below.iter().any(|process| process.is_alive())
        })?;
        let after = timeout(BOUND, python(&mut one, "1")).await.context("no answer")?;
        ensure!(
            after
                .as_ref()
                .map_or(true, |execution| execution.outcome != Outcome::Ok),
            "{part}: {after:?}"
        );
        works(&mut other, "print(x + 1)", "2\n").await?;
        let mut next = sandbox(&engine).await?;
        works(&mut next, "print('next')", "next\n").await?;
        for sandbox in [one, other, next] {
            sandbox.end().await?;
        }
        stop(engine).await?;
    }
    Ok(())
}

/// `atoll run` with this `PATH`, or the test's own.
fn start(path: Option<&Path>, code: &str) -> Result<Run> {
    let mut command = atoll();
    if let Some(path) = path {
        command.env("PATH", path);
    }
    command.args(["run", "--tier", "container", "--template", "python-min", "-c", code]);
    Run::start(&mut command)
}

/// Whatever dies first, however far the container is: the runtime at work, its half-made container, the engine.
#[test]
fn whatever_is_killed_at_any_moment_nothing_is_left() -> Result<()> {
    let watch = Watch::start()?;
    kill_parts(40, Duration::from_millis(100), || start(None, "while True: pass"))?;
    // The next start sweeps what a crash left.
    let ran = run(&[
        "run",
        "--tier",
        "container",
        "--template",
        "python-min",
        "-c",
        "print(1)",
    ])?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
    watch.nothing_left()
}

/// A directory with a program of this name that does what the script says.
fn fake(name: &str, script: &str) -> Result<tempfile::TempDir> {
    let dir = tempfile::tempdir()?;
    let place = dir.path().join(name);
    std::fs::write(
        &place,
        format!("#!/bin/sh\ncase \"$*\" in --version) echo \"{name} version 9.9\"; exit 0;; esac\n{script}\n"),
    )?;
    std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755))?;
    Ok(dir)
}

fn run_with(path: &Path) -> Command {
    let mut command = atoll();
    command.env("PATH", path);
    command.args([
        "run",
        "--json",
        "--tier",
        "container",
        "--template",
        "python-min",
        "-c",
        "1",
    ]);
    command
}

#[test]
fn without_a_runtime_the_tier_is_refused_and_no_other_takes_its_place() -> Result<()> {
    let ran = run_command(&mut run_with(Path::new("/nonexistent")))?;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(ran.stderr.contains("crun") || ran.stdout.contains("crun"), "{ran:?}");
    Ok(())
}

#[test]
fn a_runtime_that_fails_is_a_missing_wall_with_its_words() -> Result<()> {
    let watch = Watch::start()?;
    let dir = fake("crun", "echo 'no such feature: left' >&2; exit 1")?;
    let ran = run_command(&mut run_with(dir.path()))?;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(format!("{ran:?}").contains("no such feature: left"), "{ran:?}");
    watch.nothing_left()
}

#[test]
fn a_runtime_that_hangs_goes_with_its_run() -> Result<()> {
    let watch = Watch::start()?;
    let dir = fake("crun", "exec sleep 1000")?;
    let run = start(Some(dir.path()), "1")?;
    let mut hung = None;
    eventually("the runtime", || {
        let below = run.jailer().map(|jailer| descendants(jailer.pid)).unwrap_or_default();
        hung = below.into_iter().find(|process| process.command().contains("1000"));
        hung.is_some()
    })?;
    drop(run);
    let hung = hung.context("no runtime")?;
    eventually("the end of the runtime", || !hung.is_alive())?;
    watch.nothing_left()
}

async fn missing(walls: Walls) -> Result<String> {
    let engine = container_engine("python-min", RuntimeKind::Crun, walls).await?;
    let spec = SandboxSpec {
        start: Some(Language::Python),
        ..SandboxSpec::default()
    };
    let made = engine.create(spec).await;
    let layer = match made.err() {
        Some(EngineError::Tier(TierError::NoWall { layer, .. })) => layer,
        other => bail!("not refused for a missing wall: {other:?}"),
    };
    stop(engine).await?;
    Ok(layer)
}

/// What the runtime should have built is read back, like what we build ourselves.
#[tokio::test]
async fn a_required_wall_that_a_container_lacks_stops_the_start() -> Result<()> {
    const WHY: &str = "a test takes it away";
    for (wall, named) in [
        (Wall::Landlock, "landlock"),
        (Wall::Seccomp, "seccomp"),
        (Wall::Rlimits, "rlimits"),
        (Wall::ProcMask, "proc"),
    ] {
        let said = missing(Walls::default().broken(wall, WHY))
            .await
            .with_context(|| format!("{wall:?}"))?;
        assert_eq!(said, named);
    }
    // The control: nobody requires it.
    let engine = container_engine(
        "python-min",
        RuntimeKind::Crun,
        Walls::default().without(Wall::ProcMask, WHY),
    )
    .await?;
    let mut one = sandbox(&engine).await?;
    assert_eq!(python(&mut one, "print(1)").await?.stdout, "1\n");
    one.end().await?;
    stop(engine).await
}

/// An ordinary user has containers by crun, and by runc a clear refusal.
#[test]
fn an_ordinary_user_has_containers_by_crun() -> Result<()> {
    let user = User::new(USER)?;
    let ran = user.run(&[
        "run",
        "--json",
        "--tier",
        "container",
        "--template",
        "python-min",
        "-c",
        "print(6*7)",
    ])?;
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let told: serde_json::Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(
        (&told["stdout"], &told["tier"], &told["receipt"]["layers"]["mode"]),
        (&"42\n".into(), &"container".into(), &"rootless".into())
    );
    assert_eq!(told["receipt"]["layers"]["runtime"]["name"], "crun");
    Ok(())
}
