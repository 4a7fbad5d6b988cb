//! The room for files of a sandbox. The kernel bounds one file; all together are looked at while code runs, and when they are
//! too many bytes, no file grows any more. There is a moment between, in which code can be ahead.

use crate::files::Files;
use crate::start::PLACES;
use crate::walk::{self, Size};
use atoll_core::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LOOK: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Room {
    files: Files,
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
    pub(crate) fn new(files: Files, limits: &Limits) -> Arc<Self> {
        let state = Mutex::new(State {
            busy: 0,
            most: most(limits),
        });
        Arc::new(Self {
            files,
            state,
            changed: Condvar::new(),
        })
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

    fn used(&self) -> Size {
        let mut used = Size::default();
        for place in PLACES.iter().filter(|place| place.writable) {
            let located = self.files.locate(place.inside);
            if let Some(dir) = located.ok().and_then(|at| walk::open_dir(at.dir, ".").ok()) {
                walk::size(&dir, &mut used);
            }
        }
        used
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
