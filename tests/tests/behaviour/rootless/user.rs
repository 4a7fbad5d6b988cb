//! An ordinary user, uid 12345, who owns nothing on the machine but a directory that the test makes.
//!
//! In it: the binary and the small template, copied, because the tests' own are often below a home directory that
//! others cannot enter.

use anyhow::{Context, Result, bail};
use atoll_core::execution::Execution;
use atoll_tests::{Ran, binary, home, run_command, template};
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) const USER: u32 = 12345;

pub(super) struct User {
    dir: tempfile::TempDir,
}

impl User {
    pub(super) fn new() -> Result<Self> {
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let user = Self { dir };
        let made = template("python-min")?;
        let built = made.tree.parent().context("a template's directory")?;
        copy(&binary(), &user.path("atoll"))?;
        for below in [built, &made.kernel] {
            copy(below, &user.path("home").join(below.strip_prefix(home())?))?;
        }
        for place in ["home", "home/templates", "home/kernels", "cwd"] {
            fs::create_dir_all(user.path(place))?;
            chown(user.path(place), Some(USER), Some(USER))?;
        }
        Ok(user)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn atoll(&self, args: &[&str]) -> Command {
        let mut command = Command::new(self.path("atoll"));
        command
            .args(args)
            .env_clear()
            .env("ATOLL_HOME", self.path("home"))
            .env("PATH", "/usr/bin:/bin");
        command
            .current_dir(self.path("cwd"))
            .stdin(Stdio::null())
            .uid(USER)
            .gid(USER);
        command
    }

    pub(super) fn run(&self, args: &[&str]) -> Result<Ran> {
        run_command(&mut self.atoll(args))
    }

    pub(super) fn json(&self, args: &[&str]) -> Result<Execution> {
        let ran = self.run(&[&["run", "--json", "--template", "python-min"], args].concat())?;
        serde_json::from_str(&ran.stdout).with_context(|| format!("not an answer: {ran:?}"))
    }
}

/// Hard links where the file system is the same, else copies; never through links that it holds.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to.parent().context("a parent")?)?;
    for flags in [["-aT", "--link"], ["-aTf", "--reflink=auto"]] {
        if Command::new("cp")
            .args(flags)
            .arg(from)
            .arg(to)
            .stderr(Stdio::null())
            .status()?
            .success()
        {
            return Ok(());
        }
    }
    bail!("cannot copy {} to {}", from.display(), to.display())
}

/// Live processes of the user.
pub(super) fn processes() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let status = fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let uids = status
            .lines()
            .find_map(|line| line.strip_prefix("Uid:"))
            .unwrap_or_default();
        if uids.split_whitespace().any(|uid| uid == USER.to_string()) && !status.contains("State:\tZ") {
            found.insert(format!("{:?}: {status}", entry.file_name()));
        }
    }
    Ok(found)
}

pub(super) fn run_files(user: &User) -> Vec<PathBuf> {
    let run = user.path("home/run");
    let list = |dir: PathBuf| {
        fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
    };
    list(run.clone())
        .chain(list(run.join("slots")))
        .filter(|path| !path.ends_with("slots"))
        .collect()
}
