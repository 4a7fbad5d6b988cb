//! Uploads: bytes of a pipe into a file that nobody sees before it is committed.

use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use crate::room::Room;
use crate::walk::HIDDEN;
use atoll_core::wire::agent::{Answer, Refusal};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, openat, renameat, unlinkat};
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Bytes of an upload between two looks at what is free.
const AT_ONCE: usize = 4 << 20;

/// What becomes of an upload: committed, or given up.
pub(crate) type Decision = Sender<bool>;

/// Each has a thread of its own, which ends with its pipe and the decision.
pub(crate) fn start(
    room: &Arc<Room>,
    outbox: &Arc<Outbox>,
    request: u32,
    path: String,
    fds: Vec<OwnedFd>,
) -> Result<Decision, Refused> {
    let pipe = fds.into_iter().next();
    let pipe = pipe.ok_or_else(|| Refused::new(Refusal::Invalid, "expected a pipe for the upload"))?;
    room.files().locate(&path)?.changeable()?;
    let (decide, decided) = channel();
    let (room, outbox) = (Arc::clone(room), Arc::clone(outbox));
    std::thread::spawn(move || {
        let done = take(&room, request, &path, pipe, &decided);
        outbox.answer(request, done);
    });
    Ok(decide)
}

fn take(room: &Room, request: u32, path: &str, pipe: OwnedFd, decided: &Receiver<bool>) -> Result<Answer, Refused> {
    let located = room.files().locate(path)?.changeable()?;
    let (dir, name) = located.make_parent()?;
    let hidden = format!("{HIDDEN}{request}");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&dir, &hidden, flags, Mode::from_raw_mode(0o644)).about(path)?;
    let committed = copy(room, pipe, file)
        .map_err(|error| no_room(path, &error))
        .and_then(|()| match decided.recv() {
            Ok(true) => renameat(&dir, &hidden, &dir, name).about(path),
            Ok(false) | Err(_) => Err(Refused::new(Refusal::Failed, "the upload was aborted")),
        });
    if committed.is_err() {
        unlinkat(&dir, &hidden, AtFlags::empty()).ok();
    }
    committed?;
    let entry = located.entry()?;
    Ok(Answer::Entry { entry })
}

/// What is free is looked at again and again: others write as well.
fn copy(room: &Room, pipe: OwnedFd, file: OwnedFd) -> std::io::Result<()> {
    // The engine's end decides nothing about ours.
    rustix::io::ioctl_fionbio(&pipe, false)?;
    let (mut pipe, mut file) = (std::fs::File::from(pipe), std::fs::File::from(file));
    let mut piece = vec![0; 64 << 10];
    let mut allowed = 0;
    loop {
        let count = pipe.read(&mut piece)?;
        if count == 0 {
            return Ok(());
        }
        if allowed < count {
            allowed = usize::try_from(room.free().bytes).map_or(AT_ONCE, |free| free.min(AT_ONCE));
        }
        if allowed < count {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        file.write_all(&piece[..count])?;
        allowed -= count;
    }
}

fn no_room(path: &str, error: &std::io::Error) -> Refused {
    Refused::new(Refusal::NoRoom, format!("{path}: {error}"))
}
