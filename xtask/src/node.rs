//! Tests that are written in JavaScript: E2B's clients from npm, the newest and an older pair, on a pinned Node. Each is in a
//! directory of its own under the target directory, with the tests beside it, because Node looks for packages there.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::python::ensure_node;
use crate::steps::check;

const DIR: &str = "tests/compat/e2b-js";
/// Where the lists of each pair are, below `DIR`, and where it is installed.
const PAIRS: [(&str, &str); 2] = [("", "xtask-e2b-js"), ("older", "xtask-e2b-js-older")];

/// Installs what they need.
pub(crate) fn client_tests(project: &Project) -> Result<Vec<Command>> {
    let node = ensure_node(project)?;
    let mut commands = Vec::new();
    for (lists, place) in PAIRS {
        let place = project.target.join(place);
        install(project, &node, &project.root.join(DIR).join(lists), &place)?;
        copy_tests(&project.root.join(DIR), &place)?;
        let mut tests = project.command(node.join("bin/node"));
        tests.current_dir(&place).args(["--test", "main.test.mjs"]);
        commands.push(tests);
    }
    Ok(commands)
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
