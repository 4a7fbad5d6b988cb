//! SIGKILL of any of our processes at any moment: what runs below dies, what is on the machine goes, by itself or by
//! the next start.

use anyhow::{Context, Result, ensure};
use atoll_tests::census::{Census, Watch, instance_of};
use atoll_tests::process::{Family, Process, children, eventually};
use atoll_tests::{atoll, run};
use rustix::process::Signal;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Kinds of code that a kill may hit. The first word is printed when it is under way.
const CODES: [&str; 4] = [
    "print('up', flush=True)\nwhile True: pass",
    "import subprocess\nfor _ in range(8): subprocess.Popen(['sh', '-c', 'sleep 1000 & sleep 1000'])\nprint('up', flush=True)\nwhile True: pass",
    "print('up', flush=True)\nn = 0\nwhile True:\n    open(f'/data/output/{n % 500}', 'w').write('x' * 50000)\n    n += 1",
    "print('up', flush=True)\nwhile True: open('/data/input/in.csv').read()",
];

/// `atoll run` with a private input, so that a copy of it is on the disk for a while.
struct Run {
    child: Child,
    process: Process,
    _dir: tempfile::TempDir,
}

impl Run {
    fn start(code: &str) -> Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir()?;
        let input = dir.path().join("in.csv");
        std::fs::write(&input, "a\n1\n")?;
        std::fs::set_permissions(&input, std::fs::Permissions::from_mode(0o600))?;
        let mut command = atoll();
        command
            .args(["run", "--template", "python-min", "--in"])
            .arg(&input)
            .args(["-c", code]);
        let child = command
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Process::of(child.id()).context("atoll run is gone at once")?;
        Ok(Self {
            child,
            process,
            _dir: dir,
        })
    }

    /// Waits until the code says that it is under way.
    fn until_up(&mut self) -> Result<()> {
        use std::io::Read;
        let mut word = [0; 3];
        self.child
            .stdout
            .as_mut()
            .context("no stdout")?
            .read_exact(&mut word)
            .context("the code does not begin")?;
        ensure!(&word == b"up\n");
        Ok(())
    }

    /// The jailer, once there is one.
    fn jailer(&self) -> Option<Process> {
        children(self.child.id())
            .into_iter()
            .find(|child| child.command().contains("__jailer"))
    }

    fn has_sandbox(&self) -> bool {
        let family = self.jailer().and_then(|jailer| Family::of(jailer.pid).ok());
        family.is_some_and(|family| !family.agents.is_empty())
    }

    fn family(&self) -> Result<(Family, Census, String)> {
        let jailer = self.jailer().context("no jailer")?;
        let instance = instance_of(jailer.pid).context("no instance")?;
        Ok((Family::of(jailer.pid)?, Census::of(jailer.pid)?, instance))
    }

    /// Waits for the end within the bound.
    fn wait(&mut self) -> Result<std::process::ExitStatus> {
        let mut status = None;
        eventually("the end of atoll run", || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        })?;
        status.context("no status")
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn are_gone(seen: &Census) -> Result<()> {
    eventually("the end of every process", || {
        !seen.processes.iter().any(|process| process.is_alive())
    })
}

/// Small, seeded, good enough to spread moments.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

#[test]
fn atoll_run_at_fifty_random_moments() -> Result<()> {
    let watch = Watch::start()?;
    let mut random = Random(0x5eed_a701);
    let mut under_way = 0;
    for round in 0..50 {
        let code = CODES[round / 2 % CODES.len()];
        let mut run = Run::start(code)?;
        // Half of the moments follow the sandbox's start: on a busy host a time alone may always be too early.
        let at_most = if round % 2 == 0 {
            500
        } else {
            eventually("a sandbox", || run.has_sandbox())?;
            100
        };
        let moment = Instant::now() + Duration::from_millis(random.below(at_most));
        eventually("the moment", || Instant::now() >= moment)?;
        // Stopped first, so that what it has is looked at before it dies.
        run.process.signal(Signal::STOP)?;
        let jailer = run.jailer();
        under_way += usize::from(run.has_sandbox());
        run.process.signal(Signal::KILL)?;
        run.wait()?;
        eventually("the end of the jailer", || {
            jailer.is_none_or(|jailer| !jailer.is_alive())
        })?;
        watch.nothing_left().with_context(|| format!("round {round}: {code}"))?;
    }
    ensure!(
        under_way >= 25,
        "the moments hit a running sandbox {under_way} times of 50"
    );
    Ok(())
}

/// Each kind of code once, when it is surely under way.
#[test]
fn atoll_run_while_the_code_is_under_way() -> Result<()> {
    let watch = Watch::start()?;
    for code in CODES {
        let mut run = Run::start(code)?;
        run.until_up()?;
        let (_, seen, instance) = run.family()?;
        ensure!(
            !seen.cgroups.is_empty() || !rustix::process::geteuid().is_root(),
            "no control groups of {instance}"
        );
        run.process.signal(Signal::KILL)?;
        run.wait()?;
        are_gone(&seen).context(code)?;
        watch.nothing_left().context(code)?;
    }
    Ok(())
}

#[test]
fn the_jailer() -> Result<()> {
    let watch = Watch::start()?;
    let mut run = Run::start(CODES[1])?;
    run.until_up()?;
    let (family, seen, _) = run.family()?;
    family.jailer.signal(Signal::KILL)?;
    are_gone(&seen)?;
    let status = run.wait()?;
    assert_eq!(status.code(), Some(6), "our fault");
    swept_by_the_next_start(&watch)
}

#[test]
fn the_spawner() -> Result<()> {
    let watch = Watch::start()?;
    let mut run = Run::start(CODES[1])?;
    run.until_up()?;
    let (family, seen, _) = run.family()?;
    family.spawner.signal(Signal::KILL)?;
    let status = run.wait()?;
    ensure!(status.code().is_some_and(|code| code != 0), "{status:?}");
    are_gone(&seen)?;
    watch.nothing_left()
}

#[test]
fn atoll_run_and_the_jailer_together() -> Result<()> {
    let watch = Watch::start()?;
    let mut run = Run::start(CODES[2])?;
    run.until_up()?;
    let (family, seen, _) = run.family()?;
    // Stopped, so that neither sees the other's end. The jailer first: the kernel hangs up on a stopped orphan.
    run.process.signal(Signal::STOP)?;
    family.jailer.signal(Signal::STOP)?;
    family.jailer.signal(Signal::KILL)?;
    run.process.signal(Signal::KILL)?;
    run.wait()?;
    are_gone(&seen)?;
    swept_by_the_next_start(&watch)
}

/// A killed jailer cannot tidy up: its groups and locks stay, and the next start removes them.
fn swept_by_the_next_start(watch: &Watch) -> Result<()> {
    let ran = run(&["run", "--template", "python-min", "-c", "print(1)"])?;
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "1\n"), "{}", ran.stderr);
    watch.nothing_left()
}

#[test]
fn a_polite_signal_ends_the_code_and_leaves_nothing() -> Result<()> {
    let watch = Watch::start()?;
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut run = Run::start(CODES[1])?;
        run.until_up()?;
        let (_, seen, _) = run.family()?;
        run.process.signal(signal)?;
        let status = run.wait()?;
        assert_eq!(
            status.code(),
            Some(1),
            "{signal:?}: interrupted code is code that failed"
        );
        // The jailer has ended before `atoll run` did: nothing to wait for.
        let alive: Vec<_> = seen.processes.iter().filter(|process| process.is_alive()).collect();
        assert_eq!(alive, Vec::<&Process>::new());
        watch.nothing_left()?;
    }
    Ok(())
}

/// A polite signal while the sandbox is still being made.
#[test]
fn a_polite_signal_at_any_moment_leaves_nothing() -> Result<()> {
    let watch = Watch::start()?;
    let mut random = Random(0x5eed_a702);
    for round in 0..20 {
        let moment = Instant::now() + Duration::from_millis(random.below(300));
        let mut run = Run::start(CODES[round % CODES.len()])?;
        eventually("the moment", || Instant::now() >= moment)?;
        run.process
            .signal(if round % 2 == 0 { Signal::TERM } else { Signal::INT })?;
        run.wait().with_context(|| format!("round {round}"))?;
        watch.nothing_left().with_context(|| format!("round {round}"))?;
    }
    Ok(())
}
