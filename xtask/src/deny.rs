//! The step of `cargo xtask check` that applies `deny.toml`: licences, bans and sources of every crate.
//!
//! Advisories need a database. They are checked if `ATOLL_ADVISORY_DB` names a clone of the RustSec advisory database;
//! otherwise the step prints that they were not.

use std::path::Path;

use anyhow::Result;
use fs_err as fs;

use crate::packages::ensure_cargo_tool;
use crate::project::Project;
use crate::steps::check;

const VERSION: &str = "0.20.2";
const DATABASE: &str = "ATOLL_ADVISORY_DB";
/// The directory in which this version of cargo-deny expects the default database.
const DATABASE_NAME: &str = "advisory-db-3157b0e258782691";

pub(crate) fn run(project: &Project) -> Result<()> {
    // A debug build compiles in half the time, and the check takes two seconds either way.
    ensure_cargo_tool(project, "deny", &["--debug", "cargo-deny", "--version", VERSION])?;
    // A build downloads the crates of this platform only; `cargo deny` reads the manifests of all.
    check(project.cargo().args(["fetch", "--locked", "--quiet"]))?;
    let mut deny = project.cargo();
    deny.args(["deny", "--offline", "--log-level", "error", "check"]);
    check(deny.args(["licenses", "bans", "sources"]))?;
    match std::env::var_os(DATABASE).filter(|value| !value.is_empty()) {
        Some(database) => check_advisories(project, Path::new(&database)),
        None => {
            println!("    advisories not checked: {DATABASE} is not set");
            Ok(())
        }
    }
}

/// cargo-deny finds its database through its settings only: it gets a copy of ours that names a directory with a link.
fn check_advisories(project: &Project, database: &Path) -> Result<()> {
    let directory = project.target.join("advisories");
    let link = directory.join(DATABASE_NAME);
    fs::create_dir_all(&directory)?;
    if link.is_symlink() {
        fs::remove_file(&link)?;
    }
    fs::os::unix::fs::symlink(fs::canonicalize(database)?, &link)?;
    let settings = directory.join("deny.toml");
    let text = fs::read_to_string(project.root.join("deny.toml"))?;
    fs::write(&settings, with_database(&text, &directory))?;
    let mut deny = project.cargo();
    deny.args(["deny", "--offline", "--config"]).arg(settings);
    check(deny.args(["check", "advisories"]))
}

fn with_database(settings: &str, directory: &Path) -> String {
    let located = format!("[advisories]\ndb-path = {:?}\n", directory.display().to_string());
    settings.replacen("[advisories]\n", &located, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copied_settings_name_the_database() {
        let root = crate::project::find_root().unwrap();
        let settings = fs::read_to_string(root.join("deny.toml")).unwrap();
        let copy: toml::Table = toml::from_str(&with_database(&settings, Path::new("/some/where"))).unwrap();
        assert_eq!(copy["advisories"]["db-path"].as_str(), Some("/some/where"));
    }

    #[test]
    fn each_second_version_that_stays_has_a_reason() {
        let root = crate::project::find_root().unwrap();
        let settings: toml::Table = toml::from_str(&fs::read_to_string(root.join("deny.toml")).unwrap()).unwrap();
        let bans = &settings["bans"];
        assert_eq!(bans["multiple-versions"].as_str(), Some("deny"));
        for list in ["skip", "skip-tree"] {
            for entry in bans[list].as_array().unwrap() {
                let reason = entry.get("reason").and_then(toml::Value::as_str);
                assert!(reason.is_some_and(|reason| !reason.is_empty()), "{entry}");
            }
        }
    }
}
