//! Scratch files on disk: for limits that ask for more room than memory could hold.
//!
//! A file without a name becomes a file system of exactly the promised size and number of files, mounted through a
//! loop device that frees itself. Nothing of it has a path on the host, so nothing of it can be left behind.

use crate::step::{OfWall, Step, StepError};
use crate::sys::loop_device;
use atoll_core::Limits;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen,
};
use std::path::Path;
use std::process::{Command, Stdio};

/// Scratch files live in memory, and count as such, while they are a small part of it.
pub fn is_on_disk(limits: &Limits) -> bool {
    limits.scratch.get() > limits.memory.get() / 2
}

/// Makes the file system below `dir` and returns it as a detached mount that belongs to `host_id`.
pub(crate) fn make(dir: &Path, limits: &Limits, host_id: u32) -> Result<OwnedFd, StepError> {
    let image = rustix::fs::open(
        dir,
        OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC,
        Mode::RUSR | Mode::WUSR,
    )
    .step(&format!("create a scratch image in {}", dir.display()))?;
    rustix::fs::ftruncate(&image, limits.scratch.get()).step("resize the scratch image")?;
    format(&image, limits, host_id)?;
    let device = loop_device::attach(image.as_fd())
        .step("attach the scratch image to a loop device")
        .wall("scratch")?;
    mount(&device.path)
}

/// No journal and no reserved room: the files live as long as the sandbox, and all of it is the user's.
fn format(image: &OwnedFd, limits: &Limits, host_id: u32) -> Result<(), StepError> {
    let path = format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd());
    let options = format!("root_owner={host_id}:{host_id},lazy_itable_init=1,nodiscard");
    let inodes = limits.scratch_inodes.get().to_string();
    let made = Command::new("mkfs.ext4")
        .args([
            "-q",
            "-F",
            "-m",
            "0",
            "-O",
            "^has_journal",
            "-E",
            &options,
            "-N",
            &inodes,
            &path,
        ])
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .step("start mkfs.ext4")
        .wall("scratch")?;
    if made.success() {
        Ok(())
    } else {
        Err(Errno::IO).step("format the scratch image with mkfs.ext4")
    }
}

fn mount(device: &str) -> Result<OwnedFd, StepError> {
    let what = "mount the scratch image";
    let fs = fsopen("ext4", FsOpenFlags::FSOPEN_CLOEXEC).step(what)?;
    fsconfig_set_string(fs.as_fd(), "source", device).step(what)?;
    // Nothing here outlives the sandbox: a file that takes another's place need not be on the disk first, and a program
    // that asks for its bytes to be there does not empty the caches of the host's disk.
    fsconfig_set_flag(fs.as_fd(), "noauto_da_alloc").step(what)?;
    fsconfig_set_flag(fs.as_fd(), "nobarrier").step(what)?;
    fsconfig_create(fs.as_fd()).step(what)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).step(what)
}
