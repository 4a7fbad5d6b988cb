//! Zygotes make room for fresh ones by rule, and one that hangs while it starts is ended.

use anyhow::{Context, Result, ensure};
use atoll_core::{Outcome, Tier};
use atoll_engine::{Engine, EngineConfig, Rotation, Sandbox, TierSettings, Walls, Warmth};
use atoll_tests::census::Watch;
use atoll_tests::process::{BOUND, Family, eventually};
use atoll_tests::{NO_AUDIT, binary, home, python, sandbox, stop, template};
use std::sync::Arc;
use std::time::Instant;
use tokio::time::timeout;

async fn start(rotation: Rotation, warmup: &str) -> Result<Arc<Engine>> {
    let mut template = template("python-min")?;
    template.warmup = Some(warmup.to_owned());
    let config = EngineConfig {
        tier: Tier::Jail,
        settings: TierSettings::default(),
        home: home(),
        program: binary(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    Ok(Arc::new(Engine::start_with(config, template, rotation).await?))
}

/// The seed of string hashes is a zygote's own: two forks of one agree, forks of two do not.
async fn seed(sandbox: &mut Sandbox) -> Result<String> {
    let execution = python(sandbox, "print(hash('atoll'))").await?;
    ensure!(execution.outcome == Outcome::Ok, "{execution:?}");
    Ok(execution.stdout)
}

/// Makes and ends sandboxes until one comes from another zygote. None of them may fail.
async fn until_another(engine: &Engine, first: &str) -> Result<usize> {
    let began = Instant::now();
    for made in 1.. {
        let mut one = sandbox(engine).await?;
        let seed = seed(&mut one).await?;
        one.end().await?;
        if seed != first {
            return Ok(made);
        }
        ensure!(began.elapsed() < BOUND, "the zygote was never replaced");
    }
    Ok(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zygote_that_has_forked_often_or_is_old_is_replaced() -> Result<()> {
    let often = Rotation {
        max_forks: 3,
        ..Rotation::default()
    };
    let old = Rotation {
        max_age_seconds: 1,
        ..Rotation::default()
    };
    for rotation in [often, old] {
        let engine = start(rotation, "").await?;
        let mut kept = sandbox(&engine).await?;
        let first = seed(&mut kept).await?;
        until_another(&engine, &first).await?;
        assert_eq!(seed(&mut kept).await?, first);
        kept.end().await?;
        stop(engine).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zygote_with_many_living_forks_is_replaced_and_they_live_on() -> Result<()> {
    let rotation = Rotation {
        max_living_forks: 3,
        ..Rotation::default()
    };
    let engine = start(rotation, "").await?;
    let mut living = Vec::new();
    for _ in 0..3 {
        living.push(sandbox(&engine).await?);
    }
    let mut firsts = Vec::new();
    for one in &mut living {
        firsts.push(seed(one).await?);
    }
    until_another(&engine, &firsts[0]).await?;
    for (one, first) in living.iter_mut().zip(&firsts) {
        assert_eq!(seed(one).await?, *first);
        let ended = timeout(BOUND, python(one, "import os\nos._exit(3)")).await??;
        assert_eq!(ended.exit_code, Some(3));
    }
    for one in living {
        one.end().await?;
    }
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_successor_that_hangs_leaves_the_present_zygote_at_work() -> Result<()> {
    let rotation = Rotation {
        max_forks: 1,
        ..Rotation::default()
    };
    // The first one warms up, every later one hangs.
    let warmup = "import os, time\nfirst = '/tmp/first'\nif not os.path.exists(first):\n    open(first, 'w').write(str(os.getpid()))\nelif open(first).read() != str(os.getpid()):\n    time.sleep(1e6)";
    let engine = start(rotation, warmup).await?;
    let mut first = sandbox(&engine).await?;
    let seen = seed(&mut first).await?;
    let before = Family::of(engine.jailer_pid())?.spawner;
    for _ in 0..5 {
        let mut one = sandbox(&engine).await?;
        assert_eq!(seed(&mut one).await?, seen);
        one.end().await?;
    }
    assert_eq!(Family::of(engine.jailer_pid())?.spawner, before);
    first.end().await?;
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_zygote_that_hangs_while_it_starts_is_ended_with_a_clear_error() -> Result<()> {
    let watch = Watch::start()?;
    let rotation = Rotation {
        start_seconds: 1,
        ..Rotation::default()
    };
    let engine = start(rotation, "import time\ntime.sleep(1e6)").await?;
    let refused = timeout(BOUND, engine.ready()).await.context("no answer")?;
    let message = format!("{:#}", anyhow::Error::from(refused.err().context("it started")?));
    ensure!(message.contains("not ready after 1 s"), "{message}");
    let jailer = engine.jailer_pid();
    eventually("the zygote's end", || {
        Family::of(jailer).is_ok_and(|family| family.zygote.is_none())
    })?;
    let made = timeout(BOUND, async { python(&mut sandbox(&engine).await?, "1").await });
    let message = format!("{:#}", made.await.context("no answer")?.err().context("it ran")?);
    ensure!(
        message.contains("failed to start") && message.contains("not ready after 1 s"),
        "{message}"
    );
    stop(engine).await?;
    watch.nothing_left()
}
