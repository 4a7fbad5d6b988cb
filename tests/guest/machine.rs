//! The guest as a machine: its mounts, its control groups, what is in them, and its end.

use anyhow::{Context, Result};
use atoll_tests::guest::USER;
use rustix::mount::{MountFlags, mount};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::path::Path;

pub(crate) const HOME: &str = "/home/atoll";
const GROUPS: &str = "/sys/fs/cgroup";
/// As `Delegate=yes` of a service manager makes one: the directory and three files belong to the user.
pub(crate) const DELEGATED: &str = "/sys/fs/cgroup/user.slice/app.scope";

pub(crate) fn set_up() -> Result<()> {
    let none = MountFlags::empty();
    for (kind, at) in [
        ("proc", "/proc"),
        ("sysfs", "/sys"),
        ("tmpfs", "/tmp"),
        ("tmpfs", "/run"),
    ] {
        mount(kind, at, kind, none, None).with_context(|| format!("mount {at}"))?;
    }
    // The kernel may have done so by itself.
    mount("devtmpfs", "/dev", "devtmpfs", none, None).ok();
    mount("cgroup2", GROUPS, "cgroup2", none, Some(c"nsdelegate")).context("mount the control groups")?;
    fs::set_permissions("/tmp", std::os::unix::fs::PermissionsExt::from_mode(0o1777))?;
    load_modules()?;
    delegate_group()
}

/// What the kernel's package has as modules, and the jail uses where it is there.
fn load_modules() -> Result<()> {
    for entry in fs::read_dir("/guest/modules")?.flatten() {
        let file = File::open(entry.path())?;
        // MODULE_INIT_COMPRESSED_FILE: the kernel unpacks it.
        let flags = if entry.path().extension().is_some_and(|end| end == "ko") {
            0
        } else {
            4
        };
        rustix::system::finit_module(&file, c"", flags).with_context(|| format!("load {:?}", entry.file_name()))?;
    }
    Ok(())
}

fn delegate_group() -> Result<()> {
    let dir = Path::new(DELEGATED);
    let slice = dir.parent().context("a slice")?;
    fs::create_dir(slice)?;
    // What a service manager gives to users by default; `io` is not among it.
    for above in [Path::new(GROUPS), slice] {
        fs::write(above.join("cgroup.subtree_control"), "+cpu +memory +pids").context("give controllers")?;
    }
    fs::create_dir(dir)?;
    for name in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        chown(dir.join(name), Some(USER), Some(USER))?;
    }
    Ok(())
}

/// The data directory belongs to whoever comes next; what the last one left in `run` is gone.
pub(crate) fn give_home_to(id: u32) -> Result<()> {
    for name in ["", "templates", "kernels"] {
        chown(Path::new(HOME).join(name), Some(id), Some(id))?;
    }
    match fs::remove_dir_all(Path::new(HOME).join("run")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

pub(crate) fn results() -> Result<File> {
    File::options()
        .write(true)
        .open("/dev/ttyS1")
        .context("open the second serial port")
}

/// Every control group of the machine.
pub(crate) fn groups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![Path::new(GROUPS).to_owned()];
    while let Some(dir) = next.pop() {
        for entry in fs::read_dir(&dir).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                found.insert(entry.path().to_string_lossy().into_owned());
                next.push(entry.path());
            }
        }
    }
    found
}

/// Every process with a program: not the kernel's own, not the dead.
pub(crate) fn processes() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let command = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        if !command.is_empty() {
            let words = String::from_utf8_lossy(&command).replace('\0', " ");
            found.insert(format!("{}: {words}", entry.file_name().to_string_lossy()));
        }
    }
    found
}

/// Ends the machine: the emulator is told to take a restart for the end.
pub(crate) fn end() -> Result<()> {
    rustix::fs::sync();
    Ok(rustix::system::reboot(rustix::system::RebootCommand::Restart)?)
}
