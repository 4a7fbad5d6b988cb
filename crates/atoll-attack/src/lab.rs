//! What belongs to one attack on the host: canary files, canary listeners on the loopback, and a look at the machine.

use crate::bench::with_args;
use crate::error::AttackError;
use crate::knocks::Knocks;
use crate::probe::Oracle;
use crate::verdict::{Finding, Shown};
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// A file of the shared tree that probes try to change.
const TREE_FILE: &str = "/usr/bin/env";
const CANARIES: [&str; 3] = ["config.toml", "keys.db", "sandboxes/other/work/secret.txt"];

#[derive(Debug)]
pub struct Lab {
    dir: tempfile::TempDir,
    /// What is in the canaries, and nowhere else.
    pub secret: String,
    /// Part of code that runs in another sandbox; nobody may find it.
    pub neighbour: String,
    abstract_name: String,
    _listener: UnixListener,
    knocks: Knocks,
    machine: Machine,
    home: String,
    /// Further words of the host that no sandbox may hold.
    pub needles: BTreeMap<String, String>,
}

impl Lab {
    /// `home` is the data directory of the install.
    pub fn open(home: &Path) -> Result<Self, AttackError> {
        let dir = tempfile::Builder::new().prefix("atoll-attack-").tempdir();
        let dir = dir.map_err(AttackError::io("create a directory for canaries"))?;
        let word = dir
            .path()
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        let secret = format!("canary of the host: {}", digest_of(word.as_bytes()));
        plant(dir.path(), &secret).map_err(AttackError::io("create canary files"))?;
        let listener = SocketAddr::from_abstract_name(&word).and_then(|name| UnixListener::bind_addr(&name));
        Ok(Self {
            neighbour: format!("neighbours marker {} in code", digest_of(secret.as_bytes())),
            secret,
            abstract_name: word,
            _listener: listener.map_err(AttackError::io("listen on an abstract socket"))?,
            knocks: Knocks::listen().map_err(AttackError::io("listen on the loopback interface"))?,
            machine: Machine::take()?,
            home: home.to_string_lossy().into_owned(),
            needles: BTreeMap::new(),
            dir,
        })
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The whole program: arguments, prelude, probe. `on` are words that are true for this try.
    pub fn code(&self, probe: &str, on: &[&str]) -> String {
        let mut args = self.args();
        for name in on {
            args.insert((*name).to_owned(), Value::Bool(true));
        }
        with_args(&args, probe)
    }

    /// What a probe's code knows about its surroundings.
    fn args(&self) -> Map<String, Value> {
        let args = json!({
            "canary": self.dir(), "home": mask(&self.home), "abstract": self.abstract_name,
            "tcp": self.knocks.tcp, "tcp6": self.knocks.tcp6, "udp": self.knocks.udp,
            "outside": false, "weakened": false, "planted": false,
            "rootless": !rustix::process::geteuid().is_root(),
            "needles": self.masked_needles(),
        });
        args.as_object().cloned().unwrap_or_default()
    }

    /// Words of the host that no sandbox may hold, masked so that the search does not find itself.
    fn masked_needles(&self) -> BTreeMap<&str, String> {
        let own = [
            ("canary", &self.secret),
            ("data directory", &self.home),
            ("code of a neighbour", &self.neighbour),
        ];
        let more = self.needles.iter().map(|(name, word)| (name.as_str(), word));
        own.into_iter()
            .chain(more)
            .map(|(name, word)| (name, mask(word)))
            .collect()
    }

    pub(crate) fn look(&self) -> Look {
        Look {
            canaries: self.access_times(),
            tree: digest_of_file(TREE_FILE),
            knocks: self.knocks.count(),
        }
    }

    /// What an oracle sees that has changed since the look.
    pub(crate) fn changed(&self, oracle: Oracle, before: &Look) -> Option<String> {
        let (changed, what) = match oracle {
            Oracle::Canary => (
                before.canaries != self.access_times() || !self.canaries_are_whole(),
                "a canary file was read or written",
            ),
            Oracle::Tree => (
                before.tree != digest_of_file(TREE_FILE),
                "a file in the shared tree was modified",
            ),
            Oracle::Network => (
                before.knocks != self.knocks.count(),
                "a canary listener on the loopback interface received traffic",
            ),
            Oracle::Machine => (false, ""),
        };
        changed.then(|| what.to_owned())
    }

    fn canaries_are_whole(&self) -> bool {
        let whole = |name: &&str| quietly_read(&self.dir().join(name)).is_ok_and(|text| text == self.secret);
        CANARIES.iter().all(whole)
    }

    /// Without opening them.
    fn access_times(&self) -> Vec<Option<(i64, i64)>> {
        let look = |name: &&str| std::fs::metadata(self.dir().join(name)).ok();
        let times = CANARIES.iter().map(look);
        times
            .map(|meta| meta.map(|meta| (meta.atime(), meta.atime_nsec())))
            .collect()
    }

    /// Whether the machine as a whole is as before.
    pub fn machine(&self) -> Finding {
        let mut shown = Shown::default();
        match Machine::take() {
            Ok(now) => self.machine.compare(&now, &mut shown),
            Err(error) => shown.doubt(error.in_words()),
        }
        shown.judge(
            "P21b",
            "Host name, kernel settings, mounts and clock of the host are unchanged",
        )
    }
}

/// What the host saw before a try.
#[derive(Debug)]
pub(crate) struct Look {
    canaries: Vec<Option<(i64, i64)>>,
    tree: Option<String>,
    knocks: usize,
}

/// Without a new access time, which would be taken for somebody else's.
fn quietly_read(path: &Path) -> std::io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOATIME;
    let file = rustix::fs::open(path, flags, Mode::empty())?;
    std::io::read_to_string(std::fs::File::from(file))
}

fn plant(dir: &Path, secret: &str) -> std::io::Result<()> {
    for name in CANARIES {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(dir))?;
        std::fs::write(path, secret)?;
    }
    std::fs::copy(TREE_FILE, dir.join("copy-of-env")).map(drop)
}

fn digest_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn digest_of_file(path: &str) -> Option<String> {
    std::fs::read(path).ok().map(|bytes| digest_of(&bytes))
}

/// Text that is not found by a search for it.
fn mask(text: &str) -> String {
    text.bytes().map(|byte| format!("{:02x}", byte ^ 0x5A)).collect()
}

/// The time of day less the time since the boot, in seconds. A pause of this process between the two readings would look like a
/// change of the clock: then both are read again.
fn wall_minus_boot() -> std::io::Result<i64> {
    loop {
        let (began, wall) = (Instant::now(), SystemTime::now());
        let uptime = std::fs::read_to_string("/proc/uptime")?;
        if began.elapsed() < Duration::from_secs(1) {
            let uptime: i64 = uptime.split('.').next().and_then(|text| text.parse().ok()).unwrap_or(0);
            let wall = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            return Ok(wall.as_secs().cast_signed() - uptime);
        }
    }
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
    fn take() -> Result<Self, AttackError> {
        let read = |path: &str| std::fs::read_to_string(path).map_err(AttackError::io(format!("read {path}")));
        Ok(Self {
            host_name: read("/proc/sys/kernel/hostname")?,
            mounts: read("/proc/self/mountinfo")?,
            limits: ["user/max_user_namespaces", "kernel/core_pattern", "kernel/domainname"]
                .iter()
                .map(|name| read(&format!("/proc/sys/{name}")))
                .collect::<Result<_, _>>()?,
            wall_minus_boot: wall_minus_boot().map_err(AttackError::io("read /proc/uptime"))?,
        })
    }

    /// Mounts and clock have other hands on them, too: then nobody knows who it was.
    fn compare(&self, now: &Self, shown: &mut Shown) {
        let same_names = (&self.host_name, &self.limits) == (&now.host_name, &now.limits);
        shown.holds(same_names, "host name and kernel settings are unchanged");
        if self.mounts != now.mounts {
            shown.doubt(
                "the mounts of this host changed during the attack; rerun it while no other process changes mounts",
            );
        }
        if (now.wall_minus_boot - self.wall_minus_boot).abs() > 5 {
            shown.doubt("the clock of this host changed by more than 5 s during the attack; rerun it");
        }
        let read = !self.mounts.is_empty() && !self.host_name.is_empty();
        shown.control(read, "host name, settings, mounts and clock are readable");
    }
}
