//! The root in which QEMU runs: the host's programs, read-only, and the processor's own machines if QEMU may use them.

use crate::plan::{Accelerator, VmPlan};
use crate::root::{Part, take_host, take_tree};
use crate::step::{Step, StepError};
use crate::sys::mounts::{NO_EXEC, NO_SUID, set_attributes};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, OpenTreeFlags, fsconfig_create, fsmount, fsopen, open_tree,
};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The door to them: this one device, by the name that QEMU knows.
const KVM: &str = "/dev/kvm";

/// Taken by the jailer, which can still see the host.
pub(crate) fn take(vm: &VmPlan) -> Result<(Vec<Part>, Vec<OwnedFd>), StepError> {
    let (mut parts, mut trees) = take_host()?;
    if vm.accelerator == Accelerator::Kvm {
        trees.push(take_kvm()?);
        parts.push(Part::Mount {
            at: KVM.to_owned(),
            directory: false,
        });
    }
    Ok((parts, trees))
}

/// QEMU's user has no right of its own to the host's node, whose owner and mode differ from host to host. Root makes a
/// second name of the device, which lies nowhere and is open to whoever sees it: that is QEMU alone.
fn take_kvm() -> Result<OwnedFd, StepError> {
    match own_node() {
        Err(error) if error.errno == Errno::PERM => take_tree(Path::new(KVM), true),
        made => made,
    }
}

fn own_node() -> Result<OwnedFd, StepError> {
    let what = format!("create a device node for {KVM}");
    let device = fs::metadata(KVM).step(&what)?.rdev();
    let files = fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).step(&what)?;
    fsconfig_create(files.as_fd()).step(&what)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let dir = fsmount(files.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).step(&what)?;
    let open = Mode::from_raw_mode(0o666);
    rustix::fs::mknodat(&dir, "kvm", FileType::CharacterDevice, open, device).step(&what)?;
    // Whatever the umask has taken away.
    rustix::fs::chmodat(&dir, "kvm", open, AtFlags::empty()).step(&what)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let node = open_tree(&dir, "kvm", flags).step(&what)?;
    set_attributes(node.as_fd(), c"", NO_SUID | NO_EXEC, false).step(&what)?;
    Ok(node)
}
