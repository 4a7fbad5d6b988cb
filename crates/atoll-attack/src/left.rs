//! What an engine has on the machine, and what is left of it after its end: processes, control groups, files.

use crate::bench::{Bench, python, sandbox};
use crate::error::AttackError;
use crate::processes::{Process, below, left_after};
use crate::verdict::{Finding, Shown};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLAIM: &str = "A stopped engine leaves no process, cgroup or file behind";
/// Waiting ends as soon as they are gone. A busy host may need long for it.
const SOON: Duration = Duration::from_secs(120);

/// Control groups lie at most this deep.
const DEEPEST: usize = 6;

/// One engine is started, used, looked at, ended, and looked for.
pub async fn nothing_left(bench: &Bench) -> Finding {
    let mut shown = Shown::default();
    if let Err(error) = look(bench, &mut shown).await {
        shown.doubt(error.in_words());
    }
    shown.judge("C03b", CLAIM)
}

async fn look(bench: &Bench, shown: &mut Shown) -> Result<(), AttackError> {
    let engine = bench.engine(&[]).await?;
    let mut own = sandbox(&engine).await?;
    python(&mut own, "open('/tmp/x','w').write('x')").await?;
    let (pid, run) = (engine.jailer_pid(), run_dir(&bench.config.home));
    let processes = below(pid);
    let instance =
        instance_of(pid, &run).ok_or_else(|| AttackError::Words("the jailer holds no lock file".to_owned()))?;
    let (groups, files) = (groups_of(&instance), files_of(&run, &instance));
    let there = processes.len() >= 4
        && !files.is_empty()
        && (!groups.is_empty() || !engine.host().is_some_and(|host| host.has_cgroups()));
    let seen = format!(
        "{} processes, {} cgroups, {} files",
        processes.len(),
        groups.len(),
        files.len()
    );
    shown.control(there, format!("while the engine runs: {seen}"));
    own.end().await?;
    engine.stop().await;
    not_any_more(&processes, &instance, &run, shown).await;
    Ok(())
}

async fn not_any_more(processes: &[Process], instance: &str, run: &Path, shown: &mut Shown) {
    let left = left_after(processes, SOON).await;
    shown.holds(left.is_empty(), format!("processes left: {left:?}, expected none"));
    let (groups, files) = (groups_of(instance), files_of(run, instance));
    shown.holds(groups.is_empty(), format!("cgroups left: {groups:?}, expected none"));
    shown.holds(files.is_empty(), format!("files left: {files:?}, expected none"));
}

/// Where lock files and spooled inputs are.
fn run_dir(home: &Path) -> PathBuf {
    match rustix::process::geteuid().is_root() {
        true => "/run/atoll".into(),
        false => home.join("run"),
    }
}

/// The engine's own name, from the lock that its jailer holds.
fn instance_of(jailer_pid: u32, run: &Path) -> Option<String> {
    let fds = std::fs::read_dir(format!("/proc/{jailer_pid}/fd")).ok()?.flatten();
    let mut paths = fds.filter_map(|fd| std::fs::read_link(fd.path()).ok());
    let lock = paths.find(|path| path.parent() == Some(run) && path.extension().is_some_and(|end| end == "lock"))?;
    Some(lock.file_stem()?.to_str()?.to_owned())
}

fn files_of(run: &Path, instance: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(run).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .filter(|path| is_named(path, instance))
        .collect()
}

fn is_named(path: &Path, instance: &str) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.split('.').next() == Some(instance))
}

/// Directories of that name, an instance's or a sandbox's, below any cgroup.
pub(crate) fn groups_of(instance: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    walk(Path::new("/sys/fs/cgroup"), instance, &mut found, 0);
    found
}

fn walk(dir: &Path, instance: &str, found: &mut Vec<PathBuf>, depth: usize) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if depth > DEEPEST || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            continue;
        }
        match is_named(&entry.path(), instance) {
            true => found.push(entry.path()),
            false => walk(&entry.path(), instance, found, depth + 1),
        }
    }
}
