//! What is personal, laid into a standing sandbox by a helper process that joins its mounts: room for files, inputs.

use super::Fault;
use crate::channel;
use crate::oci::keeper;
use crate::root::attach;
use crate::shell::{Failed, become_user, seal_inputs, unseal_inputs};
use crate::step::{OfWall, Step, StepError};
use crate::sys::process::{Forked, exit_now, fork_with, join_namespaces};
use atoll_core::Limits;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::mount::{MountFlags, mount_remount};
use std::fs;
use std::path::Path;

/// What a claim asks of a sandbox's mounts.
pub(crate) struct Attach {
    pub(crate) limits: Limits,
    pub(crate) names: Vec<String>,
    pub(crate) trees: Vec<OwnedFd>,
}

/// The same for who is no spawner, into a sandbox that is not kept by anybody.
pub(crate) fn lay_into(shell: BorrowedFd<'_>, asked: &Attach, resize: bool) -> Result<(), Fault> {
    run(shell, asked, resize, false)
}

/// Does it and waits. The sandbox itself has no power to mount any more. What is laid into the mounts of a container's
/// keeper shows up in the container.
pub(super) fn run(shell: BorrowedFd<'_>, asked: &Attach, resize: bool, is_kept: bool) -> Result<(), Fault> {
    let (ours, theirs) = channel::pair()?;
    match fork_with(0).step("fork a helper")? {
        Forked::Child => {
            let done = match is_kept {
                false => join_and_attach(shell, asked, resize),
                true => join_keeper_and_attach(shell, asked, resize),
            };
            let failed = done.err().map(|error| Failed::of(&error));
            channel::send(&theirs, &failed, &[]).ok();
            exit_now(0)
        }
        Forked::Parent { pid, .. } => {
            drop(theirs);
            let answer = channel::receive::<Option<Failed>>(&ours);
            nix::sys::wait::waitpid(nix::unistd::Pid::from_raw(pid), None).ok();
            match answer?.0 {
                None => Ok(()),
                Some(failed) => Err(failed.into_fault()),
            }
        }
    }
}

fn join_and_attach(shell: BorrowedFd<'_>, asked: &Attach, resize: bool) -> Result<(), StepError> {
    join_namespaces(shell, libc::CLONE_NEWUSER | libc::CLONE_NEWNS)
        .step("join the sandbox's namespaces")
        .wall("namespaces")?;
    become_user()?;
    if resize {
        make_room(&asked.limits, "/home/user")?;
    }
    unseal_inputs()?;
    lay_inputs(asked, Path::new("/data/input"))?;
    seal_inputs()
}

fn join_keeper_and_attach(keeper: BorrowedFd<'_>, asked: &Attach, resize: bool) -> Result<(), StepError> {
    join_namespaces(keeper, libc::CLONE_NEWNS)
        .step("join the container supervisor's namespaces")
        .wall("namespaces")?;
    if resize {
        make_room(&asked.limits, keeper::ROOM)?;
    }
    lay_inputs(asked, Path::new(keeper::INPUTS))
}

fn make_room(limits: &Limits, place: &str) -> Result<(), StepError> {
    let (bytes, inodes) = (limits.scratch.get(), limits.scratch_inodes.get());
    let options = format!("size={bytes},nr_inodes={inodes}");
    mount_remount(place, MountFlags::NOSUID | MountFlags::NODEV, options).step("resize the scratch file system")
}

fn lay_inputs(asked: &Attach, dir: &Path) -> Result<(), StepError> {
    for (name, tree) in asked.names.iter().zip(&asked.trees) {
        let place = dir.join(name);
        if let Some(parent) = place.parent() {
            fs::create_dir_all(parent).step(&format!("create the directory of the input {name}"))?;
        }
        fs::write(&place, "").step(&format!("create the mount point of the input {name}"))?;
        attach(tree.as_fd(), &place).step(&format!("mount the input {name}"))?;
    }
    Ok(())
}
