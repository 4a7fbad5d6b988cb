//! Kernels that tests boot: downloaded from the distribution's archive and unpacked, never installed.
//!
//! Installing one would change what the host boots next. The stable release's kernel may be older than the jail needs, so
//! the guest tests use the one of the backports suite; the tier `microvm` uses the stable one.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use fs_err as fs;

use crate::archive::{Archive, codename, find};
use crate::packages::{NeedsInstall, is_root};
use crate::project::Project;
use crate::request::TestRequest;
use crate::steps::succeeds;

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
    let archive = Archive::open(&work, codename, &format!("{codename}{suffix}"))?;
    let about = archive.show(PACKAGE)?;
    let image = image_name(&about).with_context(|| format!("{PACKAGE} names no kernel: {about}"))?;
    archive.unpack(&[image.as_str()], &work.join("all"))?;
    lay_out(&work)?;
    // The directory appears whole or not at all; one of an older layout is replaced.
    if dir.exists() {
        fs::remove_dir_all(dir)?;
    }
    fs::rename(work.join("kernel"), dir)?;
    Ok(fs::remove_dir_all(&work)?)
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

/// Makes `kernel` of the unpacked package.
fn lay_out(work: &Path) -> Result<()> {
    let all = work.join("all");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_package_depends_on() {
        let about = "Package: x\nDepends: linux-base, linux-image-6.12.9-cloud-amd64 (= 6.12.9-1)\n";
        assert_eq!(image_name(about).as_deref(), Some("linux-image-6.12.9-cloud-amd64"));
        assert_eq!(image_name("Package: x\n"), None);
    }
}
