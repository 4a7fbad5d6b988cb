//! The root directory in which a template's spawner runs an OCI runtime: the host's programs, read-only, and little else.
//!
//! The template's own root, which may be an image's, lies in it as one tree and is never the runtime's. Where runtimes look
//! for cgroups there is nothing, or what cannot be written to: they neither make nor change any.

use super::bundle::{AGENT, ROOT};
use crate::input::take_input;
use crate::plan::{RuntimeKind, RuntimePlan};
use crate::root::{
    BUILT_AT, Part, attach, attach_parts, enter_root, mount_proc, mount_tmpfs, put_together, take_host, take_tree,
    take_veiled,
};
use crate::step::{Step, StepError};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::fs;
use std::path::Path;

/// Where the workshop has the runtime itself, wherever the host has it.
pub(crate) const RUNTIME: &str = "/run/runtime";
/// Where it has saved sandboxes, as they come.
pub(crate) const SAVED: &str = "/run/saved";
/// In the directory of the agent's libraries: the list of libraries that every program loads, and the one on it.
pub const PRELOAD: &str = "ld.so.preload";
pub const PRELOADED: &str = "libatoll_gvisor.so";
const GROUPS: &str = "/sys/fs/cgroup";

/// What the workshop is made of, taken from the host by the jailer.
pub(crate) fn take_workshop(runtime: &RuntimePlan) -> Result<(Vec<Part>, Vec<OwnedFd>), StepError> {
    let (mut parts, mut fds) = take_host()?;
    parts.push(file(RUNTIME));
    fds.push(take_tree(&runtime.program, false)?);
    // This one wants to see some before it does without; the other does not start where both versions are.
    if runtime.kind.maps_root() {
        parts.push(directory(GROUPS));
        fds.push(take_tree(Path::new(GROUPS), false)?);
    }
    if let Some(saved) = &runtime.saved {
        parts.push(directory(SAVED));
        fds.push(take_tree(saved, false)?);
    }
    Ok((parts, fds))
}

/// What each container of the template has besides the template: the agent, and under gVisor the list of libraries that every
/// program loads.
pub(crate) fn take_agent(runtime: &RuntimePlan, empty: &Path) -> Result<(Vec<Part>, Vec<OwnedFd>), StepError> {
    let libraries = take_veiled(&runtime.libraries, empty).or_else(|_| take_tree(&runtime.libraries, false))?;
    let proof = rustix::fs::open(&runtime.agent, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .step(&format!("open {}", runtime.agent.display()))?;
    let binary = take_input(&runtime.agent, &proof, empty)?;
    let mut parts = vec![directory(AGENT), file(&format!("{AGENT}/atoll"))];
    let mut trees = vec![libraries, binary];
    if runtime.kind == RuntimeKind::Runsc {
        parts.push(file(&format!("/etc/{PRELOAD}")));
        trees.push(take_tree(&runtime.libraries.join(PRELOAD), false)?);
    }
    Ok((parts, trees))
}

fn file(at: &str) -> Part {
    let (at, directory) = (at.to_owned(), false);
    Part::Mount { at, directory }
}

fn directory(at: &str) -> Part {
    let (at, directory) = (at.to_owned(), true);
    Part::Mount { at, directory }
}

/// Makes it this process's root, with the template's root in it.
pub(crate) fn build(
    kind: RuntimeKind,
    template: (&[Part], &[OwnedFd]),
    workshop: (&[Part], &[OwnedFd]),
) -> Result<(), StepError> {
    let tree = put_together(template.0, template.1)?;
    let root = Path::new(BUILT_AT);
    // Over the one that was just put together, which lives on in its copy.
    mount_tmpfs(root, "size=1m,nr_inodes=1k,mode=0755")?;
    for place in ["/proc", "/tmp", "/etc", "/dev", "/run", ROOT, GROUPS] {
        fs::create_dir_all(root.join(&place[1..])).step(&format!("create {place}"))?;
    }
    attach_parts(root, workshop.0, workshop.1)?;
    if !kind.maps_root() {
        mount_tmpfs(&root.join(&GROUPS[1..]), "size=4k,nr_inodes=2,mode=0555")?;
    }
    mount_proc(&root.join("proc"), "")?;
    attach(tree.as_fd(), &root.join(&ROOT[1..])).step("mount the template's root")?;
    enter_root(root)
}
