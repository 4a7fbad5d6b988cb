//! Saving a sandbox: what `runsc` writes of its memory, and the files of its scratch places. Both go into files that the
//! engine has opened: the keeper can write nowhere itself.
//!
//! gVisor ends a sandbox with its checkpoint. One that goes on is restored at once, in the same groups, with the same mounts
//! and the same line: neither its ferry nor the engine notices.

use super::keeper::{Kept, arguments};
use super::scratch;
use crate::ferry;
use crate::oci::bundle::PLACES;
use crate::oci::keeper::{await_runtime, begin_runtime};
use crate::order::FromKeeper;
use crate::root::mount_tmpfs;
use crate::shell::lay_null;
use crate::step::{Step, StepError, chain};
use rustix::event::Timespec;
use rustix::fd::OwnedFd;
use rustix::mount::{UnmountFlags, unmount};
use std::fs::{self, File};
use std::path::Path;

/// The name of the memory's file in its directory; `runsc` knows no other.
pub const IMAGE: &str = "checkpoint.img";

/// Where `runsc` writes images to and reads them from.
pub(super) const ROOM: &str = "/tmp/image";
/// How long gVisor's kernel may take to end.
const ENDED_WITHIN: Timespec = Timespec { tv_sec: 20, tv_nsec: 0 };

/// Why a sandbox was not saved, and whether it has ended of it.
struct NotSaved {
    message: String,
    over: bool,
}

fn goes_on(message: impl Into<String>) -> NotSaved {
    let (message, over) = (message.into(), false);
    NotSaved { message, over }
}

/// Whether the sandbox lives is part of the answer.
pub(super) fn save(kept: &mut Kept<'_>, stays: bool, fds: Vec<OwnedFd>) -> FromKeeper {
    let saved = match stays {
        true => while_still(kept, fds),
        false => write(kept).and_then(|()| copy(kept, fds)),
    };
    match saved {
        Ok(()) => FromKeeper::Done,
        Err(NotSaved { message, over }) => FromKeeper::Failed { message, over },
    }
}

/// Between two words of the ferries, so that a copy can go on from there as well.
fn while_still(kept: &mut Kept<'_>, fds: Vec<OwnedFd>) -> Result<(), NotSaved> {
    if let Some(name) = removed_and_open() {
        let message = format!("a process in the sandbox has a deleted file open ({name}), which gVisor cannot save");
        return Err(goes_on(message));
    }
    ferry::hold(&kept.orders).map_err(goes_on)?;
    let saved = write(kept).and_then(|()| {
        let copied = copy(kept, fds);
        bring_back(kept).and(copied)
    });
    ferry::go_on(&kept.orders);
    let_go_of_room();
    saved
}

/// The image ends the sandbox, whether it can be written or not.
fn write(kept: &Kept<'_>) -> Result<(), NotSaved> {
    make_room().map_err(|error| goes_on(chain(&error)))?;
    write_image(kept).map_err(|message| NotSaved { message, over: true })
}

fn copy(kept: &Kept<'_>, fds: Vec<OwnedFd>) -> Result<(), NotSaved> {
    let Ok([image, files]) = <[OwnedFd; 2]>::try_from(fds) else {
        return Err(goes_on("the save request carries no target files"));
    };
    let copied = || -> Result<(), StepError> {
        let what = "copy the checkpoint";
        let mut from = File::open(Path::new(ROOM).join(IMAGE)).step(what)?;
        std::io::copy(&mut from, &mut File::from(image)).step(what)?;
        scratch::keep(Path::new(PLACES), File::from(files), kept.scratch_bytes)
    };
    copied().map_err(|error| goes_on(chain(&error)))
}

fn bring_back(kept: &mut Kept<'_>) -> Result<(), NotSaved> {
    let back = kept.restore(ROOM);
    back.map_err(|failed| NotSaved {
        message: format!("the sandbox could not be restored after saving: {}", failed.words()),
        over: true,
    })
}

/// Room in memory for one image.
pub(super) fn make_room() -> Result<(), StepError> {
    fs::create_dir_all(ROOM).step("create the directory for the checkpoint image")?;
    mount_tmpfs(Path::new(ROOM), "size=16g,nr_inodes=16,mode=0700")
}

pub(super) fn let_go_of_room() {
    unmount(ROOM, UnmountFlags::DETACH).ok();
}

fn write_image(kept: &Kept<'_>) -> Result<(), String> {
    let run = || -> Result<(i32, String), StepError> {
        let null = lay_null()?;
        let (ears, mouth) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).step("create a pipe")?;
        let name = kept.name();
        let argv = arguments(kept.runtime, &["checkpoint", "-image-path", ROOM, &name]);
        let begun = begin_runtime(&argv, &[], &[&null, &null, &mouth])?;
        drop(mouth);
        await_runtime(&begun, &ears)
    };
    let done = run();
    kept.await_end(&ENDED_WITHIN);
    match done {
        Ok((0, _)) => Ok(()),
        Ok((_, words)) => Err(format!("runsc checkpoint failed: {words}")),
        Err(error) => Err(chain(&error)),
    }
}

/// A file without a name that somebody inside still has open: gVisor's kernel would fail at it, and end. Its gofer has it
/// open, too.
fn removed_and_open() -> Option<String> {
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let gofers = processes.filter(|process| {
        let words = fs::read(process.path().join("cmdline")).unwrap_or_default();
        words.starts_with(b"runsc-gofer")
    });
    let links = gofers.filter_map(|gofer| fs::read_dir(gofer.path().join("fd")).ok());
    let mut names = links
        .flat_map(Iterator::flatten)
        .filter_map(|link| Some(fs::read_link(link.path()).ok()?.to_string_lossy().into_owned()));
    names.find(|name| name.ends_with(" (deleted)") && !name.starts_with("/memfd:"))
}
