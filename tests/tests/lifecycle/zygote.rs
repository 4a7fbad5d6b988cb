//! Zygote, agent and spawner die: what runs goes on or ends with a clear answer, and the next sandbox works.

use anyhow::{Context, Result, ensure};
use atoll_core::{Language, Outcome, Tier};
use atoll_engine::{Engine, EngineConfig, Output, Sandbox, SandboxSpec, TierSettings, Walls, Warmth};
use atoll_tests::census::Watch;
use atoll_tests::process::{BOUND, Family, Process, eventually};
use atoll_tests::{NO_AUDIT, binary, engine, execute, home, python, sandbox, stop, template};
use rustix::process::Signal;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::timeout;

async fn warm() -> Result<Arc<Engine>> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    engine.ready().await?;
    Ok(engine)
}

/// Runs code that must work, and checks that every wall is up around it.
async fn works(sandbox: &mut Sandbox, code: &str, want: &str) -> Result<()> {
    let execution = timeout(BOUND, python(sandbox, code)).await.context("no answer")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.stdout == want,
        "{execution:?}"
    );
    let layers = &execution.receipt.layers;
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

/// Kills the zygote and waits for its successor.
fn kill_zygote(engine: &Engine) -> Result<Process> {
    let (_, zygote) = Family::with_zygote(engine.jailer_pid(), None)?;
    zygote.signal(Signal::KILL)?;
    Ok(Family::with_zygote(engine.jailer_pid(), Some(zygote))?.1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_zygote_is_replaced_and_running_sandboxes_go_on() -> Result<()> {
    let engine = warm().await?;
    let mut running = sandbox(&engine).await?;
    works(&mut running, "x = 41; print(x)", "41\n").await?;
    let first = kill_zygote(&engine)?;
    works(&mut running, "print(x + 1)", "42\n").await?;
    let mut next = sandbox(&engine).await?;
    works(&mut next, "print('new')", "new\n").await?;
    // The end of a context whose zygote is gone is still told as it was.
    let crashed = timeout(BOUND, python(&mut running, "import os\nos._exit(7)")).await??;
    assert_eq!((crashed.outcome, crashed.exit_code), (Outcome::Error, Some(7)));
    works(&mut running, "print('again')", "again\n").await?;
    assert_ne!(kill_zygote(&engine)?, first);
    works(&mut next, "print(1)", "1\n").await?;
    running.end().await?;
    next.end().await?;
    stop(engine).await
}

/// The zygote dies again and again while contexts are asked for: each is answered, none waits for ever.
#[tokio::test(flavor = "multi_thread")]
async fn contexts_asked_of_a_dying_zygote_are_answered() -> Result<()> {
    let engine = warm().await?;
    let jailer = engine.jailer_pid();
    let mut started = 0;
    for _round in 0..6 {
        let mut asked = Vec::new();
        for _ in 0..8 {
            let engine = Arc::clone(&engine);
            asked.push(tokio::spawn(async move {
                let mut one = sandbox(&engine).await?;
                let execution = python(&mut one, "1+1").await;
                one.end().await?;
                execution
            }));
        }
        let former = Family::of(jailer)?.zygote;
        if let Some(zygote) = former {
            zygote.signal(Signal::KILL).ok();
        }
        for one in asked {
            match timeout(BOUND, one).await.context("a context was never answered")?? {
                Ok(execution) => started += usize::from(execution.outcome == Outcome::Ok),
                Err(error) => ensure!(format!("{error:#}").contains("zygote"), "{error:#}"),
            }
        }
    }
    ensure!(started > 0);
    let mut last = sandbox(&engine).await?;
    works(&mut last, "print('after all')", "after all\n").await?;
    last.end().await?;
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn rotation_keeps_old_contexts_and_forks_from_the_new_zygote() -> Result<()> {
    let engine = warm().await?;
    let (_, former) = Family::with_zygote(engine.jailer_pid(), None)?;
    // The seed of string hashes is a zygote's own: two forks of one agree, forks of two do not.
    let (mut old, mut sibling) = (sandbox(&engine).await?, sandbox(&engine).await?);
    let hash = python(&mut old, "kept = hash('atoll'); print(kept)").await?.stdout;
    assert_eq!(python(&mut sibling, "print(hash('atoll'))").await?.stdout, hash);
    engine.rotate().await?;
    Family::with_zygote(engine.jailer_pid(), Some(former))?;
    eventually("the end of the old zygote", || !former.is_alive())?;
    works(&mut old, "print(kept)", &hash).await?;
    let mut new = sandbox(&engine).await?;
    let other = python(&mut new, "print(hash('atoll'))").await?;
    assert_eq!(other.outcome, Outcome::Ok);
    assert_ne!(other.stdout, hash);
    // The old context's end is still told as it was.
    let ended = timeout(BOUND, python(&mut old, "import os\nos._exit(3)")).await??;
    assert_eq!(ended.exit_code, Some(3));
    for sandbox in [old, sibling, new] {
        sandbox.end().await?;
    }
    stop(engine).await
}

/// Rotation while contexts are being made and while others end: all are answered.
#[tokio::test(flavor = "multi_thread")]
async fn rotation_under_load_loses_nothing() -> Result<()> {
    let engine = warm().await?;
    for _round in 0..5 {
        let mut asked = Vec::new();
        for number in 0..8 {
            let engine = Arc::clone(&engine);
            asked.push(tokio::spawn(async move {
                let mut one = sandbox(&engine).await?;
                let execution = python(&mut one, &format!("import os\nos._exit({number})")).await?;
                ensure!(execution.exit_code == Some(number), "{execution:?}");
                Ok(one.end().await?)
            }));
        }
        engine.rotate().await?;
        tokio::task::yield_now().await;
        engine.rotate().await?;
        for one in asked {
            timeout(BOUND, one).await.context("a context was never answered")???;
        }
    }
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interpreter_that_cannot_start_is_a_clear_error() -> Result<()> {
    let watch = Watch::start()?;
    for interpreter in ["/opt/atoll/no/such/python", "/bin/false", "/usr/bin/env"] {
        let mut broken = template("python-min")?;
        broken.interpreter = interpreter.to_owned();
        let config = EngineConfig {
            tier: Tier::Jail,
            settings: TierSettings::default(),
            home: home(),
            program: binary(),
            warmth: Warmth::Warm,
            walls: Walls::default(),
            audit: NO_AUDIT,
        };
        let engine = Engine::start(config, broken).await?;
        let refused = timeout(BOUND, engine.ready()).await.context("no answer")?;
        let message = format!("{:#}", anyhow::Error::from(refused.err().context("it started")?));
        ensure!(
            message.contains("the template's interpreter did not start"),
            "{message}"
        );
        let made = timeout(BOUND, async {
            let mut one = sandbox(&engine).await?;
            python(&mut one, "1").await
        });
        let message = format!("{:#}", made.await.context("no answer")?.err().context("it ran")?);
        ensure!(
            message.contains("failed to start") && !message.contains("start: :"),
            "{message}"
        );
        engine.stop().await;
        watch.nothing_left()?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_preload_that_fails_is_named() -> Result<()> {
    let mut broken = template("python-min")?;
    broken.preload = vec!["no_such_package".to_owned()];
    let config = EngineConfig {
        tier: Tier::Jail,
        settings: TierSettings::default(),
        home: home(),
        program: binary(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    let engine = Engine::start(config, broken).await?;
    let refused = timeout(BOUND, engine.ready()).await.context("no answer")?;
    let message = format!("{:#}", anyhow::Error::from(refused.err().context("it started")?));
    ensure!(message.contains("no_such_package"), "{message}");
    engine.stop().await;
    Ok(())
}

/// The sandbox's first process dies: the run ends as killed, the sandbox is over, others go on.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_agent_ends_its_sandbox_only() -> Result<()> {
    let engine = warm().await?;
    for (language, code) in [
        (Language::Python, "print('up', flush=True)\nwhile True: pass"),
        (Language::Bash, "echo up; while :; do :; done"),
    ] {
        let mut neighbour = sandbox(&engine).await?;
        works(&mut neighbour, "y = 1; print(y)", "1\n").await?;
        let others = Family::of(engine.jailer_pid())?.agents;
        let mut victim = sandbox(&engine).await?;
        let execution = execute(
            &mut victim,
            language,
            if language == Language::Bash { "true" } else { "1" },
        )
        .await?;
        assert_eq!(execution.outcome, Outcome::Ok);
        let agents = Family::of(engine.jailer_pid())?.agents;
        let agent = *agents
            .iter()
            .find(|agent| !others.contains(agent))
            .context("no agent")?;
        let up = Arc::new(Notify::new());
        let running = tokio::spawn({
            let up = Arc::clone(&up);
            async move {
                let mut sink = |_: Output<'_>| up.notify_one();
                let execution = victim.run(language, code, Arc::default(), &mut sink).await;
                (victim, execution)
            }
        });
        timeout(BOUND, up.notified()).await.context("the code does not begin")?;
        agent.signal(Signal::KILL)?;
        let (mut victim, execution) = timeout(BOUND, running).await.context("the run never ends")??;
        let execution = execution?;
        assert_eq!(execution.outcome, Outcome::Killed, "{execution:?}");
        let next = timeout(BOUND, execute(&mut victim, language, "1"))
            .await
            .context("no answer")?;
        let message = format!("{:#}", next.err().context("a dead sandbox ran code")?);
        ensure!(!message.contains("jailer exited"), "{message}");
        timeout(BOUND, victim.end()).await.context("the end never comes")??;
        works(&mut neighbour, "print(y + 1)", "2\n").await?;
        neighbour.end().await?;
    }
    stop(engine).await
}

/// The spawner dies with all its sandboxes; the next sandbox gets another spawner.
#[tokio::test(flavor = "multi_thread")]
async fn a_killed_spawner_is_replaced() -> Result<()> {
    let engine = warm().await?;
    let mut lost = sandbox(&engine).await?;
    works(&mut lost, "print(1)", "1\n").await?;
    let family = Family::of(engine.jailer_pid())?;
    family.spawner.signal(Signal::KILL)?;
    eventually("the end of what was below", || {
        !family.agents.iter().any(|agent| agent.is_alive())
    })?;
    let run = timeout(BOUND, python(&mut lost, "1")).await.context("no answer")?;
    ensure!(
        run.as_ref()
            .map_or(true, |execution| execution.outcome == Outcome::Killed),
        "{run:?}"
    );
    timeout(BOUND, lost.end()).await.context("the end never comes")?.ok();
    let next = timeout(BOUND, engine.create(SandboxSpec::default()))
        .await
        .context("no answer")?;
    let mut next = next.context("no sandbox after the spawner's death")?;
    works(&mut next, "print('new')", "new\n").await?;
    next.end().await?;
    stop(engine).await
}
