//! System packages and cargo tools that the tests need: installed when we may, named when not.

use std::fmt;
use std::process::Command;

use anyhow::{Result, bail};
use fs_err as fs;

use crate::project::Project;
use crate::steps::{check, succeeds};

/// The Debian packages, each with why it is needed.
const DEBIAN: &[(&str, &str)] = &[
    ("bubblewrap", "a baseline of the benchmarks"),
    ("chromium", "looks at what the output guard leaves"),
    ("crun", "makes the sandboxes of the tier `container`"),
    ("e2fsprogs", "scratch files on disk, profile `data`"),
    ("python3", "the interpreter of the templates"),
    ("python3-venv", "builds the templates and the kernel's test environment"),
    ("python3-pip", "installs the locked packages of a template"),
    ("nodejs", "runs JavaScript contexts"),
    (
        "qemu-system-x86",
        "boots the guest of the guest tests and of the tier `microvm`",
    ),
    ("runc", "the other runtime of the tier `container`"),
    ("runsc", "the tier `gvisor`"),
    ("squashfs-tools", "disks of the tier `microvm`"),
    ("gcc", "links Rust programs"),
    ("libc6-dev", "links Rust programs"),
];

/// What must work on a system without dpkg: a name for people, then the command that proves it.
const COMMANDS: &[(&str, &[&str])] = &[
    ("bubblewrap (bwrap)", &["bwrap", "--version"]),
    ("Chromium (chromium)", &["chromium", "--version"]),
    ("python3", &["python3", "--version"]),
    (
        "Python's venv and ensurepip modules",
        &["python3", "-c", "import venv, ensurepip"],
    ),
    ("a C compiler (cc)", &["cc", "--version"]),
    ("Node (nodejs)", &["/usr/bin/node", "--version"]),
    ("QEMU (qemu-system-x86_64)", &["qemu-system-x86_64", "--version"]),
    ("crun", &["crun", "--version"]),
    ("runc", &["runc", "--version"]),
    ("gVisor (runsc)", &["runsc", "--version"]),
    ("squashfs-tools 4.5 (sqfstar)", &["sqfstar", "-version"]),
];

/// Pinned, so that a later release with a higher Rust version cannot break a fresh machine.
const NEXTEST_VERSION: &str = "0.9.143";

/// The machine lacks something that only its owner may install. Exit code 2.
#[derive(Debug)]
pub(crate) struct NeedsInstall {
    missing: Vec<String>,
    command: Option<String>,
}

impl fmt::Display for NeedsInstall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "install what is missing, then run this again: {}",
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
    /// One thing that no command of ours gets.
    pub(crate) fn by_hand(what: String) -> Self {
        Self {
            missing: vec![what],
            command: None,
        }
    }
}

pub(crate) fn ensure_system_packages() -> Result<()> {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    if !is_debian(&release) {
        return require_commands();
    }
    let missing: Vec<&str> = DEBIAN
        .iter()
        .map(|(name, _)| *name)
        .filter(|name| !dpkg_has(name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        bail!(needs_apt(&missing));
    }
    println!("    installing {}", missing.join(" "));
    check(apt().arg("update"))?;
    check(apt().args(["install", "-y", "--no-install-recommends"]).args(&missing))
}

pub(crate) fn ensure_nextest(project: &Project) -> Result<()> {
    if succeeds(project.cargo().args(["nextest", "--version"])) {
        return Ok(());
    }
    println!("    installing cargo-nextest {NEXTEST_VERSION}; this takes some minutes");
    let mut install = project.cargo();
    install.args(["install", "--locked", "cargo-nextest", "--version", NEXTEST_VERSION]);
    check(&mut install)
}

fn apt() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command
}

fn require_commands() -> Result<()> {
    let mut missing = Vec::new();
    for (name, words) in COMMANDS {
        if let [program, args @ ..] = words
            && !succeeds(Command::new(program).args(args))
        {
            missing.push((*name).to_owned());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    bail!(NeedsInstall { missing, command: None })
}

fn needs_apt(missing: &[&str]) -> NeedsInstall {
    let names = missing.join(" ");
    NeedsInstall {
        missing: missing.iter().map(|name| (*name).to_owned()).collect(),
        command: Some(format!("sudo apt-get install -y --no-install-recommends {names}")),
    }
}

/// Debian itself, or a system that says it is like Debian.
fn is_debian(os_release: &str) -> bool {
    os_release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or_else(|| line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split_whitespace())
        .any(|word| word == "debian")
}

fn dpkg_has(package: &str) -> bool {
    let output = Command::new("dpkg-query")
        .args(["-W", "-f=${db:Status-Status}", package])
        .output();
    output.is_ok_and(|output| output.stdout == b"installed")
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let uid = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    uid.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_and_its_children_are_recognised() {
        assert!(is_debian("NAME=x\nID=debian\n"));
        assert!(is_debian("ID=ubuntu\nID_LIKE=debian\n"));
        assert!(is_debian("ID=mint\nID_LIKE=\"ubuntu debian\"\n"));
        assert!(!is_debian("ID=fedora\n"));
        assert!(!is_debian(""));
    }

    #[test]
    fn what_to_install_is_said_exactly() {
        let text = needs_apt(&["bubblewrap", "gcc"]).to_string();
        assert!(text.contains("bubblewrap, gcc"));
        assert!(text.ends_with("apt-get install -y --no-install-recommends bubblewrap gcc"));
    }

    #[test]
    fn the_step_around_it_does_not_hide_it() {
        let error = crate::steps::Steps::new()
            .step("sample", || bail!(needs_apt(&["gcc"])))
            .unwrap_err();
        assert!(error.is::<NeedsInstall>());
    }

    #[test]
    fn unknown_package_is_not_installed() {
        assert!(!dpkg_has("no-such-package-here"));
    }
}
