//! Parses the AppArmor profile of the packages; called by [`dist`](crate::dist).
//!
//! The parser of Debian 12 does not support `userns` rules. That of Debian 13 is downloaded with its C library and
//! unpacked, never installed, and runs with its own dynamic loader. Nothing here loads a profile: that would change the
//! host.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use crate::archive::{Archive, codename, find};
use crate::project::Project;
use crate::steps::{said, succeeds};

const SUITE: &str = "trixie";
const PACKAGES: &[&str] = &["apparmor", "libc6"];

/// An unpacked parser.
pub(crate) struct Parser {
    root: PathBuf,
    loader: PathBuf,
}

impl Parser {
    /// Downloads it unless the target directory holds it.
    pub(crate) fn ensure(project: &Project) -> Result<Self> {
        let root = project.target.join("apparmor-parser");
        if !root.is_dir() {
            download(&root, &project.target.join("apparmor-parser.work"))?;
        }
        let loader = find(&root.join("usr/lib"), "ld-linux-")?.context("the C library has no dynamic loader")?;
        Ok(Self { root, loader })
    }

    /// A profile with an error or a warning is an error; so is a profile of another name than `atoll`.
    pub(crate) fn check(&self, profile: &Path) -> Result<()> {
        said(self.command()?.arg(profile))?;
        let names = said(self.command()?.arg("--names").arg(profile))?;
        ensure!(names == "atoll\n", "{} holds the profiles {names:?}", profile.display());
        Ok(())
    }

    /// The control of `check`: the same profile with a broken rule is refused.
    pub(crate) fn check_refuses(&self, profile: &Path) -> Result<()> {
        let text = fs::read_to_string(profile)?;
        let broken = self.root.join("broken-profile");
        fs::write(&broken, text.replace("userns,", "no_such_rule,"))?;
        ensure!(
            !succeeds(self.command()?.arg(&broken)),
            "the parser accepts a broken profile"
        );
        Ok(())
    }

    /// Parses and compiles for a kernel with all features of AppArmor 4.0, whatever this host's kernel has.
    fn command(&self) -> Result<Command> {
        let libraries = self.loader.parent().context("a loader without a directory")?;
        let policies = self.root.join("etc/apparmor.d");
        let mut command = Command::new(&self.loader);
        command.arg("--library-path").arg(libraries);
        command.arg(self.root.join("usr/sbin/apparmor_parser"));
        command.args(["--config-file=/dev/null", "--skip-kernel-load", "--skip-cache"]);
        command.args(["--warn=all", "--Werror"]);
        command.arg("--base").arg(&policies);
        command.arg("--kernel-features").arg(policies.join("abi/4.0"));
        Ok(command)
    }
}

/// The directory appears whole or not at all.
fn download(root: &Path, work: &Path) -> Result<()> {
    if work.exists() {
        fs::remove_dir_all(work)?;
    }
    let release = fs::read_to_string("/etc/os-release")?;
    let codename =
        codename(&release).context("the AppArmor parser is a package of Debian, which needs a Debian host")?;
    let unpacked = work.join("unpacked");
    Archive::open(work, codename, SUITE)?.unpack(PACKAGES, &unpacked)?;
    fs::rename(unpacked, root)?;
    Ok(fs::remove_dir_all(work)?)
}
