//! Tests that are written in JavaScript: E2B's clients from npm, the newest and an older pair. Each pair is installed in a
//! directory of its own under the target directory, with the tests beside it, because Node looks for packages there.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use fs_err as fs;

use crate::packages::NeedsInstall;
use crate::project::Project;
use crate::steps::{check, said};

const DIR: &str = "tests/compat/e2b-js";
/// Where the lists of each pair are, below `DIR`, and where it is installed.
const PAIRS: [(&str, &str); 2] = [("", "xtask-e2b-js"), ("older", "xtask-e2b-js-older")];
/// What the clients ask for.
const OLDEST_NODE: (u32, u32) = (20, 18);

pub(crate) fn run_client_tests(project: &Project) -> Result<()> {
    check_node(project)?;
    for (lists, place) in PAIRS {
        let place = project.target.join(place);
        install(project, &project.root.join(DIR).join(lists), &place)?;
        copy_tests(&project.root.join(DIR), &place)?;
        let mut node = project.command("node");
        node.current_dir(&place).args(["--test", "main.test.mjs"]);
        check(&mut node)?;
    }
    Ok(())
}

fn check_node(project: &Project) -> Result<()> {
    let version = said(project.command("node").arg("--version")).unwrap_or_default();
    if parse(&version).is_none_or(|found| found < OLDEST_NODE) || said(project.command("npm").arg("--version")).is_err()
    {
        let (major, minor) = OLDEST_NODE;
        let what = format!("Node {major}.{minor} or newer with npm, for E2B's JavaScript clients");
        return Err(NeedsInstall::by_hand(what).into());
    }
    Ok(())
}

/// `v20.18.1` is (20, 18).
fn parse(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.trim().strip_prefix('v')?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Installs exactly what the lock names, each package checked by its hash; only when the lock has changed since.
fn install(project: &Project, lists: &Path, place: &Path) -> Result<()> {
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
    let mut npm = project.command("npm");
    npm.current_dir(place)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(parse("v20.18.1\n"), Some((20, 18)));
        assert!(parse("v18.20.4").unwrap() < OLDEST_NODE && parse("v22.3.0").unwrap() > OLDEST_NODE);
        assert_eq!(parse("node"), None);
    }
}
