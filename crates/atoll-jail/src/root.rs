//! The root directory that every sandbox of a template sees, put together once by its spawner.
//!
//! A small tmpfs holds the [frame](crate::frame); the big trees are read-only mounts that the jailer took from the host
//! as descriptors, so no path of the host is looked up here. A template with a root of its own is one mount instead, which
//! has the frame already, and nothing of the host is in it but devices. Nothing of a sandbox is in it yet.

use crate::frame::{self, DEVICES, Piece};
use crate::plan::TemplatePlan;
use crate::step::{Step, StepError};
use crate::sys::mounts::{NO_DEV, NO_EXEC, NO_SUID, READ_ONLY, set_attributes};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, move_mount, open_tree, unmount,
};
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

/// One part of the host that sandboxes see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum Part {
    /// A mount; its descriptor travels beside the list, in order.
    Mount { at: String, directory: bool },
    /// A symbolic link, as the host has it (`/bin` -> `usr/bin`).
    Link { at: String, to: String },
}

impl Part {
    /// Whether a descriptor travels beside the list for it.
    pub(crate) fn is_mount(&self) -> bool {
        matches!(self, Self::Mount { .. })
    }

    fn at(&self) -> &str {
        match self {
            Self::Mount { at, .. } | Self::Link { at, .. } => at,
        }
    }
}

/// What the jail shows of the host. Absent ones are left out; `/usr` must exist.
const TREES: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];
const ETC: &[&str] = &[
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ssl/certs",
];
/// The same, for who copies it.
pub fn host_parts() -> impl Iterator<Item = &'static str> {
    TREES.iter().chain(ETC).copied()
}

/// Where a root is put together, in mounts that nobody else sees.
pub(crate) const BUILT_AT: &str = "/tmp";

/// What is the host's own: its programs, a few settings, a few devices.
pub(crate) fn take_host() -> Result<(Vec<Part>, Vec<OwnedFd>), StepError> {
    let mut taken = Taken::default();
    TREES
        .iter()
        .chain(ETC)
        .chain(DEVICES)
        .try_for_each(|at| taken.of_the_host(at))?;
    Ok((taken.parts, taken.fds))
}

/// Takes the parts: called by the jailer, which can still see the host.
pub(crate) fn take_parts(plan: &TemplatePlan, empty: &Path) -> Result<(Vec<Part>, Vec<OwnedFd>), StepError> {
    let mut taken = Taken::default();
    match &plan.root {
        Some(root) => taken.veiled("/", root, empty)?,
        None => TREES.iter().chain(ETC).try_for_each(|at| taken.of_the_host(at))?,
    }
    DEVICES.iter().try_for_each(|at| taken.of_the_host(at))?;
    taken.veiled("/opt/atoll", &plan.tree, empty)?;
    taken.veiled("/opt/atoll/kernel", &plan.kernel, empty)?;
    Ok((taken.parts, taken.fds))
}

#[derive(Default)]
struct Taken {
    parts: Vec<Part>,
    fds: Vec<OwnedFd>,
}

impl Taken {
    /// Where the host has it. What it does not have is left out.
    fn of_the_host(&mut self, at: &str) -> Result<(), StepError> {
        match fs::symlink_metadata(at) {
            Ok(meta) if meta.is_symlink() => {
                let to = fs::read_link(at).step(&format!("read the symlink {at}"))?;
                self.parts.push(Part::Link {
                    at: at.to_owned(),
                    to: to.to_string_lossy().into_owned(),
                });
                Ok(())
            }
            Ok(meta) => {
                let tree = take_tree(Path::new(at), at.starts_with("/dev/"))?;
                self.mount(at, meta.is_dir(), tree);
                Ok(())
            }
            Err(_) => Ok(()),
        }
    }

    /// A kernel that cannot veil still protects; only the tree's place on the host shows in `mountinfo`.
    fn veiled(&mut self, at: &str, path: &Path, empty: &Path) -> Result<(), StepError> {
        let tree = take_veiled(path, empty).or_else(|_| take_tree(path, false))?;
        self.mount(at, true, tree);
        Ok(())
    }

    fn mount(&mut self, at: &str, directory: bool, tree: OwnedFd) {
        let at = at.to_owned();
        self.parts.push(Part::Mount { at, directory });
        self.fds.push(tree);
    }
}

/// A detached, read-only copy of one mount. A device keeps being a device; nothing else may be one.
pub(crate) fn take_tree(path: &Path, device: bool) -> Result<OwnedFd, StepError> {
    let what = format!("clone the mount {}", path.display());
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, path, flags).step(&what)?;
    let attributes = if device {
        NO_SUID | NO_EXEC
    } else {
        READ_ONLY | NO_SUID | NO_DEV
    };
    set_attributes(tree.as_fd(), c"", attributes, true).step(&what)?;
    Ok(tree)
}

/// The same through an overlay of nothing, which shows no path of the host: the user's home stays out of sight.
pub(crate) fn take_veiled(path: &Path, empty: &Path) -> Result<OwnedFd, StepError> {
    let what = format!("mount {} through an overlay", path.display());
    overlay(&open_directory(path).step(&what)?, empty, &what)
}

pub(crate) fn open_directory(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A read-only overlay of a directory and an empty one, mounted nowhere. Files keep their inode numbers.
pub(crate) fn overlay(directory: &OwnedFd, empty: &Path, what: &str) -> Result<OwnedFd, StepError> {
    let empty = open_directory(empty).step(what)?;
    let layers = format!(
        "/proc/self/fd/{}:/proc/self/fd/{}",
        directory.as_raw_fd(),
        empty.as_raw_fd()
    );
    let fs = fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).step(what)?;
    fsconfig_set_string(fs.as_fd(), "source", "atoll").step(what)?;
    fsconfig_set_string(fs.as_fd(), "lowerdir", layers).step(what)?;
    fsconfig_set_string(fs.as_fd(), "xino", "off").step(what)?;
    fsconfig_create(fs.as_fd()).step(what)?;
    let attributes =
        MountAttrFlags::MOUNT_ATTR_RDONLY | MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    fsmount(fs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes).step(what)
}

/// Puts the root together at `/tmp` and makes it this process's root, with a pristine copy at `/run/tmpl`.
pub(crate) fn build(parts: &[Part], fds: &[OwnedFd]) -> Result<(), StepError> {
    let pristine = put_together(parts, fds)?;
    let root = Path::new(BUILT_AT);
    mount_proc(&root.join("proc"), "")?;
    attach(pristine.as_fd(), &root.join("run/tmpl")).step("mount the pristine root")?;
    enter_root(root)?;
    mount_tmpfs(Path::new("/tmp"), "size=64m,nr_inodes=4k,mode=1777")?;
    mount_tmpfs(Path::new("/home/user"), "size=16m,nr_inodes=1k,mode=1777")
}

/// Puts the root together at `/tmp`, read-only: returns a copy of all its mounts.
pub(crate) fn put_together(parts: &[Part], fds: &[OwnedFd]) -> Result<OwnedFd, StepError> {
    let root = Path::new(BUILT_AT);
    rustix::mount::mount_change(
        "/",
        rustix::mount::MountPropagationFlags::PRIVATE | rustix::mount::MountPropagationFlags::REC,
    )
    .step("make mount propagation private")?;
    let is_image = parts.first().is_some_and(|part| part.at() == "/");
    if !is_image {
        mount_tmpfs(root, "size=2m,nr_inodes=1k,mode=0755")?;
        make_frame(root)?;
    }
    attach_parts(root, parts, fds)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    set_attributes(CWD, c"/tmp", READ_ONLY | NO_SUID | NO_DEV, false).step("make the root read-only")?;
    open_tree(CWD, root, flags).step("clone the root mount")
}

pub(crate) fn attach(tree: BorrowedFd<'_>, at: &Path) -> Result<(), rustix::io::Errno> {
    move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}

pub(crate) fn mount_tmpfs(at: &Path, options: &str) -> Result<(), StepError> {
    let options = std::ffi::CString::new(options)
        .map_err(std::io::Error::from)
        .step("encode mount options")?;
    mount(
        "tmpfs",
        at,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        Some(options.as_c_str()),
    )
    .step(&format!("mount a tmpfs at {}", at.display()))
}

pub(crate) fn mount_proc(at: &Path, options: &str) -> Result<(), StepError> {
    let options = std::ffi::CString::new(options)
        .map_err(std::io::Error::from)
        .step("encode mount options")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", at, "proc", flags, Some(options.as_c_str())).step("mount /proc")
}

/// Terminals of this sandbox alone. The machine has a number of them for all, so each sandbox gets a share.
pub(crate) fn mount_terminals(at: &Path) -> Result<(), StepError> {
    let options = c"newinstance,ptmxmode=0666,mode=0600,max=64";
    let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
    mount("devpts", at, "devpts", flags, Some(options)).step("mount /dev/pts")
}

/// Makes `root` the root directory and lets go of the old one.
pub(crate) fn enter_root(root: &Path) -> Result<(), StepError> {
    rustix::process::chdir(root).step("change directory to the new root")?;
    rustix::process::pivot_root(".", ".").step("pivot into the new root")?;
    unmount(".", UnmountFlags::DETACH).step("unmount the old root")?;
    rustix::process::chdir("/").step("change directory to /")
}

fn make_frame(root: &Path) -> Result<(), StepError> {
    for piece in frame::pieces() {
        match piece {
            Piece::Directory(path) | Piece::Offered(path) => {
                fs::create_dir_all(root.join(path)).step(&format!("create /{path}"))?;
            }
            Piece::File(path, text) => {
                fs::write(root.join(path), text).step(&format!("write /{path}"))?;
                fs::set_permissions(root.join(path), fs::Permissions::from_mode(0o444)).step("set file permissions")?;
            }
            Piece::Link(path, to) => symlink(to, root.join(path)).step(&format!("create the symlink /{path}"))?,
        }
    }
    Ok(())
}

pub(crate) fn attach_parts(root: &Path, parts: &[Part], fds: &[OwnedFd]) -> Result<(), StepError> {
    let mut fds = fds.iter();
    for part in parts {
        match part {
            Part::Link { at, to } => {
                symlink(to, root.join(&at[1..])).step(&format!("create the symlink {at}"))?;
            }
            Part::Mount { at, directory } => {
                let place = root.join(&at[1..]);
                // What is mounted already, and a root of the template's own, has a place for what comes into it.
                if !place.exists() {
                    make_place(&place, *directory).step(&format!("create {at}"))?;
                }
                let tree = fds
                    .next()
                    .ok_or(rustix::io::Errno::PROTO)
                    .step(&format!("find the mount for {at}"))?;
                attach(tree.as_fd(), &place).step(&format!("mount {at}"))?;
            }
        }
    }
    Ok(())
}

fn make_place(place: &Path, directory: bool) -> std::io::Result<()> {
    match directory {
        true => fs::create_dir_all(place),
        false => fs::write(place, ""),
    }
}
