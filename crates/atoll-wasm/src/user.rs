//! Who the process is: an ordinary user, also where root has started it.
//!
//! An ordinary user may not walk to the data directory of root. So the directories are opened before, and are known by the number of
//! the open file from then on.

use crate::start::Start;
use nix::unistd::{Gid, Uid, setgroups, setresgid, setresuid};
use rustix::fs::{Mode, OFlags, open};
use std::os::fd::IntoRawFd;
use std::path::{Path, PathBuf};

/// The same places by another name, which is good for as long as this process lives.
pub(crate) fn hold(start: Start) -> rustix::io::Result<Start> {
    Ok(Start {
        stdlib: held(&start.stdlib)?,
        files: held(&start.files)?,
        ..start
    })
}

fn held(dir: &Path) -> rustix::io::Result<PathBuf> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let number = open(dir, flags, Mode::empty())?.into_raw_fd();
    Ok(PathBuf::from(format!("/proc/self/fd/{number}")))
}

/// With the last of the old ids, every capability goes.
pub(crate) fn become_user(user: u32) -> nix::Result<()> {
    let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(user));
    setgroups(&[])?;
    setresgid(gid, gid, gid)?;
    setresuid(uid, uid, uid)
}
