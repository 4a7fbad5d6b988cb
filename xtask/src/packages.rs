//! System packages and cargo tools that the commands need: installed on Debian as root, otherwise named.

use std::fmt;
use std::process::Command;

use anyhow::{Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::steps::{check, succeeds};

/// What a package is for. A command asks only for the packages of what it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Compiling Atoll. Nothing works without these.
    Build,
    /// Templates and the jail. Nothing runs without these.
    Run,
    Node,
    Container,
    Gvisor,
    Microvm,
    Browser,
    Dist,
    /// The tools that benchmarks are compared with.
    Bench,
}

impl Purpose {
    /// Tests that lack an optional package are skipped; the others cannot be done without.
    fn is_essential(self) -> bool {
        matches!(self, Self::Build | Self::Run | Self::Dist | Self::Bench)
    }
}

/// One package by its name on each family of distributions.
struct Package {
    purpose: Purpose,
    debian: &'static str,
    /// `None`: Fedora has no such package.
    fedora: Option<&'static str>,
    /// A command that succeeds where it is installed, for hosts without dpkg.
    probe: &'static [&'static str],
}

const fn package(
    purpose: Purpose,
    debian: &'static str,
    fedora: Option<&'static str>,
    probe: &'static [&'static str],
) -> Package {
    Package {
        purpose,
        debian,
        fedora,
        probe,
    }
}

/// Debian and Ubuntu share names. Only Debian was tried.
const PACKAGES: &[Package] = &[
    package(Purpose::Build, "gcc", Some("gcc"), &["cc", "--version"]),
    package(
        Purpose::Build,
        "libc6-dev",
        Some("glibc-devel"),
        &["cc", "-xc", "-E", "-include", "stdio.h", "/dev/null"],
    ),
    package(Purpose::Run, "python3", Some("python3"), &["python3", "--version"]),
    package(
        Purpose::Run,
        "python3-venv",
        Some("python3-libs"),
        &["python3", "-c", "import venv, ensurepip"],
    ),
    package(
        Purpose::Run,
        "python3-pip",
        Some("python3-pip"),
        &["python3", "-m", "pip", "--version"],
    ),
    package(Purpose::Run, "e2fsprogs", Some("e2fsprogs"), &["mkfs.ext4", "-V"]),
    package(Purpose::Node, "nodejs", Some("nodejs"), &["/usr/bin/node", "--version"]),
    package(
        Purpose::Browser,
        "chromium",
        Some("chromium"),
        &["chromium", "--version"],
    ),
    package(Purpose::Container, "crun", Some("crun"), &["crun", "--version"]),
    package(Purpose::Container, "runc", Some("runc"), &["runc", "--version"]),
    package(Purpose::Gvisor, "runsc", None, &["runsc", "--version"]),
    package(
        Purpose::Microvm,
        "qemu-system-x86",
        Some("qemu-system-x86-core"),
        &["qemu-system-x86_64", "--version"],
    ),
    package(
        Purpose::Microvm,
        "squashfs-tools",
        Some("squashfs-tools"),
        &["sqfstar", "-version"],
    ),
    package(
        Purpose::Dist,
        "debootstrap",
        Some("debootstrap"),
        &["debootstrap", "--version"],
    ),
    package(
        Purpose::Bench,
        "bubblewrap",
        Some("bubblewrap"),
        &["bwrap", "--version"],
    ),
];

/// Pinned, so that a later release that needs a newer Rust cannot break a bare host.
const NEXTEST_VERSION: &str = "0.9.143";

/// The host lacks something that only its administrator can install. Exit code 2.
#[derive(Debug)]
pub(crate) struct NeedsInstall {
    missing: Vec<String>,
    command: Option<String>,
}

impl fmt::Display for NeedsInstall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "required packages are missing: {}. Install them, then run this command again",
            self.missing.join(", ")
        )?;
        match &self.command {
            Some(command) => write!(f, "\n\nhint: {command}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for NeedsInstall {}

impl NeedsInstall {
    /// One thing that no package provides.
    pub(crate) fn by_hand(what: String) -> Self {
        Self {
            missing: vec![what],
            command: None,
        }
    }
}

/// Which package manager a host has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Debian,
    Fedora,
    Other,
}

impl Family {
    fn of(os_release: &str) -> Self {
        let words: Vec<&str> = os_release
            .lines()
            .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
            .flat_map(|value| value.trim_matches('"').split_whitespace())
            .collect();
        if words.contains(&"debian") {
            Self::Debian
        } else if words.contains(&"fedora") {
            Self::Fedora
        } else {
            Self::Other
        }
    }

    fn is_installed(self, package: &Package) -> bool {
        match self {
            Self::Debian => dpkg_has(package.debian),
            Self::Fedora | Self::Other => match package.probe {
                [program, args @ ..] => succeeds(Command::new(program).args(args)),
                [] => true,
            },
        }
    }

    fn names(self, packages: &[&Package]) -> Vec<&'static str> {
        let name = |package: &&Package| match self {
            Self::Debian | Self::Other => Some(package.debian),
            Self::Fedora => package.fedora,
        };
        packages.iter().filter_map(name).collect()
    }

    fn install_command(self, packages: &[&Package]) -> Option<String> {
        let names = self.names(packages).join(" ");
        match self {
            Self::Debian => Some(format!("sudo apt-get install -y --no-install-recommends {names}")),
            Self::Fedora => Some(format!("sudo dnf install -y {names}")),
            Self::Other => None,
        }
    }
}

/// As root on Debian, installs the packages of these purposes. Elsewhere, missing optional ones are left to the count of
/// skipped tests, and missing essential ones are an error.
pub(crate) fn ensure_packages(purposes: &[Purpose]) -> Result<()> {
    let family = Family::of(&fs::read_to_string("/etc/os-release").unwrap_or_default());
    let missing: Vec<&Package> = PACKAGES
        .iter()
        .filter(|package| purposes.contains(&package.purpose) && !family.is_installed(package))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if family == Family::Debian && is_root() {
        let names = family.names(&missing);
        println!("    installing {}", names.join(" "));
        check(apt().arg("update"))?;
        return check(apt().args(["install", "-y", "--no-install-recommends"]).args(names));
    }
    let essential: Vec<&Package> = missing
        .into_iter()
        .filter(|package| package.purpose.is_essential())
        .collect();
    if essential.is_empty() {
        return Ok(());
    }
    bail!(needs_install(family, &essential))
}

fn needs_install(family: Family, packages: &[&Package]) -> NeedsInstall {
    NeedsInstall {
        missing: packages.iter().map(|package| package.debian.to_owned()).collect(),
        command: family.install_command(packages),
    }
}

pub(crate) fn ensure_nextest(project: &Project) -> Result<()> {
    ensure_cargo_tool(project, "nextest", &["cargo-nextest", "--version", NEXTEST_VERSION])
}

/// Installs a cargo subcommand from source unless it is there already.
pub(crate) fn ensure_cargo_tool(project: &Project, subcommand: &str, install: &[&str]) -> Result<()> {
    if succeeds(project.cargo().args([subcommand, "--version"])) {
        return Ok(());
    }
    println!("    installing {}; this takes some minutes", install.join(" "));
    check(project.cargo().args(["install", "--locked"]).args(install))
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn dpkg_has(package: &str) -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output();
    output.is_ok_and(|output| output.stdout == b"installed")
}

pub(crate) fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_are_recognised_by_family() {
        assert_eq!(Family::of("NAME=x\nID=debian\n"), Family::Debian);
        assert_eq!(Family::of("ID=ubuntu\nID_LIKE=debian\n"), Family::Debian);
        assert_eq!(Family::of("ID=mint\nID_LIKE=\"ubuntu debian\"\n"), Family::Debian);
        assert_eq!(Family::of("ID=fedora\n"), Family::Fedora);
        assert_eq!(
            Family::of("ID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"),
            Family::Fedora
        );
        assert_eq!(Family::of("ID=arch\n"), Family::Other);
        assert_eq!(Family::of(""), Family::Other);
    }

    #[test]
    fn every_package_has_a_probe_and_a_name_per_family() {
        for package in PACKAGES {
            assert!(!package.debian.is_empty() && !package.probe.is_empty());
        }
        let unpackaged: Vec<&str> = PACKAGES
            .iter()
            .filter(|package| package.fedora.is_none())
            .map(|package| package.debian)
            .collect();
        assert_eq!(unpackaged, ["runsc"]);
    }

    #[test]
    fn install_commands_name_each_family_s_packages() {
        let of = |purpose| -> Vec<&Package> { PACKAGES.iter().filter(|package| package.purpose == purpose).collect() };
        let command = |family: Family, purpose| family.install_command(&of(purpose));
        assert_eq!(
            command(Family::Debian, Purpose::Build).as_deref(),
            Some("sudo apt-get install -y --no-install-recommends gcc libc6-dev")
        );
        assert_eq!(
            command(Family::Fedora, Purpose::Microvm).as_deref(),
            Some("sudo dnf install -y qemu-system-x86-core squashfs-tools")
        );
        assert_eq!(command(Family::Other, Purpose::Build), None);
    }

    #[test]
    fn a_missing_package_error_survives_its_step() {
        let packages: Vec<&Package> = PACKAGES.iter().take(1).collect();
        let error = crate::steps::Steps::new()
            .step("sample", || bail!(needs_install(Family::Debian, &packages)))
            .unwrap_err();
        assert!(error.is::<NeedsInstall>());
        assert!(format!("{error:#}").contains("required packages are missing: gcc"));
    }

    #[test]
    fn unknown_package_is_not_installed() {
        assert!(!dpkg_has("no-such-package-here"));
    }
}
