//! The same probes as an ordinary user: this very test program, started again without root, and what differs there.
//!
//! Each test runs in a process of its own, because some of them measure their own memory and descriptors.

use anyhow::{Context, Result, ensure};
use atoll_attack::here::Here;
use atoll_tests::user::User;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;

/// Tests that ask nothing of a sandbox, that ask only what the engine itself bounds (`data`) or a guest's kernel, that need a tier
/// which an ordinary user has not, or that are this one.
const NOT_AGAIN: &[&str] = &[
    "attack::",
    "data::",
    "microvm::",
    "registry::",
    "rootless::",
    "smoke::",
    "table::",
    "filter::a_",
    "filter::every",
    "filter::what",
    "filter::x32",
    "gvisor::",
    "container::containers_of_runc",
    "posture::of_",
];
/// One user each, so that they cannot count each other's processes.
const USERS: [u32; 2] = [12_346, 12_347];
/// Tests of another tier than the jail, which have a test of their own here.
const CONTAINERS: &str = "container::";
/// The longest that one test may take, in seconds. Only one that hangs needs it.
const DEADLINE: &str = "1200";

pub(crate) fn is_rootless() -> bool {
    !rustix::process::geteuid().is_root()
}

/// What this machine gives the jail of the tests: an ordinary user has no group here.
pub(crate) fn here() -> Here {
    Here {
        rootless: is_rootless(),
        cgroups: !is_rootless(),
    }
}

#[test]
fn the_suite_holds_for_an_ordinary_user() -> Result<()> {
    let count = hold_for_users(|name| !name.starts_with(CONTAINERS))?;
    assert!(count >= 35, "only {count} tests were found");
    Ok(())
}

#[test]
fn containers_hold_for_an_ordinary_user() -> Result<()> {
    let count = hold_for_users(|name| name.starts_with(CONTAINERS))?;
    assert!(count >= 2, "only {count} tests were found");
    Ok(())
}

/// Runs the tests with these names as two ordinary users: how many there are.
fn hold_for_users(is_wanted: impl Fn(&str) -> bool) -> Result<usize> {
    ensure!(
        !is_rootless(),
        "start the tests as root: they make the ordinary user themselves"
    );
    let own = std::env::current_exe()?;
    let names = tests(&own)?.into_iter().filter(|name| is_wanted(name));
    let left = Mutex::new(names.collect::<Vec<_>>());
    let count = left.lock().unwrap().len();
    let faults = std::thread::scope(|scope| {
        let workers: Vec<_> = USERS.iter().map(|id| scope.spawn(|| work(*id, &own, &left))).collect();
        let all = workers.into_iter().map(|worker| worker.join().unwrap());
        all.collect::<Result<Vec<_>>>()
    })?;
    let faults: Vec<String> = faults.into_iter().flatten().collect();
    assert!(
        faults.is_empty(),
        "{} of {count} failed:\n{}",
        faults.len(),
        faults.join("\n")
    );
    Ok(count)
}

/// Names of the tests of this program that are asked again.
fn tests(own: &Path) -> Result<Vec<String>> {
    let output = Command::new(own).args(["--list", "--format", "terse"]).output()?;
    let names = String::from_utf8(output.stdout)?;
    let names = names.lines().filter_map(|line| line.strip_suffix(": test"));
    let again = names.filter(|name| !NOT_AGAIN.iter().any(|front| name.starts_with(front)));
    Ok(again.map(str::to_owned).collect())
}

/// One user takes tests off the list until it is empty, and leaves nothing.
fn work(id: u32, own: &Path, left: &Mutex<Vec<String>>) -> Result<Vec<String>> {
    let user = User::new(id)?;
    let program = user.give(own)?;
    let mut faults = Vec::new();
    loop {
        let next = left.lock().unwrap().pop();
        let Some(name) = next else { break };
        faults.extend(run(&user, &program, &name)?);
    }
    let (processes, files) = (user.processes(), user.run_files());
    if !processes.is_empty() || !files.is_empty() {
        faults.push(format!("left behind: {processes:?} {files:?}"));
    }
    Ok(faults)
}

fn run(user: &User, program: &str, name: &str) -> Result<Option<String>> {
    let mut command = user.command("timeout");
    command
        .args(["-s", "KILL", DEADLINE, program, "--exact", name, "--nocapture"])
        .env("CARGO_MANIFEST_DIR", env!("CARGO_MANIFEST_DIR"))
        .env("NEXTEST_RUN_ID", std::env::var("NEXTEST_RUN_ID").unwrap_or_default());
    let output = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .output()
        .context("start the user's test")?;
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let passed = output.status.success() && said[0].contains("test result: ok. 1 passed");
    Ok((!passed).then(|| format!("{name}: {}\n{}", said[0], said[1])))
}
