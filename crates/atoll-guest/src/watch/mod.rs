//! Watches: what changes in directories of the scratch, told as it happens.
//!
//! The kernel's watches belong to a file, not to a mount. On trees that sandboxes share they would show what neighbours
//! do, so only directories of the sandbox's own scratch are watched, and each is checked by its open descriptor.

mod dirs;
mod event;

use crate::files::{Ground, open};
use crate::outbox::Outbox;
use crate::refused::{About, Refused};
use atoll_core::wire::agent::{Answer, Change, ChangeKind, Refusal};
use atoll_jail::channel::ChannelError;
use dirs::Dirs;
use event::Event;
use rustix::fd::BorrowedFd;
use rustix::fs::OFlags;
use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

const MAX_WATCHES: usize = 64;

#[derive(Debug)]
struct Watch {
    root: PathBuf,
    recursive: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Watches {
    all: BTreeMap<u32, Watch>,
    /// There while there is a watch: the kernel counts these queues for all sandboxes together.
    dirs: Option<Dirs>,
    /// Found and told by looking into a new directory; the kernel may tell of them once more.
    told: HashSet<(u32, PathBuf)>,
    /// A directory that has left its place and may come back at another one, with the kernel's number for the move.
    moving: Option<(u32, Vec<(u32, PathBuf)>)>,
    /// The number of the move that shows an upload.
    reveal: Option<u32>,
}

impl Watches {
    pub(crate) fn start(&mut self, ground: &Ground, request: u32, path: &str, recursive: bool) -> Result<(), Refused> {
        if self.all.len() >= MAX_WATCHES {
            return Err(Refused::new(
                Refusal::NoRoom,
                format!("too many concurrent watches (limit {MAX_WATCHES})"),
            ));
        }
        let dir = open(Path::new(path), OFlags::RDONLY | OFlags::DIRECTORY).about(path)?;
        if !ground.is_scratch(&dir) {
            let message = format!("{path}: only the sandbox's writable directories can be watched");
            return Err(Refused::new(Refusal::Denied, message));
        }
        let mut dirs = match self.dirs.take() {
            Some(dirs) => dirs,
            None => Dirs::new().about("cannot watch files; the host's fs.inotify.max_user_instances may be too low")?,
        };
        let root = PathBuf::from(path);
        let added = dirs.add_tree(ground, request, &root, Path::new(""), recursive, None);
        if added.is_err() {
            dirs.forget(request, Path::new(""));
        } else {
            self.all.insert(request, Watch { root, recursive });
        }
        self.dirs = (!self.all.is_empty()).then_some(dirs);
        added.about(path)
    }

    pub(crate) fn stop(&mut self, request: u32) {
        self.all.remove(&request);
        self.told.retain(|(watch, _)| *watch != request);
        match &mut self.dirs {
            Some(dirs) if !self.all.is_empty() => dirs.forget(request, Path::new("")),
            _ => *self = Self::default(),
        }
    }

    pub(crate) fn queue(&self) -> Option<BorrowedFd<'_>> {
        self.dirs.as_ref().map(Dirs::queue)
    }

    /// Tells what the kernel has to tell by now. `replaced`: an upload was just put in the place of another file.
    pub(crate) fn tell(&mut self, ground: &Ground, outbox: &mut Outbox, replaced: bool) -> Result<(), ChannelError> {
        let Some(dirs) = &self.dirs else { return Ok(()) };
        let earlier = self.told.clone();
        let (events, is_all) = event::read(dirs.queue());
        for event in events {
            self.handle(ground, outbox, &event, replaced)?;
        }
        if is_all {
            // Of what was found before this reading the kernel has told all that it will; of what was found in it, not yet.
            self.told.retain(|found| !earlier.contains(found));
            self.settle_move(None);
        }
        Ok(())
    }

    fn handle(
        &mut self,
        ground: &Ground,
        outbox: &mut Outbox,
        event: &Event,
        replaced: bool,
    ) -> Result<(), ChannelError> {
        self.settle_move(Some(event));
        if event.overflowed {
            return self.overflow(ground, outbox);
        }
        if event.dir_is_gone {
            self.dirs.iter_mut().for_each(|dirs| dirs.gone(event.dir));
            return Ok(());
        }
        if event.is_hidden() {
            self.reveal = event.left().or(self.reveal);
            return Ok(());
        }
        let spots = self.dirs.as_ref().map(|dirs| dirs.spots(event.dir)).unwrap_or_default();
        for (watch, below) in spots {
            let path = below.join(&event.name);
            let kinds = self.kinds(event, watch, &path, replaced);
            for kind in &kinds {
                self.change(ground, outbox, watch, &path, *kind)?;
            }
            // A directory that was told already was looked into then: once more would tell what is in it once more.
            if event.is_directory && !kinds.is_empty() {
                self.follow(ground, outbox, event, watch, path)?;
            }
        }
        Ok(())
    }

    /// What one event is to a client: nothing if it was told already, a write for an upload that replaces a file.
    fn kinds(&mut self, event: &Event, watch: u32, path: &Path, replaced: bool) -> Vec<ChangeKind> {
        let was_told = self.told.remove(&(watch, path.to_owned()));
        match event.kind {
            ChangeKind::Created if event.arrived().is_some() && event.arrived() == self.reveal => match replaced {
                true => vec![ChangeKind::Written],
                false => vec![ChangeKind::Created, ChangeKind::Written],
            },
            ChangeKind::Created if was_told && event.arrived().is_none() => Vec::new(),
            kind => vec![kind],
        }
    }

    /// Keeps up with directories that come and go below a recursive watch.
    fn follow(
        &mut self,
        ground: &Ground,
        outbox: &mut Outbox,
        event: &Event,
        watch: u32,
        path: PathBuf,
    ) -> Result<(), ChannelError> {
        let Some(Watch { root, recursive: true }) = self.all.get(&watch) else {
            return Ok(());
        };
        let Some(dirs) = &mut self.dirs else { return Ok(()) };
        if let Some(number) = event.left() {
            self.moving.get_or_insert((number, Vec::new())).1.push((watch, path));
            return Ok(());
        }
        if event.kind != ChangeKind::Created {
            return Ok(());
        }
        let came_from = self.moving.as_mut().and_then(|(_, left)| {
            let index = left.iter().position(|(from, _)| *from == watch)?;
            Some(left.swap_remove(index).1)
        });
        if let Some(old) = came_from {
            dirs.rename(watch, &old, &path);
            return Ok(());
        }
        let mut found = Vec::new();
        let look = event.arrived().is_none().then_some(&mut found);
        let added = dirs.add_tree(ground, watch, &root.clone(), &path, true, look);
        for path in found {
            self.told.insert((watch, path.clone()));
            self.found(ground, outbox, watch, &path)?;
        }
        match added {
            // It may be gone again, or be a link by now.
            Ok(()) | Err(rustix::io::Errno::NOENT | rustix::io::Errno::NOTDIR | rustix::io::Errno::LOOP) => Ok(()),
            Err(_) => outbox.tell(watch, Answer::Overflowed),
        }
    }

    /// A thing that was made in a new directory before its watch stood.
    fn found(&mut self, ground: &Ground, outbox: &mut Outbox, watch: u32, path: &Path) -> Result<(), ChannelError> {
        self.change(ground, outbox, watch, path, ChangeKind::Created)?;
        let whole = self.all.get(&watch).map(|watch| watch.root.join(path));
        match whole.and_then(|path| std::fs::symlink_metadata(path).ok()) {
            Some(file) if file.is_file() && file.len() > 0 => {
                self.change(ground, outbox, watch, path, ChangeKind::Written)
            }
            _ => Ok(()),
        }
    }

    fn change(
        &self,
        ground: &Ground,
        outbox: &mut Outbox,
        watch: u32,
        path: &Path,
        kind: ChangeKind,
    ) -> Result<(), ChannelError> {
        let Some(Watch { root, .. }) = self.all.get(&watch) else {
            return Ok(());
        };
        let whole = root.join(path);
        let entry = ground.entry_at(&whole, whole.to_string_lossy().into_owned()).ok();
        let name = path.to_string_lossy().into_owned();
        let change = Change { name, kind, entry };
        outbox.tell(watch, Answer::Changed { change })
    }

    /// Events were lost: new directories may be among them.
    fn overflow(&mut self, ground: &Ground, outbox: &mut Outbox) -> Result<(), ChannelError> {
        for (request, watch) in &self.all {
            if let (true, Some(dirs)) = (watch.recursive, &mut self.dirs) {
                dirs.add_tree(ground, *request, &watch.root, Path::new(""), true, None)
                    .ok();
            }
            outbox.tell(*request, Answer::Overflowed)?;
        }
        Ok(())
    }

    /// A directory that left and does not arrive with the next event has left for good.
    fn settle_move(&mut self, next: Option<&Event>) {
        let goes_on = match (&self.moving, next) {
            (Some((number, _)), Some(event)) => event.left().or(event.arrived()) == Some(*number),
            _ => false,
        };
        if goes_on {
            return;
        }
        if let (Some((_, left)), Some(dirs)) = (self.moving.take(), &mut self.dirs) {
            left.iter().for_each(|(watch, path)| dirs.forget(*watch, path));
        }
    }
}
