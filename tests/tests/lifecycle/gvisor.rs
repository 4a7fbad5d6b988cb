//! The tier `gvisor`: sandboxes that start and sandboxes that are restored, and what is left when a part of one dies.

use crate::parts::{Run, kill_parts};
use anyhow::{Context, Result, ensure};
use atoll_core::quantity::{MIB, MemoryBytes};
use atoll_core::{Language, Limits, Outcome, Tier};
use atoll_engine::{Engine, EngineError, Pool, PoolSize, Sandbox, SandboxSpec, TierError, TierSettings, Walls};
use atoll_tests::census::{Census, Watch};
use atoll_tests::process::{BOUND, Process, children, descendants, eventually};
use atoll_tests::user::User;
use atoll_tests::{atoll, execute, gvisor_engine, input, python, run, run_command, run_json, sandbox, stop};
use rustix::process::Signal;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::timeout;

const USER: u32 = 12_361;

async fn whole() -> Result<Arc<Engine>> {
    gvisor_engine("python-min", Walls::default()).await
}

/// Runs code that must work, and checks that the walls are up on both sides of gVisor's kernel.
async fn works(sandbox: &mut Sandbox, code: &str, want: &str) -> Result<()> {
    let execution = timeout(BOUND, python(sandbox, code)).await.context("no answer")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.stdout == want,
        "{execution:?}"
    );
    ensure!(execution.tier == Tier::Gvisor, "{execution:?}");
    let layers = &execution.receipt.layers;
    let (kernel, inside) = (&layers["gvisor"], &layers["inside"]);
    ensure!(
        kernel["seccomp"]["mode"] == "2" && kernel["no_new_privs"] == true,
        "{layers:?}"
    );
    ensure!(
        inside["capabilities"] == "none" && inside["seccomp"] == "2" && inside["uid"] == "1000",
        "{layers:?}"
    );
    let host = layers["kernel"].as_str().context("no kernel")?;
    ensure!(
        inside["kernel"].as_str().is_some_and(|kernel| !kernel.contains(host)),
        "{layers:?}"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_runs_every_language_and_says_whose_kernel_it_has() -> Result<()> {
    let engine = whole().await?;
    let mut one = sandbox(&engine).await?;
    works(&mut one, "x = 41; print(x)", "41\n").await?;
    works(&mut one, "print(x + 1)", "42\n").await?;
    let told = python(&mut one, "1").await?.receipt.layers["runtime"].clone();
    assert_eq!(told["name"], "runsc");
    assert!(told["release"].as_str().is_some_and(|day| day.len() == 8), "{told}");
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
    stop(engine).await
}

/// Restored sandboxes are warm, apart, and draw other numbers.
#[tokio::test(flavor = "multi_thread")]
async fn restored_sandboxes_are_ready_and_have_nothing_in_common() -> Result<()> {
    let engine = whole().await?;
    let facts = engine.ready().await?;
    assert_eq!(facts["restores"]["saved"], true, "{facts:?}");
    let draws = "import random, uuid, os\nprint(random.random(), uuid.uuid1(), os.urandom(8))";
    let (mut a, mut b) = (sandbox(&engine).await?, sandbox(&engine).await?);
    let [first, second] = [python(&mut a, draws).await?, python(&mut b, draws).await?];
    for (one, other) in first.stdout.split(' ').zip(second.stdout.split(' ')) {
        assert_ne!(one, other);
    }
    works(&mut a, "open('/tmp/x', 'w').write('a'); x = 1; print(1)", "1\n").await?;
    works(
        &mut b,
        "import os; print(os.path.exists('/tmp/x'), 'x' in globals())",
        "False False\n",
    )
    .await?;
    works(&mut a, "print(open('/tmp/x').read(), x)", "a 1\n").await?;
    let crashed = timeout(BOUND, python(&mut a, "import os\nos._exit(7)")).await??;
    assert_eq!((crashed.outcome, crashed.exit_code), (Outcome::Error, Some(7)));
    works(&mut a, "print('again')", "again\n").await?;
    a.end().await?;
    b.end().await?;
    stop(engine).await
}

/// What a person types.
#[test]
fn a_run_has_its_inputs_and_gives_its_outputs() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("in.csv");
    std::fs::write(&file, "a\n41\n")?;
    let path = file.to_str().context("a path")?;
    let code = "n = int(open('/data/input/in.csv').read().split()[1])\nopen('/data/output/o.txt', 'w').write(str(n + 1))\n\
                try: open('/data/input/in.csv', 'w')\nexcept OSError as e: print('refused')";
    let execution = run_json(&["--tier", "gvisor", "--template", "python-min", "--in", path, "-c", code])?;
    assert_eq!(
        (execution.outcome, execution.stdout.as_str()),
        (Outcome::Ok, "refused\n"),
        "{execution:?}"
    );
    assert_eq!(execution.files.len(), 1, "{execution:?}");
    assert_eq!(execution.receipt.tier, Tier::Gvisor);
    Ok(())
}

/// The limits are read back from the kernel, and hold.
#[tokio::test(flavor = "multi_thread")]
async fn a_claim_brings_limits_and_inputs_into_a_restored_sandbox() -> Result<()> {
    let engine = whole().await?;
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(1), Limits::default()).await?;
    let dir = tempfile::tempdir()?;
    std::fs::write(dir.path().join("f"), "from outside")?;
    let limits = Limits {
        memory: MemoryBytes::try_from(300 * MIB)?,
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
    // With what gVisor's own kernel may use.
    assert_eq!(told["memory_bytes"], (364 * MIB).to_string(), "{told}");
    let eaten = timeout(BOUND, python(&mut one, "x = b'x' * (500 << 20)")).await??;
    assert_eq!(eaten.outcome, Outcome::MemoryLimit, "{eaten:?}");
    one.end().await?;
    drop(pool);
    eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_come_and_go_and_leave_nothing() -> Result<()> {
    let engine = whole().await?;
    engine.ready().await?;
    let jailer = engine.jailer_pid();
    let mut first = sandbox(&engine).await?;
    works(&mut first, "print(1)", "1\n").await?;
    first.end().await?;
    let before = Census::settled(jailer)?;
    for _ in 0..3 {
        let (mut a, b) = (sandbox(&engine).await?, sandbox(&engine).await?);
        works(&mut a, "print(1)", "1\n").await?;
        a.end().await?;
        drop(b);
    }
    before.is_again(jailer)?;
    stop(engine).await
}

/// The processes below a jailer whose command line has this word.
fn below(jailer: u32, word: &str) -> Vec<Process> {
    let all = descendants(jailer).into_iter();
    all.filter(|process| process.command().contains(word)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_death_of_a_part_ends_its_sandbox_and_no_other() -> Result<()> {
    let engine = whole().await?;
    engine.ready().await?;
    for part in ["keeper", "runsc-sandbox", "runsc-gofer"] {
        let mut one = sandbox(&engine).await?;
        works(&mut one, "print(1)", "1\n").await?;
        let spawner = children(engine.jailer_pid()).first().copied().context("no spawner")?;
        let keeper = children(spawner.pid).first().copied().context("no keeper")?;
        let mut other = sandbox(&engine).await?;
        works(&mut other, "x = 1; print(1)", "1\n").await?;
        let all = descendants(keeper.pid);
        match part {
            "keeper" => keeper.signal(Signal::KILL)?,
            _ => below(keeper.pid, part)
                .first()
                .context("no such part")?
                .signal(Signal::KILL)?,
        }
        // A sandbox without the process that serves its files cannot open any more of them.
        if part != "runsc-gofer" {
            eventually("the end of all below", || {
                !keeper.is_alive() && !all.iter().any(|process| process.is_alive())
            })?;
            let after = timeout(BOUND, python(&mut one, "1")).await.context("no answer")?;
            ensure!(
                after
                    .as_ref()
                    .map_or(true, |execution| execution.outcome != Outcome::Ok),
                "{part}: {after:?}"
            );
        }
        works(&mut other, "print(x + 1)", "2\n").await?;
        one.end().await?;
        other.end().await?;
        eventually("the end of both", || below(engine.jailer_pid(), "runsc").is_empty())?;
    }
    stop(engine).await
}

/// Whatever dies first, however far the sandbox is: `runsc` at work, its half-made sandbox, the engine.
#[test]
fn whatever_is_killed_at_any_moment_nothing_is_left() -> Result<()> {
    let watch = Watch::start()?;
    kill_parts(24, Duration::from_millis(300), || {
        Run::start(atoll().args([
            "run",
            "--tier",
            "gvisor",
            "--template",
            "python-min",
            "-c",
            "while True: pass",
        ]))
    })?;
    // The next start sweeps what a crash left.
    let ran = run(&["run", "--tier", "gvisor", "--template", "python-min", "-c", "print(1)"])?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{ran:?}");
    watch.nothing_left()
}

#[test]
fn without_runsc_the_tier_is_refused_and_no_other_takes_its_place() -> Result<()> {
    let mut command = atoll();
    command.env("PATH", Path::new("/nonexistent"));
    command.args([
        "run",
        "--json",
        "--tier",
        "gvisor",
        "--template",
        "python-min",
        "-c",
        "1",
    ]);
    let ran = run_command(&mut command)?;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(format!("{ran:?}").contains("runsc"), "{ran:?}");
    Ok(())
}

/// An operator with hostile tenants demands a release.
#[tokio::test]
async fn a_release_below_the_floor_is_refused() -> Result<()> {
    let config = atoll_engine::EngineConfig {
        home: atoll_tests::home(),
        program: atoll_tests::binary(),
        tier: Tier::Gvisor,
        settings: TierSettings {
            gvisor_min_release: Some(20_991_231),
            ..TierSettings::default()
        },
        warmth: atoll_engine::Warmth::Warm,
        walls: Walls::default(),
        audit: atoll_tests::NO_AUDIT,
    };
    let refused = Engine::start(config, atoll_tests::template("python-min")?).await;
    let Err(EngineError::Tier(TierError::NoWall { layer, message, .. })) = refused else {
        anyhow::bail!("not refused: {refused:?}");
    };
    assert_eq!(layer, "gvisor");
    assert!(message.contains("20991231"), "{message}");
    Ok(())
}

/// Its calls cannot be shown to anybody, so a dry run would be an empty promise.
#[tokio::test]
async fn a_dry_run_is_refused() -> Result<()> {
    let engine = whole().await?;
    let spec = SandboxSpec {
        dry_run: true,
        ..SandboxSpec::default()
    };
    let refused = engine.create(spec).await.err();
    ensure!(
        matches!(&refused, Some(EngineError::Tier(TierError::NoWall { layer, .. })) if layer == "dry_run"),
        "{refused:?}"
    );
    stop(engine).await
}

/// One id is not enough for it; nothing weaker takes its place.
#[test]
fn an_ordinary_user_is_refused_with_the_reason() -> Result<()> {
    let user = User::new(USER)?;
    let ran = user.run(&[
        "run",
        "--json",
        "--tier",
        "gvisor",
        "--template",
        "python-min",
        "-c",
        "1",
    ])?;
    assert_eq!(ran.code, Some(5), "{ran:?}");
    assert!(
        format!("{ran:?}").contains("an unprivileged user has only one"),
        "{ran:?}"
    );
    Ok(())
}
