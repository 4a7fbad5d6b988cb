//! The census must be able to fail: what is left by hand is found, and what belongs to others is not.

use anyhow::{Context, Result, ensure};
use atoll_jail::cgroup::Layout;
use atoll_jail::new_instance_name;
use atoll_tests::census::{Census, Watch, instance_of, run_dir};
use atoll_tests::process::{Process, eventually};
use atoll_tests::{engine, python, sandbox, stop};
use rustix::fs::{FlockOperation, flock};
use rustix::process::Signal;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// An orphan: its parent has ended.
#[test]
fn a_stray_process_of_our_ids_is_found() -> Result<()> {
    let watch = Watch::start()?;
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 1000 >/dev/null 2>&1 & echo $!"]);
    if rustix::process::geteuid().is_root() {
        shell.uid(0x7fff_0001);
    }
    let pid = String::from_utf8(shell.output()?.stdout)?.trim().parse()?;
    let stray = Process::of(pid).context("no stray process")?;
    let found = watch.processes();
    stray.signal(Signal::KILL)?;
    ensure!(found.contains(&stray), "{stray:?} was not found: {found:?}");
    watch.nothing_left()
}

/// A lock file that is held: otherwise an engine of another test may sweep what belongs to its instance.
fn held(path: &Path) -> Result<File> {
    fs::create_dir_all(path.parent().context("a parent")?)?;
    let file = File::create(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn own_instance() -> Result<String> {
    let mut random = [0; 16];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    Ok(new_instance_name(random))
}

/// While the file exists the check fails and names it; afterwards it passes.
fn is_found(watch: &Watch, file: &Path) -> Result<()> {
    let checked = watch.nothing_left();
    fs::remove_file(file)?;
    let error = format!("{:?}", checked.err().context("nothing was found")?);
    ensure!(error.contains(&*file.to_string_lossy()), "{file:?}: {error}");
    watch.nothing_left()
}

#[test]
fn a_stray_lock_file_is_found() -> Result<()> {
    let watch = Watch::start()?;
    let path = run_dir().join(format!("{}.lock", own_instance()?));
    let _lock = held(&path)?;
    is_found(&watch, &path)
}

#[test]
fn a_stray_spool_and_a_stray_slot_are_found() -> Result<()> {
    let watch = Watch::start()?;
    let instance = own_instance()?;
    let (lock, spool) = (
        run_dir().join(format!("{instance}.lock")),
        run_dir().join(format!("{instance}.spool")),
    );
    let _lock = held(&lock)?;
    fs::create_dir_all(spool.join("empty"))?;
    let found = watch.paths();
    fs::remove_dir_all(&spool)?;
    fs::remove_file(&lock)?;
    ensure!(found.contains(&spool.join("empty")), "{found:?}");
    let slot = run_dir().join(format!("slots/census-{}.lock", std::process::id()));
    let _slot = held(&slot)?;
    fs::write(&slot, &instance)?;
    is_found(&watch, &slot)
}

#[test]
fn a_stray_cgroup_is_found() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let watch = Watch::start()?;
    let instance = own_instance()?;
    let lock = run_dir().join(format!("{instance}.lock"));
    let _lock = held(&lock)?;
    for hierarchy in Layout::detect()?.hierarchies {
        let cgroup = hierarchy.parent.join("atoll").join(&instance);
        // An engine of another test that ends removes the empty parent.
        eventually("a cgroup", || fs::create_dir_all(&cgroup).is_ok())?;
        let is_found = watch.paths().contains(&cgroup);
        fs::remove_dir(&cgroup)?;
        ensure!(is_found, "{} was not found", cgroup.display());
    }
    fs::remove_file(&lock)?;
    watch.nothing_left()
}

#[test]
fn leftovers_of_others_are_ignored() -> Result<()> {
    let watch = Watch::start()?;
    let path = run_dir().join(format!("1{}.lock", own_instance()?));
    let _lock = held(&path)?;
    let checked = watch.nothing_left();
    fs::remove_file(&path)?;
    let above = Process::of(std::os::unix::process::parent_id()).context("no parent")?;
    ensure!(above.is_alive() && !watch.processes().contains(&above));
    checked
}

/// All that a real engine has is attributed to this test.
#[tokio::test(flavor = "multi_thread")]
async fn a_live_engine_is_attributed_to_its_test() -> Result<()> {
    let watch = Watch::start()?;
    let engine = engine("python-min", atoll_engine::Warmth::Warm, atoll_engine::Walls::default()).await?;
    let mut one = sandbox(&engine).await?;
    python(&mut one, "1").await?;
    let census = Census::of(engine.jailer_pid())?;
    let (processes, paths) = (watch.processes(), watch.paths());
    ensure!(processes.is_superset(&census.processes), "{processes:?}\n{census:?}");
    let mut of_engine = census.cgroups.iter().chain(&census.run_files);
    ensure!(of_engine.all(|path| paths.contains(path)), "{paths:?}\n{census:?}");
    let instance = instance_of(engine.jailer_pid()).context("no instance")?;
    ensure!(paths.contains(&run_dir().join(format!("{instance}.lock"))), "{paths:?}");
    one.end().await?;
    stop(engine).await?;
    watch.nothing_left()
}

/// A sandbox that lives shows up in every column.
#[tokio::test(flavor = "multi_thread")]
async fn a_living_sandbox_is_counted() -> Result<()> {
    let engine = engine("python-min", atoll_engine::Warmth::Warm, atoll_engine::Walls::default()).await?;
    engine.ready().await?;
    let before = Census::settled(engine.jailer_pid())?;
    let mut one = sandbox(&engine).await?;
    python(&mut one, "1").await?;
    let during = Census::settled(engine.jailer_pid())?;
    assert_eq!(during.processes.len(), before.processes.len() + 2, "agent and context");
    assert_eq!(during.ids.len(), before.ids.len() + 1);
    assert_eq!(during.namespaces.len(), before.namespaces.len() + 7);
    assert_eq!(during.cgroups.is_empty(), !rustix::process::geteuid().is_root());
    let own = std::process::id();
    ensure!(during.descriptors[&own] > before.descriptors[&own]);
    one.end().await?;
    let jailer = Process::of(engine.jailer_pid()).context("no jailer")?;
    stop(engine).await?;
    ensure!(jailer.signal(Signal::KILL).is_err(), "the jailer lives on");
    Ok(())
}
