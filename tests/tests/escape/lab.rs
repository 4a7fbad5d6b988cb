//! Where probes run: one engine per set of walls, a fresh sandbox per probe, canaries on the host beside them.

use crate::probe::{Control, Facts, Oracle, Probe};
use crate::rootless;
use anyhow::{Context, Result};
use atoll_core::execution::Execution;
use atoll_core::form::Form;
use atoll_engine::{Engine, Wall, Walls, Warmth};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

pub(crate) const PRELUDE: &str = include_str!("../../escape/prelude.py");
pub(crate) const SECRET: &str = "canary of the host: 9f4be2";
/// A file of the shared tree that probes try to change.
const TREE_FILE: &str = "/usr/bin/env";

/// Things of the host that belong to one test.
#[derive(Debug)]
pub(crate) struct Lab {
    pub(crate) dir: tempfile::TempDir,
    abstract_name: String,
    _listener: UnixListener,
    victim: Child,
    machine: Machine,
}

impl Lab {
    pub(crate) fn open() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        for name in ["config.toml", "keys.db", "sandboxes/other/work/secret.txt"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().context("a parent")?)?;
            std::fs::write(path, SECRET)?;
        }
        std::fs::copy(TREE_FILE, dir.path().join("copy-of-env"))?;
        let abstract_name = format!("atoll-test-{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&abstract_name)?)?;
        let victim = Command::new("sleep").arg("300").stdin(Stdio::null()).spawn()?;
        Ok(Self {
            dir,
            abstract_name,
            _listener: listener,
            victim,
            machine: Machine::take()?,
        })
    }

    /// What a probe's code knows about its surroundings.
    pub(crate) fn args(&self) -> Map<String, Value> {
        let args = json!({
            "canary": self.dir.path(), "home": mask(&atoll_tests::home().to_string_lossy()), "abstract": self.abstract_name,
            "victim": self.victim.id(), "outside": false, "weakened": false, "planted": false,
            "rootless": rootless::is_rootless(),
            "needles": self.needles(),
        });
        args.as_object().cloned().unwrap_or_default()
    }

    /// Words of the host that no sandbox may hold, masked so that the search does not find itself.
    fn needles(&self) -> BTreeMap<&'static str, String> {
        let own = |name: &str| std::env::var(name).unwrap_or_else(|_| "no such variable 5e1c".to_owned());
        BTreeMap::from([
            ("canary", mask(SECRET)),
            ("manifest directory", mask(&own("CARGO_MANIFEST_DIR"))),
            ("run id", mask(&own("NEXTEST_RUN_ID"))),
            ("data directory", mask(&atoll_tests::home().to_string_lossy())),
            ("code of a neighbour", mask(NEIGHBOUR_CODE)),
        ])
    }

    /// Read only after the access times were compared: reading changes them.
    fn canaries_are_whole(&self) -> bool {
        self.canaries()
            .iter()
            .all(|(name, _, _)| std::fs::read(self.dir.path().join(name)).is_ok_and(|bytes| bytes == SECRET.as_bytes()))
    }

    /// Names and access times, without opening.
    fn canaries(&self) -> Vec<(String, i64, i64)> {
        let look = |name: &str| {
            let path = self.dir.path().join(name);
            let meta = std::fs::metadata(&path).ok();
            (
                name.to_owned(),
                meta.as_ref().map_or(-1, |m| m.atime()),
                meta.map_or(-1, |m| m.atime_nsec()),
            )
        };
        ["config.toml", "keys.db", "sandboxes/other/work/secret.txt"]
            .into_iter()
            .map(look)
            .collect()
    }

    /// Runs every probe behind whole walls and then its control. What went wrong, in sentences.
    pub(crate) async fn run(&self, probes: &[Probe]) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        let probes: Vec<&Probe> = probes.iter().filter(|probe| !rootless::leaves_out(probe.id)).collect();
        let mut sets: Vec<&[Wall]> = probes.iter().map(|probe| probe.already_without).collect();
        sets.extend(probes.iter().filter_map(|probe| match probe.control {
            Control::Without { walls, .. } => Some(walls),
            Control::Planted { .. } => Some(&[][..]),
            Control::Outside { .. } => None,
        }));
        sets.sort_unstable();
        sets.dedup();
        for set in sets {
            let engine = engine_without(set).await?;
            warm_a_neighbour(&engine).await?;
            for probe in probes.iter().filter(|probe| probe.already_without == set) {
                faults.extend(
                    self.claim_holds(&engine, probe)
                        .await
                        .into_iter()
                        .map(|fault| format!("{}: {fault}", probe.id)),
                );
            }
            for probe in &probes {
                let faulty = self.control_breaches(&engine, probe, set).await;
                faults.extend(faulty.into_iter().map(|fault| format!("{} control: {fault}", probe.id)));
            }
            atoll_tests::stop(engine).await?;
        }
        for probe in &probes {
            faults.extend(
                self.outside_breaches(probe)
                    .into_iter()
                    .map(|fault| format!("{} control: {fault}", probe.id)),
            );
        }
        faults.extend(self.machine.changes()?);
        Ok(faults)
    }

    async fn claim_holds(&self, engine: &Engine, probe: &Probe) -> Vec<String> {
        let (canaries, tree) = (self.canaries(), hash(TREE_FILE));
        let facts = match self.facts(engine, probe, &[]).await {
            Ok(facts) => facts,
            Err(error) => return vec![format!("{error:#}")],
        };
        let mut faults = facts.unmet(probe.expect);
        faults.extend(
            facts
                .dead_twins()
                .into_iter()
                .map(|twin| format!("the twin is dead: {twin}")),
        );
        let unchanged = match probe.oracle {
            Oracle::Canary => canaries == self.canaries() && self.canaries_are_whole(),
            Oracle::Tree => tree == hash(TREE_FILE),
            Oracle::Machine => true,
        };
        if !unchanged {
            faults.push(format!("the host saw a change: {:?}", probe.oracle));
        }
        faults
    }

    async fn control_breaches(&self, engine: &Engine, probe: &Probe, set: &[Wall]) -> Vec<String> {
        let set_args: &[&str] = match probe.control {
            _ if rootless::leaves_out_control(probe.id) => return Vec::new(),
            Control::Without { walls, .. } if walls == set => &["weakened"],
            Control::Planted { .. } if set.is_empty() => &["planted"],
            Control::Without { .. } | Control::Planted { .. } | Control::Outside { .. } => return Vec::new(),
        };
        match self.facts(engine, probe, set_args).await {
            Ok(facts) => facts.missing(probe.control.breach()),
            Err(error) => vec![format!("{error:#}")],
        }
    }

    fn outside_breaches(&self, probe: &Probe) -> Vec<String> {
        if !matches!(probe.control, Control::Outside { .. }) || rootless::leaves_out_control(probe.id) {
            return Vec::new();
        }
        match self.facts_outside(probe) {
            Ok(facts) => facts.missing(probe.control.breach()),
            Err(error) => vec![format!("{error:#}")],
        }
    }

    async fn facts(&self, engine: &Engine, probe: &Probe, on: &[&str]) -> Result<Facts> {
        let code = self.code(probe.code, on);
        let mut sandbox = atoll_tests::sandbox(engine).await?;
        let execution = atoll_tests::python(&mut sandbox, &code).await?;
        sandbox.end().await?;
        facts_of(&execution)
    }

    fn facts_outside(&self, probe: &Probe) -> Result<Facts> {
        let code = self.code(probe.code, &["outside"]);
        let output = Command::new("timeout")
            .args(["-s", "KILL", "20", "python3", "-I", "-c", &code])
            .stdin(Stdio::null())
            .output()
            .context("start python3 outside")?;
        Facts::read(&String::from_utf8_lossy(&output.stdout))
            .map_err(|what| anyhow::anyhow!("{what}: {}", String::from_utf8_lossy(&output.stderr)))
    }

    /// The whole program: arguments, prelude, probe.
    pub(crate) fn code(&self, probe: &str, on: &[&str]) -> String {
        let mut args = self.args();
        for name in on {
            args.insert((*name).to_owned(), Value::Bool(true));
        }
        with_args(&args, probe)
    }
}

/// Text that is not found by a search for it.
fn mask(text: &str) -> String {
    text.bytes().map(|byte| format!("{:02x}", byte ^ 0x5A)).collect()
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.victim.kill().ok();
        self.victim.wait().ok();
    }
}

/// A program with its arguments and the prelude in front.
pub(crate) fn with_args(args: &Map<String, Value>, code: &str) -> String {
    let text = Value::String(Value::Object(args.clone()).to_string()).to_string();
    format!("import json\nARGS = json.loads({text})\n{PRELUDE}\n{code}")
}

pub(crate) fn facts_of(execution: &Execution) -> Result<Facts> {
    Facts::read(&execution.stdout).map_err(|what| {
        anyhow::anyhow!(
            "{what}; outcome {:?}, error {:?}, stderr {:?}",
            execution.outcome,
            execution.error,
            execution.stderr
        )
    })
}

pub(crate) async fn engine_without(walls: &[Wall]) -> Result<Arc<Engine>> {
    let off = walls.iter().fold(Walls::default(), |all, wall| {
        all.without(*wall, "a control of the escape suite must breach")
    });
    atoll_tests::engine("python-min", Warmth::Cold, off).await
}

/// Code that ran in another sandbox before; nobody may find it.
const NEIGHBOUR_CODE: &str = "neighbours marker 77c1d0 in code";

async fn warm_a_neighbour(engine: &Engine) -> Result<()> {
    let mut sandbox = atoll_tests::sandbox(engine).await?;
    atoll_tests::python(&mut sandbox, &format!("secret = {NEIGHBOUR_CODE:?} * 20")).await?;
    Ok(sandbox.end().await?)
}

pub(crate) fn hash(path: &str) -> Option<Vec<u8>> {
    let output = Command::new("sha256sum").arg(path).stdin(Stdio::null()).output().ok()?;
    output.status.success().then_some(output.stdout)
}

/// What no sandbox may change about the machine.
#[derive(Debug)]
struct Machine {
    host_name: String,
    mounts: String,
    limits: Vec<String>,
    wall_minus_boot: i64,
}

impl Machine {
    fn take() -> Result<Self> {
        let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("read {path}"));
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs();
        let uptime: f64 = read("/proc/uptime")?.split(' ').next().unwrap_or("0").parse()?;
        #[allow(
            clippy::cast_possible_truncation,
            reason = "seconds since the start of the machine fit"
        )]
        let uptime = uptime as i64;
        Ok(Self {
            host_name: read("/proc/sys/kernel/hostname")?,
            mounts: read("/proc/self/mountinfo")?,
            limits: ["user/max_user_namespaces", "kernel/core_pattern", "kernel/domainname"]
                .iter()
                .map(|name| read(&format!("/proc/sys/{name}")))
                .collect::<Result<_>>()?,
            wall_minus_boot: since_epoch.cast_signed() - uptime,
        })
    }

    fn changes(&self) -> Result<Vec<String>> {
        let now = Self::take()?;
        let mut changes = Vec::new();
        if now.host_name != self.host_name || now.limits != self.limits {
            changes.push("the machine's names or settings have changed".to_owned());
        }
        if now.mounts != self.mounts {
            changes.push("the host's mounts have changed".to_owned());
        }
        if (now.wall_minus_boot - self.wall_minus_boot).abs() > 5 {
            changes.push("the host's clock was moved".to_owned());
        }
        Ok(changes)
    }
}

/// Processes of the host that belong to one sandbox, by its host id: pid and pid inside. Without root that id is the
/// user's own, so the engine is left out by the depth of its namespaces.
pub(crate) fn processes_of(host_id: u32) -> Vec<(i32, i32)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
        let uid: u32 = field("Uid:")?.split_whitespace().next()?.parse().ok()?;
        let numbers: Vec<&str> = field("NSpid:")?.split_whitespace().collect();
        let inside: i32 = numbers.last()?.parse().ok()?;
        (uid == host_id && numbers.len() > 2).then_some((pid, inside))
    })
    .collect()
}

/// The id on the host that a sandbox's one user is, from its receipt. Without root it is the caller's own.
pub(crate) fn host_id(execution: &Execution) -> Result<u32> {
    if rootless::is_rootless() {
        return Ok(rustix::process::getuid().as_raw());
    }
    let map = execution.receipt.layers["uid_map"].as_str().context("a uid map")?;
    Ok(map.split(' ').nth(1).context("a host id")?.parse()?)
}

/// The text that the last expression showed.
pub(crate) fn shown(execution: &Execution) -> String {
    let result = execution
        .results
        .iter()
        .find_map(|result| result.data.get("text/plain"));
    result.and_then(Form::as_str).unwrap_or_default().to_owned()
}
