//! A saved sandbox of the tier `gvisor` on the disk: damaged, gone, or made by two engines at the same time.

use anyhow::{Context, Result, ensure};
use atoll_core::quantity::{MIB, MemoryBytes};
use atoll_core::{Limits, Outcome, Tier};
use atoll_engine::{Engine, EngineConfig, Origin, Pool, PoolSize, Sandbox, SandboxSpec, TierSettings, Walls, Warmth};
use atoll_tests::private_home::PrivateHome;
use atoll_tests::process::{BOUND, eventually};
use atoll_tests::{NO_AUDIT, binary, gvisor_engine, python, sandbox, stop};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::time::timeout;

/// Each test has a data directory of its own: other engines remove saved sandboxes that they do not use.
async fn engine(home: &PrivateHome) -> Result<Arc<Engine>> {
    let config = EngineConfig {
        home: home.path().to_owned(),
        program: binary(),
        tier: Tier::Gvisor,
        settings: TierSettings::default(),
        warmth: Warmth::Warm,
        walls: Walls::default(),
        audit: NO_AUDIT,
    };
    Ok(Arc::new(Engine::start(config, home.template()?).await?))
}

async fn works(sandbox: &mut Sandbox) -> Result<()> {
    let execution = timeout(BOUND, python(sandbox, "print(6 * 7)"))
        .await
        .context("no answer")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.stdout == "42\n",
        "{execution:?}"
    );
    Ok(())
}

async fn is_saved(engine: &Engine) -> Result<()> {
    let facts = engine.ready().await?;
    ensure!(facts["restores"]["saved"] == true, "{facts:?}");
    Ok(())
}

/// The files of the only saved sandbox.
fn files(home: &PrivateHome) -> Result<Vec<PathBuf>> {
    let tree = home.template()?.tree;
    let shelves = tree.parent().context("a parent")?.join("gvisor");
    let dirs: Vec<PathBuf> = std::fs::read_dir(shelves)?
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let [dir] = &dirs[..] else {
        anyhow::bail!("not one shelf: {dirs:?}");
    };
    Ok(std::fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect())
}

fn image(home: &PrivateHome) -> Result<PathBuf> {
    let image = files(home)?.into_iter().find(|path| path.ends_with("checkpoint.img"));
    image.context("no image")
}

/// Another bit in the middle.
fn damage(home: &PrivateHome) -> Result<()> {
    let file = File::options().read(true).write(true).open(image(home)?)?;
    let (at, mut byte) = (file.metadata()?.len() / 2, [0]);
    file.read_exact_at(&mut byte, at)?;
    file.write_all_at(&[byte[0] ^ 1], at)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_save_is_never_restored_and_made_anew() -> Result<()> {
    let home = PrivateHome::new("python-min")?;
    let first = engine(&home).await?;
    is_saved(&first).await?;
    let whole = std::fs::read(image(&home)?)?;
    stop(first).await?;
    damage(&home)?;
    let second = engine(&home).await?;
    // Nobody has made another one yet: it starts from nothing.
    let mut cold = sandbox(&second).await?;
    works(&mut cold).await?;
    cold.end().await?;
    ensure!(std::fs::read(image(&home)?)?.len() == whole.len(), "a create has saved");
    is_saved(&second).await?;
    let mut restored = sandbox(&second).await?;
    works(&mut restored).await?;
    restored.end().await?;
    // Damaged while an engine uses it: one create may fail and say so, the next does without.
    File::options().write(true).open(image(&home)?)?.set_len(4096)?;
    if let Ok(mut lucky) = sandbox(&second).await {
        works(&mut lucky).await?;
        lucky.end().await?;
    }
    let mut next = sandbox(&second).await?;
    works(&mut next).await?;
    next.end().await?;
    stop(second).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_engines_that_save_at_once_both_have_one_that_works() -> Result<()> {
    let home = PrivateHome::new("python-min")?;
    let (one, other) = (engine(&home).await?, engine(&home).await?);
    let (a, b) = tokio::join!(is_saved(&one), is_saved(&other));
    a.and(b)?;
    let names: Vec<PathBuf> = files(&home)?;
    // Two of the keeper's, what is known of them, and the mark of use.
    ensure!(names.len() == 4, "parts are left: {names:?}");
    for engine in [one, other] {
        let mut restored = sandbox(&engine).await?;
        works(&mut restored).await?;
        restored.end().await?;
        stop(engine).await?;
    }
    Ok(())
}

/// With all that a saved one has imported it does not fit into so little memory: others start from nothing.
#[tokio::test(flavor = "multi_thread")]
async fn little_memory_is_enough_for_one_that_is_not_restored() -> Result<()> {
    let engine = gvisor_engine("python-data", Walls::default()).await?;
    is_saved(&engine).await?;
    let little = SandboxSpec {
        limits: Limits {
            memory: MemoryBytes::known(64 * MIB),
            ..Limits::SMALL
        },
        ..SandboxSpec::default()
    };
    let mut made = engine.create(little.clone()).await?;
    works(&mut made).await?;
    made.end().await?;
    let pool = Pool::start(Arc::clone(&engine), PoolSize::exactly(1), Limits::default()).await?;
    let mut claimed = pool.claim(little).await?;
    assert_eq!(claimed.origin(), Origin::Made, "a prepared one was taken");
    works(&mut claimed).await?;
    claimed.end().await?;
    drop(pool);
    eventually("the pool's end", || Arc::strong_count(&engine) == 1)?;
    stop(engine).await
}
