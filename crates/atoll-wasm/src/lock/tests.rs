//! Code that has left its WebAssembly: what it tries is refused by the filter and by Landlock, in a process that was locked down
//! as a sandbox is (T03b). The control is the same process without that; there every try succeeds. A third one has the filter
//! alone: what Landlock refuses only on newer kernels must not depend on it.
//!
//! Each is this very test program, started again: what is locked down stays so.

use super::{MOST_OPEN, down};
use crate::start::Start;
use crate::user::{become_user, hold};
use atoll_core::{Gives, Limits};
use nix::sys::signal::{Signal, raise};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket, socketpair};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, geteuid, getppid, getrlimit, pidfd_open, prlimit, test_kill_process,
};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::{env, fs, io};

const PART: &str = "ATOLL_TEST_LOCK";
const NEIGHBOUR: &str = "ATOLL_TEST_NEIGHBOUR";
const NAME: &str = "lock::tests::what_leaves_its_webassembly_reaches_nothing";
/// Whom root's sandboxes run as.
const NOBODY: u32 = 65_534;

/// What the filter refuses without Landlock.
const BY_THE_FILTER: [&str; 7] = [
    "socket",
    "pair of sockets",
    "another process",
    "signal to another process",
    "limit of another process",
    "new process",
    "program",
];

type Facts = BTreeMap<String, String>;

/// A process of the same user, as another sandbox is.
struct Neighbour(Child);

impl Neighbour {
    fn start() -> io::Result<Self> {
        let mut sleep = Command::new("sleep");
        sleep.arg("600");
        if let Some(user) = user() {
            sleep.uid(user).gid(user);
        }
        sleep.spawn().map(Self)
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// A directory that is the sandbox's, a library that is only read, and one that is neither.
struct World(tempfile::TempDir);

impl World {
    fn new() -> io::Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755))?;
        let world = Self(dir);
        for name in ["files", "stdlib", "outside"] {
            let at = world.at(name);
            fs::create_dir(&at)?;
            fs::write(at.join("there"), name)?;
            fs::set_permissions(at.join("there"), fs::Permissions::from_mode(0o666))?;
            fs::set_permissions(&at, fs::Permissions::from_mode(0o777))?;
        }
        user().map_or(Ok(()), |user| chown(world.at("files"), Some(user), Some(user)))?;
        Ok(world)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// What a process says that has tried everything.
    fn tried(&self, part: &str) -> io::Result<Facts> {
        let neighbour = Neighbour::start()?;
        let mut again = again(NAME, part)?;
        again.env(NEIGHBOUR, neighbour.0.id().to_string());
        let told = again.current_dir(self.0.path()).output()?;
        let text = String::from_utf8_lossy(&told.stdout).into_owned();
        let facts = text
            .lines()
            .filter_map(|line| line.strip_prefix("FACT ")?.rsplit_once(": "));
        Ok(facts.map(|(what, word)| (what.to_owned(), word.to_owned())).collect())
    }
}

fn user() -> Option<u32> {
    geteuid().is_root().then_some(NOBODY)
}

fn say(what: &str, word: impl Display) {
    println!("\nFACT {what}: {word}");
}

fn answer<T, E: Into<io::Error>>(what: &str, tried: Result<T, E>) {
    match tried.map_err(Into::into) {
        Ok(_) => say(what, "ok"),
        Err(error) => say(what, error.kind()),
    }
}

fn inside(part: &str) {
    let here = env::current_dir().unwrap();
    let start = Start {
        limits: Limits::SMALL,
        gives: Gives::ALL,
        stdlib: here.join("stdlib"),
        files: here.join("files"),
        user: user(),
    };
    let start = hold(start).unwrap();
    if part == "locked" {
        say("landlock", down(&start).unwrap().landlock);
    } else {
        start.user.map_or(Ok(()), become_user).unwrap();
    }
    if part == "filtered" {
        crate::calls::refuse().unwrap();
    }
    say(
        "most open files",
        getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
    );
    twins(&start);
    let outside = here.join("outside");
    answer("read a file of the host", fs::read("/etc/passwd"));
    answer("read outside", fs::read(outside.join("there")));
    answer("list outside", fs::read_dir(&outside));
    answer("write outside", fs::write(outside.join("new"), "new"));
    answer("remove outside", fs::remove_file(outside.join("there")));
    answer("change the library", fs::write(start.stdlib.join("there"), "x"));
    answer("socket", socket(AddressFamily::INET, SocketType::STREAM, None));
    let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::empty(), None);
    answer("pair of sockets", pair);
    answer("another process", pidfd_open(getppid().unwrap(), PidfdFlags::empty()));
    others();
    // Who can start it is that program from here on.
    let error = Command::new("/bin/echo").arg("\nFACT program: ok").exec();
    answer::<(), _>("program", Err(error));
}

/// Processes beside its own: one that lives, and a new one.
fn others() {
    let neighbour = env::var(NEIGHBOUR).unwrap().parse().unwrap();
    let neighbour = Pid::from_raw(neighbour).unwrap();
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    answer("signal to another process", test_kill_process(neighbour));
    answer(
        "limit of another process",
        prlimit(Some(neighbour), Resource::Core, none),
    );
    answer("new process", Command::new("/bin/true").status());
}

/// What a sandbox needs.
fn twins(start: &Start) {
    answer("twin: start a thread", std::thread::Builder::new().spawn(|| ()));
    // As `abort` does. This one is ignored.
    answer("twin: signal itself", raise(Signal::SIGURG));
    answer("twin: read the library", fs::read(start.stdlib.join("there")));
    answer("twin: write own files", fs::write(own(&start.files), "own"));
    answer("twin: read own files", fs::read(own(&start.files)));
}

fn again(name: &str, part: &str) -> io::Result<Command> {
    let mut again = Command::new(env::current_exe()?);
    again.args(["--exact", name, "--nocapture", "--test-threads=1"]);
    again.env(PART, part);
    Ok(again)
}

fn own(files: &Path) -> PathBuf {
    files.join("own")
}

fn ended(part: &str) -> Facts {
    World::new().unwrap().tried(part).unwrap()
}

#[test]
fn what_leaves_its_webassembly_reaches_nothing() {
    if let Some(part) = env::var_os(PART) {
        return inside(&part.to_string_lossy());
    }
    let (mut locked, mut filtered, mut open) = (ended("locked"), ended("filtered"), ended("open"));
    let landlock = locked.remove("landlock");
    assert!(matches!(landlock.as_deref(), Some("full" | "partial")), "{landlock:?}");
    let most = [&mut locked, &mut filtered, &mut open].map(|facts| facts.remove("most open files").unwrap());
    assert!(most[0].parse::<u64>().unwrap() <= MOST_OPEN, "{most:?}");
    assert_eq!(open.len(), 18, "{open:?}");
    assert!(locked.keys().eq(open.keys()), "{locked:?} {open:?}");
    for (what, word) in &open {
        assert_eq!(word, "ok", "the control did not breach: {what}");
    }
    for (what, word) in &locked {
        let allowed = if what.starts_with("twin: ") {
            "ok"
        } else {
            "permission denied"
        };
        assert_eq!(word, allowed, "{what}");
    }
    for (what, word) in &filtered {
        let by_the_filter = BY_THE_FILTER.contains(&what.as_str());
        let expected = if by_the_filter { "permission denied" } else { "ok" };
        assert_eq!(word, expected, "{what}");
    }
}

/// A failed assertion of the runtime must end the process, and by the signal that tells it from other ends.
#[test]
fn a_process_behind_the_filter_still_aborts() {
    if env::var_os(PART).is_some() {
        crate::calls::refuse().unwrap();
        std::process::abort();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut aborts = again("lock::tests::a_process_behind_the_filter_still_aborts", "abort").unwrap();
    let ended = aborts.current_dir(dir.path()).output().unwrap();
    assert_eq!(ended.status.signal(), Some(Signal::SIGABRT as i32), "{ended:?}");
}
