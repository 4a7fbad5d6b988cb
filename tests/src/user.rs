//! An ordinary user who owns nothing on the machine but a directory that the test makes.
//!
//! In it: the binary and a template, the small one unless a test names another, copied, because the tests' own are often below a home directory that
//! others cannot enter.

use crate::process::{Process, adopt_orphans, descendants};
use crate::{Ran, binary, home, run_command, template};
use anyhow::{Context, Result, bail};
use atoll_core::execution::Execution;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug)]
pub struct User {
    dir: tempfile::TempDir,
    pub id: u32,
}

impl User {
    pub fn new(id: u32) -> Result<Self> {
        Self::with_template(id, "python-min")
    }

    pub fn with_template(id: u32, template: &str) -> Result<Self> {
        adopt_orphans()?;
        let dir = tempfile::tempdir()?;
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755))?;
        let user = Self { dir, id };
        copy(&binary(), &user.path("atoll"))?;
        copy_template(template, &user.path("home"))?;
        for place in ["home", "home/templates", "home/kernels", "cwd"] {
            fs::create_dir_all(user.path(place))?;
            chown(user.path(place), Some(id), Some(id))?;
        }
        Ok(user)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A program as this user, who knows the binary and the data directory that were made for them.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("ATOLL_HOME", self.path("home"))
            .env("ATOLL_BIN", self.path("atoll"))
            .env("PATH", "/usr/bin:/bin");
        command
            .current_dir(self.path("cwd"))
            .stdin(Stdio::null())
            .uid(self.id)
            .gid(self.id);
        command
    }

    /// A file of this test that the user shall be able to start: its path there.
    pub fn give(&self, from: &Path) -> Result<String> {
        let to = self.path("given").join(from.file_name().context("a file's name")?);
        copy(from, &to)?;
        Ok(to.to_string_lossy().into_owned())
    }

    pub fn run(&self, args: &[&str]) -> Result<Ran> {
        run_command(self.command(&self.path("atoll").to_string_lossy()).args(args))
    }

    pub fn json(&self, args: &[&str]) -> Result<Execution> {
        let ran = self.run(&[&["run", "--json", "--template", "python-min"], args].concat())?;
        serde_json::from_str(&ran.stdout).with_context(|| format!("not an answer: {ran:?}"))
    }
}

/// Copies a built template into another data directory, without the sandboxes that the tier `gvisor` stores beside it:
/// engines add and remove those at any time.
pub(crate) fn copy_template(name: &str, to: &Path) -> Result<()> {
    let made = template(name)?;
    let built = made.tree.parent().context("a template's directory")?;
    let mut parts = vec![made.kernel.clone()];
    for entry in fs::read_dir(built)? {
        parts.push(entry?.path());
    }
    for part in parts.iter().filter(|part| !part.ends_with("gvisor")) {
        copy(part, &to.join(part.strip_prefix(home())?))?;
    }
    Ok(())
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

impl User {
    /// Live processes of the user that this test has started.
    pub fn processes(&self) -> BTreeSet<Process> {
        let is_theirs = |process: &Process| {
            let status = fs::read_to_string(format!("/proc/{}/status", process.pid)).unwrap_or_default();
            let uids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
            uids.is_some_and(|uids| uids.split_whitespace().any(|uid| uid == self.id.to_string()))
        };
        let below = descendants(std::process::id()).into_iter();
        below.filter(is_theirs).filter(|process| process.is_alive()).collect()
    }

    /// What runs of the binary have left in the data directory.
    pub fn run_files(&self) -> Vec<PathBuf> {
        let run = self.path("home/run");
        let list = |dir: PathBuf| {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries.map(|entry| entry.path())
        };
        list(run.clone())
            .chain(list(run.join("slots")))
            .filter(|path| !path.ends_with("slots"))
            .collect()
    }
}
