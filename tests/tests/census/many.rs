//! One engine that makes and ends many sandboxes has afterwards exactly what it had before.

use anyhow::{Context, Result, ensure};
use atoll_core::Outcome;
use atoll_engine::{Engine, SandboxSpec, Walls, Warmth};
use atoll_tests::census::{Census, instance_of, is_gone};
use atoll_tests::{engine, input, python, sandbox, stop};
use std::sync::Arc;

/// Create, run, end.
async fn one(engine: &Engine) -> Result<()> {
    let mut sandbox = sandbox(engine).await?;
    let execution = python(&mut sandbox, "1+1").await?;
    ensure!(execution.outcome == Outcome::Ok, "{execution:?}");
    ensure!(
        execution
            .results
            .first()
            .is_some_and(|result| result.data["text/plain"] == "2"),
        "{execution:?}"
    );
    Ok(sandbox.end().await?)
}

/// A warm engine that has been used once, and what it has.
async fn warm() -> Result<(Arc<Engine>, Census)> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    engine.ready().await?;
    one(&engine).await?;
    let census = Census::settled(engine.jailer_pid())?;
    Ok((engine, census))
}

async fn all_gone(engine: Arc<Engine>, census: &Census) -> Result<()> {
    let instance = instance_of(engine.jailer_pid()).context("no instance")?;
    stop(engine).await?;
    is_gone(census, &instance)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_sandboxes_one_after_another() -> Result<()> {
    let (engine, before) = warm().await?;
    for number in 0..1000 {
        one(&engine).await.with_context(|| format!("sandbox {number}"))?;
    }
    before.is_again(engine.jailer_pid())?;
    all_gone(engine, &before).await
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_sandboxes_at_once() -> Result<()> {
    let (engine, before) = warm().await?;
    for _round in 0..2 {
        let mut sandboxes = Vec::new();
        for _ in 0..50 {
            let engine = Arc::clone(&engine);
            sandboxes.push(tokio::spawn(async move {
                let mut sandbox = sandbox(&engine).await?;
                python(&mut sandbox, "x = 1+1").await?;
                anyhow::Ok(sandbox)
            }));
        }
        let mut live = Vec::new();
        for sandbox in sandboxes {
            live.push(sandbox.await??);
        }
        let during = Census::of(engine.jailer_pid())?;
        ensure!(
            during.ids.len() >= 50 + 2,
            "each sandbox has an id of its own: {:?}",
            during.ids
        );
        ensure!(
            during.processes.len() >= before.processes.len() + 100,
            "{}",
            during.processes.len()
        );
        let ends = live
            .into_iter()
            .map(|sandbox| tokio::spawn(async move { sandbox.end().await }))
            .collect::<Vec<_>>();
        for end in ends {
            end.await??;
        }
        before.is_again(engine.jailer_pid())?;
    }
    all_gone(engine, &before).await
}

#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_that_are_dropped_and_not_ended() -> Result<()> {
    let (engine, before) = warm().await?;
    let mut live = Vec::new();
    for _ in 0..100 {
        live.push(sandbox(&engine).await?);
    }
    drop(live);
    before.is_again(engine.jailer_pid())?;
    all_gone(engine, &before).await
}

/// Whoever asks for a sandbox may go away before it stands.
#[tokio::test(flavor = "multi_thread")]
async fn sandboxes_whose_maker_went_away() -> Result<()> {
    let (engine, before) = warm().await?;
    for polls in 0..60 {
        let mut making = Box::pin(engine.create(SandboxSpec::default()));
        for _ in 0..polls % 12 {
            let polled = tokio::time::timeout(std::time::Duration::from_micros(300), &mut making).await;
            if polled.is_ok() {
                break;
            }
        }
        drop(making);
    }
    before.is_again(engine.jailer_pid())?;
    one(&engine).await?;
    all_gone(engine, &before).await
}

/// An input that only its owner may read is copied for the sandbox; the copy goes with it.
#[tokio::test(flavor = "multi_thread")]
async fn private_inputs_leave_no_copy() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let (engine, before) = warm().await?;
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("secret.csv");
    let secret = "a,b\n1,2 of the census\n";
    std::fs::write(&path, secret)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let spec = SandboxSpec {
        inputs: vec![input(&path, "secret.csv")?],
        ..SandboxSpec::default()
    };
    let mut sandbox = engine.create(spec).await?;
    let execution = python(&mut sandbox, "print(open('/data/input/secret.csv').read())").await?;
    assert_eq!(execution.stdout, format!("{secret}\n"));
    sandbox.end().await?;
    drop(sandbox);
    let copies = std::fs::read_dir(atoll_tests::home().join("spool"))?.flatten();
    let ours = copies.map(|copy| std::fs::read_to_string(copy.path()).unwrap_or_default());
    assert_eq!(
        ours.filter(|text| text == secret).count(),
        0,
        "a copy of the input is left"
    );
    before.is_again(engine.jailer_pid())?;
    all_gone(engine, &before).await
}
