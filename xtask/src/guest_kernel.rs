//! Kernels that tests boot: downloaded from the distribution's archive and unpacked, never installed.
//!
//! Installing one would change what the host boots next. The stable release's kernel may be older than the jail needs, so
//! the guest tests use the one of the backports suite; the tier `microvm` uses the stable one. Package lists and package
//! status are private: apt's own state on the host is neither read nor changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use fs_err as fs;

use crate::packages::{NeedsInstall, is_root};
use crate::project::Project;
use crate::request::TestRequest;
use crate::steps::{check, said, succeeds};

/// NVMe and ext4 are built in: it boots without an initial RAM disk.
const PACKAGE: &str = "linux-image-cloud-amd64";
/// Modules that the jail uses where they exist.
const MODULES: &[&str] = &["loop", "overlay"];

/// Downloads the kernels that this request boots, and no others.
pub(crate) fn ensure(project: &Project, request: &TestRequest) -> Result<()> {
    if !request.require_all && (!is_root() || !has_apt()) {
        return Ok(());
    }
    let named = |names: &[&str]| request.areas.iter().any(|area| names.contains(&area.name));
    if request.covers_test() || named(&["microvm", "tiers", "jail", "server"]) {
        ensure_one(project, &project.microvm_kernel(), "")?;
    }
    if (request.covers_test() && request.full) || named(&["kernels"]) {
        ensure_one(project, &project.guest_kernel(), "-backports")?;
    }
    Ok(())
}

fn has_apt() -> bool {
    succeeds(Command::new("apt-get").arg("--version"))
}

/// The kernel of this release's suite with this suffix, in `dir`.
fn ensure_one(project: &Project, dir: &Path, suffix: &str) -> Result<()> {
    if dir.join("vmlinuz").is_file() && dir.join("boot").is_dir() {
        return Ok(());
    }
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let Some(codename) = codename(&release) else {
        bail!(NeedsInstall::by_hand(format!(
            "a kernel (6.2 or newer, NVMe and ext4 built in) as vmlinuz in {}",
            dir.display()
        )));
    };
    let work = project.target.join("guest-kernel.work");
    if work.exists() {
        fs::remove_dir_all(&work)?;
    }
    let archive = Archive::open(&work, codename, suffix)?;
    unpack(&archive.download()?, &work)?;
    // The directory appears whole or not at all; one of an older layout is replaced.
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::rename(work.join("kernel"), dir)?;
    Ok(fs::remove_dir_all(&work)?)
}

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
struct Archive {
    dir: PathBuf,
}

impl Archive {
    fn open(dir: &Path, codename: &str, suffix: &str) -> Result<Self> {
        for name in ["lists/partial", "cache/archives/partial"] {
            fs::create_dir_all(dir.join(name))?;
        }
        let archive = Self { dir: dir.to_owned() };
        let source = format!("deb {} {codename}{suffix} main\n", mirror(codename)?);
        fs::write(dir.join("sources.list"), source)?;
        fs::write(dir.join("status"), "")?;
        check(archive.apt("apt-get").args(["-qq", "update"]))?;
        Ok(archive)
    }

    /// The package that `PACKAGE` stands for.
    fn download(&self) -> Result<PathBuf> {
        let about = said(self.apt("apt-cache").args(["show", PACKAGE]))?;
        let image = image_name(&about).with_context(|| format!("{PACKAGE} names no kernel: {about}"))?;
        println!("    downloading {image}");
        check(self.apt("apt-get").args(["-qq", "download"]).arg(&image))?;
        let mut entries = fs::read_dir(&self.dir)?.flatten().map(|entry| entry.path());
        let found = entries.find(|path| path.extension().is_some_and(|end| end == "deb"));
        found.context("the download left no package")
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let place = |name: &str, below: &str| format!("{name}={}", self.dir.join(below).display());
        for option in [
            place("Dir::Etc::sourcelist", "sources.list"),
            "Dir::Etc::sourceparts=/dev/null".to_owned(),
            place("Dir::State::lists", "lists"),
            // Without this, a kernel installed on the host hides the versions that the lists offer.
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

/// `Depends: linux-image-6.12.0-cloud-amd64 (= 6.12.0-1)`, the newest first.
fn image_name(about: &str) -> Option<String> {
    let depends = about.lines().find_map(|line| line.strip_prefix("Depends: "))?;
    let words = depends.split([',', ' ']);
    words
        .into_iter()
        .find(|word| word.starts_with("linux-image-"))
        .map(str::to_owned)
}

fn unpack(package: &Path, work: &Path) -> Result<()> {
    let all = work.join("all");
    check(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&all))?;
    let kernel = work.join("kernel");
    fs::create_dir_all(&kernel)?;
    let image = find(&all.join("boot"), "vmlinuz-")?.context("the package holds no kernel")?;
    fs::copy(image, kernel.join("vmlinuz"))?;
    for module in MODULES {
        if let Some(path) = find(&all, &format!("{module}.ko"))? {
            let name = path.file_name().context("a module without a name")?.to_owned();
            fs::copy(path, kernel.join(name))?;
        }
    }
    // As the package has it: as the tier `microvm` looks it up.
    for part in ["boot", "lib", "usr"] {
        if all.join(part).is_dir() {
            fs::rename(all.join(part), kernel.join(part))?;
        }
    }
    Ok(())
}

/// The first file below `dir` whose name starts with `beginning`.
fn find(dir: &Path, beginning: &str) -> Result<Option<PathBuf>> {
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

    #[test]
    fn the_kernel_is_what_the_package_depends_on() {
        let about = "Package: x\nDepends: linux-base, linux-image-6.12.9-cloud-amd64 (= 6.12.9-1)\n";
        assert_eq!(image_name(about).as_deref(), Some("linux-image-6.12.9-cloud-amd64"));
        assert_eq!(image_name("Package: x\n"), None);
    }
}
