//! Tests written in JavaScript: E2B's clients from npm, the newest and an older pair, on a pinned Node. Each pair has its
//! own directory under the target directory, with the tests beside it, because Node looks for packages there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::python::ensure_node;
use crate::steps::check;

const DIR: &str = "tests/compat/e2b-js";

/// One pair of client libraries.
pub(crate) struct ClientPair {
    /// Where its `package.json` and lock are, below `DIR`.
    lists: &'static str,
    /// Where it is installed, below the target directory.
    place: &'static str,
}

pub(crate) const NEWEST: ClientPair = ClientPair {
    lists: "",
    place: "xtask-e2b-js",
};

pub(crate) const OLDER: ClientPair = ClientPair {
    lists: "older",
    place: "xtask-e2b-js-older",
};

impl ClientPair {
    /// The tests against this pair as a command. Installs what they need.
    pub(crate) fn command(&self, project: &Project) -> Result<Command> {
        let node = ensure_node(project)?;
        let place = project.target.join(self.place);
        install(project, &node, &project.root.join(DIR).join(self.lists), &place)?;
        copy_tests(&project.root.join(DIR), &place)?;
        let mut tests = project.command(node.join("bin/node"));
        tests.current_dir(&place).args(["--test", "main.test.mjs"]);
        Ok(tests)
    }
}

/// Installs exactly what the lock names, each package checked by its hash; only when the lock has changed since.
fn install(project: &Project, node: &Path, lists: &Path, place: &Path) -> Result<()> {
    let lock = fs::read_to_string(lists.join("package-lock.json"))?;
    if lock.contains("\"resolved\"") {
        bail!("{DIR}: the lock names a registry; write it with `npm install --omit-lockfile-registry-resolved`");
    }
    let stamp = place.join("xtask.stamp");
    if fs::read_to_string(&stamp).ok().as_deref() == Some(&*lock) {
        return Ok(());
    }
    fs::create_dir_all(place)?;
    for name in ["package.json", "package-lock.json"] {
        fs::copy(lists.join(name), place.join(name))?;
    }
    let mut npm = project.command(node.join("bin/node"));
    npm.current_dir(place)
        .arg(node.join("lib/node_modules/npm/bin/npm-cli.js"))
        .args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
    check(&mut npm)?;
    Ok(fs::write(stamp, lock)?)
}

fn copy_tests(from: &Path, place: &Path) -> Result<()> {
    for path in tests(place)? {
        fs::remove_file(path)?;
    }
    for path in tests(from)? {
        let name = path.file_name().context("a test without a name")?;
        fs::copy(&path, place.join(name))?;
    }
    Ok(())
}

fn tests(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "mjs") {
            found.push(path);
        }
    }
    Ok(found)
}
