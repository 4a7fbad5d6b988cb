//! The room for files of a sandbox. The kernel bounds one file; all together are looked at while code runs, and when they are
//! too many bytes, no file grows any more. There is a moment between, in which code can be ahead. Files without a name count
//! for as long as they are open.

use crate::files::Files;
use crate::start::PLACES;
use crate::walk::{self, Size};
use atoll_core::Limits;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, fstat, statat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);
/// For names of open files, read at once.
const SPACE: usize = 8 << 10;

#[derive(Debug)]
pub(crate) struct Room {
    files: Files,
    /// The list of this process's open files.
    open: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    /// Contexts that run code now.
    busy: usize,
    most: Size,
}

impl Room {
    pub(crate) fn new(files: Files, limits: &Limits) -> rustix::io::Result<Arc<Self>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = rustix::fs::open("/proc/self/fd", flags, Mode::empty())?;
        let state = Mutex::new(State {
            busy: 0,
            most: most(limits),
        });
        Ok(Arc::new(Self {
            files,
            open,
            state,
            changed: Condvar::new(),
        }))
    }

    pub(crate) fn set_limits(&self, limits: &Limits) {
        self.state().most = most(limits);
    }

    pub(crate) fn set_busy(&self, on: bool) {
        let mut state = self.state();
        state.busy = if on {
            state.busy + 1
        } else {
            state.busy.saturating_sub(1)
        };
        self.changed.notify_all();
    }

    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    pub(crate) fn free(&self) -> Size {
        let (used, most) = (self.used(), self.state().most);
        Size {
            bytes: most.bytes.saturating_sub(used.bytes),
            inodes: most.inodes.saturating_sub(used.inodes),
        }
    }

    /// All of it, if it cannot be looked at.
    fn used(&self) -> Size {
        let everything = Size {
            bytes: u64::MAX,
            inodes: u64::MAX,
        };
        self.counted().unwrap_or(everything)
    }

    fn counted(&self) -> Option<Size> {
        let (mut sum, mut disk) = (Size::default(), 0);
        for place in PLACES.iter().filter(|place| place.writable) {
            let dir = walk::open_dir(self.files.locate(place.inside).ok()?.dir, ".").ok()?;
            disk = fstat(&dir).ok()?.st_dev;
            sum = sum.and(walk::size(&dir)?);
        }
        Some(sum.and(unnamed(&self.open, disk)?))
    }

    /// Looks for as long as the process lives. `over` is called when there are more files than allowed.
    pub(crate) fn watch(self: &Arc<Self>, over: impl Fn() + Send + 'static) -> std::io::Result<()> {
        let room = Arc::clone(self);
        let thread = std::thread::Builder::new().name("room".to_owned());
        let look = move || {
            loop {
                room.wait_until_busy();
                let free = room.free();
                let most = room.state().most;
                allow(if free.bytes == 0 { 0 } else { most.bytes });
                if free.inodes == 0 {
                    over();
                }
                std::thread::sleep(LOOK);
            }
        };
        thread.spawn(look).map(drop)
    }

    fn wait_until_busy(&self) {
        let idle = |state: &mut State| state.busy == 0;
        let state = self.changed.wait_while(self.state(), idle);
        drop(state.unwrap_or_else(PoisonError::into_inner));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Files of this disk that have no name any more and are still open.
fn unnamed(open: &OwnedFd, disk: u64) -> Option<Size> {
    rustix::fs::seek(open, rustix::fs::SeekFrom::Start(0)).ok()?;
    let mut space = Vec::with_capacity(SPACE);
    let mut listed = RawDir::new(open, space.spare_capacity_mut());
    let mut sum = Size::default();
    while let Some(entry) = listed.next() {
        let stat = statat(open, entry.ok()?.file_name(), AtFlags::empty());
        if let Some(stat) = stat.ok().filter(|stat| stat.st_dev == disk && stat.st_nlink == 0) {
            sum.bytes += walk::on_disk(&stat);
            sum.inodes += 1;
        }
    }
    Some(sum)
}

fn most(limits: &Limits) -> Size {
    Size {
        bytes: limits.scratch.get(),
        inodes: limits.scratch_inodes.get(),
    }
}

/// How far any file of the process may grow.
fn allow(bytes: u64) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = Some(maximum.map_or(bytes, |maximum| bytes.min(maximum)));
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).ok();
}
