//! The kernel's events, copied out of its buffer.

use crate::files::is_hidden;
use atoll_core::wire::agent::ChangeKind;
use rustix::fd::BorrowedFd;
use rustix::fs::inotify::{ReadFlags, Reader, WatchFlags};
use std::ffi::OsString;
use std::mem::MaybeUninit;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// What is asked of the kernel for each directory.
pub(super) const WANTED: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::EXCL_UNLINK)
    .union(WatchFlags::ONLYDIR);

#[derive(Debug)]
pub(super) struct Event {
    pub(super) dir: i32,
    pub(super) name: OsString,
    pub(super) kind: ChangeKind,
    pub(super) is_directory: bool,
    pub(super) overflowed: bool,
    pub(super) dir_is_gone: bool,
    moved: Option<(u32, bool)>,
}

impl Event {
    /// The number of the move with which it left its place.
    pub(super) fn left(&self) -> Option<u32> {
        self.moved.filter(|(_, left)| *left).map(|(number, _)| number)
    }

    /// The number of the move with which it came.
    pub(super) fn arrived(&self) -> Option<u32> {
        self.moved.filter(|(_, left)| !*left).map(|(number, _)| number)
    }

    pub(super) fn is_hidden(&self) -> bool {
        is_hidden(self.name.as_bytes())
    }
}

/// All events that waited when it was called, and whether none is left now.
pub(super) fn read(queue: BorrowedFd<'_>) -> (Vec<Event>, bool) {
    let mut waiting = rustix::io::ioctl_fionread(queue).unwrap_or(0);
    let mut buffer = [MaybeUninit::uninit(); 16 << 10];
    let mut reader = Reader::new(queue, &mut buffer);
    let mut events = Vec::new();
    while waiting > 0 || !reader.is_buffer_empty() {
        let Ok(event) = reader.next() else {
            return (events, true);
        };
        let name = event.file_name().map_or(&b""[..], |name| name.to_bytes());
        // The kernel pads names to a multiple of its header.
        let padded = if name.is_empty() {
            0
        } else {
            (name.len() + 1).next_multiple_of(16)
        };
        waiting = waiting.saturating_sub(16 + padded as u64);
        events.extend(translate(event.wd(), event.events(), event.cookie(), name));
    }
    let left = rustix::io::ioctl_fionread(queue).unwrap_or(0);
    (events, left == 0)
}

/// `None` for what the watched directory tells of itself: its parent's watch tells it by name.
fn translate(dir: i32, flags: ReadFlags, cookie: u32, name: &[u8]) -> Option<Event> {
    let overflowed = flags.contains(ReadFlags::QUEUE_OVERFLOW);
    let dir_is_gone = flags.contains(ReadFlags::IGNORED);
    let kind = if flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        ChangeKind::Created
    } else if flags.contains(ReadFlags::MODIFY) {
        ChangeKind::Written
    } else if flags.contains(ReadFlags::DELETE) {
        ChangeKind::Removed
    } else if flags.contains(ReadFlags::MOVED_FROM) {
        ChangeKind::Renamed
    } else {
        ChangeKind::Permissions
    };
    let left = flags.contains(ReadFlags::MOVED_FROM);
    let is_move = left || flags.contains(ReadFlags::MOVED_TO);
    (overflowed || dir_is_gone || !name.is_empty()).then(|| Event {
        dir,
        name: OsString::from_vec(name.to_vec()),
        kind,
        is_directory: flags.contains(ReadFlags::ISDIR),
        overflowed,
        dir_is_gone,
        moved: is_move.then_some((cookie, left)),
    })
}
