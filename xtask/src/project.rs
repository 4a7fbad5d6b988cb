//! Where things are: the source root, the target directory, the cargo to call.
//!
//! Every child gets its environment from here, so that a step run by hand and a step run by
//! `cargo xtask test` see the same values.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result};
use fs_err as fs;

use crate::steps::said;
use crate::tidy::files;

#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    cargo: PathBuf,
    atoll_home: PathBuf,
}

impl Project {
    pub(crate) fn discover() -> Result<Self> {
        let root = find_root()?;
        let cwd = env::current_dir().context("cannot read the working directory")?;
        let target = match env::var_os("CARGO_TARGET_DIR").filter(|value| !value.is_empty()) {
            Some(dir) => cwd.join(dir),
            // As a bare `cargo run` has it: both README commands share one build.
            None => root.join("target"),
        };
        let cargo = env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from);
        let atoll_home = match env::var_os("ATOLL_HOME").filter(|value| !value.is_empty()) {
            Some(dir) => cwd.join(dir),
            None => target.join("atoll-home"),
        };
        Ok(Self {
            root,
            target,
            cargo,
            atoll_home,
        })
    }

    /// The release binary that the templates are built with and the tests are run against.
    pub(crate) fn atoll_binary(&self) -> PathBuf {
        self.target.join("release").join("atoll")
    }

    /// Where the kernel of the guest tests lies.
    pub(crate) fn guest_kernel(&self) -> PathBuf {
        let given = env::var_os("ATOLL_GUEST_KERNEL").filter(|value| !value.is_empty());
        given.map_or_else(|| self.target.join("guest-kernel"), PathBuf::from)
    }

    /// Where the kernel of the tier `microvm` lies.
    pub(crate) fn microvm_kernel(&self) -> PathBuf {
        let given = env::var_os("ATOLL_MICROVM_KERNEL").filter(|value| !value.is_empty());
        given.map_or_else(|| self.target.join("microvm-kernel"), PathBuf::from)
    }

    pub(crate) fn cargo(&self) -> Command {
        self.build_command(&self.cargo)
    }

    /// A program that builds, without the variables that `cargo run` sets for xtask: build scripts that read them would
    /// run again, and everything above them would be rebuilt, after each build by hand.
    pub(crate) fn build_command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.command(program);
        for (name, _) in env::vars_os() {
            if is_about_xtask(&name.to_string_lossy()) {
                command.env_remove(name);
            }
        }
        command
    }

    /// A child that runs in the source root and sees the project's environment.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command
            .current_dir(&self.root)
            .env("CARGO_TARGET_DIR", &self.target)
            .env("ATOLL_HOME", &self.atoll_home)
            .env("ATOLL_BIN", self.atoll_binary())
            .env("ATOLL_GUEST_KERNEL", self.guest_kernel())
            .env("ATOLL_MICROVM_KERNEL", self.microvm_kernel());
        command
    }

    /// The commit that is checked out, if the tree has no change against it.
    pub(crate) fn clean_commit(&self) -> Option<String> {
        let git = |args: &[&str]| said(Command::new("git").current_dir(&self.root).args(args)).ok();
        let changes = git(&["status", "--porcelain"])?;
        let commit = git(&["rev-parse", "HEAD"])?;
        changes.is_empty().then(|| commit.trim().to_owned())
    }

    /// Takes the target directory for this checkout until the returned lock is dropped.
    ///
    /// Clones may share one target directory. Cargo tells old from new by file times alone and does
    /// not see that a file belongs to another clone: it would run the other clone's binary. So
    /// one run at a time holds the directory, and when the last one was from another checkout,
    /// the sources here are marked as new. A directory inside the checkout is not shared.
    pub(crate) fn claim_target_dir(&self) -> Result<File> {
        fs::create_dir_all(&self.target)?;
        let path = self.target.join("xtask.lock");
        let lock = File::create(&path).with_context(|| format!("cannot open {}", path.display()))?;
        if lock.try_lock().is_err() {
            println!("waiting for another run that uses {}", self.target.display());
            lock.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        }
        let stamp = self.target.join("xtask.checkout");
        let here = self.root.to_string_lossy();
        let is_shared = !self.target.starts_with(&self.root);
        if is_shared && fs::read_to_string(&stamp).ok().as_deref() != Some(&*here) {
            mark_sources_as_new(&self.root)?;
            fs::write(&stamp, here.as_bytes())?;
        }
        Ok(lock)
    }
}

fn is_about_xtask(variable: &str) -> bool {
    const ABOUT: [&str; 5] = [
        "CARGO_PKG_",
        "CARGO_MANIFEST_",
        "CARGO_CRATE_NAME",
        "CARGO_BIN_NAME",
        "CARGO_PRIMARY_PACKAGE",
    ];
    ABOUT.iter().any(|start| variable.starts_with(start))
}

fn mark_sources_as_new(root: &Path) -> Result<()> {
    let now = SystemTime::now();
    for path in files::list(root)? {
        let path = root.join(path);
        if let Ok(file) = File::options().append(true).open(&path) {
            file.set_modified(now)
                .with_context(|| format!("cannot touch {}", path.display()))?;
        }
    }
    Ok(())
}

/// Walks up from the package directory that cargo names (or the working directory) to the
/// manifest that has a `[workspace]` table.
pub(crate) fn find_root() -> Result<PathBuf> {
    let start = match env::var_os("CARGO_MANIFEST_DIR") {
        Some(dir) => PathBuf::from(dir),
        None => env::current_dir().context("cannot read the working directory")?,
    };
    for dir in start.ancestors() {
        let manifest = fs::read_to_string(dir.join("Cargo.toml")).unwrap_or_default();
        if manifest.lines().any(|line| line.trim() == "[workspace]") {
            return Ok(dir.to_path_buf());
        }
    }
    anyhow::bail!("no workspace manifest at or above {}", start.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_has_the_workspace_manifest() {
        let root = find_root().unwrap();
        assert!(root.join("xtask").join("Cargo.toml").is_file());
    }

    /// The README's first command is a bare `cargo run`: it must find one binary, the product.
    #[test]
    fn a_bare_cargo_run_starts_the_product() {
        let text = fs::read_to_string(find_root().unwrap().join("Cargo.toml")).unwrap();
        let manifest: toml::Table = toml::from_str(&text).unwrap();
        let members = manifest["workspace"]["default-members"].as_array().unwrap();
        assert_eq!(members, &[toml::Value::from("crates/atoll")]);
    }

    #[test]
    fn children_build_as_by_hand() {
        let cargo = Project::discover().unwrap().cargo();
        let told: std::collections::BTreeMap<_, _> = cargo.get_envs().collect();
        let of = |name: &str| told.get(std::ffi::OsStr::new(name));
        assert_eq!(
            of("CARGO_MANIFEST_DIR"),
            Some(&None),
            "this test was told where its own manifest is"
        );
        assert!(of("CARGO_TARGET_DIR").is_some_and(Option::is_some));
    }

    #[test]
    fn marking_makes_every_source_newer() {
        let dir = env::temp_dir().join(format!("xtask-mark-{}", std::process::id()));
        fs::create_dir_all(dir.join("src")).unwrap();
        let file = dir.join("src").join("lib.rs");
        fs::write(&file, "//! sample").unwrap();
        let old = SystemTime::UNIX_EPOCH;
        File::options()
            .append(true)
            .open(&file)
            .unwrap()
            .set_modified(old)
            .unwrap();
        mark_sources_as_new(&dir).unwrap();
        let seen = fs::metadata(&file).unwrap().modified().unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert!(seen > old);
    }
}
