//! Debian packages that tests use without installing them: [`guest_kernel`](crate::guest_kernel) and
//! [`apparmor`](crate::apparmor) download and unpack them here.
//!
//! Package lists and package status are private: apt's own state on the host is neither read nor changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use fs_err as fs;

use crate::steps::{check, said};

/// The release of Debian itself, not of a derivative.
pub(crate) fn codename(os_release: &str) -> Option<&str> {
    let value = |name: &str| {
        let line = os_release
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"'))
    };
    value("VERSION_CODENAME").filter(|_| value("ID") == Some("debian"))
}

/// Private package lists of one suite.
pub(crate) struct Archive {
    dir: PathBuf,
}

impl Archive {
    /// The suite comes from the mirror that this host uses for its own release, `codename`.
    pub(crate) fn open(dir: &Path, codename: &str, suite: &str) -> Result<Self> {
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(name))?;
        }
        let archive = Self { dir: dir.to_owned() };
        let source = format!("deb {} {suite} main\n", mirror(codename)?);
        fs::write(dir.join("sources.list"), source)?;
        fs::write(dir.join("status"), "")?;
        check(archive.apt("apt-get").args(["-qq", "update"]))?;
        Ok(archive)
    }

    /// What the lists tell about a package.
    pub(crate) fn show(&self, package: &str) -> Result<String> {
        said(self.apt("apt-cache").args(["show", package]))
    }

    /// The newest version of each package, unpacked below `to`.
    pub(crate) fn unpack(&self, packages: &[&str], to: &Path) -> Result<()> {
        println!("    downloading {}", packages.join(" "));
        check(self.apt("apt-get").args(["-qq", "download"]).args(packages))?;
        let entries = fs::read_dir(&self.dir)?.flatten().map(|entry| entry.path());
        let downloaded: Vec<PathBuf> = entries
            .filter(|path| path.extension().is_some_and(|end| end == "deb"))
            .collect();
        ensure!(downloaded.len() == packages.len(), "the download left {downloaded:?}");
        for package in &downloaded {
            check(Command::new("dpkg-deb").arg("--extract").arg(package).arg(to))?;
        }
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let place = |name: &str, below: &str| format!("{name}={}", self.dir.join(below).display());
        for option in [
            place("Dir::Etc::sourcelist", "sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            place("Dir::State::lists", "lists"),
            // Without this, a package installed on the host hides the versions that the lists offer.
            place("Dir::State::status", "status"),
            place("Dir::Cache", "cache"),
            // The user of apt's download helper has no access to the target directory.
            "APT::Sandbox::User=root".to_owned(),
        ] {
            command.args(["-o", &option]);
        }
        command.current_dir(&self.dir);
        command
    }
}

/// The mirror that this host uses for this release.
pub(crate) fn mirror(codename: &str) -> Result<String> {
    let mut list = Command::new("apt-get");
    list.args([
        "indextargets",
        "--format",
        "$(RELEASE) $(REPO_URI)",
        "Identifier: Packages",
    ]);
    let lines = said(&mut list)?;
    let found = lines
        .lines()
        .find_map(|line| line.strip_prefix(codename)?.strip_prefix(' '));
    Ok(found
        .with_context(|| format!("apt has no source for {codename}"))?
        .to_owned())
}

/// The first file below `dir` whose name starts with `beginning`.
pub(crate) fn find(dir: &Path, beginning: &str) -> Result<Option<PathBuf>> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_file() && entry.file_name().to_string_lossy().starts_with(beginning) {
            return Ok(Some(entry.path()));
        }
        if kind.is_dir()
            && let Some(found) = find(&entry.path(), beginning)?
        {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_debian_itself_has_a_codename() {
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n"), Some("bookworm"));
        assert_eq!(codename("ID=ubuntu\nID_LIKE=debian\nVERSION_CODENAME=noble\n"), None);
        assert_eq!(codename("ID=debian\n"), None);
        assert_eq!(codename(""), None);
    }
}
