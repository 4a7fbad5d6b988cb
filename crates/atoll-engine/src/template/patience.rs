//! How long a helper program of a build may take: by what it says, and by what it and its children do.

use super::family::{self, Activity};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Given up by whoever asked: helper programs are ended, nothing is kept. There is no way back.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn stop(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How long a program may take.
#[derive(Clone, Debug)]
pub(super) struct Patience {
    /// With nothing said and nothing done.
    pub(super) stall: Duration,
    /// Altogether.
    pub(super) hard: Duration,
    pub(super) stop: Stop,
}

impl Default for Patience {
    /// Packages may come over a slow line, so only standing still counts soon.
    fn default() -> Self {
        Self {
            stall: Duration::from_secs(5 * 60),
            hard: Duration::from_secs(2 * 60 * 60),
            stop: Stop::default(),
        }
    }
}

/// Why a program was not waited for any longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Impatience {
    Stall,
    Hard,
    Stop,
}

/// Looks whether a program gets on: by what it says, and by what it and its children do.
pub(super) struct Watch {
    root: u32,
    patience: Patience,
    started: Instant,
    moved: Instant,
    activity: Activity,
}

impl Watch {
    pub(super) fn new(root: u32, patience: Patience) -> Self {
        let now = Instant::now();
        Self {
            root,
            patience,
            started: now,
            moved: now,
            activity: Activity::default(),
        }
    }

    pub(super) fn heard_something(&mut self) {
        self.moved = Instant::now();
    }

    pub(super) fn hard(&self) -> Option<Impatience> {
        if self.patience.stop.is_stopped() {
            return Some(Impatience::Stop);
        }
        (self.started.elapsed() >= self.patience.hard).then_some(Impatience::Hard)
    }

    pub(super) fn look(&mut self) -> Option<Impatience> {
        if let Some(hard) = self.hard() {
            return Some(hard);
        }
        let activity = family::activity(self.root);
        if activity.has_moved_since(self.activity) {
            self.activity = activity;
            self.moved = Instant::now();
        }
        (self.moved.elapsed() >= self.patience.stall).then_some(Impatience::Stall)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn work_without_words_is_no_standing_still() {
        let long_ago = Instant::now() - Patience::default().stall;
        let mut busy = Watch::new(std::process::id(), Patience::default());
        let mut sleeper = Command::new("/bin/sleep").arg("1000").spawn().unwrap();
        let mut still = Watch::new(sleeper.id(), Patience::default());
        still.activity = Activity::default();
        let looks = [(); 50].map(|()| {
            (busy.moved, still.moved) = (long_ago, long_ago);
            (busy.look(), still.look())
        });
        family::kill(sleeper.id());
        sleeper.wait().unwrap();
        // This very test reads files while it looks; the other one does at most its start.
        assert!(looks.iter().all(|(busy, _)| busy.is_none()));
        assert!(looks.iter().any(|(_, still)| *still == Some(Impatience::Stall)));
    }
}
