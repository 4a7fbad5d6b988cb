//! A step of the set-up fails: the caller hears which, no user code runs, nothing stays (C08, C09).

use anyhow::{Context, Result, ensure};
use atoll_core::Outcome;
use atoll_engine::{Engine, Input, SandboxSpec, Walls, Warmth};
use atoll_tests::census::{Census, instance_of};
use atoll_tests::process::{BOUND, Family, Process};
use atoll_tests::{engine, input, python, sandbox, stop};
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::timeout;

/// A warm engine that has been used once, and what it has.
async fn warm() -> Result<(Arc<Engine>, Census)> {
    let engine = engine("python-min", Warmth::Warm, Walls::default()).await?;
    engine.ready().await?;
    works(&engine).await?;
    let census = Census::settled(engine.jailer_pid())?;
    Ok((engine, census))
}

async fn works(engine: &Engine) -> Result<()> {
    let mut one = sandbox(engine).await?;
    let execution = timeout(BOUND, python(&mut one, "print(1)"))
        .await
        .context("no answer")??;
    ensure!(
        execution.outcome == Outcome::Ok && execution.stdout == "1\n",
        "{execution:?}"
    );
    Ok(one.end().await?)
}

/// The words with which a sandbox was refused.
async fn refused(engine: &Engine, spec: SandboxSpec) -> Result<String> {
    let made = timeout(BOUND, async {
        let mut one = engine.create(spec).await?;
        let execution = python(&mut one, "print('ran')").await;
        one.end().await.ok();
        execution
    });
    match made.await.context("no answer")? {
        Ok(execution) => anyhow::bail!("it was not refused: {execution:?}"),
        Err(error) => Ok(format!("{error:#}")),
    }
}

/// An input whose path names another file by the time it is mounted. The engine looks its path up twice: here the
/// path itself leads to another file each time it is looked up.
#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_replaced_meanwhile_is_refused() -> Result<()> {
    let (engine, before) = warm().await?;
    let dir = tempfile::tempdir()?;
    let (path, other) = (dir.path().join("in.csv"), dir.path().join("other.csv"));
    std::fs::write(&path, "good")?;
    std::fs::write(&other, "evil")?;
    let stop_swapping = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (path, other, stop) = (path.clone(), other.clone(), Arc::clone(&stop_swapping));
        move || {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, &path, rustix::fs::CWD, &other, flags).ok();
            }
        }
    });
    let (mut taken, mut refusals) = (0, 0);
    while refusals == 0 && taken < 2000 {
        let spec = SandboxSpec {
            inputs: vec![input(&path, "in.csv")?],
            ..SandboxSpec::default()
        };
        match timeout(BOUND, engine.create(spec)).await.context("no answer")? {
            Ok(sandbox) => {
                taken += 1;
                sandbox.end().await?;
            }
            Err(error) => {
                let message = format!("{:#}", anyhow::Error::from(error));
                ensure!(
                    message.contains("in.csv: the file was replaced in the meantime"),
                    "{message}"
                );
                refusals += 1;
            }
        }
    }
    stop_swapping.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().ok();
    ensure!(refusals > 0, "the path was never caught in change, {taken} times");
    before.is_again(engine.jailer_pid())?;
    works(&engine).await?;
    stop(engine).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_input_that_is_gone_is_refused() -> Result<()> {
    let (engine, before) = warm().await?;
    let spec = SandboxSpec {
        inputs: vec![Input {
            name: "in.csv".into(),
            path: PathBuf::from("/no/such/file"),
        }],
        ..SandboxSpec::default()
    };
    let message = refused(&engine, spec).await?;
    ensure!(message.contains("/no/such/file"), "{message}");
    before.is_again(engine.jailer_pid())?;
    works(&engine).await?;
    stop(engine).await
}

fn groups_of(instance: &str) -> Result<Vec<PathBuf>> {
    let layout = atoll_jail::cgroup::Layout::detect()?;
    Ok(layout
        .hierarchies
        .into_iter()
        .map(|hierarchy| hierarchy.parent.join("atoll").join(instance))
        .collect())
}

/// The group of the sandbox cannot be made: in each hierarchy in turn, the instance's own group is made full.
#[tokio::test(flavor = "multi_thread")]
async fn a_control_group_that_cannot_be_made_is_an_error() -> Result<()> {
    let (engine, before) = warm().await?;
    if before.cgroups.is_empty() {
        return stop(engine).await;
    }
    let instance = instance_of(engine.jailer_pid()).context("no instance")?;
    for dir in groups_of(&instance)? {
        // No group may be made below: the kernel's own switch for it.
        let switch = dir.join("cgroup.max.descendants");
        if switch.exists() {
            std::fs::write(&switch, "0")?;
            let message = refused(&engine, SandboxSpec::default()).await?;
            ensure!(message.contains("create the cgroup"), "{message}");
            std::fs::write(&switch, "max")?;
        } else {
            let message = without(&dir, &engine).await?;
            ensure!(message.contains("create the cgroup"), "{message}");
        }
        before.is_again(engine.jailer_pid())?;
        works(&engine).await?;
    }
    stop(engine).await
}

/// Version 1 has no such switch: the instance's group is taken away for a moment.
async fn without(dir: &Path, engine: &Engine) -> Result<String> {
    std::fs::remove_dir(dir).with_context(|| format!("remove {}", dir.display()))?;
    let message = refused(engine, SandboxSpec::default()).await;
    // Another instance that ends meanwhile may have removed the empty parent, too.
    std::fs::create_dir_all(dir)?;
    message
}

/// How many files a process may have open, now and at most.
fn open_files(process: Process) -> Result<Rlimit> {
    let text = std::fs::read_to_string(format!("/proc/{}/limits", process.pid))?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .context("no such limit")?;
    let mut words = line.split_whitespace().map(|word| word.parse::<u64>().ok());
    Ok(Rlimit {
        current: words.next().context("no value")?,
        maximum: words.next().context("no value")?,
    })
}

/// Jailer or spawner has no descriptor left: new work is refused or done, what lives goes on, and when there
/// are descriptors again all is well.
#[tokio::test(flavor = "multi_thread")]
async fn a_helper_without_descriptors_refuses_and_recovers() -> Result<()> {
    let (engine, before) = warm().await?;
    let mut neighbour = sandbox(&engine).await?;
    assert_eq!(python(&mut neighbour, "x = 5; print(x)").await?.stdout, "5\n");
    let with_neighbour = Census::settled(engine.jailer_pid())?;
    let family = Family::of(engine.jailer_pid())?;
    for process in [family.jailer, family.spawner] {
        let pid = i32::try_from(process.pid).ok().and_then(Pid::from_raw).context("pid")?;
        let used = std::fs::read_dir(format!("/proc/{}/fd", process.pid))?.count() as u64;
        let whole = open_files(process)?;
        let mut refusals = 0;
        for spare in 0..16 {
            prlimit(
                Some(pid),
                Resource::Nofile,
                Rlimit {
                    current: Some(used + spare),
                    maximum: whole.maximum,
                },
            )?;
            let made = timeout(BOUND, async {
                let mut one = sandbox(&engine).await?;
                let execution = python(&mut one, "print('ran')").await;
                one.end().await.ok();
                execution
            });
            match made
                .await
                .with_context(|| format!("no answer from {} with {spare} spare", process.command()))?
            {
                Ok(execution) => ensure!(execution.receipt.layers["seccomp"]["mode"] == "2", "{execution:?}"),
                Err(_) => refusals += 1,
            }
        }
        prlimit(Some(pid), Resource::Nofile, whole)?;
        ensure!(refusals > 0, "{} never ran out of descriptors", process.command());
        let execution = timeout(BOUND, python(&mut neighbour, "print(x + 1)"))
            .await
            .context("no answer")??;
        assert_eq!(execution.stdout, "6\n");
        with_neighbour.is_again(engine.jailer_pid())?;
        works(&engine).await?;
    }
    neighbour.end().await?;
    drop(neighbour);
    before.is_again(engine.jailer_pid())?;
    stop(engine).await
}
