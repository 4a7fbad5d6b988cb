//! The first process of a guest, in its first file system: loads drivers, mounts the template's image, goes on from there.
//!
//! It is this binary by the name `/init`. It knows nothing of sandboxes. When it is done it starts the binary again, the one
//! of the image, so that nothing of the first file system stays in memory.

use super::control::GuestPlan;
use crate::root::{mount_proc, mount_tmpfs};
use crate::step::{Step, StepError, chain};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount, mount_move};
use std::convert::Infallible;
use std::ffi::{CStr, CString};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// What the guest is for, in its first file system and afterwards.
pub const PLAN: &str = "/plan.json";
/// Where the drivers lie in its first file system.
pub const MODULES: &str = "/modules";
/// Where the two images are mounted: what every template has, and what is the template's own.
pub(super) const IMAGE: &str = "/image";
pub(super) const TEMPLATE: &str = "/template";
/// Directories of the template's image: what is shown as `/opt/atoll`, and this binary with what it runs with.
pub const TREE: &str = "tree";
pub const AGENT: &str = "agent";
/// The file system of the images.
const FILESYSTEM: &str = "squashfs";

const BASE: &str = "/base";
const PLACES: &[&str] = &[
    "proc",
    "sys",
    "dev",
    "image",
    "template",
    "tmp",
    "run/tmpl",
    "run/scratch",
    "run/input",
];
/// A driver finds its disk at once; under emulation "at once" takes its time.
const PATIENCE: Duration = Duration::from_secs(120);

/// Never returns in a guest: the kernel has no other first process.
pub fn main() -> i32 {
    match start() {
        Ok(never) => match never {},
        Err(error) => give_up(&error),
    }
}

/// Tells the console why, and switches the machine off.
pub(super) fn give_up(error: &dyn std::error::Error) -> i32 {
    tell(&chain(error));
    power_off()
}

/// To the console, which only the host reads.
pub(super) fn tell(what: &str) {
    fs::write("/dev/console", format!("atoll: guest exiting: {what}\n")).ok();
}

fn power_off() -> i32 {
    rustix::system::reboot(rustix::system::RebootCommand::Restart).ok();
    1
}

fn start() -> Result<Infallible, StepError> {
    mount_system()?;
    let plan = fs::read(PLAN).step("read the guest's configuration")?;
    let told: GuestPlan = serde_json::from_slice(&plan)
        .map_err(std::io::Error::from)
        .step("read the guest's configuration")?;
    for module in &told.modules {
        load(&Path::new(MODULES).join(module))?;
    }
    mount_tmpfs(Path::new(BASE), "mode=0755,nr_inodes=4k")?;
    for place in PLACES {
        fs::create_dir_all(Path::new(BASE).join(place)).step(&format!("create /{place}"))?;
    }
    mount_image("/dev/vda", IMAGE)?;
    mount_image("/dev/vdb", TEMPLATE)?;
    fs::write(format!("{BASE}{PLAN}"), plan).step("save the guest's configuration")?;
    for place in ["/proc", "/sys", "/dev"] {
        mount_move(place, format!("{BASE}{place}")).step(&format!("move the mount {place}"))?;
    }
    empty_first_root();
    rustix::process::chdir(BASE).step("change directory to the new root")?;
    mount_move(".", "/").step("move the new root to /")?;
    rustix::process::chroot(".").step("chroot into the new root")?;
    rustix::process::chdir("/").step("change directory to /")?;
    start_again()
}

fn mount_system() -> Result<(), StepError> {
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devtmpfs", "/dev", "devtmpfs", flags, None::<&CStr>).step("mount /dev")?;
    mount_proc(Path::new("/proc"), "")?;
    mount("sysfs", "/sys", "sysfs", flags, None::<&CStr>).step("mount /sys")?;
    // Without a console the kernel has opened none of them.
    let null = rustix::fs::open("/dev/null", OFlags::RDWR, Mode::empty()).step("open /dev/null")?;
    rustix::stdio::dup2_stdin(&null).step("redirect stdio to /dev/null")?;
    rustix::stdio::dup2_stdout(&null).step("redirect stdio to /dev/null")?;
    rustix::stdio::dup2_stderr(&null).step("redirect stdio to /dev/null")?;
    std::mem::forget(null);
    Ok(())
}

fn load(module: &Path) -> Result<(), StepError> {
    let what = format!("load the kernel module {}", module.display());
    let file = rustix::fs::open(module, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).step(&what)?;
    match rustix::system::finit_module(&file, c"", 0) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(errno) => Err(errno).step(&what),
    }
}

fn mount_image(disk: &str, at: &str) -> Result<(), StepError> {
    let at = format!("{BASE}{at}");
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV;
    let began = Instant::now();
    loop {
        match mount(disk, &at, FILESYSTEM, flags, None::<&CStr>) {
            Err(Errno::NOENT | Errno::NXIO) if began.elapsed() < PATIENCE => {
                std::thread::sleep(Duration::from_millis(10));
            }
            mounted => return mounted.step(&format!("mount the image {disk}")),
        }
    }
}

/// Its memory is wanted for better. What is in use goes with its last user.
fn empty_first_root() {
    for entry in fs::read_dir("/").into_iter().flatten().flatten() {
        if entry.path() == Path::new(BASE) {
            continue;
        }
        match entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            true => fs::remove_dir_all(entry.path()).ok(),
            false => fs::remove_file(entry.path()).ok(),
        };
    }
}

fn start_again() -> Result<Infallible, StepError> {
    let at = |name: &str| CString::new(format!("{TEMPLATE}/{AGENT}/{name}")).map_err(std::io::Error::from);
    let what = "start the agent binary";
    let loader = at("ld.so").step(what)?;
    let argv = [
        loader.clone(),
        c"--library-path".to_owned(),
        at("lib").step(what)?,
        at("atoll").step(what)?,
        c"__guest".to_owned(),
    ];
    let env: [CString; 0] = [];
    nix::unistd::execve(&loader, &argv, &env).step(what)
}
