//! Stopping an instance from outside: at once where it waits, at the next epoch where it computes.

use rustix::process::Signal;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub(crate) struct Stop {
    /// The signal that it was sent; 0: none.
    signal: AtomicI32,
    /// Whether code of a user runs: an interrupt means nothing before and after.
    running: AtomicBool,
    frozen: Mutex<bool>,
    thawed: Condvar,
    wake: Notify,
}

impl Stop {
    /// Returns whether it means anything to the instance. What only ends a wait does not: an interrupt has ended it.
    pub(crate) fn send(&self, signal: i32) -> bool {
        let interrupts = signal == Signal::INT.as_raw() && self.running.load(Ordering::SeqCst);
        let counts = interrupts || signal == Signal::KILL.as_raw();
        if counts {
            self.signal.store(signal, Ordering::SeqCst);
            self.freeze(false);
            self.wake.notify_one();
        }
        counts
    }

    pub(crate) fn sent(&self) -> Option<i32> {
        Some(self.signal.load(Ordering::SeqCst)).filter(|signal| *signal != 0)
    }

    /// Code begins or has ended. An interrupt that came too late for the last code is not for the next. Returns whether that
    /// is news.
    pub(crate) fn set_running(&self, on: bool) -> bool {
        let was = self.running.swap(on, Ordering::SeqCst);
        let interrupt = Signal::INT.as_raw();
        self.signal
            .compare_exchange(interrupt, 0, Ordering::SeqCst, Ordering::SeqCst)
            .ok();
        was != on
    }

    pub(crate) fn freeze(&self, on: bool) {
        *self.frozen() = on;
        self.thawed.notify_all();
    }

    /// Returns when it is not frozen, or not any more.
    pub(crate) fn wait_while_frozen(&self) {
        let frozen = self.frozen();
        drop(
            self.thawed
                .wait_while(frozen, |frozen| *frozen)
                .unwrap_or_else(PoisonError::into_inner),
        );
    }

    pub(crate) async fn woken(&self) {
        while self.sent().is_none() {
            self.wake.notified().await;
        }
    }

    fn frozen(&self) -> MutexGuard<'_, bool> {
        self.frozen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INT: i32 = Signal::INT.as_raw();
    const KILL: i32 = Signal::KILL.as_raw();

    #[test]
    fn an_interrupt_is_for_the_code_that_runs() {
        let stop = Stop::default();
        assert!(!stop.send(INT));
        assert_eq!(stop.sent(), None);
        stop.set_running(true);
        assert!(stop.send(INT));
        assert!(!stop.send(Signal::URG.as_raw()));
        assert_eq!(stop.sent(), Some(INT));
        stop.set_running(false);
        assert_eq!(stop.sent(), None);
    }

    #[test]
    fn a_kill_is_for_the_context() {
        let stop = Stop::default();
        assert!(stop.send(KILL));
        stop.set_running(true);
        assert_eq!(stop.sent(), Some(KILL));
    }

    #[test]
    fn what_is_frozen_can_be_killed() {
        let stop = Stop::default();
        stop.freeze(true);
        stop.send(KILL);
        stop.wait_while_frozen();
        assert_eq!(stop.sent(), Some(KILL));
    }
}
