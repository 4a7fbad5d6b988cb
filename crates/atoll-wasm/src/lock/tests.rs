//! Code that has left its WebAssembly: what it tries is refused by the filter and by Landlock, in a process that was locked down
//! as a sandbox is (T03b). The control is the same process without that; there every try succeeds.
//!
//! Each is this very test program, started again: what is locked down stays so.

use super::down;
use crate::start::Start;
use crate::user::{become_user, hold};
use atoll_core::{Gives, Limits};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket, socketpair};
use rustix::process::{PidfdFlags, geteuid, getppid, pidfd_open};
use std::collections::BTreeMap;
use std::fmt::Display;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

const PART: &str = "ATOLL_TEST_LOCK";
const NAME: &str = "lock::tests::what_leaves_its_webassembly_reaches_nothing";
/// Whom root's sandboxes run as.
const NOBODY: u32 = 65_534;

type Facts = BTreeMap<String, String>;

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
        let mut again = Command::new(env::current_exe()?);
        again.args(["--exact", NAME, "--nocapture", "--test-threads=1"]);
        let told = again.env(PART, part).current_dir(self.0.path()).output()?;
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

fn inside(locked: bool) {
    let here = env::current_dir().unwrap();
    let start = Start {
        limits: Limits::SMALL,
        gives: Gives::ALL,
        stdlib: here.join("stdlib"),
        files: here.join("files"),
        user: user(),
    };
    let start = hold(start).unwrap();
    match locked {
        true => say("landlock", down(&start).unwrap().landlock),
        false => start.user.map_or(Ok(()), become_user).unwrap(),
    }
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
    // Who can start it is that program from here on.
    let error = Command::new("/bin/echo").arg("\nFACT program: ok").exec();
    answer::<(), _>("program", Err(error));
}

/// What a sandbox needs.
fn twins(start: &Start) {
    answer("twin: read the library", fs::read(start.stdlib.join("there")));
    answer("twin: write own files", fs::write(own(&start.files), "own"));
    answer("twin: read own files", fs::read(own(&start.files)));
}

fn own(files: &Path) -> PathBuf {
    files.join("own")
}

#[test]
fn what_leaves_its_webassembly_reaches_nothing() {
    if let Some(part) = env::var_os(PART) {
        return inside(part == "locked");
    }
    let mut locked = World::new().unwrap().tried("locked").unwrap();
    let landlock = locked.remove("landlock");
    assert!(matches!(landlock.as_deref(), Some("full" | "partial")), "{landlock:?}");
    let open = World::new().unwrap().tried("open").unwrap();
    assert_eq!(open.len(), 13, "{open:?}");
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
}
